"""One table of methods on the same rows, best first, and how far their labels agree.

Everything is measured in the geometry of the metric: on the rows as they are, or scaled to unit
length under "cosine", which is then what all methods are given.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import check_array, check_random_state

from attnclust._typing import FloatArray, IntArray, Rows
from attnclust.checks import as_rows, check_choice, check_finite, check_integer
from attnclust.compare.methods import Attempt, attempt, methods
from attnclust.compare.quality import distances, inertia, silhouette
from attnclust.scores import external_scores
from attnclust.tokens import Tokens, power_of_two, scale_to_unit

UNKNOWN = "least inertia, then fewest seconds; what is equal to four decimals is a tie"
KNOWN = f"highest ARI, then {UNKNOWN}"


@dataclass(frozen=True)
class Row:
    """A method in the table; None is what it has no figure for.

    Parameters
    ----------
    method : str
    seconds : float or None
        Of one run.
    clusters : int or None
        Distinct labels.
    smallest, largest : int or None
        Rows of the smallest and of the largest cluster that has any.
    empty : int or None
        Clusters without rows.
    relative_inertia : float or None
        Sum of squares about the labelling's own means, over the least of all methods'.
    silhouette : float or None
        Mean over at most 2,000 rows.
    ari, nmi, matched_accuracy : float or None
        Against the known labels.
    note : str
        Why there are no figures, or what the method warned of.
    """

    method: str
    seconds: float | None = None
    clusters: int | None = None
    smallest: int | None = None
    largest: int | None = None
    empty: int | None = None
    relative_inertia: float | None = None
    silhouette: float | None = None
    ari: float | None = None
    nmi: float | None = None
    matched_accuracy: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """Methods on the same rows.

    Parameters
    ----------
    rows : list of Row
        Best first by `order`, then those without labels; ``pandas.DataFrame(rows)`` is the table.
    labels : dict of str to array of shape (n,)
        Labels of each method that has some, best first.
    agreement : array of shape (m, m)
        Adjusted Rand index between each two of `labels`, in their order.
    order : str
        The rule of the order.
    n_clusters : int
    metric : str
    n_starts : int
    """

    rows: list[Row]
    labels: dict[str, IntArray]
    agreement: FloatArray
    order: str
    n_clusters: int
    metric: str
    n_starts: int


def compare(
    X: Rows,
    n_clusters: int,
    *,
    known: Any = None,
    metric: Literal["euclidean", "cosine"] = "euclidean",
    n_starts: int = 10,
    random_state: int | np.random.RandomState | None = None,
    running: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> Comparison:
    """Cluster the same rows by attention, k-means, spherical k-means, EM and a spectral method.

    Every method runs once, from the same seed; seconds are of that run. A method that fails, or is
    left out, says why in its row.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
    n_clusters : int
        Number of clusters K for all of them.
    known : array-like of shape (n,), optional
        Known labels to score against; None or NaN in it where a row has no label.
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine" gives all methods rows of unit length, and scores on those.
    n_starts : int, default=10
        Starts of the second k-means, which keeps the best; 1 leaves it out.
    random_state : int, RandomState or None, default=None
        Seeds the methods and draws the rows of the silhouette.
    running : callable, optional
        From the name of what runs next to a context manager to run it in: a progress display.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        For a parameter, a row or known labels that no method can use.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1, 2], 50)
    >>> X = 10 * np.eye(3)[y] + rng.standard_normal((150, 3))
    >>> found = compare(X, 3, known=y, random_state=0)
    >>> {row.method for row in found.rows if row.ari == 1} >= {"attention", "k-means, 10 starts"}
    True
    >>> found.agreement.shape == (len(found.labels), len(found.labels))
    True
    """
    check_integer("n_clusters", n_clusters, 1)
    check_integer("n_starts", n_starts, 1)
    check_choice("metric", metric, ("euclidean", "cosine"))
    X = check_array(
        as_rows(X), accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False
    )
    if n_clusters > X.shape[0]:
        raise ValueError(
            f"n_clusters={n_clusters} is more than n_samples={X.shape[0]}: ask for fewer clusters"
        )
    known = _known(known, X.shape[0])
    largest = check_finite(X)
    if metric == "cosine":
        X, largest = scale_to_unit(X), 1.0
    seed = int(check_random_state(random_state).randint(2**31))
    tried = {}
    for method in methods(metric, n_starts):
        attempt(method, np.eye(4, dtype=X.dtype), 2, 0)  # whatever first calls cost
        with running(f"running {method.name}"):
            tried[method.name] = attempt(method, X, n_clusters, seed)
    with running("scoring"):
        rows = _rows(tried, Tokens(X, unit=power_of_two(largest)), known, n_clusters, seed)
        rows.sort(key=_place)
        labels = {
            row.method: found for row in rows if (found := tried[row.method].labels) is not None
        }
        if not labels:
            raise ValueError(f"no method could cluster the rows: {rows[0].method} {rows[0].note}")
        agreement = _agreement(list(labels.values()))
    return Comparison(
        rows, labels, agreement, UNKNOWN if known is None else KNOWN, n_clusters, metric, n_starts
    )


def _known(known: Any, n: int) -> list[Any] | None:
    if known is None:
        return None
    values = [None if value is None or value != value else value for value in known]
    if len(values) != n:
        raise ValueError(f"known has {len(values)} labels, expected one for each of the {n} rows")
    if all(value is None for value in values):
        raise ValueError("known has no label for any row: leave it out")
    return values


def _rows(
    tried: dict[str, Attempt], tokens: Tokens, known: list[Any] | None, n_clusters: int, seed: int
) -> list[Row]:
    """A row for each method, in the order of the attempts."""
    picked, between = distances(tokens, np.random.default_rng(seed))
    inertias = {
        name: inertia(tokens, done.labels, n_clusters)
        for name, done in tried.items()
        if done.labels is not None
    }
    # Below it, rows lie on their means to rounding.
    floor = max(len(tokens) * tokens.dim * float(np.finfo(tokens.dtype).eps) ** 2, 1e-300)
    least = max(min(inertias.values(), default=floor), floor)
    rows = []
    for name, done in tried.items():
        note = "; ".join(done.notes)
        if done.labels is None:
            rows.append(Row(name, note=note))
            continue
        sizes = np.bincount(done.labels, minlength=n_clusters)
        held = sizes[sizes > 0]
        rows.append(
            Row(
                name,
                done.seconds,
                clusters=len(held),
                smallest=int(held.min()),
                largest=int(held.max()),
                empty=n_clusters - len(held),
                relative_inertia=max(inertias[name], floor) / least,
                silhouette=silhouette(between, done.labels[picked]),
                note=note,
                **({} if known is None else external_scores(known, done.labels)),
            )
        )
    return rows


def _place(row: Row) -> tuple[float, ...]:
    """What rows are sorted by."""
    if row.relative_inertia is None or row.seconds is None:
        return (np.inf,)
    return (-round(row.ari or 0.0, 4), round(row.relative_inertia, 4), row.seconds)


def _agreement(labels: list[IntArray]) -> FloatArray:
    out = np.eye(len(labels))
    for i in range(len(labels)):
        for j in range(i):
            out[i, j] = out[j, i] = adjusted_rand_score(labels[i], labels[j])
    return out
