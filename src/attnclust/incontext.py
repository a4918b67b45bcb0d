"""In context: many prompts, each clustered by itself, as one batched array program.

Every prompt walks the way of the large fit (second moment, normalisation with the affine lift,
fixed point on the third moment, softmax attention), with a leading axis for the prompts and no loop
over them. Rows that pad a prompt have weight zero, so that it gives the answer it gives alone.

Arrays may be of any library that follows the array API standard (NumPy, PyTorch, CuPy, JAX), on the
device they lie on; what is decided per batch rather than per number is decided in NumPy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnclust._typing import ApiArray, Array
from attnclust.arrays import like, namespace, take, to_host
from attnclust.contrast import TOLERANCE, least_alignment
from attnclust.manifold import random_orthonormal

HEAD_STEPS = 30
# Steps of heads and of attention that judge a number of clusters: a wrong one does not converge.
JUDGE_STEPS = 10
# Share of the largest signal eigenvalue below which a direction is noise in a short prompt.
FLOOR = 1e-3
TINY = 1e-30


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

    y: ApiArray
    share: ApiArray
    mean_square: ApiArray
    z: ApiArray
    noise: ApiArray
    back: ApiArray
    variance: ApiArray
    floor: ApiArray


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

    centroids: ApiArray
    weights: ApiArray
    noise_variance: ApiArray
    attention: ApiArray
    log_likelihood: ApiArray

    @property
    def labels(self) -> ApiArray:
        """The cluster that each token attends to most: shape (B, L)."""
        return namespace(self.attention).argmax(self.attention, axis=-1)


def cluster_prompts(
    tokens: ApiArray,
    present: ApiArray,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    max_iter: int = 50,
    tol: float = 1e-4,
    n_starts: int = 4,
    head_steps: int = HEAD_STEPS,
) -> PromptClusters:
    """Cluster each prompt by itself.

    Parameters
    ----------
    tokens : array of shape (B, L, d)
        Prompts; what pads them may be anything finite.
    present : array of shape (B, L)
        Weight of each token, in the tokens' precision; zero for padding.
    n_clusters : int
        K, at most d.
    rng : numpy.random.Generator
        Draws the starts, the same for every prompt.
    max_iter, tol : int, float
        Of the attention steps: a prompt is done when its likelihood rises by less than tol.
    n_starts : int
        Most starts of the fixed point for prompts whose contrast falls short of its promise, of
        which the likelihood then chooses.
    head_steps : int
        Most steps of the fixed point.

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
    xp = namespace(tokens)
    share = present / xp.sum(present, axis=1, keepdims=True)
    mean = share[:, None, :] @ tokens
    keys = _normalize(tokens - mean, share, n_clusters)
    found, short = _from_start(keys, rng, max_iter, tol, head_steps)
    doubtful = _on_host(short, share)
    for _ in range(n_starts - 1):
        again = np.flatnonzero(doubtful)
        if len(again) == 0:
            break
        part = Keys(*(take(one, again) for one in keys))
        other, short = _from_start(part, rng, max_iter, tol, head_steps)
        better = other.log_likelihood > take(found.log_likelihood, again)
        better = _on_host(better, share)
        # One gather out of both: arrays of some libraries cannot be written into.
        source = np.arange(len(doubtful))
        source[again[better]] = len(doubtful) + np.flatnonzero(better)
        if better.any():
            found = PromptClusters(
                *(
                    take(xp.concat([mine, theirs]), source)
                    for mine, theirs in zip(found, other, strict=True)
                )
            )
        doubtful[again] = _on_host(short, share)
    return found._replace(centroids=found.centroids + mean)


def _on_host(flags: ApiArray, numbers: ApiArray) -> Array:
    """Booleans as NumPy's own; not all libraries hand them over as they are."""
    return to_host(namespace(numbers).astype(flags, numbers.dtype)) > 0


def eigenpairs(y: ApiArray, share: ApiArray, count: int) -> tuple[ApiArray, ApiArray]:
    """Leading eigenpairs of each prompt's weighted second moment, through the smaller Gram side.

    Parameters
    ----------
    y : array of shape (B, L, d)
    share : array of shape (B, L)
        Weights that sum to one.
    count : int
        At most min(L, d).

    Returns
    -------
    values : array of shape (B, count)
        Decreasing.
    axes : array of shape (B, d, count)
    """
    xp = namespace(y)
    weighted = y * xp.sqrt(share)[..., None]
    across = xp.matrix_transpose(weighted)
    length, dim = y.shape[1:]
    gram = weighted @ across if length < dim else across @ weighted
    values, axes = xp.linalg.eigh(gram)
    values = xp.flip(values[:, values.shape[1] - count :], axis=1)
    axes = xp.flip(axes[:, :, axes.shape[2] - count :], axis=2)
    if length < dim:
        root = xp.sqrt(xp.clip(values, min=float(xp.finfo(y.dtype).smallest_normal)))
        axes = across @ (axes / root[:, None, :])
    return values, axes


