"""Where training starts: on the invariant manifold, near it, or at tokens.

For orthonormal centres the manifold holds the heads

    mu_h = alpha_h m_h + v_h,    v_h orthogonal to all centres and to each other,

which gradient descent on the population risk never leaves. Its normal space within the product of
spheres has an orthonormal basis: head h towards another centre m_g; heads h and g towards each
other's v. Random starts are `manifold.random_heads`. Maulen-Soto, Boyer and Marion,
Attention-based clustering, arXiv 2505.13112.
"""

from __future__ import annotations

import numpy as np
from sklearn.cluster import kmeans_plusplus

from attnclust._typing import FloatArray
from attnclust.manifold import normalize, random_orthonormal


def manifold_heads(
    rng: np.random.Generator, centroids: FloatArray, least_alignment: float = 0.0
) -> FloatArray:
    """Heads on the invariant manifold: alpha_h uniform in size, of either sign, v_h uniform.

    Parameters
    ----------
    rng : numpy.random.Generator
    centroids : array of shape (..., K, d)
        Orthonormal centres m_j, 2K <= d.
    least_alignment : float
        Least |alpha_h|, in [0, 1].

    Returns
    -------
    array of shape (..., K, d)
        Unit vectors.

    Raises
    ------
    ValueError
        If there are fewer than K directions off the centres' plane, or the centres are not
        orthonormal.

    Examples
    --------
    >>> import numpy as np
    >>> heads = manifold_heads(np.random.default_rng(0), np.eye(5)[:2])
    >>> round(float(abs(heads[0, 1]) + abs(heads[1, 0]) + abs(heads[0, 2:] @ heads[1, 2:])), 12)
    0.0
    """
    k, dim = _check_orthonormal(centroids)
    # Frames of the complement: the trailing right singular vectors, turned at random.
    _, _, basis = np.linalg.svd(centroids)
    turned = random_orthonormal(rng, k, dim - k, centroids.shape[:-2]) @ basis[..., k:, :]
    size = rng.uniform(least_alignment, 1, (*centroids.shape[:-1], 1))
    alpha = size * rng.choice([-1.0, 1.0], size.shape)
    return np.asarray(alpha * centroids + np.sqrt(1 - size**2) * turned)


def leave_manifold(
    rng: np.random.Generator, heads: FloatArray, centroids: FloatArray, distance: float
) -> FloatArray:
    """Heads at a distance from the manifold: a geodesic from `heads` along a random normal.

    Parameters
    ----------
    rng : numpy.random.Generator
    heads : array of shape (..., K, d)
        On the manifold.
    centroids : array of shape (..., K, d)
        Orthonormal.
    distance : float
        Length of the geodesic on the product of spheres, in radians: the root of the sum of the
        heads' squared angles.

    Returns
    -------
    array of shape (..., K, d)
        Unit vectors.

    Raises
    ------
    ValueError
        If the distance is negative or the centres are not orthonormal.

    Examples
    --------
    >>> import numpy as np
    >>> rng, centres = np.random.default_rng(0), np.eye(5)[:2]
    >>> heads = manifold_heads(rng, centres)
    >>> near = leave_manifold(rng, heads, centres, 0.1)
    >>> angles = np.arccos((near * heads).sum(-1))
    >>> round(float(np.linalg.norm(angles)), 6)
    0.1
    """
    if not distance >= 0:
        raise ValueError(f"a distance is not negative, got {distance}")
    k, _ = _check_orthonormal(centroids)
    alpha = (heads * centroids).sum(-1, keepdims=True)
    v = heads - alpha * centroids
    lengths = np.linalg.norm(v, axis=-1)
    v = v / np.maximum(lengths, np.finfo(float).tiny)[..., None]
    towards = rng.standard_normal((*heads.shape[:-2], k, k)) * (1 - np.eye(k))
    # The pair's normal is (v_g, v_h) by head, scaled to unit length; the draw is shared.
    pair = np.triu(rng.standard_normal(towards.shape), 1)
    pair = pair + np.swapaxes(pair, -1, -2)
    both = np.hypot(lengths[..., :, None], lengths[..., None, :])
    pair = pair * lengths[..., None, :] / np.maximum(both, np.finfo(float).tiny)
    step = towards @ centroids + pair @ v
    step *= distance / np.linalg.norm(step, axis=(-2, -1), keepdims=True)
    angle = np.linalg.norm(step, axis=-1, keepdims=True)
    return np.asarray(np.cos(angle) * heads + np.sinc(angle / np.pi) * step)


def token_heads(rng: np.random.Generator, tokens: FloatArray, n_heads: int) -> FloatArray:
    """Heads at tokens far from each other, as k-means++ seeds its centres.

    Parameters
    ----------
    rng : numpy.random.Generator
    tokens : array of shape (..., n, d)
        Leading dimensions are runs.
    n_heads : int
        H <= n.

    Returns
    -------
    array of shape (..., H, d)
        Unit vectors.

    Raises
    ------
    ValueError
        If there are fewer tokens than heads, or a chosen one is zero.

    Examples
    --------
    >>> import numpy as np
    >>> token_heads(np.random.default_rng(0), np.array([[2.0, 0.0], [2.0, 0.0], [0.0, 3.0]]), 2)
    array([[1., 0.],
           [0., 1.]])
    """
    n, dim = tokens.shape[-2:]
    if n_heads > n:
        raise ValueError(f"{n} tokens cannot start {n_heads} heads")
    starts = [
        kmeans_plusplus(run, n_heads, random_state=int(rng.integers(2**31)))[0]
        for run in tokens.reshape(-1, n, dim)
    ]
    return normalize(np.array(starts).reshape(*tokens.shape[:-2], n_heads, dim))


def _check_orthonormal(centroids: FloatArray) -> tuple[int, int]:
    k, dim = centroids.shape[-2:]
    gram = centroids @ np.swapaxes(centroids, -1, -2)
    if not np.allclose(gram, np.eye(k), atol=1e-8):
        raise ValueError("the manifold is that of orthonormal centres: these are not")
    if 2 * k > dim:
        raise ValueError(
            f"{k} heads need {k} directions off the plane of {k} centres, dimension {dim} has "
            f"{dim - k}"
        )
    return k, dim
