"""Scores of labels against known ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, mutual_info_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from attnclust._typing import IntArray


def matched_accuracy(known: Any, labels: Any) -> float:
    """Share of rows labelled right under the best one-to-one matching of clusters to classes.

    Parameters
    ----------
    known : array-like of shape (n,)
        Classes, of any kind that compares.
    labels : array-like of shape (n,)
        Clusters; as many as there may be. -1, no cluster, is a cluster like any other here.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If there are no rows.

    Examples
    --------
    >>> matched_accuracy(["a", "a", "b", "b"], [1, 1, 0, 2])
    0.75
    """
    if len(labels) == 0:
        raise ValueError("no rows to score: none has a known label")
    table = contingency_matrix(known, labels)
    return float(table[linear_sum_assignment(-table)].sum() / table.sum())


def external_scores(known: Any, labels: Any) -> dict[str, float]:
    """Adjusted Rand index, normalised mutual information, and matched accuracy.

    Parameters
    ----------
    known, labels : array-like of shape (n,)
        Rows whose known label is None are left out.

    Returns
    -------
    dict
        With keys "ari", "nmi" and "matched_accuracy".

    Examples
    --------
    >>> external_scores([0, 0, 1, 1], [1, 1, 0, 0])
    {'ari': 1.0, 'nmi': 1.0, 'matched_accuracy': 1.0}
    """
    told = np.array([value is not None for value in known])
    known = np.unique([str(value) for value in known if value is not None], return_inverse=True)[1]
    labels = np.asarray(labels)[told]
    return {
        "ari": float(adjusted_rand_score(known, labels)),
        "nmi": float(normalized_mutual_info_score(known, labels)),
        "matched_accuracy": matched_accuracy(known, labels),
    }


def table_scores(table: IntArray) -> dict[str, float]:
    """The scores of `external_scores` from counts alone, for labels too many to hold.

    Parameters
    ----------
    table : integer array of shape (classes, clusters)
        Rows of each class in each cluster.

    Returns
    -------
    dict
        With keys "ari", "nmi" and "matched_accuracy".

    Examples
    --------
    >>> import numpy as np
    >>> table_scores(np.array([[0, 2], [2, 0]]))["ari"]
    1.0
    """
    table = table[table.sum(1) > 0][:, table.sum(0) > 0]
    rows, columns = table.sum(1), table.sum(0)
    n = float(table.sum())
    pairs, of_rows, of_columns = (
        float((c * (c - 1.0) / 2).sum()) for c in (table.astype(float), rows, columns)
    )
    expected = of_rows * of_columns / max(n * (n - 1) / 2, 1.0)
    best = (of_rows + of_columns) / 2
    entropy = [float(-(p * np.log(p)).sum()) for p in (rows / n, columns / n)]
    shared = mutual_info_score(None, None, contingency=table)
    mean = sum(entropy) / 2
    return {
        "ari": 1.0 if best == expected else (pairs - expected) / (best - expected),
        "nmi": float(shared / mean) if mean > 0 else 1.0,
        "matched_accuracy": float(table[linear_sum_assignment(-table)].sum() / n),
    }
