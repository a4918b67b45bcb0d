"""What the layer makes of a cluster: mean and covariance of its output, at any prompt length.

For a token x ~ N(m, v I) among L, with M = sum_h mu_h mu_h^T, a = x^T M x and y = M x, the output
is T = (c/L)(a x + sum_k x_k <x_k, y>), the sum over the L - 1 other tokens, so that

    E T      = (c/L) [ E(a x) + (L-1) S M m ]
    E T T^T  = (c/L)^2 [ E(a^2 x x^T) + (L-1) (E(a x x^T) M S + its transpose)
                         + (L-1) E(x_k x_k^T Y x_k x_k^T) + (L-1)(L-2) S Y S ]

with Y = E(y y^T) = M (m m^T + v I) M. As L grows T tends to c S M x, linear in x: covariance
c^2 v S M^2 S. Moments of x come from the joint cumulants of quadratic forms in it
(McCullagh, Tensor Methods in Statistics, chapter 3).
"""

from __future__ import annotations

import numpy as np

from attnclust._typing import FloatArray
from attnclust.mixture import Mixture


def output_moments(
    mixture: Mixture, heads: FloatArray, temperature: float, length: float = np.inf
) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of the layer's output given the component of its token.

    Parameters
    ----------
    mixture : Mixture
        Leading dimensions of centres and heads broadcast.
    heads : array of shape (..., H, d)
        mu_h, of any length; the parameter-free layer has np.eye(d).
    temperature : float
        c.
    length : float
        L >= 1; may be infinite.

    Returns
    -------
    means : array of shape (..., K, d)
    covariance : array of shape (..., K, d, d)

    Raises
    ------
    ValueError
        If length < 1.

    Examples
    --------
    >>> import numpy as np
    >>> two = Mixture.equal(np.eye(3)[:2], noise_variance=0.5)
    >>> output_moments(two, np.eye(3)[:2], 1.0)[1][0]
    array([[0.5, 0. , 0. ],
           [0. , 0.5, 0. ],
           [0. , 0. , 0. ]])
    """
    if not length >= 1:
        raise ValueError(f"a prompt has at least one token, got length={length}")
    m, v, eye = mixture.centroids, mixture.noise_variance, np.eye(mixture.dim)
    M = _t(heads) @ heads
    S = mixture.second_moment
    Mm = m @ M
    if np.isinf(length):
        gain = temperature * S @ M
        covariance = v * gain @ _t(gain)
        shape = (*Mm.shape, mixture.dim)
        return m @ _t(gain), np.broadcast_to(covariance[..., None, :, :], shape)

    M2 = M @ M
    alpha = (m * Mm).sum(-1) + v * _trace(M)
    square = alpha**2 + 2 * v**2 * _trace(M2) + 4 * v * (Mm**2).sum(-1)
    bent = _outer(m @ M2, m)
    bent = bent + _t(bent) + _outer(Mm, Mm)
    second = _outer(m, m) + v * eye  # E x x^T
    M, M2, S = M[..., None, :, :], M2[..., None, :, :], S[..., None, :, :]
    cross = _with_form(m, v, M)  # E a x x^T
    Y = M @ second @ M
    each = _with_form(m[..., None, :, :], v, Y[..., None, :, :])
    others = (mixture.weights[:, None, None] * each).sum(-3)
    # cross - alpha E x x^T is the covariance of a and x x^T; then comes their third cumulant.
    own = (square[..., None, None] - 2 * alpha[..., None, None] ** 2) * second
    own = own + 2 * alpha[..., None, None] * cross + 8 * v**3 * M2 + 8 * v**2 * bent
    tied = cross @ M @ S
    scale = temperature / length
    means = scale * (alpha[..., None] * m + 2 * v * Mm + (length - 1) * Mm @ S[..., 0, :, :])
    total = own + (length - 1) * (tied + _t(tied) + others + (length - 2) * S @ Y @ S)
    return means, scale**2 * total - _outer(means, means)


def _with_form(m: FloatArray, v: float, B: FloatArray) -> FloatArray:
    """E[(x^T B x) x x^T] of x ~ N(m, v I), B symmetric.

    (m^T B m + v tr B)(m m^T + v I) + 2 v (B m m^T + m m^T B) + 2 v^2 B.
    """
    Bm = (B @ m[..., None])[..., 0]
    form = (m * Bm).sum(-1) + v * np.trace(B, axis1=-2, axis2=-1)
    both = _outer(Bm, m)
    second = _outer(m, m) + v * np.eye(m.shape[-1])
    return np.asarray(form[..., None, None] * second + 2 * v * (both + _t(both)) + 2 * v**2 * B)


def _outer(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(a[..., :, None] * b[..., None, :])


def _t(A: FloatArray) -> FloatArray:
    return np.asarray(np.swapaxes(A, -1, -2))


def _trace(A: FloatArray) -> FloatArray:
    """Traces (..., 1), to broadcast over components."""
    return np.asarray(np.trace(A, axis1=-2, axis2=-1)[..., None])
