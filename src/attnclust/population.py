"""The population risk's slopes in the key-query matrix: moments of the tokens up to order six.

For L iid tokens with S = E[x x^T], F = E[|x|^2 x x^T], M = sum_h mu_h mu_h^T and a = x^T M x, the
expected reconstruction risk is R(c) = tr S - 2c q + c^2 s with

    q = [ E(|x|^2 a) + (L-1) tr(M S^2) ] / L
    s = [ E(a^2 |x|^2) + 2(L-1) E(a x^T S M x) + (L-1) tr(M S M F)
          + (L-1)(L-2) tr(M S M S^2) ] / L^2

by counting which of the three token indices in |c/L sum_k <x_l, M x_k> x_k|^2 coincide. q is linear
and s quadratic in M, so their slopes hold all: q = <M, dq/dM>, 2s = <M, ds/dM> (Euler).
Given its component a token is Gaussian, and moments of quadratic forms in it are sums over
partitions of joint cumulants (McCullagh, Tensor Methods in Statistics, chapter 3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnclust._typing import FloatArray
from attnclust.mixture import Mixture


def risk_slopes(
    mixture: Mixture, heads: FloatArray, length: float
) -> tuple[FloatArray, FloatArray]:
    """dq/dM A^T and ds/dM A^T, for A = heads.

    They are the means over prompts of S^2 A^T and (S M S^2 + S^2 M S) A^T, S of the prompt.

    Parameters
    ----------
    mixture : Mixture
        Leading dimensions of centres and heads broadcast.
    heads : array of shape (..., H, d)
        mu_h, of any length.
    length : float
        L >= 1; may be infinite.

    Returns
    -------
    linear, square : arrays of shape (..., d, H)

    Raises
    ------
    ValueError
        If length < 1.
    """
    if not length >= 1:
        raise ValueError(f"a prompt has at least one token, got length={length}")
    of = _Products.of(mixture, heads)
    mt, At, P = of.mt, of.At, of.P
    Q = mt @ (mixture.weights[:, None] * of.r) + mixture.noise_variance * P  # S S A^T
    once, twice = Q, P @ (np.swapaxes(P, -1, -2) @ P) + Q @ of.AP
    if np.isinf(length):
        return once, twice
    along, around = mixture.fourth_moment_terms
    FA = mt @ (along[..., None] * of.p) + around[..., None, None] * At  # F A^T
    fourth = P @ (heads @ FA) + FA @ of.AP
    pairs = 2 * _mixed(mixture, of) + fourth + (length - 2) * twice
    square = _sixth(mixture, of) + (length - 1) * pairs
    return (FA + (length - 1) * once) / length, square / length**2


class _Products(NamedTuple):
    """Centres and heads multiplied, for centres m (K, d) and A = heads (H, d)."""

    mt: FloatArray  # m^T
    At: FloatArray  # A^T
    G: FloatArray  # A A^T
    p: FloatArray  # m A^T
    P: FloatArray  # S A^T
    r: FloatArray  # m S A^T
    AP: FloatArray  # A S A^T

    @classmethod
    def of(cls, mixture: Mixture, heads: FloatArray) -> _Products:
        m = mixture.centroids
        mt, At = np.swapaxes(m, -1, -2), np.swapaxes(heads, -1, -2)
        p = m @ At
        P = mt @ (mixture.weights[:, None] * p) + mixture.noise_variance * At
        return cls(mt, At, heads @ At, p, P, m @ P, heads @ P)


def _trace(A: FloatArray) -> FloatArray:
    """Traces (..., 1) of (..., H, H), to broadcast over components."""
    return np.asarray(np.trace(A, axis1=-2, axis2=-1)[..., None])


def _sixth(mixture: Mixture, of: _Products) -> FloatArray:
    """Slope of E(a^2 |x|^2) = E[i (alpha^2 + k_aa) + 2 alpha k_ai + k_aai].

    Given the component, i = E|x|^2, alpha = E a = m^T M m + v tr M, k_aa = 2 v^2 tr M^2 +
    4 v m^T M^2 m, k_ai = 2 v^2 tr M + 4 v m^T M m and k_aai = 8 v^3 tr M^2 + 24 v^2 m^T M^2 m.
    """
    w, v = mixture.weights, mixture.noise_variance
    i = (mixture.centroids**2).sum(-1) + mixture.dim * v
    square, trace = (of.p**2).sum(-1), _trace(of.G)
    alpha, k_ai = square + v * trace, 2 * v**2 * trace + 4 * v * square
    # Weights of m m^T, of m m^T M + M m m^T, of I and of M.
    mm = (w * (2 * i * alpha + 2 * k_ai + 8 * v * alpha))[..., None]
    mM = (w * (4 * v * i + 24 * v**2))[..., None]
    eye = (w * (2 * v * (i * alpha + k_ai) + 4 * v**2 * alpha)).sum(-1)[..., None, None]
    M = (w * (4 * v**2 * i + 16 * v**3)).sum(-1)[..., None, None]
    outer = of.mt @ (mm * of.p + mM * (of.p @ of.G))
    outer = outer + of.At @ (np.swapaxes(of.p, -1, -2) @ (mM * of.p))
    return np.asarray(outer + eye * of.At + M * (of.At @ of.G))


def _mixed(mixture: Mixture, of: _Products) -> FloatArray:
    """Slope of E(a x^T S M x) = E[alpha beta + k_ab].

    Given the component, beta = m^T S M m + v tr(S M) and k_ab = 2 v^2 tr(M S M) +
    2 v (m^T M S M m + m^T M^2 S m).
    """
    v, w = mixture.noise_variance, mixture.weights[:, None]
    pt, rt = np.swapaxes(of.p, -1, -2), np.swapaxes(of.r, -1, -2)
    alpha = ((of.p**2).sum(-1) + v * _trace(of.G))[..., None]
    beta = ((of.p * of.r).sum(-1) + v * _trace(of.AP))[..., None]
    Sm = of.mt @ (w * (mixture.centroids @ of.mt)) + v * of.mt
    slope = of.mt @ (w * beta * of.p) + v * (w * beta).sum(-2, keepdims=True) * of.At
    slope = slope + (Sm @ (w * alpha * of.p) + of.mt @ (w * alpha * of.r)) / 2
    slope += v * (w * alpha).sum(-2, keepdims=True) * of.P
    slope += 2 * v**2 * (of.P @ of.G + of.At @ of.AP)
    slope += 2 * v * (of.mt @ (w * (of.p @ of.AP)) + of.P @ (pt @ (w * of.p)))
    bent = of.At @ (rt @ (w * of.p) + pt @ (w * of.r))
    bent = bent + (Sm @ (w * of.p) + of.mt @ (w * of.r)) @ of.G
    return np.asarray(slope + v * bent)
