"""
Rows past the machine: Dask
===========================

Each block of a Dask array makes moments and a sample where it lies, and a tree merges them; only
those travel. Labels are lazy.
"""

import matplotlib.pyplot as plt
import numpy as np

try:
    import dask.array as da
except ImportError:
    raise SystemExit("this example needs Dask: pip install 'attnclust[dask]'") from None

from attnclust.distributed import AttentionClustering
from attnclust.manifold import random_heads
from attnclust.plotting import ClusterMapDisplay

rng = np.random.default_rng(0)
centres = random_heads(rng, (6, 16))
rows = centres[rng.integers(0, 6, 40_000)] + 0.2 * rng.standard_normal((40_000, 16))
X = da.from_array(rows, chunks=(5_000, 16))

model = AttentionClustering(n_clusters=6, random_state=0).fit(X)
print(model.labels_)
print("rows per cluster:", da.bincount(model.labels_, minlength=6).compute())

figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
ClusterMapDisplay.from_estimator(model, rows[:3000], ax=ax)
