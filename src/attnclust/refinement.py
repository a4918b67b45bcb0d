"""Refinement: softmax attention from centres to tokens.

The attention weights softmax_j[(<y, m_j> - |m_j|^2 / 2) / sigma^2 + log w_j] are the posterior of a
spherical mixture, and averaging the tokens by them is the EM step (Dempster, Laird and Rubin 1977).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from attnclust._typing import FloatArray, IntArray
from attnclust.tokens import Tokens, unit_rows


@dataclass(frozen=True)
class Clusters:
    """A spherical mixture: the state that every refinement step maps to the next.

    Parameters
    ----------
    centroids : array of shape (K, d)
        m_j, float64, in the frame of the tokens.
    weights : array of shape (K,)
        w_j, sum to one.
    noise_variance : float
        sigma^2 per coordinate.
    """

    centroids: FloatArray
    weights: FloatArray
    noise_variance: float

    @property
    def attention(self) -> tuple[FloatArray, FloatArray]:
        """Keys (K, d) and biases (K,) such that the attention logits are keys @ y + bias."""
        keys = self.centroids / self.noise_variance
        with np.errstate(divide="ignore"):
            bias = np.log(self.weights) - 0.5 * (keys * self.centroids).sum(1)
        return keys, bias


@dataclass(frozen=True)
class Expectation:
    """What one E step gathers: soft counts, sums, and the mean log-likelihood."""

    counts: FloatArray
    sums: FloatArray
    log_likelihood: float


@dataclass(frozen=True)
class _Gathered:
    """The same of some tokens, not yet divided by their weight."""

    counts: FloatArray
    sums: FloatArray
    evidence: float
    total: float

    def __add__(self, other: _Gathered) -> _Gathered:
        return _Gathered(
            self.counts + other.counts,
            self.sums + other.sums,
            self.evidence + other.evidence,
            self.total + other.total,
        )


@dataclass(frozen=True)
class Geometry:
    """What the data fix for all steps.

    Parameters
    ----------
    mean_square : float
        E|y|^2 over the weighted tokens.
    floor : float
        Least noise variance: below it the rows equal their centres to rounding.
    on_sphere : bool
        Whether centres are unit vectors (cosine).
    hard : bool
        Whether each token attends to one centre only, all centres alike: the k-means step, for data
        in which overlapping centres would swallow each other.
    """

    mean_square: float
    floor: float
    on_sphere: bool = False
    hard: bool = False


def softmax(logits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Softmax over the first axis, in place of C-ordered logits, and the log of its normaliser."""
    logits = np.ascontiguousarray(logits)
    top = logits.max(0)
    logits -= top
    np.exp(logits, out=logits)
    total = logits.sum(0)
    logits /= total
    return logits, top + np.log(total)


def expectation(tokens: Tokens, clusters: Clusters, geometry: Geometry) -> Expectation:
    """E step: attention weights of all tokens, summed tile by tile.

    Hard attention gives the likelihood of the tokens with their labels in its place.
    """
    keys, bias = (equal_weights(clusters) if geometry.hard else clusters).attention
    k, d = keys.shape

    def work(_window: slice, tile: Tokens) -> _Gathered:
        w = tile.row_weights()
        logits = tile.scores(keys, bias)
        if geometry.hard:
            nearest = logits.argmax(0)
            log_norm = logits[nearest, np.arange(len(w))]
            counts: FloatArray = np.asarray(np.bincount(nearest, w, minlength=k), np.float64)
            sums = tile.own_sums(w, nearest, k)
        else:
            attention, log_norm = softmax(logits)
            if tile.weights is not None:
                attention *= w.astype(tile.dtype)
            counts = attention.sum(1).astype(np.float64)
            sums = tile.sums(attention)
        return _Gathered(counts, sums, float(w @ log_norm.astype(np.float64)), float(w.sum()))

    seen = tokens.fold(work, k)
    spread = d * np.log(2 * np.pi * clusters.noise_variance)
    spread += geometry.mean_square / clusters.noise_variance
    return Expectation(
        seen.counts / seen.total, seen.sums / seen.total, seen.evidence / seen.total - 0.5 * spread
    )


