"""Smoke test of an installed distribution: run by its Python, away from the repository.

cd /elsewhere && python /path/to/tests/smoke.py
"""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import attnclust

HERE = Path(attnclust.__file__).parent
REPOSITORY = Path(__file__).parent.parent


def attnclust_says(*arguments: str, code: int = 0) -> str:
    """What the command prints, by name and by module alike."""
    for command in (
        [str(Path(sys.executable).parent / "attnclust")],
        [sys.executable, "-m", "attnclust"],
    ):
        done = subprocess.run([*command, *arguments], capture_output=True, text=True)
        assert done.returncode == code, done
    return done.stdout + done.stderr


def main() -> None:
    """All that must work without the repository."""
    assert REPOSITORY / "src" not in HERE.parents, f"{HERE} is not the installed package"
    assert (HERE / "py.typed").exists()
    for name in attnclust.__all__:
        getattr(attnclust, name)
    assert attnclust.__version__ in attnclust_says("--version")
    rng = np.random.default_rng(0)
    rows = np.eye(8)[rng.integers(0, 3, 300)] + 0.1 * rng.standard_normal((300, 8))
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/rows.npy", rows)
        out, model = f"{folder}/out", f"{folder}/out/model.safetensors"
        attnclust_says("fit", f"{folder}/rows.npy", "--clusters", "3", "--out", out)
        attnclust_says("predict", model, f"{folder}/rows.npy", "--out", f"{folder}/new")
        labels, again = np.load(f"{out}/labels.npy"), np.load(f"{folder}/new/labels.npy")
        assert sorted(np.unique(labels)) == [0, 1, 2]
        assert (labels == again).all()
        assert "clusters        3" in attnclust_says("inspect", model)
        pictured = importlib.util.find_spec("matplotlib") is not None
        assert Path(f"{out}/clusters.png").exists() == pictured
        if importlib.util.find_spec("pandas") is None:
            told = attnclust_says("reproduce", "C20", "--out", f"{folder}/claims", code=1)
            assert told.count("\n") == 1
            assert "attnclust[reproduce]" in told
    print(f"attnclust {attnclust.__version__} works from {HERE}")


if __name__ == "__main__":
    main()
