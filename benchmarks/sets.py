"""Sets to cluster: real rows, benchmark sets of others, and generated ones of their kind.

The larger ones lie beside the project, in ../shared/data, and are skipped where they do not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from sklearn.datasets import load_digits

HERE = Path(__file__).parent
SHARED = HERE.parent.parent / "shared" / "data"


def real_rows():
    """Name, rows, labels of digits and sentence embeddings."""
    digits = load_digits()
    yield "digits", digits.data.astype(np.float32), digits.target
    table = pq.read_table(HERE.parent / "examples" / "intents.parquet")
    X = np.array(table["embedding"].to_pylist(), dtype=np.float32)
    yield "intents", X, np.array(table["intent"].to_pylist())
    for name in ("banking77", "stackoverflow"):
        path = SHARED / f"{name}.npz"
        if not path.exists():
            print(f"skipped {name}: {path.name} is not there")
            continue
        data = np.load(path)
        yield name, data["X"].astype(np.float32), data["y"]


def suite(folder):
    """Name, rows, labels of the sets in a folder of ../shared/data."""
    paths = sorted((SHARED / folder).glob("*.npz"))
    if not paths:
        print(f"skipped {folder}: {SHARED / folder} is not there")
    for path in paths:
        data = np.load(path)
        yield path.stem, data["X"], data["y0"]


def around(centres, sigma, sizes, seed):
    """Round Gaussian clusters of given sizes about centres: rows, labels."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(centres)), sizes)
    return centres[y] + sigma * rng.standard_normal((len(y), centres.shape[1])), y


def generated():
    """Name, rows, labels of two-dimensional mixtures with more clusters than features."""
    side = np.arange(10.0)
    grid = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    yield "grid of 100", *around(grid, 0.25, 1000, 0)
    x = np.linspace(0, 1, 100)
    sine = np.column_stack([100 * x, 10 * np.sin(4 * np.pi * x)])
    yield "sine of 100", *around(sine, 0.25, 1000, 0)
    rng = np.random.default_rng(1)
    spread = rng.random((400, 2)) * 100
    apart = [spread[0]]
    for centre in spread[1:]:
        if len(apart) < 50 and min(np.linalg.norm(np.array(apart) - centre, axis=1)) > 9:
            apart.append(centre)
    yield f"scattered {len(apart)}", *around(np.array(apart), 2.0, 150, 1)
    few = 10 * np.random.default_rng(2).permutation(grid[::7])[:8]
    for ratio in (20, 100):
        sizes = np.where(np.arange(8) < 3, 20 * ratio, 20)
        yield f"weights {ratio}:1", *around(few, 1.0, sizes, 2)
