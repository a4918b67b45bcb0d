"""Split-and-merge moves: what repairs a start and, from one cluster, makes one.

Merging clusters i and j raises the inertia by w_i w_j / (w_i + w_j) |m_i - m_j|^2; splitting
cluster k along its leading direction, of variance v_k, lowers it by about w_k (v_k - sigma^2). Each
move merges the cheapest pair and splits the dearest cluster; disjoint ones are made together and
kept if the likelihood rises after a few EM steps (after Ueda, Nakano, Ghahramani and Hinton 2000).
No rule here knows the number of rows, so a row of weight two is two rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attnclust._typing import FloatArray, IntArray
from attnclust.refinement import Clusters, Expectation, Geometry, assign, em
from attnclust.tokens import Tokens

# EM steps after which a move is judged.
INNER_STEPS = 3
MAX_ROUNDS = 50
# A move is worth a try when the split promises this share of what the merge costs.
WORTH = 0.5
# Leading directions are read from all rows up to so many, else from so many of each cluster.
ALL_ROWS = 10_000
ROWS_PER_DIRECTION = 256


@dataclass(frozen=True)
class Move:
    """One round of moves: how many at once, and whether the likelihood rose."""

    n_moves: int
    kept: bool


def leading_directions(
    tokens: Tokens, centroids: FloatArray, labels: IntArray, n_steps: int = 6
) -> tuple[FloatArray, FloatArray]:
    """Leading variance within each cluster and its unit direction, by power iteration.

    Of more than `ALL_ROWS` rows, `ROWS_PER_DIRECTION` evenly spaced ones of each cluster are read.

    Returns
    -------
    variances : array of shape (K,)
        Zero for a cluster of fewer than two rows.
    directions : array of shape (K, d)
    """
    k, d = centroids.shape
    sizes = np.bincount(labels, minlength=k)
    rows = np.arange(len(labels)) if len(labels) <= ALL_ROWS else _evenly_spaced(labels, sizes)
    chosen, owner = tokens.take(rows), labels[rows]
    weight = chosen.row_weights()
    mass = np.bincount(owner, weight, minlength=k)
    # A fixed start: the sign and the path of the iteration repeat, and turn with nothing random.
    V = np.random.default_rng(0).standard_normal((k, d))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    for _ in range(n_steps):
        W = np.zeros((k, d))
        inner = (centroids * V).sum(1)
        for window, tile in chosen.tiles():
            own = owner[window]
            p = (tile.own_scores(V, own) - inner[own]) * weight[window]
            W += tile.own_sums(p, own, k)
            W -= np.bincount(own, p, minlength=k)[:, None] * centroids
        length = np.linalg.norm(W, axis=1, keepdims=True)
        V = np.where(length > 0, W / np.maximum(length, np.finfo(np.float64).tiny), V)
    usable = (sizes > 1) & (mass > 0)
    # |C V| of the last V: at least its Rayleigh quotient, and equal once V stands still.
    return np.where(usable, length[:, 0] / np.where(usable, mass, 1.0), 0.0), V


def _evenly_spaced(labels: IntArray, sizes: IntArray) -> IntArray:
    order = np.argsort(labels, kind="stable")
    place = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    size = np.repeat(sizes, sizes)
    step = (place * ROWS_PER_DIRECTION) // size != ((place - 1) * ROWS_PER_DIRECTION) // size
    return np.sort(order[(size <= ROWS_PER_DIRECTION) | step])


def split(clusters: Clusters, which: IntArray, offsets: FloatArray, into: IntArray) -> Clusters:
    """Split clusters `which` into m + offset (in place) and m - offset (at positions `into`)."""
    size = max(len(clusters.weights), int(into.max()) + 1)
    centroids = np.resize(clusters.centroids, (size, clusters.centroids.shape[1]))
    weights = np.resize(clusters.weights, size)
    halves = clusters.weights[which] / 2
    centroids[into] = clusters.centroids[which] - offsets
    centroids[which] = clusters.centroids[which] + offsets
    weights[into] = weights[which] = halves
    return Clusters(centroids, weights / weights.sum(), clusters.noise_variance)


def propose(
    clusters: Clusters, variances: FloatArray, directions: FloatArray, n_moves: int
) -> tuple[Clusters, int]:
    """Up to `n_moves` disjoint moves at once, the most promising first.

    Returns
    -------
    clusters : Clusters
    n_made : int
        Zero when nothing asks for a move.
    """
    C, w = clusters.centroids, clusters.weights
    k = len(w)
    gain = w * (variances - clusters.noise_variance)
    square = (C * C).sum(1)
    i, j = np.triu_indices(k, 1)
    gap = np.maximum(square[i] + square[j] - 2 * (C @ C.T)[i, j], 0.0)
    cost = w[i] * w[j] / np.maximum(w[i] + w[j], np.finfo(np.float64).tiny) * gap
    nearest = np.argsort(cost, kind="stable")[: 20 * k]
    splits = list(np.argsort(-gain, kind="stable"))
    used: set[int] = set()
    merged: list[tuple[int, int]] = []
    parted: list[int] = []
    for pair in nearest:
        a, b = int(i[pair]), int(j[pair])
        if len(parted) == n_moves or a in used or b in used:
            continue
        c = next((int(c) for c in splits if c not in used and c not in (a, b)), None)
        if c is None or gain[c] <= WORTH * cost[pair]:
            break
        used |= {a, b, c}
        merged.append((a, b))
        parted.append(c)
    if not parted:
        return clusters, 0
    a_, b_ = np.array(merged).T
    centroids, weights = C.copy(), w.copy()
    weights[a_] = w[a_] + w[b_]
    share = (w[a_] / np.maximum(weights[a_], np.finfo(np.float64).tiny))[:, None]
    centroids[a_] = share * C[a_] + (1 - share) * C[b_]
    which = np.array(parted)
    offsets = directions[which] * np.sqrt(variances[which])[:, None]
    joined = Clusters(centroids, weights, clusters.noise_variance)
    return split(joined, which, offsets, b_), len(parted)


def split_and_merge(
    tokens: Tokens, clusters: Clusters, seen: Expectation, geometry: Geometry
) -> tuple[Clusters, list[Expectation], list[Move]]:
    """Moves until none is worth a try or a single one no longer raises the likelihood.

    Parameters
    ----------
    tokens : Tokens
    clusters, seen : Clusters, Expectation
        The start and its E step.
    geometry : Geometry

    Returns
    -------
    clusters : Clusters
    seen : list of Expectation
        Of each state kept, its likelihoods rising; the last belongs to `clusters`.
    moves : list of Move
    """
    k = len(clusters.weights)
    kept, moves, n_moves = [seen], list[Move](), max(1, k // 5)
    looked: tuple[FloatArray, FloatArray] | None = None
    for _ in range(MAX_ROUNDS if k > 2 else 0):
        if looked is None:
            looked = leading_directions(tokens, clusters.centroids, assign(tokens, clusters))
        tried, n_made = propose(clusters, *looked, n_moves)
        if n_made == 0:
            break
        tried, path = em(tokens, tried, geometry, n_steps=INNER_STEPS)
        better = bool(path[-1].log_likelihood > kept[-1].log_likelihood)
        moves.append(Move(n_made, better))
        if better:
            clusters, looked = tried, None
            kept.append(path[-1])
        elif n_made == 1:
            break
        else:
            n_moves = max(1, min(n_moves, n_made) // 2)
    return clusters, kept, moves


def growing(tokens: Tokens, geometry: Geometry, n_clusters: int) -> Iterator[Clusters]:
    """From one cluster to `n_clusters`, by splits and EM steps: no row is drawn, none counts twice.

    Each state is yielded; twice as many clusters as in the last, the last one excepted. Ends with
    fewer than asked where no rows differ from their centre.
    """
    mean = tokens.mean()
    noise = max((geometry.mean_square - float(mean @ mean)) / tokens.dim, geometry.floor)
    clusters = Clusters(mean[None, :], np.ones(1), noise)
    yield clusters
    while (k := len(clusters.weights)) < n_clusters:
        labels = assign(tokens, clusters)
        variances, directions = leading_directions(tokens, clusters.centroids, labels)
        gain = clusters.weights * (variances - geometry.floor)
        ranked = np.argsort(-gain, kind="stable")
        which = ranked[: min(k, n_clusters - k)]
        which = which[gain[which] > 0]
        if len(which) == 0:
            break
        offsets = directions[which] * np.sqrt(variances[which])[:, None]
        clusters = split(clusters, which, offsets, k + np.arange(len(which)))
        clusters, _seen = em(tokens, clusters, geometry, n_steps=INNER_STEPS)
        yield clusters


def grow(tokens: Tokens, geometry: Geometry, n_clusters: int) -> Clusters:
    """The last state of `growing`."""
    *_, clusters = growing(tokens, geometry, n_clusters)
    return clusters
