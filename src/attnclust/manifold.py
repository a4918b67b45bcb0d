"""Where heads live: the product of unit spheres, and orthonormal frames (the Stiefel manifold).

    tangent    g - <g, mu> mu               per head
    retract    (mu + v) / |mu + v|          per head
    polar      U V^T  of  A = U D V^T       the nearest frame to A

Absil, Mahony and Sepulchre, Optimization Algorithms on Matrix Manifolds (2008), 3.6 and 4.1.
All functions work on any leading dimensions: heads (..., H, d).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from attnclust._typing import FloatArray


def normalize(vectors: FloatArray) -> FloatArray:
    """Rows scaled to unit length.

    Parameters
    ----------
    vectors : array of shape (..., d)

    Returns
    -------
    array of shape (..., d)

    Raises
    ------
    ValueError
        Naming the first row that is zero or not finite: it has no direction.

    Examples
    --------
    >>> import numpy as np
    >>> normalize(np.array([[3.0, 4.0], [0.0, 2.0]]))
    array([[0.6, 0.8],
           [0. , 1. ]])
    """
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    bad = np.argwhere(~((length > 0) & np.isfinite(length))[..., 0])
    if len(bad):
        place = ", ".join(map(str, bad[0])) or "0"
        raise ValueError(f"vector {place} has length {length[*bad[0], 0]}, so no direction")
    return np.asarray(vectors / length)


def tangent(heads: FloatArray, gradient: FloatArray) -> FloatArray:
    """Project a gradient on the tangent space of the spheres: the Riemannian gradient.

    Parameters
    ----------
    heads : array of shape (..., H, d)
        Unit vectors mu_h.
    gradient : array of shape (..., H, d)
        Euclidean gradient.

    Returns
    -------
    array of shape (..., H, d)
        Each row orthogonal to its head.

    Examples
    --------
    >>> import numpy as np
    >>> tangent(np.array([[1.0, 0.0]]), np.array([[5.0, 2.0]]))
    array([[0., 2.]])
    """
    return np.asarray(gradient - (gradient * heads).sum(-1, keepdims=True) * heads)


def retract(heads: FloatArray, step: FloatArray) -> FloatArray:
    """Move along a step and renormalise.

    Parameters
    ----------
    heads, step : array of shape (..., H, d)
        A tangent step never shortens a head, so never leads to zero.

    Returns
    -------
    array of shape (..., H, d)
        Unit vectors.

    Raises
    ------
    ValueError
        If a head lands on zero or is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> retract(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])).round(3)
    array([[0.707, 0.707]])
    """
    return normalize(heads + step)


def random_heads(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Independent uniform points on the sphere.

    Parameters
    ----------
    rng : numpy.random.Generator
    shape : tuple of int
        (..., H, d).

    Returns
    -------
    array of that shape
        Unit vectors.

    Examples
    --------
    >>> import numpy as np
    >>> heads = random_heads(np.random.default_rng(0), (4, 2, 3))
    >>> bool(np.allclose(np.linalg.norm(heads, axis=-1), 1))
    True
    """
    return normalize(rng.standard_normal(shape))


def random_orthonormal(
    rng: np.random.Generator, n_heads: int, dim: int, shape: tuple[int, ...] = ()
) -> FloatArray:
    """Uniform (Haar) orthonormal frames.

    Parameters
    ----------
    rng : numpy.random.Generator
    n_heads, dim : int
        H <= d.
    shape : tuple of int
        Leading dimensions: as many frames.

    Returns
    -------
    array of shape (*shape, H, d)
        Orthonormal rows.

    Raises
    ------
    ValueError
        If H > d.

    Examples
    --------
    >>> import numpy as np
    >>> heads = random_orthonormal(np.random.default_rng(0), 2, 5)
    >>> bool(np.allclose(heads @ heads.T, np.eye(2)))
    True
    """
    if n_heads > dim:
        raise ValueError(f"no {n_heads} vectors are orthonormal in dimension {dim}")
    return polar(rng.standard_normal((*shape, n_heads, dim)))


def polar(A: FloatArray) -> FloatArray:
    """Polar factor U V^T of A = U D V^T, the nearest matrix with orthonormal rows (H <= d).

    Where A lacks rank the nearest frame is not unique: the singular vectors of the zero singular
    values complete it, so the rows are orthonormal always, and polar(0) is the first unit vectors.

    Parameters
    ----------
    A : array of shape (..., H, d)

    Returns
    -------
    array of shape (..., H, d)
        Orthonormal rows; orthonormal columns if H > d.

    Raises
    ------
    numpy.linalg.LinAlgError
        If A holds NaN or infinity.

    Examples
    --------
    >>> import numpy as np
    >>> polar(np.array([[0.0, 3.0], [2.0, 0.0]]))
    array([[0., 1.],
           [1., 0.]])
    """
    left, _, right = np.linalg.svd(A, full_matrices=False)
    return np.asarray(left @ right)


def alignment(heads: FloatArray, centroids: FloatArray) -> FloatArray:
    """|cos| of each head and its centre, under the matching that makes their sum largest.

    Parameters
    ----------
    heads : array of shape (..., H, d)
    centroids : array of shape (..., K, d)
        Leading dimensions broadcast. A zero vector has cosine 0 with everything.

    Returns
    -------
    array of shape (..., min(H, K))
        In the order of the heads that have a centre.

    Raises
    ------
    ValueError
        If heads or centres are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> alignment(np.array([[0.0, -1.0], [1.0, 0.0]]), np.array([[2.0, 0.0], [3.0, 4.0]]))
    array([0.8, 1. ])
    """
    cosine = np.abs(_directions(heads) @ np.swapaxes(_directions(centroids), -1, -2))
    flat = cosine.reshape(-1, *cosine.shape[-2:])
    matched = np.array([one[linear_sum_assignment(one, maximize=True)] for one in flat])
    return matched.reshape(*cosine.shape[:-2], min(cosine.shape[-2:]))


def match(heads: FloatArray, centroids: FloatArray) -> FloatArray:
    """The head of each centre, under the matching of `alignment`, turned towards its centre.

    Parameters
    ----------
    heads : array of shape (..., H, d)
        At least as many as centres.
    centroids : array of shape (..., K, d)
        Leading dimensions broadcast.

    Returns
    -------
    array of shape (..., K, d)
        In the order of the centres, with <mu_j, m_j> >= 0.

    Raises
    ------
    ValueError
        If there are fewer heads than centres, or any is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> match(np.array([[-0.6, -0.8], [1.0, 0.0]]), np.array([[2.0, 0.0], [3.0, 4.0]]))
    array([[1. , 0. ],
           [0.6, 0.8]])
    """
    if heads.shape[-2] < centroids.shape[-2]:
        raise ValueError(f"{heads.shape[-2]} heads cannot each take {centroids.shape[-2]} centres")
    cosine = _directions(centroids) @ np.swapaxes(_directions(heads), -1, -2)
    flat = np.abs(cosine).reshape(-1, *cosine.shape[-2:])
    taken = np.array([linear_sum_assignment(one, maximize=True)[1] for one in flat])
    taken = taken.reshape(*cosine.shape[:-1], 1)
    side = np.where(np.take_along_axis(cosine, taken, axis=-1) < 0, -1, 1)
    spread = np.broadcast_to(heads, (*cosine.shape[:-2], *heads.shape[-2:]))
    return np.asarray(np.take_along_axis(spread, taken, axis=-2) * side.astype(heads.dtype))


def _directions(vectors: FloatArray) -> FloatArray:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(length == 0, 1, length))