def _normalize(y: ApiArray, share: ApiArray, k: int) -> Keys:
    xp = namespace(y)
    dim = y.shape[2]
    mean_square = xp.sum(share * xp.sum(y * y, axis=-1), axis=1)
    values, axes = eigenpairs(y, share, k - 1)
    variance = xp.clip(mean_square - xp.sum(values, axis=1), min=0.0) / (dim - k + 1)
    signal = values - variance[:, None]
    if k > 1:
        signal = xp.maximum(signal, FLOOR * xp.clip(values[:, :1], min=TINY))
    root = xp.sqrt(signal)
    constant = xp.ones_like(y[:, :, :1])
    z = xp.concat([y @ (axes / root[:, None, :]), constant], axis=2)
    noise = xp.concat([variance[:, None] / signal, xp.zeros_like(constant[:, 0, :])], axis=1)
    floor = 8 * float(xp.finfo(y.dtype).eps) * xp.clip(mean_square / dim, min=TINY)
    back = xp.matrix_transpose(axes * root[:, None, :])
    return Keys(y, share, mean_square, z, noise, back, variance, floor)


def _from_start(
    keys: Keys, rng: np.random.Generator, max_iter: int, tol: float, head_steps: int
) -> tuple[PromptClusters, ApiArray]:
    """Clusters from one start, and which prompts' contrast fell short of its promise."""
    xp = namespace(keys.z)
    heads, score, quality = _fixed_point(keys.z, keys.share, keys.noise, rng, head_steps)
    k = heads.shape[1]
    heads = heads * _sign(score)[..., None]
    score = xp.clip(xp.abs(score), min=least_alignment(k))
    centroids = heads[..., : k - 1] @ keys.back / score[..., None]
    weights = score**2 / xp.sum(score**2, axis=1, keepdims=True)
    variance = xp.maximum(keys.variance, keys.floor)
    found = _attend(keys, centroids, weights, variance, max_iter, tol)
    return found, xp.abs(quality - 1) > TOLERANCE


def _sign(x: ApiArray) -> ApiArray:
    """-1 where negative, else 1."""
    xp = namespace(x)
    return 1 - 2 * xp.astype(x < 0, x.dtype)


def _fixed_point(
    z: ApiArray, share: ApiArray, noise: ApiArray, rng: np.random.Generator, head_steps: int
) -> tuple[ApiArray, ApiArray, ApiArray]:
    """`contrast.fixed_point` of the third moment for all prompts at once: heads, E[u], quality."""
    xp = namespace(z)
    k = z.shape[2]
    mean = share[:, None, :] @ z
    start = like(random_orthonormal(rng, k, k), z)
    heads = start * _sign(share[:, None, :] @ (z * z * z))
    across = _contiguous(xp.matrix_transpose(z))
    for _ in range(head_steps):
        gradient, score = _gradient(across, z, share, noise, mean, heads)
        turned = polar_factors(gradient)
        still = bool(xp.min(xp.abs(xp.sum(turned * heads, axis=-1))) > 1 - 1e-3)
        heads = turned
        if still:
            break
    gradient, score = _gradient(across, z, share, noise, mean, heads)
    promised = 1 / xp.clip(xp.abs(score), min=least_alignment(k))
    quality = xp.sum(gradient * heads, axis=(1, 2)) / xp.sum(promised, axis=1)
    return heads, score, quality


def polar_factors(A: ApiArray) -> ApiArray:
    """`manifold.polar` of square matrices, in any array library.

    Parameters
    ----------
    A : array of shape (..., K, K)

    Returns
    -------
    array of shape (..., K, K)
    """
    xp = namespace(A)
    left, _, right = xp.linalg.svd(A, full_matrices=False)
    return left @ right


def _contiguous(A: ApiArray) -> ApiArray:
    """A transposed view copied, which makes NumPy's products faster."""
    return np.ascontiguousarray(A) if isinstance(A, np.ndarray) else A


def _gradient(
    across: ApiArray, z: ApiArray, share: ApiArray, noise: ApiArray, mean: ApiArray, heads: ApiArray
) -> tuple[ApiArray, ApiArray]:
    xp = namespace(z)
    u = heads @ across
    blurred = heads * noise[:, None, :]
    q = xp.sum(blurred * heads, axis=-1, keepdims=True)
    score = (u @ share[..., None])[..., 0]
    raw = (u * u * share[:, None, :]) @ z
    return raw - q * mean - 2 * score[..., None] * blurred, score


