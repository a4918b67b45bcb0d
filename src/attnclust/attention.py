"""The layer: forward maps, none of which forms an L x L score matrix.

    linear      T(X) = c (X A^T) ((X A^T)^T X) / L                A = heads, cost O(L d H)
    matrix      T(X) = c (X Q^T) ((X K^T)^T X) / L                scores x_l^T M x_k, M = Q^T K
    in context  T(X) = c X (X^T X) / L                            M = I, no parameter
    softmax     softmax_j[(<x, m_j> - |m_j|^2 / 2) / sigma^2 + log w_j]

The scale c ("temperature") does not depend on how many heads share the work: the mean of H heads
scaled by lambda each, T = (H lambda / L) sum_h ..., has c = H lambda.
Maulen-Soto, Boyer and Marion, Attention-based clustering, arXiv 2505.13112.

All functions work on any leading dimensions, keep the precision of the tokens, and take arrays of
any library that follows the array API standard (NumPy, PyTorch, CuPy, JAX).
"""

from __future__ import annotations

from typing import Any

from attnclust._typing import ApiArray
from attnclust.arrays import like, namespace


def linear_attention(tokens: ApiArray, heads: ApiArray, temperature: Any) -> ApiArray:
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
    tokens: ApiArray, query: ApiArray, key: ApiArray, temperature: Any
) -> ApiArray:
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

    Examples
    --------
    >>> import numpy as np
    >>> tokens, swap = np.array([[1.0, 0.0], [0.0, 2.0]]), np.eye(2)[::-1]
    >>> matrix_attention(tokens, np.eye(2), swap, 2.0)
    array([[0., 4.],
           [2., 0.]])
    """
    xp, tokens = _floating(tokens)
    query, key = (like(one, tokens) for one in (query, key))
    values = xp.matrix_transpose(tokens @ xp.matrix_transpose(key)) @ tokens
    return (tokens @ xp.matrix_transpose(query)) @ (_scale(temperature, tokens) * values)


def in_context_attention(tokens: ApiArray, temperature: Any) -> ApiArray:
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

    Examples
    --------
    >>> import numpy as np
    >>> in_context_attention(np.array([[1.0, 0.0], [0.0, 2.0]]), 2.0)
    array([[1., 0.],
           [0., 8.]])
    """
    xp, tokens = _floating(tokens)
    scale = _scale(temperature, tokens)
    transposed = xp.matrix_transpose(tokens)
    if tokens.shape[-2] < tokens.shape[-1]:
        return (scale * (tokens @ transposed)) @ tokens
    return tokens @ (scale * (transposed @ tokens))


def quantise(tokens: ApiArray, present: ApiArray, temperature: Any = None) -> ApiArray:
    """`in_context_attention` of padded prompts, at the scale that keeps the signal's length.

    Parameters
    ----------
    tokens : array of shape (..., L, d)
    present : array of shape (..., L)
        1 for tokens, 0 for padding, which must be finite.
    temperature : float or array of shape (...), optional
        c; `signal_temperature` of each prompt by default.

    Returns
    -------
    array of shape (..., L, d)

    Examples
    --------
    >>> import numpy as np
    >>> tokens = np.repeat(np.eye(3)[:2], 10, axis=0)
    >>> bool(np.allclose(quantise(tokens, np.ones(20)), tokens))  # no noise, no change
    True
    """
    xp, tokens = _floating(tokens)
    present = like(present, tokens)
    c = signal_temperature(tokens, present) if temperature is None else temperature
    shown = tokens * present[..., None]
    length = xp.sum(present, axis=-1)
    return in_context_attention(shown, like(c, tokens) * tokens.shape[-2] / length)


def softmax_attention(
    tokens: ApiArray,
    centroids: ApiArray,
    log_weights: ApiArray,
    noise_variance: Any,
) -> ApiArray:
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
    xp, tokens = _floating(tokens)
    centroids, log_weights, variance = (
        like(one, tokens) for one in (centroids, log_weights, noise_variance)
    )
    if not xp.all(variance > 0):
        raise ValueError(f"noise_variance must be positive, got {noise_variance!r}")
    if xp.any(xp.all(xp.isinf(log_weights) & (log_weights < 0), axis=-1)):
        raise ValueError("every log weight is -inf: no centre to attend to")
    bias = log_weights - 0.5 * xp.sum(centroids**2, axis=-1) / variance[..., None]
    scores = tokens @ xp.matrix_transpose(centroids / variance[..., None, None])
    scores = scores + bias[..., None, :]
    attention = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    return attention / xp.sum(attention, axis=-1, keepdims=True)


