"""In context: many prompts, each clustered by itself, as one batched array program.

Every prompt walks the way of the large fit (second moment, normalisation with the affine lift,
fixed point on the third moment, softmax attention), with a leading axis for the prompts and no loop
over them. Rows that pad a prompt have weight zero, so that it gives the answer it gives alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnclust._typing import FloatArray, IntArray
from attnclust.contrast import TOLERANCE, least_alignment
from attnclust.manifold import polar, random_orthonormal

FIXED_POINT_STEPS = 30
# Share of the largest signal eigenvalue below which a direction is noise in a short prompt.
FLOOR = 1e-3


class Keys(NamedTuple):
    """Prompts about their means, and their normalised keys.

    Parameters
    ----------
    y : array of shape (B, L, d)
        Tokens about the mean of their prompt.
    share : array of shape (B, L)
        Weights that sum to one in each prompt.
    mean_square : array of shape (B,)
        E|y|^2.
    z : array of shape (B, L, K)
        Normalised keys, the last coordinate the lift's constant.
    noise : array of shape (B, K)
        Diagonal of the noise covariance in z.
    back : array of shape (B, K - 1, d)
        The map from z without the constant to y.
    variance : array of shape (B,)
        sigma^2 of the trailing eigenvalues.
    floor : array of shape (B,)
        Least noise variance.
    """

    y: FloatArray
    share: FloatArray
    mean_square: FloatArray
    z: FloatArray
    noise: FloatArray
    back: FloatArray
    variance: FloatArray
    floor: FloatArray


class PromptClusters(NamedTuple):
    """Clusters of B prompts.

    Parameters
    ----------
    centroids : array of shape (B, K, d)
    weights : array of shape (B, K)
        Sum to one in each prompt.
    noise_variance : array of shape (B,)
        sigma^2 per coordinate.
    attention : array of shape (B, L, K)
        Posterior of each cluster given the token.
    log_likelihood : array of shape (B,)
        Mean per token.
    """

    centroids: FloatArray
    weights: FloatArray
    noise_variance: FloatArray
    attention: FloatArray
    log_likelihood: FloatArray

    @property
    def labels(self) -> IntArray:
        """The cluster that each token attends to most: shape (B, L)."""
        return np.asarray(self.attention.argmax(-1))


def cluster_prompts(
    tokens: FloatArray,
    present: FloatArray,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    max_iter: int = 50,
    tol: float = 1e-4,
    n_starts: int = 4,
) -> PromptClusters:
    """Cluster each prompt by itself.

    Parameters
    ----------
    tokens : array of shape (B, L, d)
        Prompts; what pads them may be anything finite.
    present : array of shape (B, L)
        Weight of each token; zero for padding.
    n_clusters : int
        K, at most d.
    rng : numpy.random.Generator
        Draws the starts, the same for every prompt.
    max_iter, tol : int, float
        Of the attention steps: a prompt is done when its likelihood rises by less than tol.
    n_starts : int
        Most starts of the fixed point for prompts whose contrast falls short of its promise, of
        which the likelihood then chooses.

    Returns
    -------
    PromptClusters

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> tokens = np.eye(4)[rng.integers(0, 2, (3, 40))] + 0.1 * rng.standard_normal((3, 40, 4))
    >>> found = cluster_prompts(tokens, np.ones((3, 40)), 2, rng)
    >>> np.round(np.sort(found.centroids.max(2), axis=1), 1)
    array([[1., 1.],
           [1., 1.],
           [1., 1.]])
    """
    share = (present / present.sum(1, keepdims=True)).astype(tokens.dtype)
    mean = share[:, None, :] @ tokens
    keys = _normalize(tokens - mean, share, n_clusters)
    found, doubtful = _from_start(keys, rng, max_iter, tol)
    for _ in range(n_starts - 1):
        again = np.flatnonzero(doubtful)
        if len(again) == 0:
            break
        other, bad = _from_start(Keys(*(part[again] for part in keys)), rng, max_iter, tol)
        better = other.log_likelihood > found.log_likelihood[again]
        for mine, theirs in zip(found, other, strict=True):
            mine[again[better]] = theirs[better]
        doubtful[again] = bad
    return found._replace(centroids=found.centroids + mean)


def _normalize(y: FloatArray, share: FloatArray, k: int) -> Keys:
    batch, length, dim = y.shape
    mean_square = (share * (y * y).sum(-1)).sum(1)
    weighted = y * np.sqrt(share)[..., None]
    if length < dim:
        values, left = np.linalg.eigh(weighted @ np.swapaxes(weighted, 1, 2))
        values, left = values[:, ::-1][:, : k - 1], left[:, :, ::-1][:, :, : k - 1]
        root = np.sqrt(np.maximum(values, np.finfo(y.dtype).tiny))
        axes = np.swapaxes(weighted, 1, 2) @ left / root[:, None, :]
    else:
        values, axes = np.linalg.eigh(np.swapaxes(weighted, 1, 2) @ weighted)
        values, axes = values[:, ::-1][:, : k - 1], axes[:, :, ::-1][:, :, : k - 1]
    variance = np.maximum(mean_square - values.sum(1), 0) / (dim - k + 1)
    signal = np.maximum(values - variance[:, None], FLOOR * np.maximum(values[:, :1], 1e-30))
    root = np.sqrt(signal)
    z = np.ones((batch, length, k), y.dtype)
    z[..., : k - 1] = y @ (axes / root[:, None, :])
    noise = np.zeros((batch, k), y.dtype)
    noise[:, : k - 1] = variance[:, None] / signal
    floor = 8 * np.finfo(y.dtype).eps * np.maximum(mean_square / dim, 1e-30)
    back = np.swapaxes(axes * root[:, None, :], 1, 2)
    return Keys(y, share, mean_square, z, noise, back, variance, floor)


def _from_start(
    keys: Keys, rng: np.random.Generator, max_iter: int, tol: float
) -> tuple[PromptClusters, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Clusters from one start, and which prompts' contrast fell short of its promise."""
    heads, score, quality = _fixed_point(keys.z, keys.share, keys.noise, rng)
    k = heads.shape[1]
    heads = heads * np.where(score < 0, -1, 1).astype(heads.dtype)[..., None]
    score = np.maximum(np.abs(score), least_alignment(k)).astype(heads.dtype)
    centroids = heads[..., : k - 1] @ keys.back / score[..., None]
    weights = score**2 / (score**2).sum(1, keepdims=True)
    variance = np.maximum(keys.variance, keys.floor)
    found = _attend(keys, centroids, weights, variance, max_iter, tol)
    return found, np.abs(quality - 1) > TOLERANCE


