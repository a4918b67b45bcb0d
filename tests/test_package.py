import re
import subprocess
import sys
from pathlib import Path

import pytest

import attnclust

SOURCE = Path(attnclust.__file__).parent


def test_public_names_load_and_others_do_not():
    assert set(attnclust.__all__) == {"__version__", *attnclust._HOMES}
    for name in attnclust.__all__:
        assert getattr(attnclust, name)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = attnclust.nothing


def test_importing_the_package_loads_nothing_heavy():
    code = "import attnclust, sys; print({'numpy', 'sklearn', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_estimator_loads_no_extra():
    code = (
        "import attnclust.estimators, sys; "
        "print({'matplotlib', 'torch', 'typer', 'safetensors'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_nothing_private_of_scikit_learn_is_used():
    for path in SOURCE.rglob("*.py"):
        for line in path.read_text().splitlines():
            if re.match(r"\s*(from|import) sklearn", line):
                assert not re.search(r"[.\s]_\w", line), f"{path.name}: {line}"


def test_the_version_is_the_installed_one():
    from importlib.metadata import version

    assert version("attnclust") == attnclust.__version__
    citation = (SOURCE.parent.parent / "CITATION.cff").read_text()
    assert f"version: {attnclust.__version__}" in citation
