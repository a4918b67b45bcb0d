"""The fixed point: heads of the regularised problem in its limit, on normalised tokens.

With the second moment denoised the risk is |I - c M|_F^2, least for orthonormal heads, and the
vanishing regulariser leaves "least pairwise r among orthonormal heads", that is the largest sum of
fourth moments; the third-moment contrast is sharper and fixes the signs. Both are climbed by

    heads <- polar(gradient of the contrast minus its Gaussian-noise part)

with u_h = <z, mu_h>, q_h = mu_h^T N mu_h and N the noise covariance (diagonal) in z:

    third    E[u^2 z] - q_h E[z] - 2 E[u_h] N mu_h
    fourth   E[u^3 z] - 3 q_h mu_h - 3 (1 + q_h) N mu_h

At the centres E[u_h] = sqrt(w_h) and the denoised E[u_h^3] = 1/sqrt(w_h), E[u_h^4] = 1/w_h: the
contrast found over the one these weights promise tells a good optimum from a bad one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnclust._typing import FloatArray
from attnclust.manifold import polar
from attnclust.tokens import TILE_ELEMENTS

# A start is right when its contrast falls short of what its own weights promise by no more than
# this share; heads fitted to few rows exceed it.
TOLERANCE = 0.1


@dataclass(frozen=True)
class HeadFit:
    """Heads in z, and how they were found.

    Parameters
    ----------
    heads : array of shape (K, K)
        Orthonormal heads, signed so that E[u_h] >= 0.
    alignment : array of shape (K,)
        E[u_h], floored away from zero; its square is the weight of the cluster.
    quality : array of shape (starts,)
        Contrast of each start over the one its weights promise; 1 at the centres.
    n_iter : int
        Steps of the start that was kept.
    """

    heads: FloatArray
    alignment: FloatArray
    quality: FloatArray
    n_iter: int

    @property
    def weights(self) -> FloatArray:
        """Cluster weights w_h = E[u_h]^2, made to sum to one."""
        squares = self.alignment**2
        return np.asarray(squares / squares.sum())


def contrast_gradient(
    z: FloatArray, weights: FloatArray, noise: FloatArray, heads: FloatArray, order: int
) -> tuple[FloatArray, FloatArray]:
    """Denoised E[u^(order-1) z] per head, and E[u_h].

    Parameters
    ----------
    z : array of shape (m, K)
        Normalised tokens.
    weights : array of shape (m,)
        Row weights that sum to one, in the precision of z.
    noise : array of shape (K,)
        Diagonal of N.
    heads : array of shape (K, K)
        Unit heads mu_h.
    order : {3, 4}
        Which moment.

    Returns
    -------
    gradient : array of shape (K, K)
        Its row products with the heads are the denoised moments E[u_h^order].
    mean_score : array of shape (K,)
        E[u_h].
    """
    k = len(heads)
    raw, mean, mean_score = np.zeros((k, z.shape[1])), np.zeros(z.shape[1]), np.zeros(k)
    narrow = heads.astype(z.dtype)
    step = max(256, TILE_ELEMENTS // k)
    for start in range(0, len(z), step):
        part, w = z[start : start + step], weights[start : start + step]
        u = narrow @ part.T
        mean_score += u @ w
        mean += w @ part
        power = u * u if order == 3 else u * u * u
        power *= w
        raw += power @ part
    q = (heads**2) @ noise
    blurred = heads * noise
    if order == 3:
        return raw - q[:, None] * mean - 2 * mean_score[:, None] * blurred, mean_score
    return raw - 3 * q[:, None] * heads - 3 * (1 + q)[:, None] * blurred, mean_score


def fixed_point(
    z: FloatArray,
    weights: FloatArray,
    noise: FloatArray,
    rng: np.random.Generator,
    *,
    order: int = 3,
    max_iter: int = 60,
    tol: float = 1e-3,
    n_starts: int = 5,
) -> HeadFit:
    """Orthonormal heads at the centres, from as many random starts as the contrast asks for.

    A start is kept at once when its contrast falls short of the value its own weights promise by no
    more than `TOLERANCE`. Others are tried after it until two agree, which then is what the data
    hold though no such mixture, or `n_starts` are spent; the one nearest to its promise is kept.

    Parameters
    ----------
    z : array of shape (m, K)
        Normalised tokens; K heads are sought.
    weights : array of shape (m,)
        Row weights, any scale.
    noise : array of shape (K,)
        Diagonal of the noise covariance N in z.
    rng : numpy.random.Generator
        Draws the starts.
    order : {3, 4}
        Which moment.
    max_iter, tol : int, float
        Most steps of a start, and the share of the contrast by which a step must raise it: when the
        contrast stands still, single heads may wander on in vain.
    n_starts : int
        Most starts tried.

    Returns
    -------
    HeadFit

    Examples
    --------
    >>> import numpy as np
    >>> z = np.sqrt(3) * np.eye(3)
    >>> fit = fixed_point(z, np.ones(3), np.zeros(3), np.random.default_rng(0))
    >>> np.round(np.sort(np.abs(fit.heads), axis=1), 3)
    array([[0., 0., 1.],
           [0., 0., 1.],
           [0., 0., 1.]])
    """
    weights = (weights / weights.sum()).astype(z.dtype)
    dim = z.shape[1]
    # Eigenvectors have no sign of their own; skewness gives them one that turns with the data.
    signs = np.where(weights @ (z * z * z) < 0, -1.0, 1.0)
    best: tuple[float, FloatArray, FloatArray, int] | None = None
    quality, settled = list[float](), list[float]()
    for _ in range(n_starts):
        heads = polar(rng.standard_normal((dim, dim))) * signs
        contrast, still = -np.inf, False
        for n_iter in range(max_iter + 1):
            gradient, alignment = contrast_gradient(z, weights, noise, heads, order)
            before, contrast = contrast, float((gradient * heads).sum())
            still = contrast - before < tol * abs(contrast)
            if still or n_iter == max_iter:
                break
            heads = polar(gradient)
        promised = np.maximum(np.abs(alignment), least_alignment(dim)) ** -(order - 2.0)
        quality.append(contrast / float(promised.sum()))
        if best is None or abs(quality[-1] - 1) < abs(best[0] - 1):
            best = quality[-1], heads, alignment, n_iter
        agreed = still and any(abs(q - quality[-1]) < TOLERANCE**2 for q in settled)
        if quality[-1] >= 1 - TOLERANCE or agreed:
            break
        settled += [quality[-1]] * still
    assert best is not None
    _, heads, alignment, n_iter = best
    least = least_alignment(dim)
    # Skewness tells the sign of a head whose mean is within rounding of zero.
    u = z @ heads.T.astype(z.dtype)
    skewness = weights @ (u * u * u)
    side = np.where(np.where(np.abs(alignment) < least, skewness, alignment) < 0, -1.0, 1.0)
    return HeadFit(
        heads * side[:, None],
        np.maximum(np.abs(alignment), least),
        np.array(quality),
        n_iter,
    )


def least_alignment(dim: int) -> float:
    """Floor of E[u_h]: a cluster at a tenth of the mean weight, below which centres fly off."""
    return float(0.3 / np.sqrt(dim))
