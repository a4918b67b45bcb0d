"""The way from tokens to clusters: frame, start, refinement, each a function of the last."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from attnclust._typing import FloatArray
from attnclust.contrast import fixed_point
from attnclust.moments import Spectrum
from attnclust.moves import grow, split_and_merge
from attnclust.normalization import normalize
from attnclust.refinement import Clusters, Geometry, em
from attnclust.tokens import Tokens, power_of_two


@dataclass(frozen=True)
class History:
    """How a fit went.

    Parameters
    ----------
    start : {"mean", "heads", "splits", "trained heads"}
        Where the centres came from before refinement. "splits" grows them from one cluster, where
        there are more clusters than features or the spectrum shows fewer directions than clusters.
    conditioning : float or None
        Least signal eigenvalue over the noise: how far the normalisation can be trusted.
    quality : tuple of float
        Contrast of each start of the fixed point over its promise; 1 where the model holds.
    head_steps : int
        Steps that the kept start (or the training) took.
    log_likelihood : tuple of float
        Mean log-likelihood per row used, in the fit's own unit of length, of each state kept.
    moves : tuple of (int, bool)
        Split-and-merge rounds: moves at once, and whether they were kept.
    reason : str
        Why the fit stopped.
    """

    start: str
    conditioning: float | None = None
    quality: tuple[float, ...] = ()
    head_steps: int = 0
    log_likelihood: tuple[float, ...] = ()
    moves: tuple[tuple[int, bool], ...] = ()
    reason: str = ""


def center(tokens: Tokens, seen: Spectrum) -> tuple[Tokens, Spectrum]:
    """The frame about the mean, its unit near the spread per coordinate; the spectrum there."""
    unit = tokens.unit * power_of_two(float(np.sqrt(seen.trace / seen.dim)))
    ratio = (tokens.unit / unit) ** 2
    framed = replace(tokens, shift=seen.mean * tokens.unit, unit=unit)
    return framed, Spectrum(np.zeros(seen.dim), seen.values * ratio, seen.axes, seen.trace * ratio)


def find_start(
    tokens: Tokens,
    seen: Spectrum,
    geometry: Geometry,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    lift: bool = True,
    order: int = 3,
) -> tuple[Clusters, History]:
    """Clusters from heads where the spectrum carries them, else grown by splits.

    Heads need K - 1 directions (K without the lift) above the noise, and one more to read the noise
    from: K <= d.

    Parameters
    ----------
    tokens : Tokens
        The rows to look at.
    seen : Spectrum
        Leading eigenpairs in the same frame.
    geometry : Geometry
    n_clusters : int
    rng : numpy.random.Generator
    lift, order
        Of `normalize` and `fixed_point`.
    """
    if n_clusters == 1:
        return grow(tokens, seen.mean, geometry, 1), History("mean")
    rank = n_clusters - lift
    if n_clusters > seen.dim or seen.values[rank - 1] <= max(
        seen.trailing_mean(rank), geometry.floor
    ):
        return grow(tokens, seen.mean, geometry, n_clusters), History("splits")
    normal = normalize(seen, n_clusters, lift=lift)
    z = normal.project(tokens)
    fit = fixed_point(z, tokens.row_weights(), normal.noise, rng, order=order)
    noise = max(normal.noise_variance, geometry.floor)
    clusters = Clusters(
        unit_rows(normal.centroids(fit.heads, fit.alignment), geometry.on_sphere),
        fit.weights,
        noise,
    )
    return clusters, History(
        "heads", normal.conditioning, tuple(map(float, fit.quality)), fit.n_iter
    )


def refine(
    tokens: Tokens,
    clusters: Clusters,
    geometry: Geometry,
    history: History,
    *,
    max_iter: int,
    tol: float,
) -> tuple[Clusters, History, int]:
    """Softmax attention until it stands still, moves, and softmax attention again.

    Returns
    -------
    clusters : Clusters
    history : History
        With the likelihoods, the moves and the reason for stopping.
    n_iter : int
        Attention steps taken, those inside the moves not counted.
    """
    clusters, path = em(tokens, clusters, geometry, n_steps=max_iter, tol=tol)
    clusters, kept, moves = split_and_merge(tokens, clusters, path[-1], geometry)
    clusters, last = em(tokens, clusters, geometry, n_steps=max_iter, tol=tol)
    n_iter = len(path) + len(last) - 2
    still = len(last) < 2 or last[-1].log_likelihood - last[-2].log_likelihood < tol
    reason = (
        f"the likelihood rose by less than tol={tol:g}"
        if still
        else f"max_iter={max_iter} attention steps were spent"
    )
    states = path + kept[1:] + last[1:]
    return (
        clusters,
        replace(
            history,
            log_likelihood=tuple(s.log_likelihood for s in states),
            moves=tuple((m.n_moves, m.kept) for m in moves),
            reason=reason,
        ),
        n_iter,
    )


def unit_rows(A: FloatArray, scale: bool = True) -> FloatArray:
    """Rows at unit length (zero rows stay), or A itself where no scaling is asked."""
    if not scale:
        return A
    length = np.linalg.norm(A, axis=1, keepdims=True)
    return np.asarray(A / np.where(length > 0, length, 1.0))
