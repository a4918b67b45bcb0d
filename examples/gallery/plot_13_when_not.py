"""
Where the method is not the one to take
=======================================

attnclust looks for round clusters of one noise level around centres. Where clusters are something
else, another method sees what this one cannot. Each row of pictures is such a case: on the left
what attnclust makes of it, on the right the method to take.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import HDBSCAN, SpectralClustering
from sklearn.datasets import make_circles
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from attnclust import AttentionClustering
from attnclust.plotting import COLOURS

rng = np.random.default_rng(0)


def rings():
    """Two rings, one in the other."""
    return make_circles(800, factor=0.45, noise=0.05, random_state=0)


def ellipses():
    """Three long ellipses side by side."""
    labels = np.repeat(range(3), 300)
    X = rng.standard_normal((900, 2)) * [2.5, 0.3]
    X[:, 1] += 2.0 * labels
    return X, labels


def sizes():
    """A wide cluster beside two narrow ones."""
    labels = np.repeat(range(3), [600, 150, 150])
    X = rng.standard_normal((900, 2)) * np.array([2.0, 0.2, 0.2])[labels, None]
    return X + np.array([[0, 0], [3.5, 1], [3.5, -1]])[labels], labels


def scattered():
    """Dense groups, among rows that belong nowhere."""
    labels = np.r_[np.repeat(range(4), 100), np.full(200, -1)]
    X = 0.2 * rng.standard_normal((600, 2))
    X += np.array([[-1, -1], [1, -1], [-1, 1], [1, 1], [0, 0]])[labels]
    X[400:] = rng.uniform(-8, 8, (200, 2))
    return X, labels


tied = GaussianMixture(3, covariance_type="tied", n_init=5, random_state=0)
spherical = GaussianMixture(3, covariance_type="spherical", n_init=5, random_state=0)
cases = {
    "rings": (rings(), 2, SpectralClustering(2, gamma=60, random_state=0)),
    "long ellipses": (ellipses(), 3, tied),
    "unequal widths": (sizes(), 3, spherical),
    "rows of no cluster": (scattered(), 4, HDBSCAN(min_cluster_size=30, copy=True)),
}
figure, axes = plt.subplots(4, 2, figsize=(8, 13), layout="constrained")
for row, (name, ((X, known), k, peer)) in zip(axes, cases.items(), strict=True):
    for ax, model in zip(row, (AttentionClustering(k, random_state=0), peer), strict=True):
        labels = model.fit_predict(X)
        score = adjusted_rand_score(known, labels)
        colours = [COLOURS[j] if j >= 0 else "#BBBBBB" for j in labels]
        ax.scatter(*X.T, s=5, c=colours, linewidths=0)
        ax.set(title=f"{name}: {type(model).__name__}, ARI {score:.2f}", xticks=[], yticks=[])
        ax.set_aspect("equal", "datalim")
        print(f"{name:20} {type(model).__name__:20} {score:.3f}")
