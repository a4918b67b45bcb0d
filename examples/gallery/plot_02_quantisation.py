"""
Quantisation in the plane
=========================

The layer pulls each token towards the centres of its own prompt. It has no parameter: scores are
products of the tokens with each other. Here tokens live in twenty dimensions, and the picture shows
the plane of their two centres and one direction off it.
"""

import matplotlib.pyplot as plt
import numpy as np

from attnclust import InContextAttention
from attnclust.plotting import COLOURS

rng = np.random.default_rng(0)
labels = rng.integers(0, 2, 600)
tokens = np.eye(20)[labels] + 0.3 * rng.standard_normal((600, 20))

figure, axes = plt.subplots(2, 3, figsize=(9, 6), sharex=True, sharey=True, layout="constrained")
for column, n_layers in zip(axes.T, (0, 1, 2), strict=True):
    shown = InContextAttention(n_layers).fit_transform(tokens) if n_layers else tokens
    within = sum(shown[labels == j].var(0).sum() for j in range(2)) / 2
    column[0].set_title(f"{n_layers} layers: variance within {within:.2f}")
    for ax, second in zip(column, (1, 2), strict=True):
        colours = np.array([COLOURS[0], COLOURS[3]])[labels]
        ax.scatter(shown[:, 0], shown[:, second], s=6, c=colours, alpha=0.6, linewidths=0)
        ax.set_aspect("equal")
axes[0, 0].set_ylabel("second centre")
axes[1, 0].set_ylabel("off the centres' plane")
for ax in axes[1]:
    ax.set_xlabel("first centre")

# %%
# The noise off the plane goes; along the plane it stays, since for orthonormal centres of equal
# weight no direction in their plane has less variance than another. Each further layer repeats the
# quantisation on what the last one left.
