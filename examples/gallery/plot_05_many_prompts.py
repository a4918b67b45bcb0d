"""
Many prompts at once
====================

A thousand small sets, each with centres of its own and a number of clusters of its own: the
sentences of a thousand documents, say. They go through one batched program, and each is told its
number of clusters by BIC.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from attnclust import InContextClustering
from attnclust.plotting import COLOURS

rng = np.random.default_rng(0)
true = rng.integers(2, 7, 1000)
centres = rng.standard_normal((1000, 6, 32)) / 32**0.5
labels = rng.integers(0, true[:, None], (1000, 120))
prompts = np.take_along_axis(centres, labels[..., None], 1)
prompts += 0.12 * rng.standard_normal(prompts.shape)

begun = time.perf_counter()
model = InContextClustering(random_state=0).fit(prompts)
ours = time.perf_counter() - begun
begun = time.perf_counter()
for tokens, k in zip(prompts[:100], true, strict=False):
    KMeans(k, n_init=10, random_state=0).fit(tokens)
loop = 10 * (time.perf_counter() - begun)
scores = [adjusted_rand_score(*both) for both in zip(labels, model.labels_, strict=True)]
print(f"right number of clusters in {(model.n_clusters_ == true).mean():.1%} of the prompts")
print(f"mean adjusted Rand index {np.mean(scores):.4f}")
print(f"{ours:.1f} s; a loop of k-means, told the numbers, 10 starts: about {loop:.0f} s")

# %%
# Numbers of clusters that were there, and that were found.

table = np.zeros((8, 8), dtype=int)
np.add.at(table, (true, np.minimum(model.n_clusters_, 7)), 1)
figure, ax = plt.subplots(figsize=(4.5, 4), layout="constrained")
ax.imshow(np.sqrt(table), cmap="Blues", origin="lower")
for row, column in np.argwhere(table):
    colour = "white" if row == column else COLOURS[3]
    ax.text(column, row, table[row, column], ha="center", va="center", color=colour)
ax.set(xlabel="clusters found", ylabel="clusters there", xlim=(1.5, 7.5), ylim=(1.5, 6.5))
