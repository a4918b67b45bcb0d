"""How many clusters the likelihood asks for: splits and merges under a price per cluster.

A split is kept if it raises the log-likelihood by more than `penalty(d)` nats, a merge if it costs
less. A cluster of pure Gaussian noise split in two gains .4 to .9 (d + 1) nats, in 99 of 100 draws
less than (d + 1) + 2 sqrt(d + 1), whatever the number of rows (benchmarks/selection.md); so the
penalty is (d + 1) + 3 sqrt(d + 1), where the criterion of Schwarz (1978) has (d + 1)/2 log n.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, takewhile

import numpy as np
from scipy.special import rel_entr

from attnclust._typing import FloatArray, IntArray
from attnclust.moves import disjoint, growing, leading_directions, split, split_and_merge
from attnclust.refinement import Clusters, Geometry, assign, em, expectation
from attnclust.tokens import Tokens

# EM steps after which a split or a merge is judged.
JUDGE_STEPS = 6
# 2-means steps that find the halves of a cluster.
HALVING_STEPS = 4
MAX_ROUNDS = 100
# Nats per row, and one, that a round must bring for another.
TOL = 1e-4
# A change is tried if its estimate is not further than this factor from the penalty.
SLACK = 4.0


def penalty(dim: int) -> float:
    """Nats of log-likelihood that one more cluster must bring.

    Parameters
    ----------
    dim : int
        d.

    Examples
    --------
    >>> penalty(8)
    18.0
    """
    return dim + 1 + 3 * float(np.sqrt(dim + 1))


def overgrow(tokens: Tokens, geometry: Geometry, most: int) -> Clusters:
    """Clusters grown by doubling, in the number whose penalised likelihood is largest.

    Where the centres fill all directions, halving a cloud of many clusters gains no likelihood
    until there are as many as the truth has: a start of more than that has only to be merged.
    Attention is hard, lest centres that overlap swallow each other.

    Parameters
    ----------
    tokens : Tokens
    geometry : Geometry
    most : int
        Where doubling ends.

    Returns
    -------
    Clusters
    """
    geometry = replace(geometry, hard=True)
    n_rows, best = tokens.effective_rows(), -np.inf
    for clusters in growing(tokens, geometry, most):
        seen = expectation(tokens, clusters, geometry)
        value = n_rows * seen.log_likelihood - penalty(tokens.dim) * len(clusters.weights)
        if value > best:
            best, chosen = value, clusters
    return chosen


def settle(
    tokens: Tokens, clusters: Clusters, geometry: Geometry, most: int
) -> tuple[Clusters, float]:
    """Splits, merges and moves until none raises the penalised log-likelihood.

    Parameters
    ----------
    tokens : Tokens
    clusters : Clusters
        The start, of any number.
    geometry : Geometry
    most : int
        Where splits end.

    Returns
    -------
    clusters : Clusters
    criterion : float
        Log-likelihood of all rows less the penalties, in nats.
    """
    n_rows, price = tokens.effective_rows(), penalty(tokens.dim)

    def judged(found: Clusters) -> tuple[Clusters, float]:
        found, path = em(tokens, found, geometry, n_steps=JUDGE_STEPS)
        return found, n_rows * path[-1].log_likelihood - price * len(found.weights)

    best, criterion = judged(clusters)
    for _ in range(MAX_ROUNDS):
        enough = criterion + 1 + TOL * n_rows
        for changes in (_splits, _merges):
            tries = changes(tokens, best, n_rows, price, most)
            while (changed := next(tries, None)) is not None:
                tried, value = judged(changed)
                if value > criterion:
                    best, criterion = tried, value
                    tries = changes(tokens, best, n_rows, price, most)
        if criterion > enough:
            continue
        found, path = em(tokens, best, geometry, n_steps=1)
        found, kept, _ = split_and_merge(tokens, found, path[-1], geometry)
        value = n_rows * kept[-1].log_likelihood - price * len(found.weights)
        if value > criterion:
            best, criterion = found, value
        if criterion <= enough:
            break
    return best, criterion


def _splits(
    tokens: Tokens, clusters: Clusters, n_rows: float, price: float, most: int
) -> Iterator[Clusters]:
    """Clusters with those split that gain most: up to a third of them, then half as many."""
    k = len(clusters.weights)
    at_once = min(k // 3 + 1, most - k)
    if at_once < 1:
        return
    gain, offsets = _halves(tokens, clusters, n_rows)
    ranked = np.argsort(-gain, kind="stable")
    ranked = ranked[gain[ranked] > price / SLACK][:at_once]
    while len(ranked):
        yield split(clusters, ranked, offsets[:, ranked], k + np.arange(len(ranked)))
        ranked = ranked[: len(ranked) // 2]


def _halves(tokens: Tokens, clusters: Clusters, n_rows: float) -> tuple[FloatArray, FloatArray]:
    """What halving each cluster gains, and the offsets of halves found by 2-means steps.

    Inertia I falls by D_k and the rows' labels cost entropy: n d / 2 log(I / (I - D_k)) - n_k H_k.
    """
    C = clusters.centroids
    k, d = C.shape
    labels = assign(tokens, clusters)
    variances, directions = leading_directions(tokens, C, labels)
    offsets = directions * np.sqrt(variances)[:, None]
    middle = C.copy()
    weight = tokens.row_weights()
    for _ in range(HALVING_STEPS):
        mass, sums = np.zeros(2 * k), np.zeros((2 * k, d))
        border = (middle * offsets).sum(1)
        for window, tile in tokens.tiles():
            own = labels[window]
            side = 2 * own + (tile.own_scores(offsets, own) > border[own])
            mass += np.bincount(side, weight[window], minlength=2 * k)
            sums += tile.own_sums(weight[window], side, 2 * k)
        low, high = mass[::2, None], mass[1::2, None]
        means = sums / np.maximum(mass, np.finfo(np.float64).tiny)[:, None]
        held = (low > 0) & (high > 0)
        offsets = np.where(held, (means[1::2] - means[::2]) / 2, 0.0)
        middle = (means[1::2] + means[::2]) / 2
    total, both = mass.sum(), np.maximum(low + high, np.finfo(np.float64).tiny)[:, 0]
    fall = 4 * low[:, 0] * high[:, 0] / both * (offsets**2).sum(1) / total
    entropy = (rel_entr(low[:, 0], both) + rel_entr(high[:, 0], both)) / total
    inertia = max(d * clusters.noise_variance, np.finfo(np.float64).tiny)
    gain = n_rows * (entropy - 0.5 * d * np.log1p(-np.minimum(fall / inertia, 1 - 1e-12)))
    return np.where(fall > 0, gain, -np.inf), np.stack([-offsets, offsets])


def _merges(
    tokens: Tokens, clusters: Clusters, n_rows: float, price: float, most: int
) -> Iterator[Clusters]:
    """Clusters with disjoint pairs merged whose union costs least, if hard labels are any guide."""
    k, nats = len(clusters.weights), n_rows / (2 * clusters.noise_variance)
    cheap = takewhile(lambda pair: nats * pair[2] <= SLACK * price, disjoint(clusters))
    pairs = list(islice(cheap, k // 3 + 1))
    while pairs:
        owner = np.arange(k)
        for a, b, _ in pairs:
            owner[b] = a
        yield join(clusters, owner)
        pairs = pairs[: len(pairs) // 2]


def join(clusters: Clusters, owner: IntArray) -> Clusters:
    """Clusters of the same owner as one, at their weighted mean.

    Parameters
    ----------
    clusters : Clusters
    owner : integer array of shape (K,)
        Any numbers; the result is in their rising order.

    Returns
    -------
    Clusters

    Examples
    --------
    >>> three = Clusters(np.array([[0.0], [3.0], [9.0]]), np.array([0.5, 0.25, 0.25]), 1.0)
    >>> join(three, np.array([0, 0, 1])).centroids
    array([[1.],
           [9.]])
    """
    names, owner = np.unique(owner, return_inverse=True)
    join = (owner == np.arange(len(names))[:, None]) * clusters.weights
    weights = join.sum(1)
    share = join / np.maximum(weights, np.finfo(np.float64).tiny)[:, None]
    return Clusters(share @ clusters.centroids, weights / weights.sum(), clusters.noise_variance)
