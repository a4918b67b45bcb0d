"""Split-and-merge moves: what repairs a start and, from one cluster, makes one.

Merging clusters i and j raises the inertia by w_i w_j / (w_i + w_j) |m_i - m_j|^2; splitting
cluster k along its leading direction, of variance v_k, lowers it by about w_k (v_k - sigma^2). Each
move merges the cheapest pair and splits the dearest cluster; disjoint ones are made together and
kept if the likelihood rises after a few EM steps (after Ueda, Nakano, Ghahramani and Hinton 2000).
Under hard attention the gain is no guess: the best cut across the leading direction is made, and
pairs of clusters may also be parted anew. No rule here knows the number of rows, so a row of weight
two is two rows.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import xlogy

from attnclust._typing import FloatArray, IntArray
from attnclust.refinement import (
    Clusters,
    Expectation,
    Geometry,
    assign,
    em,
    equal_weights,
    expectation,
)
from attnclust.tokens import FEW, Tokens

# EM steps after which a move is judged.
INNER_STEPS = 3
MAX_ROUNDS = 50
# Under hard attention a merge costs less than it seems, for its rows go to all neighbours, but only
# after some steps: more is tried and longer, and single moves may fail, one after the other.
HARD_STEPS = 12
HARD_TOL = 1e-3
HARD_WORTH = 0.25
PATIENCE = 4
# A move is worth a try when the split promises this share of what the merge costs.
WORTH = 0.5
# Leading directions are read from all rows up to so many, else from so many of each cluster.
ALL_ROWS = 10_000
ROWS_PER_DIRECTION = 256


# The pair merged and the cluster split; a pair and the cost of merging it.
Triple = tuple[int, int, int]
Pair = tuple[int, int, float]


@dataclass(frozen=True)
class Move:
    """One round of moves: how many at once, and whether the likelihood rose."""

    n_moves: int
    kept: bool


def leading_directions(
    tokens: Tokens, centroids: FloatArray, labels: IntArray, n_steps: int = 6
) -> tuple[FloatArray, FloatArray]:
    """Leading variance within each cluster and its unit direction.

    Of up to `FEW` features second moments about the centres are formed; otherwise power
    iteration needs none of them. Of more than `ALL_ROWS` rows, `ROWS_PER_DIRECTION` evenly spaced
    ones of each cluster are read.

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
    usable = (sizes > 1) & (mass > 0)
    if d <= FEW:
        spread = np.zeros((k, d, d))
        for window, tile in chosen.tiles():
            own = owner[window]
            R = tile.dense() - centroids[own]
            for a in range(d):
                for b in range(a + 1):
                    spread[:, a, b] += np.bincount(own, weight[window] * R[:, a] * R[:, b], k)
        values, axes = np.linalg.eigh(spread)
        return np.where(usable, values[:, -1] / np.where(usable, mass, 1.0), 0.0), axes[:, :, -1]
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
    # |C V| of the last V: at least its Rayleigh quotient, and equal once V stands still.
    return np.where(usable, length[:, 0] / np.where(usable, mass, 1.0), 0.0), V


def _evenly_spaced(labels: IntArray, sizes: IntArray) -> IntArray:
    order = np.argsort(labels, kind="stable")
    place = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    size = np.repeat(sizes, sizes)
    step = (place * ROWS_PER_DIRECTION) // size != ((place - 1) * ROWS_PER_DIRECTION) // size
    return np.sort(order[(size <= ROWS_PER_DIRECTION) | step])


@dataclass(frozen=True)
class Splits:
    """What splitting each cluster promises.

    Parameters
    ----------
    gain : array of shape (K,)
        How far the mean squared distance to the centres falls.
    offsets : array of shape (2, K, d)
        From its centre to those of its parts.
    """

    gain: FloatArray
    offsets: FloatArray


def look(tokens: Tokens, clusters: Clusters, geometry: Geometry, noise: float) -> Splits:
    """Splits along the leading directions.

    Hard attention takes the best cut and what it gains. Softmax attention counts the variance
    beyond `noise`, that of a cluster that is whole, and parts at one standard deviation, unless a
    cut raises the likelihood of rows with labels: then some rows lie apart, however few.
    """
    labels = assign(tokens, equal_weights(clusters) if geometry.hard else clusters)
    variances, directions = leading_directions(tokens, clusters.centroids, labels)
    if geometry.hard:
        gain, places, _ = best_cuts(tokens, clusters.centroids, labels, directions)
    else:
        gain = clusters.weights * (variances - noise)
        places = np.sqrt(variances) * [[1.0], [-1.0]]
        cheapest = merge_costs(clusters)[2][:1].sum()
        if gain.max() > WORTH * cheapest:  # else no move is made, and no cut needed
            price = clusters.noise_variance
            left, cuts, _ = best_cuts(tokens, clusters.centroids, labels, directions, price)
            places = np.where(left > 0, cuts, places)
    return Splits(gain, places[:, :, None] * directions)


