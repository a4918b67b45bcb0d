"""Whether to believe a clustering: what is known of each cluster, and what its posterior is worth.

Stability is that of Hennig (2007): the Jaccard overlap |A & B| / |A | B| of a cluster A with the
cluster B of a bootstrap refit that it overlaps most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.base import clone

from attnclust._typing import FloatArray, IntArray, Rows

# Rows that bootstrap refits look at: so many in all, or per cluster if that is more.
BOOTSTRAP_ROWS = 10_000
BOOTSTRAP_ROWS_PER_CLUSTER = 300


@dataclass(frozen=True)
class ClusterDescription:
    """What is known of one cluster.

    Parameters
    ----------
    cluster : int
        Its label.
    size : int
        Rows with that label.
    weight : float
        Fitted weight w_j.
    cohesion : float
        Mean posterior of its rows: 1 where none could belong elsewhere. NaN without rows, as are
        spread and stability.
    spread : float
        Root mean square distance of its rows to the centre, per coordinate, in the units of X (of
        unit rows under "cosine").
    nearest : int
        Label of the nearest other centre; -1 if there is none.
    separation : float
        Distance to that centre in standard deviations of the noise; infinite if there is none.
    stability : float
        Mean Jaccard overlap with its counterpart in bootstrap refits: above .85 it is found again,
        below .6 it is hardly there. NaN if there was no refit.
    representative : integer array of shape (n_rows,)
        Rows nearest to the centre, the nearest first.
    borderline : integer array of shape (n_rows,)
        Rows of least margin, the least first.
    """

    cluster: int
    size: int
    weight: float
    cohesion: float
    spread: float
    nearest: int
    separation: float
    stability: float
    representative: IntArray
    borderline: IntArray


@dataclass(frozen=True)
class Reliability:
    """Confidence against what came true, in bins of equally many rows.

    Parameters
    ----------
    confidence : array of shape (n_bins,)
        Mean of the largest posterior in each bin, rising.
    accuracy : array of shape (n_bins,)
        Share of the bin's rows whose cluster is that of their class.
    counts : array of shape (n_bins,)
        Rows of the bin.
    """

    confidence: FloatArray
    accuracy: FloatArray
    counts: IntArray


def describe_clusters(
    model: Any,
    X: Rows,
    *,
    n_bootstrap: int = 10,
    n_rows: int = 5,
    random_state: int = 0,
) -> list[ClusterDescription]:
    """Size, cohesion, nearest neighbour, stability and telling rows of each cluster.

    Parameters
    ----------
    model : AttentionClustering
        Fitted.
    X : array-like or sparse matrix of shape (n, d)
        Rows, as a rule those of the fit; those labelled -1 count nowhere.
    n_bootstrap : int
        Refits for the stability, each on weights drawn anew for at most 10,000 rows (or 300 per
        cluster).
    n_rows : int
        Representative and borderline rows of each cluster.
    random_state : int
        Draws the bootstrap samples.

    Returns
    -------
    list of ClusterDescription
        One for each cluster, in the order of the labels.

    Examples
    --------
    >>> import numpy as np
    >>> from attnclust import AttentionClustering
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 2)) + np.repeat([[0, 0], [9, 0]], [40, 20], axis=0)
    >>> model = AttentionClustering(2, random_state=0).fit(X)
    >>> sorted(c.size for c in describe_clusters(model, X))
    [20, 40]
    """
    labels = model.predict(X)
    confidence, margin, deviation = model.confidence(X), model.margin(X), model.outlier_score(X)
    stability = _stability(model, X, labels, n_bootstrap, random_state)
    nearest, gap = _neighbours(model.cluster_centers_.astype(np.float64))
    described = []
    for j, weight in enumerate(model.weights_):
        rows = np.flatnonzero(labels == j)
        deviant = deviation[rows]
        described.append(
            ClusterDescription(
                cluster=j,
                size=len(rows),
                weight=float(weight),
                cohesion=float(confidence[rows].mean()) if len(rows) else np.nan,
                spread=float(np.sqrt(deviant.mean() * model.noise_variance_))
                if len(rows)
                else np.nan,
                nearest=int(nearest[j]),
                separation=float(gap[j] / np.sqrt(model.noise_variance_)),
                stability=float(stability[j]),
                representative=rows[np.argsort(deviant, kind="stable")[:n_rows]],
                borderline=rows[np.argsort(margin[rows], kind="stable")[:n_rows]],
            )
        )
    return described


def reliability(probabilities: FloatArray, known: object, n_bins: int = 10) -> Reliability:
    """How often clusters are right at each level of confidence.

    Clusters are matched one to one to classes, so that most rows agree.

    Parameters
    ----------
    probabilities : array of shape (n, K)
        Posterior of each row.
    known : array-like of shape (n,)
        Classes.
    n_bins : int
        Bins of equally many rows, by the largest posterior; fewer where there are fewer rows.

    Returns
    -------
    Reliability

    Raises
    ------
    ValueError
        If the two differ in length or there are no rows.

    Examples
    --------
    >>> import numpy as np
    >>> found = reliability(np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]), ["a", "b", "b"], 2)
    >>> found.confidence, found.accuracy
    (array([0.7, 0.9]), array([0.5, 1. ]))
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    classes, owner = np.unique(np.asarray(known), return_inverse=True)
    if len(owner) != len(probabilities) or len(owner) == 0:
        raise ValueError(
            f"{len(probabilities)} rows of probabilities and {len(owner)} known classes: give one "
            "class for each row"
        )
    k = probabilities.shape[1]
    labels, confidence = probabilities.argmax(1), probabilities.max(1)
    table = np.bincount(labels * len(classes) + owner, minlength=k * len(classes))
    matched = np.full(k, -1)
    cluster, own = linear_sum_assignment(-table.reshape(k, len(classes)))
    matched[cluster] = own
    right = matched[labels] == owner
    bins = np.array_split(np.argsort(confidence, kind="stable"), min(n_bins, len(owner)))
    return Reliability(
        np.array([confidence[rows].mean() for rows in bins]),
        np.array([right[rows].mean() for rows in bins]),
        np.array([len(rows) for rows in bins]),
    )


