"""The objective R + rho r: reconstruction risk of the linear layer, and what breaks its ties.

With M = sum_h mu_h mu_h^T, S = X^T X / L and u_h = <x, mu_h>:

    risk       R = E|x - T(x)|^2 = tr S - 2c tr(M S^2) + c^2 tr(M S M S^2)
               dR/dmu_h = 2 G mu_h,  G = -2c S^2 + c^2 (S M S^2 + S^2 M S)
    pairwise   r = sum_{g<h} E[u_g^2 u_h^2]
    product    r = E[prod_h u_h^2]

R knows the heads through M alone: orthonormal heads may turn within their span at no cost.
Maulen-Soto, Boyer and Marion, Attention-based clustering, arXiv 2505.13112.

No two d x d matrices are multiplied: with A = heads, and P = S A^T and Q = S P, both d x H,

    tr(M S^2) = |P|^2,  tr(M S M S^2) = <A P, P^T P>,  G A^T = Q (c^2 A P - 2c) + c^2 P (P^T P)

Heads have any leading dimensions (..., H, d), and prompts one more: (..., B, L, d).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attnclust._typing import FloatArray


def second_moment(tokens: FloatArray) -> FloatArray:
    """S = X^T X / L of each prompt.

    Parameters
    ----------
    tokens : array of shape (..., L, d)

    Returns
    -------
    array of shape (..., d, d)

    Examples
    --------
    >>> import numpy as np
    >>> second_moment(np.array([[1.0, 0.0], [1.0, 2.0]]))
    array([[1., 1.],
           [1., 2.]])
    """
    return np.asarray(np.swapaxes(tokens, -1, -2) @ tokens / tokens.shape[-2])


def reconstruction_risk(S: FloatArray, heads: FloatArray, temperature: npt.ArrayLike) -> FloatArray:
    """Mean squared error of the layer, averaged over prompts.

    Parameters
    ----------
    S : array of shape (..., B, d, d)
        Second moment of each prompt.
    heads : array of shape (..., H, d)
        mu_h, of any length.
    temperature : float or array of shape (...)
        c = H lambda.

    Returns
    -------
    array of shape (...)
        R.

    Examples
    --------
    >>> import numpy as np
    >>> reconstruction_risk(np.eye(2)[None], np.array([[1.0, 0.0]]), 1.0)  # one direction is lost
    array(1.)
    """
    trace = np.trace(S, axis1=-2, axis2=-1).mean(-1)
    return _risk(trace, S @ _prompt_heads(heads), heads, temperature)


def reconstruction_gradient(
    S: FloatArray, heads: FloatArray, temperature: npt.ArrayLike
) -> FloatArray:
    """Gradient of `reconstruction_risk` in the heads, 2 G mu_h, averaged over prompts.

    Parameters
    ----------
    S, heads, temperature
        As there.

    Returns
    -------
    array of shape (..., H, d)

    Examples
    --------
    >>> import numpy as np
    >>> reconstruction_gradient(np.eye(2), np.array([[1.0, 0.0]]), 1.0)
    array([[0., 0.]])
    >>> reconstruction_gradient(np.eye(2), np.array([[1.1, 0.0]]), 1.0).round(3)
    array([[0.924, 0.   ]])
    """
    P = S @ _prompt_heads(heads)
    return _gradient(P, S @ P, heads, temperature)


def reconstruction(
    tokens: FloatArray, heads: FloatArray, temperature: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Risk and gradient from the tokens, by way of S only where S is the shorter way.

    Parameters
    ----------
    tokens : array of shape (..., B, L, d)
    heads, temperature
        As for `reconstruction_risk`.

    Returns
    -------
    risk : array of shape (...)
    gradient : array of shape (..., H, d)

    Examples
    --------
    >>> import numpy as np
    >>> tokens, heads = np.eye(2)[None], np.array([[1.0, 0.0]])
    >>> risk, gradient = reconstruction(tokens, heads, 2.0)  # S = I / 2, c = 1 / eigenvalue
    >>> float(risk), gradient
    (0.5, array([[0., 0.]]))
    """
    length, dim = tokens.shape[-2:]
    n_heads = heads.shape[-2]
    trace = (tokens**2).sum((-1, -2)).mean(-1) / length
    if length * dim + 2 * dim * n_heads < 4 * length * n_heads:
        S = second_moment(tokens)
        P = S @ _prompt_heads(heads)
        Q = S @ P
    else:
        transposed = np.swapaxes(tokens, -1, -2)
        P = transposed @ (tokens @ _prompt_heads(heads)) / length
        Q = transposed @ (tokens @ P) / length
    return _risk(trace, P, heads, temperature), _gradient(P, Q, heads, temperature)


def _prompt_heads(heads: FloatArray) -> FloatArray:
    """A^T with an axis for the prompts: (..., 1, d, H)."""
    return np.asarray(np.swapaxes(heads, -1, -2)[..., None, :, :])