def signal_temperature(tokens: ApiArray, present: ApiArray | None = None) -> ApiArray:
    """Scale c at which the layer without parameters keeps the length of the signal.

    With lambda_i the eigenvalues of the prompt's second moment, and s_i = lambda_i - sigma^2 the
    signal's own variance in the directions above the noise edge sigma^2 (1 + sqrt(d/L))^2
    (Marchenko and Pastur), the layer makes sum_i (c lambda_i)^2 s_i of sum_i s_i; c makes them
    equal. For equal signal eigenvalues c = 1 / lambda. Where no direction rises above the noise the
    largest counts as one.

    Parameters
    ----------
    tokens : array of shape (..., L, d)
    present : array of shape (..., L), optional
        1 for tokens, 0 for padding, which must be finite.

    Returns
    -------
    array of shape (...)
        0 for prompts of zeros.

    Examples
    --------
    >>> import numpy as np
    >>> float(signal_temperature(np.repeat(np.eye(4)[:2], 10, axis=0)))  # eigenvalues 1/2
    2.0
    """
    xp, tokens = _floating(tokens)
    length, dim = tokens.shape[-2:]
    share = xp.ones_like(tokens[..., 0]) if present is None else like(present, tokens)
    total = xp.sum(share, axis=-1)
    weighted = tokens * xp.sqrt(share / total[..., None])[..., None]
    across = xp.matrix_transpose(weighted)
    gram = weighted @ across if length < dim else across @ weighted
    # Single precision would show in every digit of the output that the scale multiplies.
    values = xp.linalg.eigvalsh(xp.astype(gram, xp.float64))
    values, total = xp.clip(xp.flip(values, axis=-1), min=0.0), xp.astype(total, xp.float64)
    trace = xp.sum(values, axis=-1, keepdims=True)
    # Noise of all but r directions, and r by its edge; from r = 0 both settle within a few turns.
    edge = (1 + xp.sqrt(dim / total)) ** 2
    signal = xp.zeros_like(values)
    for _ in range(8):
        rank = xp.sum(signal, axis=-1)
        rest = trace[..., 0] - xp.sum(signal * values, axis=-1)
        noise = rest / xp.clip(dim - rank, min=1.0)
        signal = xp.astype(values > (edge * noise)[..., None], values.dtype)
    largest = xp.astype(values == values[..., :1], values.dtype)
    signal = xp.where(xp.sum(signal, axis=-1, keepdims=True) > 0, signal, largest)
    own = signal * xp.clip(values - noise[..., None], min=0.0)
    # A prompt of pure noise at d = 1 has nothing left: then its eigenvalue is the signal.
    own = xp.where(xp.sum(own, axis=-1, keepdims=True) > 0, own, signal * values)
    scaled = xp.sum(values**2 * own, axis=-1)
    square = xp.sum(own, axis=-1) / xp.where(scaled > 0, scaled, xp.ones_like(scaled))
    return xp.astype(xp.sqrt(square), tokens.dtype)


def _floating(tokens: ApiArray) -> tuple[Any, ApiArray]:
    """The tokens' library, and the tokens as real numbers of at least single precision."""
    xp = namespace(tokens)
    if tokens.shape[-2] == 0:
        raise ValueError("a prompt needs at least one token")
    if xp.isdtype(tokens.dtype, "real floating") and xp.finfo(tokens.dtype).bits >= 32:
        return xp, tokens
    wide = xp.isdtype(tokens.dtype, "integral")
    return xp, xp.astype(tokens, xp.float64 if wide else xp.float32)


def _scale(temperature: Any, tokens: ApiArray) -> ApiArray:
    """C / L, shape (..., 1, 1)."""
    return like(temperature, tokens)[..., None, None] / tokens.shape[-2]