def _fixed_point(
    z: FloatArray, share: FloatArray, noise: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """`contrast.fixed_point` of the third moment for all prompts at once: heads, E[u], quality."""
    k = z.shape[2]
    mean = share[:, None, :] @ z
    signs = np.where(share[:, None, :] @ (z * z * z) < 0, -1, 1).astype(z.dtype)
    heads: FloatArray = random_orthonormal(rng, k, k).astype(z.dtype) * signs
    across = np.ascontiguousarray(np.swapaxes(z, 1, 2))
    for _ in range(FIXED_POINT_STEPS):
        gradient, score = _gradient(across, z, share, noise, mean, heads)
        turned = polar(gradient)
        still = np.abs((turned * heads).sum(-1)).min() > 1 - 1e-3
        heads = turned
        if still:
            break
    gradient, score = _gradient(across, z, share, noise, mean, heads)
    promised = 1 / np.maximum(np.abs(score), least_alignment(k))
    return heads, score, (gradient * heads).sum((1, 2)) / promised.sum(1)


def _gradient(
    across: FloatArray,
    z: FloatArray,
    share: FloatArray,
    noise: FloatArray,
    mean: FloatArray,
    heads: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    u = heads @ across
    blurred = heads * noise[:, None, :]
    q = (blurred * heads).sum(-1, keepdims=True)
    score = (u @ share[..., None])[..., 0]
    raw = (u * u * share[:, None, :]) @ z
    return raw - q * mean - 2 * score[..., None] * blurred, score


def _attend(
    keys: Keys,
    centroids: FloatArray,
    weights: FloatArray,
    variance: FloatArray,
    max_iter: int,
    tol: float,
) -> PromptClusters:
    """Softmax-attention (EM) steps until every prompt stands still."""
    y, share, mean_square = keys.y, keys.share, keys.mean_square
    dim = y.shape[2]
    across = np.ascontiguousarray(np.swapaxes(y, 1, 2))
    previous = np.full(len(y), -np.inf)
    for step in range(max_iter + 1):
        sharp = centroids / variance[:, None, None]
        bias = np.log(np.maximum(weights, 1e-30)) - 0.5 * (sharp * centroids).sum(-1)
        logits = sharp @ across + bias[..., None]
        top = logits.max(1, keepdims=True)
        attention = np.exp(logits - top)
        total = attention.sum(1, keepdims=True)
        attention /= total
        evidence = (share * (top + np.log(total))[:, 0]).sum(1)
        likelihood = evidence - 0.5 * (dim * np.log(2 * np.pi * variance) + mean_square / variance)
        if step == max_iter or (likelihood - previous < tol).all():
            break
        previous = likelihood
        held = attention * share[:, None, :]
        weights = held.sum(-1)
        sums = held @ y
        occupied = weights[..., None] > 1e-12
        centroids = np.where(occupied, sums / np.where(occupied, weights[..., None], 1), centroids)
        inside = ((2 * sums - weights[..., None] * centroids) * centroids).sum((1, 2))
        variance = np.maximum((mean_square - inside) / dim, keys.floor)
    return PromptClusters(
        centroids, weights, variance, np.ascontiguousarray(attention.swapaxes(1, 2)), likelihood
    )