def maximization(previous: Clusters, seen: Expectation, geometry: Geometry) -> Clusters:
    """M step: centres, weights and noise variance that the gathered sums make most likely.

    A cluster that no token attends to keeps its centre. On the sphere the best unit centre is the
    direction of the sum.
    """
    counts, sums = seen.counts, seen.sums
    held = counts > np.finfo(np.float64).tiny ** 0.5
    if geometry.on_sphere:
        length = np.linalg.norm(sums, axis=1, keepdims=True)
        centroids = np.where(length > 1e-12, sums / np.maximum(length, 1e-300), previous.centroids)
    else:
        centroids = np.where(
            held[:, None], sums / np.where(held, counts, 1.0)[:, None], previous.centroids
        )
    inertia = geometry.mean_square - float(
        ((2 * sums - counts[:, None] * centroids) * centroids).sum()
    )
    noise = max(inertia / centroids.shape[1], geometry.floor)
    return Clusters(centroids, counts / counts.sum(), noise)


def em(
    tokens: Tokens,
    clusters: Clusters,
    geometry: Geometry,
    *,
    n_steps: int,
    tol: float = 0.0,
    start: Expectation | None = None,
) -> tuple[Clusters, list[Expectation]]:
    """At most `n_steps` EM steps; stops when one raises the mean log-likelihood by less than tol.

    `start` is the E step of the clusters where it is known.

    Returns
    -------
    clusters : Clusters
        After the last step.
    seen : list of Expectation
        Of the start and of the state after each step; the last one belongs to `clusters`.
    """
    if start is None:
        if geometry.on_sphere:  # a merge or a split may have left it
            clusters = replace(clusters, centroids=unit_rows(clusters.centroids))
        start = expectation(tokens, clusters, geometry)
    seen = [start]
    for _ in range(n_steps):
        clusters = maximization(clusters, seen[-1], geometry)
        seen.append(expectation(tokens, clusters, geometry))
        if seen[-1].log_likelihood - seen[-2].log_likelihood < tol:
            break
    return clusters, seen


def equal_weights(clusters: Clusters) -> Clusters:
    """The same centres, all alike: each token attends most to the nearest."""
    k = len(clusters.weights)
    return replace(clusters, weights=np.full(k, 1 / k))


def dispersion(tokens: Tokens, clusters: Clusters, geometry: Geometry) -> float:
    """How far squared distances to the centres scatter, over how far the mixture says they do.

    In a spherical mixture r = |y - m_j|^2 is sigma^2 times a chi-squared variable of d degrees of
    freedom under the posterior, so (d E[r^2] / E[r]^2 - d) / 2 is 1 whatever the overlap of the
    clusters and the scale. It is d tr(A^2) / tr(A)^2 where a cluster's covariance A is not
    spherical, and more again where clusters differ in spread or have heavy tails. On the sphere the
    noise has d - 1 dimensions.

    Returns
    -------
    float
        1 for rows that equal their centres.
    """
    held = clusters.weights > 0
    keys, bias = (part[held] for part in clusters.attention)
    prior = np.log(clusters.weights[held])[:, None].astype(tokens.dtype)
    first = second = total = 0.0
    for _, tile in tokens.tiles(len(keys)):
        w = tile.row_weights()
        logits = tile.scores(keys, bias)
        r = logits - prior
        r *= -2 * clusters.noise_variance
        r += tile.square_lengths().astype(tokens.dtype)
        np.maximum(r, 0.0, out=r)
        attention = softmax(logits)[0]
        first += float(np.einsum("ki,ki->i", attention, r) @ w)
        r *= r
        second += float(np.einsum("ki,ki->i", attention, r) @ w)
        total += float(w.sum())
    d = max(tokens.dim - geometry.on_sphere, 1)
    if first <= total * tokens.dim * geometry.floor:
        return 1.0
    return 0.5 * d * (second * total / first**2 - 1.0)


