"""Planes to look at rows in, and where the label changes there.

A plane is p = A (x - origin), A of shape (2, d); its own points are x = origin + A^+ p. The logits
of softmax attention are affine in x, hence in p on the plane, and the label changes where the two
largest are equal: straight lines. Rows off the plane keep to these lines too if the differences of
the centres lie in the span of A, since what is orthogonal to it then adds the same to each logit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np

from attnclust._typing import FloatArray, IntArray
from attnclust.checks import check_choice
from attnclust.moments import spectrum
from attnclust.normalization import normalize
from attnclust.refinement import Clusters
from attnclust.tokens import Tokens

PlaneName: TypeAlias = Literal["centres", "heads", "normalised"]
# A share of spread, or a length, below this is rounding.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Plane:
    """p = A (x - origin).

    Parameters
    ----------
    axes : array of shape (2, d)
        A; its second row is zero where there is one direction only, and its name is empty.
    origin : array of shape (d,)
    names : tuple of two str
        What p is.
    """

    axes: FloatArray
    origin: FloatArray
    names: tuple[str, str]

    def points(self, tokens: Tokens) -> FloatArray:
        """Where tokens, their frame not moved, lie in the plane: shape (n, 2), float64."""
        out: FloatArray = np.empty((len(tokens), 2))
        for window, tile in tokens.tiles(2):
            tile = replace(tile, X=tile.X.astype(np.float64))
            out[window] = tile.scores(self.axes, -(self.axes @ self.origin)).T
        return out

    def share(self, clusters: Clusters) -> float:
        """Share of the centres' variance that lies in the plane; 1 for a single centre."""
        mean = clusters.weights @ clusters.centroids
        spread = (clusters.centroids - mean) * np.sqrt(clusters.weights)[:, None]
        total = float((spread**2).sum())
        inside = spread @ np.linalg.pinv(self.axes) @ self.axes
        return float((inside**2).sum()) / total if total > 0 else 1.0

    def logits(self, clusters: Clusters) -> FloatArray:
        """Rows (a, b, c) such that a point p of the plane has the logit a p_1 + b p_2 + c."""
        moved = Clusters(
            clusters.centroids - self.origin, clusters.weights, clusters.noise_variance
        )
        keys, bias = moved.attention
        return np.column_stack([keys @ np.linalg.pinv(self.axes), bias])


def find_plane(
    estimator: Any, tokens: Tokens, name: PlaneName, heads: tuple[int, int]
) -> tuple[Plane, Clusters, list[int]]:
    """The plane called `name`, the fitted mixture, and the clusters whose regions it can show.

    Raises
    ------
    ValueError
        For another name, or heads that are not two of the estimator's.
    """
    check_choice("plane", name, ("centres", "heads", "normalised"))
    clusters = Clusters(
        estimator.cluster_centers_.astype(np.float64),
        estimator.weights_,
        estimator.noise_variance_,
    )
    k = len(clusters.weights)
    if name == "heads":
        i, j = heads
        if i == j or not (0 <= i < k and 0 <= j < k):
            raise ValueError(f"heads={heads} must be two different ones of 0 to {k - 1}")
        axes = estimator.heads_[[i, j]].astype(np.float64)
        names = (f"alignment with head {i}", f"alignment with head {j}")
        among = [i, j] if np.linalg.matrix_rank(axes) == 2 else []
        return Plane(axes, np.zeros(tokens.dim), names), clusters, among
    make = plane_of_centres if name == "centres" else _normalised_plane
    return make(tokens, clusters), clusters, list(range(k))


def plane_of_centres(tokens: Tokens, clusters: Clusters) -> Plane:
    """The plane in which the centres spread most; where they span less, the rows choose.

    sum_j w_j |P (m_j - mean)|^2 is largest.
    """
    mean = clusters.weights @ clusters.centroids
    spread = (clusters.centroids - mean) * np.sqrt(clusters.weights)[:, None]
    _, lengths, axes = np.linalg.svd(spread, full_matrices=False)
    rank = min(2, int((lengths > ROUNDING * max(lengths[0], 1e-300)).sum()))
    axes, names = axes[:rank], ["first direction of the centres", "second direction of the centres"]
    if rank < 2:
        seen = spectrum(tokens, 2, np.random.default_rng(0))
        rest = np.sqrt(seen.values)[:, None] * seen.axes.T
        _, lengths, beside = np.linalg.svd(rest - rest @ axes.T @ axes, full_matrices=False)
        beside = beside[lengths > ROUNDING * np.sqrt(seen.values[0])]
        axes = np.vstack([axes, beside])[:2]
        names[rank:] = ["leading direction of the rows", "leading direction beside it"][: 2 - rank]
    return _plane(axes, mean, names)


def _normalised_plane(tokens: Tokens, clusters: Clusters) -> Plane:
    """Two leading directions of the normalised tokens, about their mean.

    Directions beyond the K - 1 that centres span have the scale of the last, or none of one.
    """
    k = len(clusters.weights)
    seen = spectrum(tokens, max(2, min(k - 1, tokens.dim)), np.random.default_rng(0))
    values = normalize(seen, min(k, tokens.dim + 1)).values[:2]
    scales = np.append(values, np.full(2, values[-1] if len(values) else 1.0))[:2]
    axes = seen.axes.T[:2] / np.sqrt(scales[: min(2, tokens.dim), None])
    return _plane(axes, seen.mean, ["first normalised direction", "second normalised direction"])


def _plane(axes: FloatArray, origin: FloatArray, names: list[str]) -> Plane:
    missing = 2 - len(axes)
    first, second = names[: len(axes)] + missing * [""]
    return Plane(np.vstack([axes, np.zeros((missing, axes.shape[1]))]), origin, (first, second))


def decision_lines(logits: FloatArray, reach: float) -> tuple[FloatArray, IntArray]:
    """Segments on which the two largest of several affine functions of the plane are equal.

    Parameters
    ----------
    logits : array of shape (m, 3)
        Functions a x + b y + c.
    reach : float
        How far from the point nearest to (0, 0) a line goes that nothing ends.

    Returns
    -------
    segments : array of shape (s, 2, 2)
        Both ends of each.
    pairs : array of shape (s, 2)
        The two functions.

    Examples
    --------
    >>> decision_lines(np.array([[0.0, 1, -1], [0, -1, 1]]), 5)[0].tolist()
    [[[5.0, 1.0], [-5.0, 1.0]]]
    """
    segments, pairs = [], []
    present = np.flatnonzero(np.isfinite(logits[:, 2]))
    for i, j in combinations(present, 2):
        normal, offset = (logits[i] - logits[j])[:2], (logits[i] - logits[j])[2]
        length = np.linalg.norm(normal)
        if length == 0:
            continue
        foot = -offset * normal / length**2
        along = np.array([-normal[1], normal[0]]) / length
        others = logits[i] - logits[present[(present != i) & (present != j)]]
        slope, start = others[:, :2] @ along, others[:, :2] @ foot + others[:, 2]
        if (start[slope == 0] < 0).any():
            continue
        ends = -start[slope != 0] / slope[slope != 0]
        rising = slope[slope != 0] > 0
        low = max(ends[rising].max(initial=-reach), -reach)
        high = min(ends[~rising].min(initial=reach), reach)
        if low < high:
            segments.append(foot + np.outer([low, high], along))
            pairs.append((i, j))
    return np.reshape(segments, (-1, 2, 2)), np.reshape(pairs, (-1, 2)).astype(np.intp)
