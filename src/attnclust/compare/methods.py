"""The methods of a comparison, each from rows, K and a seed to labels, with what it is in words."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.mixture import GaussianMixture

from attnclust._typing import IntArray, Rows
from attnclust.compare.spherical import spherical_kmeans
from attnclust.estimators import AttentionClustering

SPECTRAL_ROWS = 2_000
NEIGHBOURS = 10
FAILURES = (ValueError, ArithmeticError, RuntimeError, MemoryError)


@dataclass(frozen=True)
class Method:
    """A way from rows to labels.

    Parameters
    ----------
    name : str
    about : str
        What it is, and the limits that it is known for.
    label : callable
        From rows, K and a seed to labels.
    refuses : callable
        From rows and K to why the method is left out; an empty text where it is not.
    """

    name: str
    about: str
    label: Callable[[Rows, int, int], IntArray]
    refuses: Callable[[Rows, int], str] = lambda X, n_clusters: ""

    @property
    def column(self) -> str:
        """The name as that of a column."""
        return re.sub(r"\W+", "_", self.name.lower())


@dataclass(frozen=True)
class Attempt:
    """What a method did on the rows.

    Parameters
    ----------
    labels : array of shape (n,) or None
        None where it failed or was left out.
    seconds : float or None
        Of its one run.
    notes : list of str
        Why there are no labels, or what it warned of.
    """

    labels: IntArray | None
    seconds: float | None
    notes: list[str] = field(default_factory=list)


def methods(metric: str, n_starts: int) -> list[Method]:
    """All methods of a comparison, in the order in which they run.

    Parameters
    ----------
    metric : {"euclidean", "cosine"}
        Of attention; rows are taken to be of unit length already under "cosine".
    n_starts : int
        Starts of the second k-means, left out for one.

    Returns
    -------
    list of Method

    Examples
    --------
    >>> [method.column for method in methods("euclidean", 10)][:3]
    ['attention', 'k_means_1_start', 'k_means_10_starts']
    """
    return [
        Method(
            "attention",
            f'AttentionClustering(metric="{metric}"), one run.',
            lambda X, k, seed: (
                AttentionClustering(k, metric=metric, random_state=seed)  # type: ignore[arg-type]
                .fit(X)
                .labels_
            ),
        ),
        *(_kmeans(starts) for starts in dict.fromkeys((1, n_starts))),
        Method(
            "spherical k-means",
            "Lloyd's steps on unit rows and unit centres, one start: it sees directions only, "
            "and depends on its start.",
            lambda X, k, seed: spherical_kmeans(X, k, seed)[0],
        ),
        Method(
            "EM",
            'GaussianMixture(covariance_type="spherical"), one start, from k-means: a variance for '
            "each cluster, to which it adds 1e-6 whatever the scale of the rows; it depends on its "
            "start, and takes no sparse rows.",
            lambda X, k, seed: GaussianMixture(
                k, covariance_type="spherical", random_state=seed
            ).fit_predict(X),
            lambda X, k: (
                "left out: GaussianMixture takes no sparse rows, and making them dense may not fit "
                "in memory"
                if sp.issparse(X)
                else ""
            ),
        ),
        Method(
            "spectral",
            f"SpectralClustering on the graph of {NEIGHBOURS} nearest neighbours, for at most "
            f"{SPECTRAL_ROWS:,} rows: graph and eigenvectors cost more than in proportion.",
            lambda X, k, seed: (
                SpectralClustering(
                    k,
                    affinity="nearest_neighbors",
                    n_neighbors=min(NEIGHBOURS, X.shape[0]),
                    # A graph in pieces has an eigenvalue as often as pieces; ARPACK loses copies.
                    eigen_solver="lobpcg",
                    random_state=seed,
                )
                .fit(X)
                .labels_
            ),
            _refuses_spectral,
        ),
    ]


def attempt(method: Method, X: Rows, n_clusters: int, seed: int) -> Attempt:
    """Run a method once; what stops it, and what it warns of, become notes.

    Parameters
    ----------
    method : Method
    X : array or CSR matrix of shape (n, d)
    n_clusters, seed : int

    Returns
    -------
    Attempt

    Examples
    --------
    >>> one = np.zeros((4, 2))
    >>> attempt(methods("euclidean", 1)[0], one, 2, 0).notes
    ['failed: X has only 1 distinct row, fewer than n_clusters=2: ask for at most 1']
    """
    why = method.refuses(X, n_clusters)
    if why:
        return Attempt(None, None, [why])
    with warnings.catch_warnings(record=True) as warned:
        for kind in (UserWarning, RuntimeWarning):  # ConvergenceWarning is a UserWarning
            warnings.simplefilter("always", kind)
        begun = time.perf_counter()
        try:
            labels = np.asarray(method.label(X, n_clusters, seed))
        except FAILURES as error:
            said = _first_sentence(str(error) or type(error).__name__)
            return Attempt(None, None, [f"failed: {said}"])
        seconds = time.perf_counter() - begun
    told = [w.message for w in warned if issubclass(w.category, UserWarning | RuntimeWarning)]
    return Attempt(labels, seconds, list(dict.fromkeys(_first_sentence(str(m)) for m in told)))


def _kmeans(n_starts: int) -> Method:
    starts = "1 start" if n_starts == 1 else f"{n_starts} starts"
    kept = "it depends on its start" if n_starts == 1 else "the one of least inertia is kept"
    return Method(
        f"k-means, {starts}",
        f"KMeans(n_init={n_starts}), each start by k-means++: {kept}.",
        lambda X, k, seed: KMeans(k, n_init=n_starts, random_state=seed).fit(X).labels_,
    )


def _refuses_spectral(X: Rows, n_clusters: int) -> str:
    n = X.shape[0]
    if n > SPECTRAL_ROWS:
        return (
            f"left out: {n:,} rows are more than the {SPECTRAL_ROWS:,} for which its graph and "
            "eigenvectors are worth their time"
        )
    if n_clusters >= n:
        return "left out: it needs more rows than clusters"
    return ""


def _first_sentence(text: str) -> str:
    """The first sentence on one line, for others say what to do in scikit-learn's own terms."""
    return re.split(r"\.\s+(?=[A-Z])", " ".join(text.split()))[0].rstrip(".")
