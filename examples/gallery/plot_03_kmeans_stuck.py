"""
Where k-means gets stuck and heads do not
=========================================

Random starts put two centres into one cluster and leave another cluster without one; k-means cannot
move a centre across the gap, so people start it many times. Heads are found on normalised tokens,
where all centres are orthonormal, and need one run.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from attnclust import AttentionClustering
from attnclust.manifold import random_heads
from attnclust.plotting import COLOURS

K, DIM, SIGMA, N = 30, 64, 0.15, 6000
rng = np.random.default_rng(0)
centres = random_heads(rng, (K, DIM))
labels = rng.integers(0, K, N)
X = centres[labels] + SIGMA * rng.standard_normal((N, DIM))

scores = {"k-means, 1 start": [], "k-means, 10 starts": [], "attnclust, one run": []}
for seed in range(8):
    models = (
        KMeans(K, n_init=1, random_state=seed),
        KMeans(K, n_init=10, random_state=seed),
        AttentionClustering(K, random_state=seed),
    )
    for name, model in zip(scores, models, strict=True):
        scores[name].append(adjusted_rand_score(labels, model.fit_predict(X)))

figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
for place, (name, values) in enumerate(scores.items()):
    ax.scatter(values, [place] * len(values), color=COLOURS[place], alpha=0.6)
    print(f"{name:20} {min(values):.3f} to {max(values):.3f}")
ax.set(yticks=range(3), yticklabels=scores, xlabel="adjusted Rand index of eight seeds")
ax.set_ylim(-0.5, 2.5)

# %%
# One of the bad optima, looked at: how many centres of k-means each true cluster got.

stuck = KMeans(K, n_init=1, random_state=int(np.argmin(scores["k-means, 1 start"]))).fit(X)
ours = AttentionClustering(K, random_state=0).fit(X)
figure, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True, layout="constrained")
for ax, name, found in zip(
    axes,
    ("k-means, 1 start", "attnclust"),
    (stuck.cluster_centers_, ours.cluster_centers_),
    strict=True,
):
    owner = ((found[:, None] - centres) ** 2).sum(-1).argmin(1)
    got = np.bincount(owner, minlength=K)
    colours = np.where(got == 1, COLOURS[2], COLOURS[3])
    ax.bar(range(K), got, color=colours)
    ax.set(title=name, xlabel="true cluster", yticks=range(4))
axes[0].set_ylabel("centres found in it")
