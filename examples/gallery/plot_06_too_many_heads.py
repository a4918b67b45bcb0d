"""
Too many heads
==============

What happens when more clusters are asked for than there are? The fit splits a true cluster, and the
halves give themselves away: their rows belong to either, so the cohesion is low, and refits on
other samples cut elsewhere, so the stability is low.
"""

import matplotlib.pyplot as plt
import numpy as np

from attnclust import AttentionClustering
from attnclust.manifold import random_heads
from attnclust.plotting import COLOURS
from attnclust.trust import describe_clusters

rng = np.random.default_rng(0)
centres = random_heads(rng, (4, 16))
labels = rng.integers(0, 4, 2000)
X = centres[labels] + 0.15 * rng.standard_normal((2000, 16))

figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharey=True, layout="constrained")
for ax, k in zip(axes, (4, 5, 6), strict=True):
    model = AttentionClustering(k, random_state=0).fit(X)
    told = describe_clusters(model, X)
    for place, cluster in enumerate(sorted(told, key=lambda c: -c.stability)):
        ax.bar(place - 0.2, cluster.cohesion, 0.38, color=COLOURS[0])
        ax.bar(place + 0.2, cluster.stability, 0.38, color=COLOURS[1])
    ax.axhline(0.6, color="black", linewidth=0.8, linestyle=":")
    ax.set(title=f"{k} clusters asked for, 4 there", xticks=range(k))
axes[0].legend(["hardly there below", "cohesion", "stability"], frameon=False, fontsize=8)

# %%
# The log-density of rows that the fit has not seen stops rising at the true number.

held_out = centres[rng.integers(0, 4, 2000)] + 0.15 * rng.standard_normal((2000, 16))
numbers = range(1, 9)
scores = [AttentionClustering(k, random_state=0).fit(X).score(held_out) for k in numbers]
figure, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(numbers, scores, marker="o", color=COLOURS[0])
ax.set(xlabel="clusters", ylabel="log-density of new rows, nats")
