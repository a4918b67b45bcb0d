"""The way from tokens to clusters: frame, start, refinement, each a function of the last."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from attnclust._typing import FloatArray
from attnclust.contrast import fixed_point, least_alignment
from attnclust.features import FeatureMap, kernel_heads
from attnclust.manifold import random_heads
from attnclust.mixture import Mixture
from attnclust.moments import DENSE_LIMIT, Spectrum
from attnclust.moves import Move, grow, part_anew, split_and_merge
from attnclust.normalization import normalize
from attnclust.refinement import (
    Clusters,
    Expectation,
    Geometry,
    assign,
    dispersion,
    em,
    expectation,
    maximization,
)
from attnclust.theory import optimal_temperature
from attnclust.tokens import Tokens, power_of_two
from attnclust.training import train_heads

# Prompts per gradient step.
N_PROMPTS = 64
# Squared distances that scatter this much more than the mixture says are not of it: their own
# sampling error is a few hundredths, and what is measured on real rows starts near 1.5.
MISFIT = 1.25
# Rows that tell it well enough, evenly spaced.
DISPERSION_ROWS = 5_000
# Whether attention is hard, in the order in which refinement tries.
STAGES = {"auto": (False, True, False), "soft": (False,), "hard": (True,)}
# Times tol at which softmax attention stands still enough for moves.
BEFORE_MOVES = 100
# Times that moves and new cuts of pairs take turns under hard attention.
HARD_ROUNDS = 4
# Rows x features x clusters up to which hard attention also tries a start by splits.
FEW_PRODUCTS = 500_000
# Hard steps on all rows after those on a sample.
LAST_STEPS = 10


@dataclass(frozen=True)
class History:
    """How a fit went.

    Parameters
    ----------
    start : {"mean", "heads", "splits", "kernel heads", "trained heads", "choice of K"}
        Where the centres came from before refinement. "splits" grows them from one cluster, where
        there are more clusters than features, the spectrum shows fewer directions than clusters, or
        softmax attention left a cluster without rows.
    conditioning : float or None
        Least signal eigenvalue over the noise: how far the normalisation can be trusted.
    quality : tuple of float
        Contrast of each start of the fixed point over its promise; 1 where the model holds.
    head_steps : int
        Steps that the kept start (or the training) took.
    attention : {"none", "soft", "hard"}
        What refined them: "soft" where the mixture fits, "hard" (least squares) where it does not.
    dispersion : float
        What `attnclust.refinement.dispersion` says of the result: 1 where the mixture fits.
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
    attention: str = "none"
    dispersion: float = 1.0
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
        return grow(tokens, geometry, 1), History("mean")
    rank = n_clusters - lift
    if n_clusters > seen.dim or seen.values[rank - 1] <= max(
        seen.trailing_mean(rank), geometry.floor
    ):
        return grow(tokens, geometry, n_clusters), History("splits")
    normal = normalize(seen, n_clusters, lift=lift, origin=tokens.origin)
    z = normal.project(tokens)
    fit = fixed_point(z, tokens.row_weights(), normal.noise, rng, order=order)
    noise = max(normal.noise_variance, geometry.floor)
    clusters = Clusters(
        normal.centroids(fit.heads, fit.alignment),
        fit.weights,
        noise,
    )
    return clusters, History(
        "heads", normal.conditioning, tuple(map(float, fit.quality)), fit.n_iter
    )


def kernel_start(
    tokens: Tokens, geometry: Geometry, n_clusters: int, rng: np.random.Generator, kind: str
) -> tuple[Clusters, History, FeatureMap]:
    """Clusters of the rows as heads on kernel features label them, and the map to those heads.

    Parameters
    ----------
    tokens, geometry, n_clusters, rng
        As for `find_start`.
    kind : {"fourier", "nystrom"}
    """
    features, fit = kernel_heads(tokens, n_clusters, rng, kind)
    labels, weight = assign(*features.state(tokens)), tokens.row_weights()
    sums = np.zeros((n_clusters, tokens.dim))
    for window, tile in tokens.tiles():
        sums += tile.own_sums(weight[window], labels[window], n_clusters)
    counts = np.bincount(labels, weight, minlength=n_clusters)
    nowhere = Clusters(np.zeros_like(sums), np.full(n_clusters, 1 / n_clusters), 1.0)
    seen = Expectation(counts / weight.sum(), sums / weight.sum(), 0.0)
    quality = tuple(map(float, fit.quality))
    history = History("kernel heads", quality=quality, head_steps=fit.n_iter)
    return maximization(nowhere, seen, geometry), history, features


