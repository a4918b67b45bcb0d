"""A plain spherical k-means, for comparison only (Dhillon and Modha 2001)."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import kmeans_plusplus


def spherical_kmeans(X, n_clusters, seed, max_iter=100):
    """Labels and unit centres: assign by cosine, centre = direction of the mean, until still."""
    X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    centres, _ = kmeans_plusplus(X, n_clusters, random_state=seed)
    labels = np.full(len(X), -1)
    for _ in range(max_iter):
        previous, labels = labels, (X @ centres.T).argmax(1)
        if (labels == previous).all():
            break
        sums = np.array([X[labels == k].sum(0) for k in range(n_clusters)])
        length = np.linalg.norm(sums, axis=1, keepdims=True)
        centres = np.where(length > 0, sums / np.maximum(length, 1e-12), centres)
    return labels, centres
