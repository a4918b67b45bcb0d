"""Closed forms: the population risk of the layer at finite prompt length.

For L iid tokens with S = E[x x^T], F = E[|x|^2 x x^T], M = sum_h mu_h mu_h^T and a = x^T M x,

    R(c) = tr S - (2c/L) [E(|x|^2 a) + (L-1) tr(M S^2)]
         + (c^2/L^2) [E(a^2 |x|^2) + 2(L-1) E(a x^T S M x) + (L-1) tr(M S M F)
                      + (L-1)(L-2) tr(M S M S^2)]

a parabola in c, so that its minimiser c*(L) is closed form. Given a component, x = m + sigma e is
Gaussian, and each expectation is one of a product of quadratic forms (Magnus 1978).
"""

from __future__ import annotations

import numpy as np

from attnclust._typing import FloatArray
from attnclust.mixture import Mixture


def _mean_form(A: FloatArray, m: FloatArray, v: float) -> float:
    """E[x^T A x] for x ~ N(m, v I)."""
    return float(v * np.trace(A) + m @ A @ m)


def _mean_product(A: FloatArray, B: FloatArray, m: FloatArray, v: float) -> float:
    """E[x^T A x x^T B x] for x ~ N(m, v I) and symmetric A, B."""
    joint = 2 * v**2 * np.trace(A @ B) + 4 * v * (m @ A @ B @ m)
    return _mean_form(A, m, v) * _mean_form(B, m, v) + float(joint)


def _mean_triple(A: FloatArray, m: FloatArray, v: float) -> float:
    """E[(x^T A x)^2 |x|^2] for x ~ N(m, v I) and symmetric A.

    From joint cumulants of quadratic forms: third moment = sum over partitions, with
    cum(A, A, I) = 8 v^3 tr(A^2) + 24 v^2 m^T A^2 m.
    """
    eye = np.eye(len(m))
    a, i = _mean_form(A, m, v), _mean_form(eye, m, v)
    aa = 2 * v**2 * np.trace(A @ A) + 4 * v * (m @ A @ A @ m)
    ai = 2 * v**2 * np.trace(A) + 4 * v * (m @ A @ m)
    aai = 8 * v**3 * np.trace(A @ A) + 24 * v**2 * (m @ A @ A @ m)
    return float(a * a * i + aa * i + 2 * a * ai + aai)


def risk_parabola(mixture: Mixture, heads: FloatArray, length: float) -> tuple[float, float, float]:
    """Coefficients (p, q, s) of the population risk R(c) = p - 2 q c + s c^2.

    Parameters
    ----------
    mixture : Mixture
    heads : array of shape (H, d)
    length : float
        Tokens per prompt L >= 1; may be infinite.

    Returns
    -------
    p, q, s : float

    Raises
    ------
    ValueError
        If length < 1.
    """
    if not length >= 1:
        raise ValueError(f"a prompt has at least one token, got length={length}")
    M, S, v = heads.T @ heads, mixture.second_moment, mixture.noise_variance
    eye, d = np.eye(mixture.dim), mixture.dim
    linear, square = float(np.trace(M @ S @ S)), float(np.trace(M @ S @ M @ S @ S))
    p = float(np.trace(S))
    if np.isinf(length):
        return p, linear, square
    pairs = list(zip(mixture.weights, mixture.centroids, strict=True))
    F = sum(
        w * ((m @ m + (d + 4) * v) * np.outer(m, m) + ((m @ m) * v + (d + 2) * v**2) * eye)
        for w, m in pairs
    )
    SM = 0.5 * (S @ M + M @ S)
    q = sum(w * _mean_product(M, eye, m, v) for w, m in pairs) + (length - 1) * linear
    s = (
        sum(w * _mean_triple(M, m, v) for w, m in pairs)
        + 2 * (length - 1) * sum(w * _mean_product(M, SM, m, v) for w, m in pairs)
        + (length - 1) * float(np.trace(M @ S @ M @ F))
        + (length - 1) * (length - 2) * square
    )
    return p, float(q) / length, float(s) / length**2


def population_risk(
    mixture: Mixture, heads: FloatArray, temperature: float, length: float
) -> float:
    """Expected reconstruction risk of one token of a prompt of L tokens.

    Parameters
    ----------
    mixture : Mixture
    heads : array of shape (H, d)
    temperature : float
        c.
    length : float
        L >= 1; may be infinite.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from attnclust.mixture import Mixture
    >>> two = Mixture.equal(np.eye(5)[:2], 1.0)
    >>> round(population_risk(two, np.eye(5)[:2], 2 / 3, np.inf), 12)
    3.0
    """
    p, q, s = risk_parabola(mixture, heads, length)
    return p - 2 * q * temperature + s * temperature**2


def optimal_temperature(mixture: Mixture, heads: FloatArray, length: float) -> float:
    """c*(L): the scale of least population risk, the vertex of its parabola.

    Parameters
    ----------
    mixture : Mixture
    heads : array of shape (H, d)
    length : float
        L >= 1; may be infinite.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from attnclust.mixture import Mixture
    >>> two = Mixture.equal(np.eye(5)[:2], 1.0)
    >>> round(optimal_temperature(two, np.eye(5)[:2], np.inf) / 2, 12)  # lambda* = 1/(1 + K sigma^2)
    0.333333333333
    """
    _, q, s = risk_parabola(mixture, heads, length)
    return q / s