def _risk(
    trace: FloatArray, P: FloatArray, heads: FloatArray, temperature: npt.ArrayLike
) -> FloatArray:
    c = np.asarray(temperature, dtype=P.dtype)
    linear = (P**2).sum((-1, -2)).mean(-1)
    square = ((heads[..., None, :, :] @ P) * (np.swapaxes(P, -1, -2) @ P)).sum((-1, -2)).mean(-1)
    return np.asarray(trace - 2 * c * linear + c**2 * square, dtype=P.dtype)


def _gradient(
    P: FloatArray, Q: FloatArray, heads: FloatArray, temperature: npt.ArrayLike
) -> FloatArray:
    c = np.asarray(temperature, dtype=P.dtype)[..., None, None]
    bent = Q @ (heads[..., None, :, :] @ P) + P @ (np.swapaxes(P, -1, -2) @ P)
    return np.asarray(2 * np.swapaxes(c**2 * bent.mean(-3) - 2 * c * Q.mean(-3), -1, -2))


def pairwise_regularizer(u: FloatArray) -> FloatArray:
    """No token may score on two heads: r = sum_{g<h} E[u_g^2 u_h^2].

    Parameters
    ----------
    u : array of shape (..., n, H)
        Scores <x, mu_h>.

    Returns
    -------
    array of shape (...)
        0 for one head.

    Examples
    --------
    >>> import numpy as np
    >>> pairwise_regularizer(np.array([[1.0, 2.0], [3.0, 0.0]]))
    array(2.)
    """
    square = u**2
    others = square.sum(-1, keepdims=True) - square
    return np.asarray((square * others).sum(-1).mean(-1) / 2, dtype=u.dtype)


def pairwise_gradient(u: FloatArray, tokens: FloatArray) -> FloatArray:
    """Gradient of `pairwise_regularizer` in the heads: 2 E[(sum_{g != h} u_g^2) u_h x].

    Parameters
    ----------
    u : array of shape (..., n, H)
    tokens : array of shape (..., n, d)

    Returns
    -------
    array of shape (..., H, d)

    Examples
    --------
    >>> import numpy as np
    >>> tokens = np.array([[1.0, 2.0], [3.0, 0.0]])
    >>> pairwise_gradient(tokens @ np.eye(2), tokens)  # of heads along the axes
    array([[4., 8.],
           [2., 4.]])
    """
    square = u**2
    others = square.sum(-1, keepdims=True) - square
    return _mean_token(2 * others * u, tokens)


def product_regularizer(u: FloatArray) -> FloatArray:
    """No token may score on all heads: r = E[prod_h u_h^2].

    Parameters
    ----------
    u : array of shape (..., n, H)

    Returns
    -------
    array of shape (...)
        E[u^2] for one head.

    Examples
    --------
    >>> import numpy as np
    >>> product_regularizer(np.array([[1.0, 2.0, 1.0], [3.0, 0.0, 1.0]]))
    array(2.)
    """
    return np.asarray((u**2).prod(-1).mean(-1))


def product_gradient(u: FloatArray, tokens: FloatArray) -> FloatArray:
    """Gradient of `product_regularizer` in the heads: 2 E[(prod_{g != h} u_g^2) u_h x].

    Parameters
    ----------
    u : array of shape (..., n, H)
    tokens : array of shape (..., n, d)

    Returns
    -------
    array of shape (..., H, d)

    Examples
    --------
    >>> import numpy as np
    >>> tokens = np.array([[1.0, 2.0], [3.0, 0.0]])
    >>> product_gradient(tokens @ np.eye(2), tokens)  # of two heads, as the pairwise one
    array([[4., 8.],
           [2., 4.]])
    """
    # Products of the heads before and after, since dividing by u_h fails at u_h = 0.
    square = u**2
    before, after = np.ones_like(u), np.ones_like(u)
    np.cumprod(square[..., :-1], axis=-1, out=before[..., 1:])
    after[..., :-1] = np.cumprod(square[..., :0:-1], axis=-1)[..., ::-1]
    return _mean_token(2 * before * after * u, tokens)


def _mean_token(weights: FloatArray, tokens: FloatArray) -> FloatArray:
    return np.asarray(np.swapaxes(weights, -1, -2) @ tokens / tokens.shape[-2])


class Regularizer(NamedTuple):
    """A regulariser; `REGULARIZERS` has them by name.

    Parameters
    ----------
    value : callable
        From the scores u of shape (..., n, H) to r of shape (...).
    gradient : callable
        From u and the tokens (..., n, d) to the gradient in the heads, (..., H, d).
    """

    value: Callable[[FloatArray], FloatArray]
    gradient: Callable[[FloatArray, FloatArray], FloatArray]


REGULARIZERS = {
    "pairwise": Regularizer(pairwise_regularizer, pairwise_gradient),
    "product": Regularizer(product_regularizer, product_gradient),
}
