"""Spherical k-means: maximise sum_i <x_i, c_(label of i)> over unit rows and unit centres.

Each row goes to the centre of largest cosine, each centre to the direction of its rows' sum, until
no label moves (Dhillon and Modha 2001). The start is k-means++ on the unit rows.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning

from attnclust._typing import FloatArray, IntArray, Rows
from attnclust.tokens import scale_to_unit, unit_rows


def spherical_kmeans(
    X: Rows, n_clusters: int, seed: int, max_iter: int = 100
) -> tuple[IntArray, FloatArray]:
    """Cluster rows by their direction alone.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Of any length.
    n_clusters : int
    seed : int
        Draws the start.
    max_iter : int
        Most rounds.

    Returns
    -------
    labels : array of shape (n,)
    centres : array of shape (n_clusters, d)
        Unit vectors.

    Warns
    -----
    ConvergenceWarning
        If labels still moved in the last round.

    Examples
    --------
    >>> labels, centres = spherical_kmeans(np.array([[1.0, 0], [9, 0], [0, 1], [0, 9]]), 2, 0)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """
    X = scale_to_unit(X)
    centres, _ = kmeans_plusplus(X, n_clusters, random_state=seed)
    centres = np.asarray(centres.toarray() if sp.issparse(centres) else centres)
    labels: IntArray = np.full(X.shape[0], -1)
    for _ in range(max_iter):
        previous, labels = labels, np.asarray(X @ centres.T).argmax(1)
        if (labels == previous).all():
            break
        member = np.ones(len(labels), X.dtype), (labels, np.arange(len(labels)))
        sums = sp.csr_matrix(member, shape=(n_clusters, len(labels))) @ X
        sums = np.asarray(sums.toarray() if sp.issparse(sums) else sums)
        held = sums.any(axis=1)
        centres[held] = unit_rows(sums[held])
    else:
        warnings.warn(
            f"labels still moved after {max_iter} rounds", ConvergenceWarning, stacklevel=2
        )
    return labels, centres