def _attend(
    keys: Keys,
    centroids: ApiArray,
    weights: ApiArray,
    variance: ApiArray,
    max_iter: int,
    tol: float,
) -> PromptClusters:
    """Softmax-attention (EM) steps until every prompt stands still."""
    y, share, mean_square = keys.y, keys.share, keys.mean_square
    xp = namespace(y)
    dim = y.shape[2]
    across = _contiguous(xp.matrix_transpose(y))
    previous = None
    for step in range(max_iter + 1):
        sharp = centroids / variance[:, None, None]
        bias = xp.log(xp.clip(weights, min=TINY)) - 0.5 * xp.sum(sharp * centroids, axis=-1)
        logits = sharp @ across + bias[..., None]
        top = xp.max(logits, axis=1, keepdims=True)
        attention = xp.exp(logits - top)
        total = xp.sum(attention, axis=1, keepdims=True)
        attention = attention / total
        evidence = xp.sum(share * (top + xp.log(total))[:, 0, :], axis=1)
        gauss = dim * xp.log(2 * np.pi * variance) + mean_square / variance
        likelihood = evidence - 0.5 * gauss
        if step == max_iter or (previous is not None and xp.max(likelihood - previous) < tol):
            break
        previous = likelihood
        held = attention * share[:, None, :]
        weights = xp.sum(held, axis=-1)
        sums = held @ y
        mass = weights[..., None]
        centroids = xp.where(mass > 1e-12, sums / xp.clip(mass, min=1e-12), centroids)
        inside = xp.sum((2 * sums - mass * centroids) * centroids, axis=(1, 2))
        variance = xp.maximum((mean_square - inside) / dim, keys.floor)
    return PromptClusters(centroids, weights, variance, xp.matrix_transpose(attention), likelihood)


def choose_clusters(
    tokens: ApiArray,
    present: ApiArray,
    rng: np.random.Generator,
    *,
    max_iter: int = 50,
    tol: float = 1e-4,
) -> list[tuple[ApiArray, PromptClusters]]:
    """Cluster each prompt by itself into as many clusters as the criterion asks for.

    The number is the K of least BIC = -2 L log-likelihood + K (d + 1) log L, tried from one upwards
    until it has risen twice in a row, at most d or a cluster for every two tokens: beyond that the
    noise of small clusters vanishes and the likelihood says nothing.

    Parameters
    ----------
    tokens, present, rng, max_iter, tol
        As for `cluster_prompts`.

    Returns
    -------
    list of (positions, PromptClusters)
        The prompts of each number of clusters that occurs, positions a NumPy array.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> noise = 0.1 * rng.standard_normal((2, 60, 4))
    >>> tokens = np.stack([np.eye(4)[rng.integers(0, k, 60)] for k in (1, 3)]) + noise
    >>> found = choose_clusters(tokens, np.ones((2, 60)), rng)
    >>> [(where.tolist(), part.weights.shape[1]) for where, part in found]
    [([0], 1), ([1], 3)]
    """
    xp = namespace(tokens)
    lengths = to_host(xp.sum(xp.astype(present > 0, tokens.dtype), axis=1))
    dim = tokens.shape[2]
    best = np.full(len(lengths), np.inf)
    chosen = np.zeros(len(lengths), dtype=int)
    trying = np.arange(len(lengths))
    for k in range(1, dim + 1):
        trying = trying[(chosen[trying] >= k - 2) & (2 * k <= np.maximum(lengths[trying], 2))]
        if len(trying) == 0:
            break
        # One start tells: a poor one costs likelihood, and the next K is tried all the same.
        found = cluster_prompts(
            take(tokens, trying),
            take(present, trying),
            k,
            rng,
            max_iter=JUDGE_STEPS,
            tol=tol,
            n_starts=1,
            head_steps=JUDGE_STEPS,
        )
        own = lengths[trying]
        criterion = -2 * own * to_host(found.log_likelihood) + k * (dim + 1) * np.log(own)
        better = criterion < best[trying]
        best[trying[better]], chosen[trying[better]] = criterion[better], k
    results = []
    for k in np.unique(chosen).tolist():
        where = np.flatnonzero(chosen == k)
        part, mask = take(tokens, where), take(present, where)
        results.append((where, cluster_prompts(part, mask, k, rng, max_iter=max_iter, tol=tol)))
    return results
