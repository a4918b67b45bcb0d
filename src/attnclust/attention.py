"""The layer: forward maps, none of which forms an L x L score matrix.

    linear      T(X) = c (X A^T) ((X A^T)^T X) / L                A = heads, cost O(L d H)
    matrix      T(X) = c (X Q^T) ((X K^T)^T X) / L                scores x_l^T M x_k, M = Q^T K
    in context  T(X) = c X (X^T X) / L                            M = I, no parameter
    softmax     softmax_j[(<x, m_j> - |m_j|^2 / 2) / sigma^2 + log w_j]

The scale c ("temperature") does not depend on how many heads share the work: the mean of H heads
scaled by lambda each, T = (H lambda / L) sum_h ..., has c = H lambda.
Maulen-Soto, Boyer and Marion, Attention-based clustering, arXiv 2505.13112.

All functions work on any leading dimensions and keep the precision of the tokens.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from attnclust._typing import FloatArray


def linear_attention(
    tokens: FloatArray, heads: FloatArray, temperature: npt.ArrayLike
) -> FloatArray:
    """Output of linear heads with key = query: T(x) = (c/L) sum_h sum_k <x, mu_h><mu_h, x_k> x_k.

    Parameters
    ----------
    tokens : array of shape (..., L, d)
    heads : array of shape (..., H, d)
        mu_h.
    temperature : float or array of shape (...)
        c = H lambda.

    Returns
    -------
    array of shape (..., L, d)

    Examples
    --------
    >>> import numpy as np
    >>> linear_attention(np.array([[1.0, 0.0], [1.0, 2.0]]), np.array([[1.0, 0.0]]), 1.0)
    array([[1., 1.],
           [1., 1.]])
    """
    return matrix_attention(tokens, heads, heads, temperature)


def matrix_attention(
    tokens: FloatArray, query: FloatArray, key: FloatArray, temperature: npt.ArrayLike
) -> FloatArray:
    """Output of a head with any matrix of bounded rank, M = Q^T K: (c/L) sum_k <x, M x_k> x_k.

    Parameters
    ----------
    tokens : array of shape (..., L, d)
    query, key : array of shape (..., r, d)
        Q and K; their rows are r rank-one heads.
    temperature : float or array of shape (...)
        c.

    Returns
    -------
    array of shape (..., L, d)
    """
    tokens, scale = _scaled(tokens, temperature)
    query, key = (np.asarray(one, dtype=tokens.dtype) for one in (query, key))
    values = np.swapaxes(tokens @ np.swapaxes(key, -1, -2), -1, -2) @ tokens
    return np.asarray((tokens @ np.swapaxes(query, -1, -2)) @ (scale * values))


def in_context_attention(tokens: FloatArray, temperature: npt.ArrayLike) -> FloatArray:
    """Output of the parameter-free layer: T(x) = (c/L) sum_k <x, x_k> x_k.

    Any d orthonormal heads have the same output at the same c.

    Parameters
    ----------
    tokens : array of shape (..., L, d)
        Worked through the smaller of the two Gram matrices, (d, d) or (L, L).
    temperature : float or array of shape (...)
        c.

    Returns
    -------
    array of shape (..., L, d)
    """
    tokens, scale = _scaled(tokens, temperature)
    transposed = np.swapaxes(tokens, -1, -2)
    if tokens.shape[-2] < tokens.shape[-1]:
        return np.asarray((scale * (tokens @ transposed)) @ tokens)
    return np.asarray(tokens @ (scale * (transposed @ tokens)))


def softmax_attention(
    tokens: FloatArray,
    centroids: FloatArray,
    log_weights: FloatArray,
    noise_variance: npt.ArrayLike,
) -> FloatArray:
    """Attention weights of softmax heads: the posterior of a spherical Gaussian mixture.

    The layer's output is these weights times the centroids.

    Parameters
    ----------
    tokens : array of shape (..., L, d)
    centroids : array of shape (..., K, d)
        m_j.
    log_weights : array of shape (..., K)
        log w_j; -inf switches a centre off.
    noise_variance : float or array of shape (...)
        sigma^2 > 0.

    Returns
    -------
    array of shape (..., L, K)
        Rows sum to one.

    Raises
    ------
    ValueError
        If the noise variance is not positive, or no centre is left on.

    Examples
    --------
    >>> import numpy as np
    >>> softmax_attention(np.array([[1.0, 0.0]]), np.eye(2), np.log([0.5, 0.5]), 0.5).round(2)
    array([[0.88, 0.12]])
    """
    if not (np.asarray(noise_variance) > 0).all():
        raise ValueError(f"noise_variance must be positive, got {noise_variance!r}")
    if np.isneginf(log_weights).all(-1).any():
        raise ValueError("every log weight is -inf: no centre to attend to")
    tokens = _floating(tokens)
    bias = np.asarray(log_weights) - 0.5 * (centroids**2).sum(-1) / _column(noise_variance, 1)
    keys = centroids / _column(noise_variance, 2)
    scores = tokens @ np.swapaxes(keys, -1, -2).astype(tokens.dtype)
    return np.asarray(softmax(scores + bias[..., None, :].astype(tokens.dtype), axis=-1))


def _floating(tokens: FloatArray) -> FloatArray:
    return np.asarray(tokens, dtype=np.result_type(tokens, np.float32))


def _column(values: npt.ArrayLike, n_axes: int) -> FloatArray:
    """Values with as many axes appended, to broadcast against trailing dimensions."""
    values = np.asarray(values)
    return values.reshape(values.shape + (1,) * n_axes)


def _scaled(tokens: FloatArray, temperature: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Tokens as floats, and c / L in their precision, shape (..., 1, 1)."""
    tokens = _floating(tokens)
    if tokens.shape[-2] == 0:
        raise ValueError("a prompt needs at least one token")
    return tokens, (_column(temperature, 2) / tokens.shape[-2]).astype(tokens.dtype)
