from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def intents_path() -> Path:
    return ROOT / "examples" / "intents.parquet"


@pytest.fixture(scope="session")
def intents(intents_path):
    """The shipped sentence embeddings: vectors (971, 384) and their 15 intents."""
    import pyarrow.parquet as pq

    table = pq.read_table(intents_path)
    vectors = table["embedding"].combine_chunks().flatten().to_numpy()
    return vectors.reshape(table.num_rows, -1), np.array(table["intent"].to_pylist())


@pytest.fixture(scope="session")
def blobs() -> Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Draw a mixture with random unit centres: rows, labels, centres."""

    def draw(n=600, dim=12, n_clusters=5, sigma=0.1, seed=0, weights=None, dtype=np.float64):
        rng = np.random.default_rng(seed)
        centres = rng.standard_normal((n_clusters, dim))
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        labels = rng.choice(n_clusters, n, p=weights)
        rows = centres[labels] + sigma * rng.standard_normal((n, dim))
        return rows.astype(dtype), labels, centres

    return draw