def assign(tokens: Tokens, clusters: Clusters) -> IntArray:
    """Label of each token: the centre it attends to most, shape (n,)."""
    keys, bias = clusters.attention
    labels = np.empty(len(tokens), dtype=np.intp)

    def work(window: slice, tile: Tokens) -> int:
        np.argmax(tile.scores(keys, bias), axis=0, out=labels[window])
        return 0

    tokens.fold(work, len(keys))
    return labels


def posterior(tokens: Tokens, clusters: Clusters) -> FloatArray:
    """Attention weights of all tokens, in the precision of the tokens: shape (n, K)."""
    keys, bias = clusters.attention
    out = np.empty((len(tokens), len(keys)), dtype=tokens.dtype)

    def work(window: slice, tile: Tokens) -> int:
        out[window] = softmax(tile.scores(keys, bias))[0].T
        return 0

    tokens.fold(work, len(keys))
    return out


@dataclass(frozen=True)
class Told:
    """Labels as `assign` has them, the largest weights of `posterior`, and log-densities.

    Parameters
    ----------
    labels : array of shape (n,)
    confidence : array of shape (n,)
        In the precision of the tokens.
    log_density : array of shape (n,)
        Under the mixture, float64.
    """

    labels: IntArray
    confidence: FloatArray
    log_density: FloatArray


def told(tokens: Tokens, clusters: Clusters) -> Told:
    """What the mixture says of each token, in one pass."""
    keys, bias = clusters.attention
    n, spread = len(tokens), 0.5 * tokens.dim * np.log(2 * np.pi * clusters.noise_variance)
    out = Told(np.empty(n, dtype=np.intp), np.empty(n, tokens.dtype), np.empty(n))

    def work(window: slice, tile: Tokens) -> int:
        logits = tile.scores(keys, bias)
        labels = logits.argmax(0)
        attention, log_norm = softmax(logits)
        out.labels[window] = labels
        out.confidence[window] = attention[labels, np.arange(len(labels))]
        out.log_density[window] = log_norm
        out.log_density[window] -= 0.5 * tile.square_lengths() / clusters.noise_variance + spread
        return 0

    tokens.fold(work, len(keys))
    return out


@dataclass(frozen=True)
class Attended:
    """What each token attends to most, and how surely.

    Parameters
    ----------
    labels : array of shape (n,)
        The centre of the largest attention weight, as `assign` has it.
    confidence : array of shape (n,)
        That weight.
    margin : array of shape (n,)
        Logit of that centre less the second largest, in nats; infinite where there is no second.
    deviation : array of shape (n,)
        Squared distance to that centre over d sigma^2.
    """

    labels: IntArray
    confidence: FloatArray
    margin: FloatArray
    deviation: FloatArray


def attended(tokens: Tokens, clusters: Clusters) -> Attended:
    """Label, confidence, margin and deviation of all tokens, in one float64 pass."""
    keys, bias = clusters.attention
    n = len(tokens)
    found = Attended(np.empty(n, dtype=np.intp), np.empty(n), np.empty(n), np.empty(n))
    squares = (clusters.centroids**2).sum(1)
    for window, tile in tokens.tiles(len(keys)):
        # |y|^2 - 2 <y, m> + |m|^2 in float32 would lose a noise far below the spread.
        tile = replace(tile, X=tile.X.astype(np.float64))
        aligned = tile.scores(clusters.centroids)
        logits = aligned / clusters.noise_variance + bias[:, None]
        labels, rows = logits.argmax(0), np.arange(len(tile))
        second = np.partition(logits, -2, axis=0)[-2] if len(keys) > 1 else -np.inf
        found.labels[window] = labels
        found.margin[window] = logits[labels, rows] - second
        distance = tile.square_lengths() - 2 * aligned[labels, rows] + squares[labels]
        found.deviation[window] = np.maximum(distance, 0.0)
        found.confidence[window] = softmax(logits)[0][labels, rows]
    found.deviation[:] /= tokens.dim * clusters.noise_variance
    return found
