"""Feature maps: heads on kernel features, where clusters need more directions than features.

A map phi with <phi(x), phi(y)> = k(x, y) = exp(-|x - y|^2 / (2 h^2)) makes rows further apart than
the bandwidth h nearly orthogonal, so that the linear layer on phi is the unnormalised smoother of
that kernel. With (U, e) the top K eigenpairs of the second moment of the keys, z = e^(-1/2) U^T phi
are normalised keys, and the heads are those of the fixed point; the kernel's noise is not Gaussian,
and none is taken out.

    fourier    phi by random frequencies (Rahimi and Recht 2007), keys phi, bandwidth a share of the
               distance between clusters: round clusters, more of them than features
    nystrom    phi through landmarks, k(x, Z) k(Z, Z)^(-1/2) (Williams and Seeger 2001), keys
               phi / sqrt(deg), row weights deg(x) = sum_k k(x, x_k): the division by row sums that
               softmax attention makes. Where the kernel joins no two clusters z is sqrt(1 / w_j)
               times one of K orthonormal vectors, whatever the shape of cluster j. Only the
               direction of z decides, and there the row sum cancels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh

from attnclust._typing import FloatArray, IntArray
from attnclust.contrast import HeadFit, fixed_point
from attnclust.refinement import Clusters, assign
from attnclust.tokens import Tokens, unit_rows

# Landmarks: so many, or per cluster if that is more; and random frequencies, a sine and a cosine of
# each, at a bandwidth that is this share of 2 K^(-1/d) standard deviations.
LANDMARKS = 500
LANDMARKS_PER_CLUSTER = 20
FREQUENCIES = 300
SHARE = 0.7
# Squared bandwidths that "auto" tries, in median squared distances to the 7th nearest landmark.
NEIGHBOUR = 7
LADDER = tuple(4.0**j for j in range(-1, 5))
# Landmarks that make a cluster; and a kernel row sum, itself included, below which one is alone.
LEAST = 3
ALONE = 1.5
# Leak between clusters below which eigenvalues are told apart from 1 no further.
LEAK = 1e-6
# Directions of the landmarks' kernel below this share of the largest are rounding.
RANK = 1e-8


@dataclass(frozen=True)
class FeatureMap:
    """From rows to coordinates along heads on kernel features.

    Parameters
    ----------
    kind : {"fourier", "nystrom"}
    bandwidth : float
        h, in units of the frame.
    points : array of shape (m, d)
        Landmarks, or frequencies, in the frame.
    phase : array of shape (m,)
        Phases of the frequencies; zeros for landmarks.
    projection : array of shape (m, K)
        From kernel values, or waves, to K coordinates, one per head once they are found.
    lengths : array of shape (K,)
        Of the clusters' centres along their heads.
    noise_variance : float
        Mean squared distance of a row to its centre, per coordinate.
    shift : array of shape (d,)
        Origin of the frame, in the units of X.
    unit : float
        Its unit of length.
    """

    kind: str
    bandwidth: float
    points: FloatArray
    phase: FloatArray
    projection: FloatArray
    lengths: FloatArray
    noise_variance: float
    shift: FloatArray
    unit: float

    def waves(self, tile: Tokens) -> FloatArray:
        """Kernel values with the landmarks, or waves, of one tile in the frame: (rows, m)."""
        # Distances far below the spread decide: float32 would lose them.
        if tile.sparse:
            inner = tile.scores(self.points).T.astype(np.float64)
        else:
            Y = tile.dense().astype(np.float64)
            inner = Y @ self.points.T
        if self.kind == "fourier":
            return np.asarray(np.cos(inner + self.phase) * np.sqrt(2 / len(self.points)))
        gap = (Y * Y).sum(1)[:, None] + (self.points**2).sum(1) - 2 * inner
        return np.asarray(np.exp(np.maximum(gap, 0.0) / (-2 * self.bandwidth**2)))

    def coordinates(self, tokens: Tokens) -> FloatArray:
        """Rows along the heads, in their precision; directions only for landmarks: (n, K)."""
        out = np.empty((len(tokens), self.projection.shape[1]), dtype=tokens.dtype)
        for window, tile in tokens.tiles(len(self.points)):
            z = self.waves(tile) @ self.projection
            out[window] = z if self.kind == "fourier" else unit_rows(z)
        return out

    def state(self, tokens: Tokens) -> tuple[Tokens, Clusters]:
        """Rows and clusters in the space of the heads; every row belongs to the nearest centre."""
        k = len(self.lengths)
        clusters = Clusters(np.diag(self.lengths), np.full(k, 1 / k), self.noise_variance)
        return Tokens(self.coordinates(tokens)), clusters


def kernel_heads(
    tokens: Tokens, n_clusters: int, rng: np.random.Generator, kind: str
) -> tuple[FeatureMap, HeadFit]:
    """Heads on kernel features of the tokens.

    Parameters
    ----------
    tokens : Tokens
        Rows in a frame.
    n_clusters : int
        K.
    rng : numpy.random.Generator
        Draws landmarks, frequencies and the starts of the fixed point.
    kind : {"fourier", "nystrom"}

    Returns
    -------
    features : FeatureMap
    fit : HeadFit
        Its quality is near 1 where the kernel tells the clusters apart.

    Raises
    ------
    ValueError
        If rows are sparse under "nystrom", or the features tell fewer than K directions apart.

    Examples
    --------
    >>> from attnclust.tokens import Tokens
    >>> turn = np.linspace(0, 2 * np.pi, 200)[:, None] + [0, np.pi / 2]
    >>> rings = Tokens(np.vstack([np.sin(turn), 3 * np.sin(turn)]))
    >>> features, _ = kernel_heads(rings, 2, np.random.default_rng(0), "nystrom")
    >>> labels = features.coordinates(rings).argmax(1)
    >>> bool((labels[:200] == labels[0]).all() and (labels[200:] != labels[0]).all())
    True
    """
    if tokens.sparse and kind == "nystrom":
        raise ValueError(
            'sparse rows are not supported by lift="nystrom": pass X.toarray() or another lift'
        )
    ones = np.ones(n_clusters)
    shift = np.zeros(tokens.dim) if tokens.shift is None else tokens.shift
    if kind == "fourier":
        mean = tokens.mean() if tokens.shift is None else np.zeros(tokens.dim)
        spread = np.sqrt((tokens.mean_square() - float(mean @ mean)) / tokens.dim)
        bandwidth = float(SHARE * 2 * n_clusters ** (-1 / tokens.dim) * (spread or 1.0))
        points = np.tile(rng.standard_normal((FREQUENCIES, tokens.dim)) / bandwidth, (2, 1))
        phase = np.repeat([0.0, -np.pi / 2], FREQUENCIES)
        root = np.eye(len(points))
    else:
        n = len(tokens)
        m = min(max(LANDMARKS, LANDMARKS_PER_CLUSTER * n_clusters), n)
        chosen = tokens.take(np.sort(rng.choice(n, m, replace=False)))
        points = chosen.part(slice(None)).dense().astype(np.float64)
        phase = np.zeros(m)
        square = (points * points).sum(1)
        both = square[:, None] + square
        gaps = both - 2 * points @ points.T
        gaps[gaps < 64 * np.finfo(np.float64).eps * both] = 0.0  # the same row, to rounding
        bandwidth = choose_bandwidth(gaps, n_clusters, rng)
        kernel, near = _landmark_kernel(gaps, bandwidth, n_clusters)
        points, phase = points[near], phase[near]
        values, axes = np.linalg.eigh(kernel)
        held = values > RANK * values[-1]
        root = axes[:, held] / np.sqrt(values[held])
    features = FeatureMap(kind, bandwidth, points, phase, root, ones, 1.0, shift, tokens.unit)
    return _fit_heads(tokens, features, n_clusters, rng)


def choose_bandwidth(gaps: FloatArray, n_clusters: int, rng: np.random.Generator) -> float:
    """The bandwidth under which the landmarks fall apart most clearly into K clusters.

    Of the kernel divided by its row sums, 1 - lambda_K is what leaks between K clusters and
    1 - lambda_(K+1) what would leak between one more: their ratio is largest. A bandwidth whose
    heads leave a cluster to fewer than `LEAST` landmarks found far rows, and gives way to others.

    Parameters
    ----------
    gaps : array of shape (m, m)
        Squared distances between landmarks.
    n_clusters : int
        K, at most m.
    rng : numpy.random.Generator
        Draws the starts of the fixed point.

    Returns
    -------
    float
    """
    place = min(NEIGHBOUR, len(gaps) - 1)
    near = np.partition(gaps, place, axis=1)[:, place]
    near = near[near > 0]
    spacing = float(np.median(near)) if len(near) else max(float(gaps.mean()), 1.0)
    best = (False, -np.inf, 1.0)
    for factor in LADDER:
        bandwidth = float(np.sqrt(factor * spacing))
        kernel = _landmark_kernel(gaps, bandwidth, n_clusters)[0]
        m = len(kernel)
        root = np.sqrt(kernel.sum(1))
        first = max(m - n_clusters - 1, 0)
        values, axes = eigh(kernel / root[:, None] / root, subset_by_index=[first, m - 1])
        leaks = np.maximum(1 - values[::-1], 0.0) + LEAK
        ratio = leaks[n_clusters] / leaks[n_clusters - 1] if n_clusters < m else 1.0
        z = axes[:, -n_clusters:] / root[:, None]
        scale, none = np.linalg.norm(root), np.zeros(n_clusters)
        heads = fixed_point(scale * z, root**2, none, rng, n_starts=1).heads
        held = np.bincount((unit_rows(z) @ heads.T).argmax(1), minlength=n_clusters)
        whole = bool(held.min() >= LEAST)
        best = max(best, (whole, float(ratio), bandwidth))
    return best[2]


def _landmark_kernel(
    gaps: FloatArray, bandwidth: float, n_clusters: int
) -> tuple[FloatArray, IntArray]:
    """The kernel between landmarks, and which they are: those with others near, if they suffice."""
    kernel = np.exp(gaps / (-2 * bandwidth**2))
    near = np.flatnonzero(kernel.sum(1) >= ALONE)
    if len(near) <= n_clusters:
        near = np.arange(len(gaps))
    return kernel[np.ix_(near, near)], near


def _fit_heads(
    tokens: Tokens, features: FeatureMap, n_clusters: int, rng: np.random.Generator
) -> tuple[FeatureMap, HeadFit]:
    root, weight = features.projection, tokens.row_weights()
    size, m = root.shape[1], len(root)
    if size < n_clusters:
        raise ValueError(
            f'lift="{features.kind}" sees only {size} directions among the rows, fewer than '
            f'n_clusters={n_clusters}: ask for fewer clusters or leave lift="auto"'
        )
    degree = np.ones(len(tokens))
    if features.kind == "nystrom":
        sums = np.zeros(size)
        for window, tile in tokens.tiles(m):
            sums += weight[window] @ (features.waves(tile) @ root)
        for window, tile in tokens.tiles(m):
            degree[window] = features.waves(tile) @ (root @ sums)
        # A row far from every landmark must not divide by nothing.
        degree = np.maximum(degree, np.finfo(np.float64).eps * float(sums @ sums))
    spread = np.zeros((size, size))
    for window, tile in tokens.tiles(m):
        phi = features.waves(tile) @ root
        spread += (phi * (weight[window] / degree[window])[:, None]).T @ phi
    values, axes = eigh(spread, subset_by_index=[size - n_clusters, size - 1])
    axes = root @ (axes / np.sqrt(np.maximum(values, RANK * values[-1])))
    z = np.empty((len(tokens), n_clusters))
    for window, tile in tokens.tiles(m):
        z[window] = features.waves(tile) @ axes / degree[window][:, None]
    mass = degree * weight
    scale = np.sqrt(mass.sum())
    fit = fixed_point(scale * z, mass, np.zeros(n_clusters), rng)
    found = replace(features, projection=scale * axes @ fit.heads.T)
    if features.kind == "fourier":
        found = replace(found, lengths=1 / fit.alignment)
    rows, clusters = found.state(tokens)
    own = assign(rows, clusters)
    gap = ((rows.X - clusters.centroids[own]) ** 2).sum(1)
    noise = float(np.average(gap, weights=weight)) / n_clusters
    return replace(found, noise_variance=max(noise, float(np.finfo(tokens.dtype).eps))), fit
