"""Scores of one labelling: about its own means, by silhouette, and class by class."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances, silhouette_score

from attnclust._typing import FloatArray, IntArray
from attnclust.tokens import Tokens

SILHOUETTE_ROWS = 2_000


def inertia(tokens: Tokens, labels: IntArray, n_clusters: int) -> float:
    """Sum over the rows of |y_i - mean of its cluster|^2, in the frame of the tokens.

    Parameters
    ----------
    tokens : Tokens
    labels : array of shape (n,)
        From 0 to n_clusters - 1.
    n_clusters : int

    Returns
    -------
    float

    Examples
    --------
    >>> X = np.array([[0.0], [2.0], [10.0], [12.0]])
    >>> inertia(Tokens(X), np.array([0, 0, 1, 1]), 2)
    4.0
    """
    sums = np.zeros((n_clusters, tokens.dim))
    for window, tile in tokens.tiles():
        sums += tile.own_sums(np.ones(len(tile)), labels[window], n_clusters)
    counts = np.bincount(labels, minlength=n_clusters)
    means = sums / np.maximum(counts, 1)[:, None]
    if tokens.sparse:
        total = len(tokens) * tokens.mean_square()
        return max(0.0, float(total - counts @ (means**2).sum(1)))
    return float(
        sum(((tile.dense() - means[labels[window]]) ** 2).sum() for window, tile in tokens.tiles())
    )


def distances(tokens: Tokens, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Rows drawn at random, at most `SILHOUETTE_ROWS`, and their distances from each other.

    Parameters
    ----------
    tokens : Tokens
    rng : Generator

    Returns
    -------
    rows : array of shape (m,)
    distances : array of shape (m, m)
    """
    n = len(tokens)
    rows = np.sort(rng.choice(n, min(n, SILHOUETTE_ROWS), replace=False, shuffle=False))
    return rows, np.asarray(pairwise_distances(tokens.X[rows] / tokens.dtype.type(tokens.unit)))


def silhouette(between: FloatArray, labels: IntArray) -> float | None:
    """Mean silhouette; None where it has no meaning: one cluster, or as many as rows.

    Parameters
    ----------
    between : array of shape (m, m)
        Distances.
    labels : array of shape (m,)

    Returns
    -------
    float or None

    Examples
    --------
    >>> between = np.array([[0.0, 1, 9], [1, 0, 9], [9, 9, 0]])
    >>> round(silhouette(between, np.array([0, 0, 1])), 3)
    0.593
    """
    if not 2 <= len(np.unique(labels)) < len(labels):
        return None
    return float(silhouette_score(between, labels, metric="precomputed"))


def class_fits(
    known: Any, labellings: dict[str, IntArray], most: int
) -> tuple[int, list[dict[str, Any]]]:
    """How well the best fitting cluster meets each of the largest known classes.

    The fit is F = 2 |class and cluster| / (|class| + |cluster|): one where they are the same rows.

    Parameters
    ----------
    known : array-like of shape (n,)
        Rows whose known label is None are left out.
    labellings : dict of str to array of shape (n,)
    most : int
        Classes to tell of.

    Returns
    -------
    number : int
        Of all classes.
    largest : list of dict
        With the keys "class", "rows", and "fits" (a dict from labelling to F).

    Examples
    --------
    >>> class_fits(["a", "a", "b"], {"mine": np.array([1, 1, 1])}, 1)
    (2, [{'class': 'a', 'rows': 2, 'fits': {'mine': 0.8}}])
    """
    told = np.array([value is not None for value in known])
    names, codes, sizes = np.unique(
        [str(value) for value in known if value is not None],
        return_inverse=True,
        return_counts=True,
    )
    largest = np.argsort(-sizes, kind="stable")[:most]
    fits = {}
    for method, labels in labellings.items():
        inside = labels[told]
        counts = np.bincount(inside)
        common = np.array([np.bincount(inside[codes == c], minlength=len(counts)) for c in largest])
        fits[method] = (2 * common / (sizes[largest][:, None] + counts)).max(1)
    return len(names), [
        {
            "class": str(names[c]),
            "rows": int(sizes[c]),
            "fits": {method: float(f[place]) for method, f in fits.items()},
        }
        for place, c in enumerate(largest)
    ]