def best_cuts(
    tokens: Tokens,
    centroids: FloatArray,
    labels: IntArray,
    directions: FloatArray,
    price: float = 0.0,
) -> tuple[FloatArray, FloatArray, IntArray]:
    """The cut of each cluster in two, across a direction, that leaves least inertia along it.

    At a price sigma^2 the labels are paid for, 2 sigma^2 times the entropy of the parts: what is
    then left, over 2 sigma^2, is the log-likelihood of rows and labels that the cut gains.

    Returns
    -------
    gain : array of shape (K,)
        Fall of the inertia along the direction less the price, over the weight of all tokens: of
        the whole inertia the least that these two parts save.
    places : array of shape (2, K)
        Mean of each part along the direction, from the cluster's centre.
    side : array of shape (n,)
        Part of each token, 0 or 1.
    """
    k = len(centroids)
    along, weight = np.empty(len(tokens)), tokens.row_weights()
    inner = (centroids * directions).sum(1)
    for window, tile in tokens.tiles():
        own = labels[window]
        along[window] = tile.own_scores(directions, own) - inner[own]
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=k))
    gain, places, side = np.zeros(k), np.zeros((2, k)), np.zeros(len(tokens), dtype=np.intp)
    for j, (begin, end) in enumerate(zip(np.append(0, ends[:-1]), ends, strict=True)):
        rows = order[begin:end]
        rows = rows[np.argsort(along[rows], kind="stable")]
        mass = np.cumsum(weight[rows])
        total = np.cumsum(weight[rows] * along[rows])
        # Equal places may not be told apart by rounding alone, nor a part be left without weight.
        apart = np.diff(along[rows]) > 0
        if not apart.any():
            continue
        low, rest = total[:-1] / mass[:-1], mass[-1] - mass[:-1]
        high = (total[-1] - total[:-1]) / rest
        between = mass[:-1] * rest / mass[-1] * (high - low) ** 2
        if price:
            between += (
                2 * price * (xlogy(mass[:-1], mass[:-1] / mass[-1]) + xlogy(rest, rest / mass[-1]))
            )
        between = np.where(apart, between, -np.inf)
        cut = int(between.argmax())
        gain[j], places[:, j] = between[cut], (low[cut], high[cut])
        side[rows[cut + 1 :]] = 1
    return gain / weight.sum(), places, side


def split(clusters: Clusters, which: IntArray, offsets: FloatArray, into: IntArray) -> Clusters:
    """Split clusters `which` by offsets (2, len(which), d): in place and at positions `into`."""
    size = max(len(clusters.weights), int(into.max()) + 1)
    centroids = np.resize(clusters.centroids, (size, clusters.centroids.shape[1]))
    weights = np.resize(clusters.weights, size)
    halves = clusters.weights[which] / 2
    centroids[into] = clusters.centroids[which] + offsets[1]
    centroids[which] = clusters.centroids[which] + offsets[0]
    weights[into] = weights[which] = halves
    return Clusters(centroids, weights / weights.sum(), clusters.noise_variance)


def merge_costs(clusters: Clusters) -> tuple[IntArray, IntArray, FloatArray]:
    """Pairs i < j and what merging each adds to the mean squared distance, the cheapest first."""
    C, w = clusters.centroids, clusters.weights
    square = (C * C).sum(1)
    i, j = np.triu_indices(len(w), 1)
    gap = np.maximum(square[i] + square[j] - 2 * (C @ C.T)[i, j], 0.0)
    cost = w[i] * w[j] / np.maximum(w[i] + w[j], np.finfo(np.float64).tiny) * gap
    order = np.argsort(cost, kind="stable")[: 20 * len(w)]
    return i[order], j[order], cost[order]


def disjoint(clusters: Clusters, skip: Container[tuple[int, int]] = ()) -> Iterator[Pair]:
    """Pairs i < j and what merging each adds, the cheapest first, no cluster twice."""
    used: set[int] = set()
    for i, j, cost in zip(*merge_costs(clusters), strict=True):
        a, b = int(i), int(j)
        if not used & {a, b} and (a, b) not in skip:
            used |= {a, b}
            yield a, b, float(cost)


def merge(clusters: Clusters, a: IntArray, b: IntArray) -> Clusters:
    """Clusters a moved to the joint centres of a and b, with their joint weights; b stay."""
    C, w = clusters.centroids, clusters.weights
    centroids, weights = C.copy(), w.copy()
    weights[a] = w[a] + w[b]
    share = (w[a] / np.maximum(weights[a], np.finfo(np.float64).tiny))[:, None]
    centroids[a] = share * C[a] + (1 - share) * C[b]
    return Clusters(centroids, weights, clusters.noise_variance)