@dataclass(frozen=True)
class LinearLayer:
    """The trained linear layer in the tokens' frame, its origin not moved.

    Parameters
    ----------
    temperature : float
        c, in inverse squared units of the frame.
    values : array of shape (K, d)
        c S mu_h: what a token of alignment one with head h gets.
    """

    temperature: float
    values: FloatArray


def train_start(
    tokens: Tokens,
    seen: Spectrum,
    geometry: Geometry,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    normalized: bool,
    lift: bool,
    regularizer: str,
    strength: float,
    temperature: float | None,
    prompt_length: int,
    n_steps: int,
) -> tuple[Clusters, History, LinearLayer | None]:
    """Clusters from heads trained by gradient descent on prompts drawn from the rows.

    Tokens are scaled so that their centres have about unit length, as the method supposes: by the
    root mean square length that the denoised second moment gives, or by sqrt(K) once normalised.

    Parameters
    ----------
    tokens, seen, geometry, n_clusters, rng
        As for `find_start`.
    normalized, lift : bool
        Train on normalised keys; with a constant coordinate.
    regularizer, strength, n_steps
        Of `train_heads`.
    temperature : float or None
        c for centres of unit length; None is half of c*(L) of orthonormal centres.
    prompt_length : int
        L.

    Returns
    -------
    clusters : Clusters
        Not normalised: equal weights and centres of one length along the heads, so that the
        posterior's label is that of the largest alignment. Normalised: mapped back.
    history : History
    layer : LinearLayer or None
        Where the tokens were not normalised.

    Raises
    ------
    ValueError
        If there are more clusters than directions for their heads, or rows are sparse, of many
        features, and not normalised.
    """
    if tokens.sparse and not normalized and tokens.dim > DENSE_LIMIT:
        raise ValueError(
            f"gradient training on sparse rows of {tokens.dim} features would make prompts of them "
            "dense: set normalize=True"
        )
    most = seen.dim + (normalized and lift)
    if n_clusters > most:
        raise ValueError(
            f"gradient training needs a direction per head: at most {most} clusters of "
            f"{seen.dim} features, got n_clusters={n_clusters}"
        )
    normal = normalize(seen, n_clusters, lift=normalized and lift, origin=tokens.origin)
    if normalized:
        z = Tokens(normal.project(tokens), weights=tokens.row_weights())
        dim, length, noise = n_clusters, np.sqrt(n_clusters), float(normal.noise.mean())
    else:
        z, noise = replace(tokens, shift=None), normal.noise_variance
        dim, length = seen.dim, float(np.sqrt(normal.values.sum()))
    oracle = np.eye(dim)[:n_clusters]
    if temperature is None:
        likely = Mixture(oracle, np.full(n_clusters, 1 / n_clusters), noise / length**2)
        temperature = float(optimal_temperature(likely, oracle, prompt_length)) / 2
    share = np.cumsum(z.row_weights())

    def prompts(_step: int) -> FloatArray:
        drawn = np.searchsorted(share, share[-1] * rng.random(N_PROMPTS * prompt_length))
        rows = z.take(drawn).part(slice(None)).dense() / length
        return np.asarray(rows.reshape(N_PROMPTS, prompt_length, dim))

    training = train_heads(
        prompts,
        random_heads(rng, (n_clusters, dim)),
        temperature=temperature,
        regularizer=regularizer,
        strength=strength,
        n_steps=n_steps,
    )
    heads, length_found, mean, spread = _signed(z, training.heads)
    history = History(
        "trained heads", normal.conditioning, head_steps=training.n_steps, reason=training.reason
    )
    noise = max(normal.noise_variance, geometry.floor)
    if normalized:
        mean = np.maximum(mean, least_alignment(n_clusters))
        centroids = normal.centroids(heads, mean)
        return Clusters(centroids, mean**2 / (mean**2).sum(), noise), history, None
    equal = np.full(n_clusters, 1 / n_clusters)
    centroids = heads * (1.0 if geometry.on_sphere else float(length_found.mean())) + tokens.origin
    scale = temperature / length**2
    return Clusters(centroids, equal, noise), history, LinearLayer(scale, scale * spread)


