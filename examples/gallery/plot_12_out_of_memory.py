"""
Rows past the memory
====================

A folder of Parquet files is read batch by batch: moments take every row, heads and refinement look
at a sample, and one more pass settles the centres. A stream is the same without the folder.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from attnclust import AttentionClustering
from attnclust.manifold import random_heads
from attnclust.plotting import COLOURS

rng = np.random.default_rng(0)
centres = random_heads(rng, (10, 32)).astype(np.float32)


def batch(n=20_000):
    """Rows of the mixture."""
    noise = 0.2 * rng.standard_normal((n, 32), dtype=np.float32)
    return centres[rng.integers(0, 10, n)] + noise


folder = Path(tempfile.mkdtemp())
for part in range(8):
    rows = pa.FixedSizeListArray.from_arrays(batch().ravel(), 32)
    pq.write_table(pa.table({"embedding": rows}), folder / f"part-{part}.parquet")


def gap(model):
    """Largest distance of a true centre to the nearest one found."""
    return np.linalg.norm(centres[:, None] - model.cluster_centers_, axis=-1).min(1).max()


model = AttentionClustering(n_clusters=10, random_state=0).fit(folder)
print(f"folder: a centre is off by {gap(model):.4f} at most")

# %%
# The same rows as a stream. What is kept does not grow with the batches, and the centres are there
# whenever they are asked for.

stream = AttentionClustering(n_clusters=10, random_state=0)
gaps = []
for _ in range(12):
    stream.partial_fit(batch(2_000))
    gaps.append(gap(stream))
figure, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.loglog(2_000 * np.arange(1, 13), gaps, marker="o", color=COLOURS[0], label="stream")
ax.axhline(gap(model), color=COLOURS[3], linestyle=":", label="folder of 160,000 rows")
ax.set(xlabel="rows so far", ylabel="largest error of a centre")
ax.legend(frameon=False)