def propose(
    clusters: Clusters,
    splits: Splits,
    n_moves: int,
    worth: float = WORTH,
    failed: Container[Triple] = (),
) -> tuple[Clusters, list[Triple]]:
    """Up to `n_moves` disjoint moves at once, the most promising first, none of the failed ones.

    A split must gain `worth` times what the merge costs.

    Returns
    -------
    clusters : Clusters
    made : list of (int, int, int)
        The pair merged and the cluster split; empty when nothing asks for a move.
    """
    gain = splits.gain
    dearest = list(map(int, np.argsort(-gain, kind="stable")))
    used: set[int] = set()
    made: list[Triple] = []
    for i, j, cost in zip(*merge_costs(clusters), strict=True):
        a, b = int(i), int(j)
        if len(made) == n_moves or gain[dearest[0]] <= worth * cost:
            break
        if a in used or b in used:
            continue
        free = (c for c in dearest if c not in used | {a, b} and (a, b, c) not in failed)
        c = next(free, None)
        if c is not None and gain[c] > worth * cost:
            used |= {a, b, c}
            made.append((a, b, c))
    if not made:
        return clusters, made
    a_, b_, c_ = np.array(made).T
    return split(merge(clusters, a_, b_), c_, splits.offsets[:, c_], b_), made


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
    splits: Splits | None = None
    failed = set[Triple]()
    for _ in range(MAX_ROUNDS if k > 2 else 0):
        if splits is None:
            splits = look(tokens, clusters, geometry, clusters.noise_variance)
        worth = HARD_WORTH if geometry.hard else WORTH
        tried, made = propose(clusters, splits, n_moves, worth, failed)
        if not made:
            break
        if geometry.hard:
            tried, path = em(tokens, tried, geometry, n_steps=HARD_STEPS, tol=HARD_TOL)
        else:
            tried, path = em(tokens, tried, geometry, n_steps=INNER_STEPS)
        better = bool(path[-1].log_likelihood > kept[-1].log_likelihood)
        moves.append(Move(len(made), better))
        if better:
            clusters, splits, failed = tried, None, set()
            kept.append(path[-1])
        elif len(made) > 1:
            n_moves = max(1, min(n_moves, len(made)) // 2)
        elif len(failed) < (PATIENCE if geometry.hard else 1):
            failed.add(made[0])
        else:
            break
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
        splits = look(tokens, clusters, geometry, geometry.floor)
        which = np.argsort(-splits.gain, kind="stable")[: min(k, n_clusters - k)]
        which = which[splits.gain[which] > 0]
        if len(which) == 0:
            break
        clusters = split(clusters, which, splits.offsets[:, which], k + np.arange(len(which)))
        clusters, _seen = em(tokens, clusters, geometry, n_steps=INNER_STEPS)
        yield clusters


def grow(tokens: Tokens, geometry: Geometry, n_clusters: int) -> Clusters:
    """The last state of `growing`."""
    *_, clusters = growing(tokens, geometry, n_clusters)
    return clusters


def part_anew(
    tokens: Tokens, clusters: Clusters, geometry: Geometry, n_rounds: int = 3
) -> tuple[Clusters, Expectation]:
    """Near pairs joined and cut again along their common leading direction, where that is better.

    Each round takes as many disjoint pairs as there are, the cheapest to merge first and none
    twice, and keeps the new parts of those that they leave less inertia: hard attention settled
    into a worse cut than the best one, as it does around a few far rows.

    Parameters
    ----------
    tokens : Tokens
    clusters : Clusters
        Where hard attention stands still.
    geometry : Geometry
        Of hard attention.
    n_rounds : int
        Most rounds; each that finds something opens all pairs again.

    Returns
    -------
    clusters : Clusters
    seen : Expectation
        The E step of `clusters`.
    """
    k, d = clusters.centroids.shape
    seen = expectation(tokens, clusters, geometry)
    done: set[tuple[int, int]] = set()
    for _ in range(n_rounds if k > 1 else 0):
        pairs = list(disjoint(clusters, done))
        if not pairs:
            break
        done.update((a, b) for a, b, _ in pairs)
        a_, b_ = np.array([(a, b) for a, b, _ in pairs]).T
        costs = np.array([cost for _, _, cost in pairs])
        onto = np.arange(k)
        onto[b_] = a_
        labels = onto[assign(tokens, equal_weights(clusters))]
        joined = merge(clusters, a_, b_).centroids
        _, directions = leading_directions(tokens, joined, labels)
        gain, _, side = best_cuts(tokens, joined, labels, directions)
        better = gain[a_] > costs * (1 + 1e-6)
        if not better.any():
            continue
        parts, weight = 2 * labels + side, tokens.row_weights()
        sums = np.zeros((2 * k, d))
        for window, tile in tokens.tiles():
            sums += tile.own_sums(weight[window], parts[window], 2 * k)
        mass = np.bincount(parts, weight, minlength=2 * k)
        centroids, a_, b_ = clusters.centroids.copy(), a_[better], b_[better]
        centroids[a_] = sums[2 * a_] / mass[2 * a_, None]
        centroids[b_] = sums[2 * a_ + 1] / mass[2 * a_ + 1, None]
        tried, path = em(
            tokens, replace(clusters, centroids=centroids), geometry, n_steps=INNER_STEPS
        )
        if path[-1].log_likelihood > seen.log_likelihood:
            clusters, seen, done = tried, path[-1], set()
    return clusters, seen