def _signed(z: Tokens, heads: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Heads turned towards their own tokens; E[u_h] over those and over all; S mu_h."""
    k, dim = heads.shape
    own, mass, mean = np.zeros(k), np.zeros(k), np.zeros(k)
    spread, total = np.zeros((k, dim)), 0.0
    for _, tile in z.tiles(k):
        u, w = tile.scores(heads), tile.row_weights()
        nearest = np.abs(u).argmax(0)
        own += np.bincount(nearest, w * u[nearest, np.arange(len(w))], minlength=k)
        mass += np.bincount(nearest, w, minlength=k)
        mean += u @ w
        spread += tile.sums(u * w.astype(tile.dtype))
        total += float(w.sum())
    side = np.where(own < 0, -1.0, 1.0)
    length = np.abs(own) / np.where(mass > 0, mass, 1.0)
    return heads * side[:, None], length, mean * side / total, spread * side[:, None] / total


def refine(
    tokens: Tokens,
    sample: Tokens,
    clusters: Clusters,
    geometry: Geometry,
    history: History,
    *,
    attention: str = "auto",
    max_iter: int,
    tol: float,
) -> tuple[Clusters, History, int]:
    """Attention until it stands still, moves, attention again; on the sample, at last on all rows.

    Softmax attention trusts the mixture. Where squared distances scatter beyond `MISFIT` times what
    the mixture says, or overlapping centres have swallowed each other, "auto" takes hard attention,
    whose least squares suppose no distribution, and then softmax attention again if the mixture
    fits what came of it.

    Parameters
    ----------
    tokens, sample : Tokens
        All rows, and those to look at.
    clusters, geometry, history : Clusters, Geometry, History
        The start.
    attention : {"auto", "soft", "hard"}
        Which.
    max_iter, tol : int, float
        Most attention steps at a time, and when they stand still.

    Returns
    -------
    clusters : Clusters
    history : History
        With the likelihoods, the moves and the reason for stopping.
    n_iter : int
        Attention steps taken, those inside the moves not counted.
    """
    found: tuple[Clusters, History, int] | None = None
    swallowed = False
    for hard in STAGES[attention]:
        shape = replace(geometry, hard=hard)
        if hard and swallowed:
            clusters = grow(sample, shape, len(clusters.weights))
            history = replace(history, start="splits")
        climbed = _climb(sample, clusters, shape, history, max_iter, tol)
        few = sample.dim * len(sample) * len(clusters.weights) <= FEW_PRODUCTS
        if hard and few and history.start != "splits":
            grown = grow(sample, shape, len(clusters.weights))
            again = replace(history, start="splits")
            other = _climb(sample, grown, shape, again, max_iter, tol)
            climbed = max(climbed, other, key=lambda found: found[1].log_likelihood[-1])
        clusters = climbed[0]
        held = bool(np.bincount(assign(sample, clusters), minlength=len(clusters.weights)).all())
        fits = 1 / MISFIT <= climbed[1].dispersion <= MISFIT and held
        if found is None or hard or fits:
            found = climbed
        if fits != hard or swallowed:
            break
        swallowed = not held
    assert found is not None
    clusters, history, n_iter = found
    if len(sample) < len(tokens):
        whole = replace(geometry, hard=history.attention == "hard")
        # Soft centres of the sample are within its noise; hard ones settle where all rows say.
        # The noise level, of m d numbers, stays the sample's: it would cost one more pass.
        steps, noise = LAST_STEPS if whole.hard else 1, clusters.noise_variance
        for _ in range(steps):
            clusters = maximization(clusters, expectation(tokens, clusters, whole), whole)
            clusters = replace(clusters, noise_variance=noise)
    return clusters, history, n_iter


def _climb(
    tokens: Tokens,
    clusters: Clusters,
    geometry: Geometry,
    history: History,
    max_iter: int,
    tol: float,
) -> tuple[Clusters, History, int]:
    """Attention, moves, attention; and again under hard attention, with new cuts of pairs."""
    rough = tol if geometry.hard else BEFORE_MOVES * tol
    clusters, path = em(tokens, clusters, geometry, n_steps=max_iter, tol=rough)
    n_iter, moves = len(path) - 1, list[Move]()
    for _ in range(HARD_ROUNDS if geometry.hard else 1):
        before = path[-1].log_likelihood
        clusters, kept, made = split_and_merge(tokens, clusters, path[-1], geometry)
        path += kept[1:]
        moves += made
        if geometry.hard:
            clusters, seen = part_anew(tokens, clusters, geometry)
            path.append(seen)
        if geometry.hard and path[-1].log_likelihood - before <= tol:
            break
        clusters, last = em(tokens, clusters, geometry, n_steps=max_iter, tol=tol, start=path[-1])
        n_iter += len(last) - 1
        path += last[1:]
    still = path[-1].log_likelihood - path[-2].log_likelihood < tol
    reason = (
        f"the likelihood rose by less than tol={tol:g}"
        if still
        else f"max_iter={max_iter} attention steps were spent"
    )
    every = np.arange(0, len(tokens), -(-len(tokens) // DISPERSION_ROWS))
    history = replace(
        history,
        attention="hard" if geometry.hard else "soft",
        dispersion=dispersion(tokens.take(every), clusters, geometry),
        log_likelihood=tuple(s.log_likelihood for s in path),
        moves=tuple((m.n_moves, m.kept) for m in moves),
        reason=reason,
    )
    return clusters, history, n_iter