def _neighbours(centres: FloatArray) -> tuple[IntArray, FloatArray]:
    """Nearest other centre of each and the distance to it."""
    if len(centres) == 1:
        return np.array([-1]), np.array([np.inf])
    gap = cdist(centres, centres)
    np.fill_diagonal(gap, np.inf)
    return gap.argmin(1), gap.min(1)


def _stability(
    model: Any, X: Rows, labels: IntArray, n_bootstrap: int, random_state: int
) -> FloatArray:
    """Mean Jaccard overlap of each cluster with its best counterpart in refits."""
    k, n = len(model.weights_), X.shape[0]
    rng = np.random.default_rng(random_state)
    most = max(BOOTSTRAP_ROWS, BOOTSTRAP_ROWS_PER_CLUSTER * k)
    if n > most:
        rows = np.sort(rng.choice(n, most, replace=False))
        X, labels, n = X.iloc[rows] if hasattr(X, "iloc") else X[rows], labels[rows], most
    sizes = np.bincount(labels[labels >= 0], minlength=k)
    overlaps = np.full((n_bootstrap, k), np.nan)
    for overlap in overlaps:
        refit = clone(model).set_params(
            n_clusters=k, threshold=None, random_state=int(rng.integers(2**31))
        )
        try:
            found = refit.fit(X, sample_weight=rng.multinomial(n, np.full(n, 1 / n))).predict(X)
        except ValueError:  # fewer different rows drawn than clusters
            continue
        told = labels >= 0
        table = np.bincount(labels[told] * k + found[told], minlength=k * k).reshape(k, k)
        union = sizes[:, None] + np.bincount(found, minlength=k) - table
        overlap[:] = (table / np.maximum(union, 1)).max(1)
    overlaps[:, sizes == 0] = np.nan
    made = ~np.isnan(overlaps)
    return np.where(
        made.any(0), np.where(made, overlaps, 0).sum(0) / np.maximum(made.sum(0), 1), np.nan
    )
