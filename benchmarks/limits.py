"""Where the defaults are not the method to take, and where no setting is: the picture in docs/.

python benchmarks/limits.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sets import around
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from attnclust import AttentionClustering


def sheets(seed):
    """Two long parallel clusters."""
    X, y = around(np.array([[0.0, 0], [0, 1]]), 0.12, 300, seed)
    return X * [1, 1] + np.random.default_rng(seed).uniform(-4, 4, (600, 1)) * [1, 0], y


def unequal(seed):
    """A wide cluster beside a narrow one."""
    rng = np.random.default_rng(seed)
    wide, narrow = rng.standard_normal((500, 2)) * 2, rng.standard_normal((100, 2)) * 0.2 + [5, 0]
    return np.vstack([wide, narrow]), np.repeat([0, 1], [500, 100])


SETS = {
    "rings": make_circles(600, noise=0.04, factor=0.5, random_state=0),
    "moons": make_moons(600, noise=0.06, random_state=0),
    "long and parallel": sheets(0),
    "wide beside narrow": unequal(0),
    "moons that touch": make_moons(600, noise=0.25, random_state=0),
}
METHODS = {
    "attnclust": lambda X: AttentionClustering(2, random_state=0).fit_predict(X),
    'lift="nystrom"': lambda X: AttentionClustering(2, lift="nystrom", random_state=0).fit_predict(
        X
    ),
    "spectral clustering": lambda X: SpectralClustering(
        2, affinity="nearest_neighbors", random_state=0
    ).fit_predict(X),
    "GaussianMixture(full)": lambda X: GaussianMixture(2, n_init=5, random_state=0).fit_predict(X),
}


def main() -> None:
    figure, axes = plt.subplots(
        len(METHODS), len(SETS), figsize=(2.2 * len(SETS), 2.1 * len(METHODS)), layout="constrained"
    )
    for column, (name, (X, y)) in enumerate(SETS.items()):
        for ax, (method, label) in zip(axes[:, column], METHODS.items(), strict=True):
            labels = label(X)
            score = adjusted_rand_score(y, labels)
            ax.scatter(*X.T, s=3, c=np.where(labels == labels[0], "#1b6ca8", "#d9822b"))
            ax.set(xticks=[], yticks=[])
            ax.set_title(f"{name}\n{score:.2f}" if ax is axes[0, column] else f"{score:.2f}")
            if column == 0:
                ax.set_ylabel(method)
            print(f"{name}, {method}: {score:.3f}", flush=True)
    path = Path(__file__).parent.parent / "docs" / "limits.png"
    figure.savefig(path, dpi=65)


if __name__ == "__main__":
    main()
