"""What the likelihood of spherical clusters cannot tell: gaps, tails, and rows that stand alone.

Two neighbours are apart if their centres lie 5 standard deviations of their rows along the line
between them apart, or if fewer rows lie midway than at either centre. Touching cells of a uniform
cloud lie sqrt(12) apart, so few rows must show more than 5 (by the chi-squared law of their
variance); the more pairs are looked at, the more significant the one or the other must be.
Clusters that are not apart share a mode: they are pieces of one cloud.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import chi2, norm

from attnclust._typing import BoolArray, FloatArray, IntArray
from attnclust.refinement import Clusters, assign, attended
from attnclust.tokens import Tokens

# Distance in standard deviations along the line; chance that pieces of one cloud show a gap.
APART, CHANCE = 5.0, 0.01
# Middles and width of the windows midway, where the centres lie at -1 and 1.
MIDWAY, WINDOW = (-0.25, 0.0, 0.25), 1 / 3
# A row stands alone unless so many others are as near as all but one in a thousand pairs of rows of
# a cluster are.
NEIGHBOURS, RARE = 3, 1e-3


@dataclass(frozen=True)
class Neighbours:
    """Pairs of neighbouring clusters, and whether they are apart.

    Neighbours are those of Gabriel and Sokal (1969): no third centre lies in the ball over the line
    between the two.

    Parameters
    ----------
    rows : array of shape (K,)
        Effective rows of each cluster.
    square : array of shape (K, K)
        Squared distances between the centres.
    i, j : integer arrays of shape (P,)
        The pairs, i < j.
    apart : boolean array of shape (P,)
        Whether a gap between them is significant.
    filled : boolean array of shape (P,)
        Whether more than half as many rows lie midway as at the lesser centre; where neither holds
        there are too few rows to tell.
    """

    rows: FloatArray
    square: FloatArray
    i: IntArray
    j: IntArray
    apart: BoolArray
    filled: BoolArray

    def clouds(self) -> int:
        """How many groups of clusters have nothing but filled ground between them."""
        return int(self._components(self.i[self.filled], self.j[self.filled]).max()) + 1

    def modes(self, least_rows: int = 0) -> IntArray:
        """Mode of each cluster, numbered from zero: pairs that are not apart share one.

        Clusters of fewer than `least_rows` belong to the nearest of more: what is scattered in
        tails.
        """
        joined, small = ~self.apart, self.rows < least_rows
        if not small.any() or small.all():
            return self._components(self.i[joined], self.j[joined])
        joined &= ~small[self.i] & ~small[self.j]
        square = np.where(small, np.inf, self.square)
        return self._components(
            np.append(self.i[joined], np.flatnonzero(small)),
            np.append(self.j[joined], square[small].argmin(1)),
        )

    def _components(self, i: IntArray, j: IntArray) -> IntArray:
        k = len(self.rows)
        graph = coo_array((np.ones(len(i)), (i, j)), shape=(k, k))
        return np.asarray(connected_components(graph, directed=False)[1])


def neighbours(tokens: Tokens, clusters: Clusters) -> Neighbours:
    """Neighbouring clusters and the gaps between them.

    Parameters
    ----------
    tokens : Tokens
    clusters : Clusters

    Returns
    -------
    Neighbours

    Examples
    --------
    >>> import numpy as np
    >>> from attnclust.refinement import Clusters
    >>> from attnclust.tokens import Tokens
    >>> line = Tokens(np.linspace(0, 1, 300)[:, None])
    >>> halves = neighbours(line, Clusters(np.array([[0.25], [0.75]]), np.full(2, 0.5), 0.02))
    >>> halves.apart, halves.filled, halves.modes().tolist()
    (array([False]), array([ True]), [0, 0])
    """
    C = clusters.centroids
    k = len(C)
    labels = assign(tokens, clusters)
    weight = tokens.row_weights()
    counted = tokens.effective_rows() / weight.sum()
    rows = counted * np.bincount(labels, weight, minlength=k)
    square = (C * C).sum(1)
    square = np.maximum(square[:, None] + square - 2 * C @ C.T, 0.0)
    # Right angles, as on a grid, are neighbours too: rounding must not decide.
    near = [((row + square) >= row[:, None] * (1 - 1e-9)).all(1) for row in square]
    i, j = np.nonzero(np.triu(near, 1))
    moment = _moments_along(tokens, C, labels)
    both = np.maximum(rows[i] + rows[j], np.finfo(np.float64).tiny)
    gap = np.maximum(square[i, j], np.finfo(np.float64).tiny)
    variance = counted * (moment[i, j] + moment[j, i]) / both / gap
    chance, freedom = CHANCE / max(len(i), 1), np.maximum(both - 2, 1)
    least = np.maximum(APART**2, 12 * freedom / chi2.ppf(chance, freedom))
    apart: BoolArray = np.asarray(gap >= least * variance)
    filled = np.zeros(len(i), dtype=bool)
    significant = norm.isf(chance / len(MIDWAY))
    for p in np.flatnonzero(~apart):
        own = np.flatnonzero((labels == i[p]) | (labels == j[p]))
        shore, bottom = _shore_and_bottom(tokens.take(own), C[i[p]], C[j[p]], counted * weight[own])
        apart[p] = shore > 0 and shore - bottom >= significant * np.sqrt(shore + bottom)
        filled[p] = bottom > shore / 2 and not apart[p]
    return Neighbours(rows, square, i, j, apart, filled)


def _moments_along(tokens: Tokens, C: FloatArray, labels: IntArray) -> FloatArray:
    """Sum over the rows of a of <y - m_a, m_b - m_a>^2, for all a and b: shape (K, K)."""
    k = len(C)
    inner, weight, total = C @ C.T, tokens.row_weights(), np.zeros((k, k))
    for window, tile in tokens.tiles(k):
        own = labels[window]
        aligned = tile.scores(C).astype(np.float64)
        along = aligned - aligned[own, np.arange(len(own))] - inner[:, own] + np.diag(inner)[own]
        owner = coo_array((weight[window], (own, np.arange(len(own)))), shape=(k, len(own)))
        total += owner @ (along**2).T
    return total


def _shore_and_bottom(
    part: Tokens, a: FloatArray, b: FloatArray, count: FloatArray
) -> tuple[float, float]:
    """Rows at the lesser of two centres and midway, of the half of all nearest to the line."""
    middle, half = (a + b) / 2, (b - a) / 2
    length = float(half @ half)
    place, off = np.empty(len(part)), np.empty(len(part))
    for window, tile in part.tiles():
        aligned = tile.scores(np.stack([half, middle])).astype(np.float64)
        place[window] = (aligned[0] - middle @ half) / length
        off[window] = tile.square_lengths() - 2 * aligned[1] + middle @ middle
    off -= place**2 * length
    # On a line all are near it: rounding must not choose among them.
    inner = off <= max(np.median(off), 1e-3 * length)
    place, count = place[inner], count[inner]

    def rows_at(t: float) -> float:
        return float(count[np.abs(place - t) < WINDOW].sum())

    return min(rows_at(-1.0), rows_at(1.0)), min(rows_at(t) for t in MIDWAY)


def isolated(tokens: Tokens, clusters: Clusters, floor: float = 0.0) -> BoolArray:
    """Which rows have hardly a neighbour within the noise: far from all centres and on their own.

    The noise level is read from the median distance to the centres, which a few such rows do not
    move.

    Parameters
    ----------
    tokens : Tokens
    clusters : Clusters
        Of any number: rows of a cluster that is not among them have each other as neighbours.
    floor : float
        Least noise variance, below which rows equal their centres to rounding.

    Returns
    -------
    boolean array of shape (n,)
    """
    found = attended(tokens, clusters)
    d = tokens.dim
    square = found.deviation * d * clusters.noise_variance
    noise = max(float(np.median(square)) / chi2.median(d), floor)
    alone: BoolArray = np.asarray(square > noise * chi2.isf(RARE, d))
    reach = 2 * noise * chi2.isf(RARE, d)
    suspects = np.flatnonzero(alone)
    lengths = np.empty(len(tokens))
    for window, tile in tokens.tiles():
        lengths[window] = tile.square_lengths()
    for start in range(0, len(suspects), 256):
        some = suspects[start : start + 256]
        Y = tokens.take(some).part(slice(None)).dense().astype(np.float64)
        near = np.zeros(len(some))
        for window, tile in tokens.tiles(len(some)):
            gap = lengths[some][:, None] - 2 * tile.scores(Y) + lengths[window]
            near += (gap <= reach).sum(1)
        alone[some] = near - 1 < NEIGHBOURS
    return alone
