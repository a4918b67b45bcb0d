"""What the theory says: population risk, its best scale, and where the oracle heads are stable.

The risk is the parabola R(c) = tr S - 2c q + c^2 s of `population`, exact at every prompt length L.
Oracle heads are the centres themselves, here orthonormal and of equal weight, H = K.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from attnclust._typing import FloatArray
from attnclust.manifold import match
from attnclust.mixture import Mixture
from attnclust.population import risk_slopes


def population_risk(
    mixture: Mixture, heads: FloatArray, temperature: npt.ArrayLike, length: float
) -> FloatArray:
    """Expected reconstruction risk R of a prompt of L tokens.

    Parameters
    ----------
    mixture : Mixture
        Leading dimensions of centres and heads broadcast.
    heads : array of shape (..., H, d)
        mu_h, of any length.
    temperature : float or array of shape (...)
        c = H lambda.
    length : float
        L >= 1; may be infinite.

    Returns
    -------
    array of shape (...)

    Raises
    ------
    ValueError
        If length < 1.

    Examples
    --------
    >>> import numpy as np
    >>> two = Mixture.equal(np.eye(5)[:2], noise_variance=1.0)
    >>> round(float(population_risk(two, np.eye(5)[:2], 2 / 3, np.inf)), 9)  # (d - K) sigma^2
    3.0
    """
    c = np.asarray(temperature)
    trace = np.trace(mixture.second_moment, axis1=-2, axis2=-1)
    linear, square = _parabola(mixture, heads, length)
    return np.asarray(trace - 2 * c * linear + c**2 * square)[()]


def population_gradient(
    mixture: Mixture, heads: FloatArray, temperature: npt.ArrayLike, length: float
) -> FloatArray:
    """Gradient of `population_risk` in the heads.

    Parameters
    ----------
    mixture, heads, temperature, length
        As there.

    Returns
    -------
    array of shape (..., H, d)

    Examples
    --------
    At the centres, whatever the scale, it points along the heads: on the sphere they are critical.

    >>> import numpy as np
    >>> two = Mixture.equal(np.eye(3)[:2], noise_variance=0.5)
    >>> population_gradient(two, np.eye(3)[:2], 0.5, np.inf)
    array([[-1.,  0.,  0.],
           [ 0., -1.,  0.]])
    """
    c = np.asarray(temperature)[..., None, None]
    linear, square = risk_slopes(mixture, heads, length)
    return np.asarray(np.swapaxes(2 * c**2 * square - 4 * c * linear, -1, -2))


def optimal_temperature(mixture: Mixture, heads: FloatArray, length: float) -> FloatArray:
    """c*(L) = q / s, the scale of least population risk.

    Parameters
    ----------
    mixture, heads, length
        As for `population_risk`.

    Returns
    -------
    array of shape (...)

    Raises
    ------
    ValueError
        If the heads are orthogonal to every token, so that no scale matters.

    Examples
    --------
    >>> import numpy as np
    >>> two = Mixture.equal(np.eye(5)[:2], noise_variance=1.0)
    >>> lambda_star = optimal_temperature(two, np.eye(5)[:2], np.inf) / 2
    >>> round(float(lambda_star), 4)  # 1 / (1 + K sigma^2)
    0.3333
    """
    linear, square = _parabola(mixture, heads, length)
    if not (square > 0).all():
        raise ValueError("the heads are orthogonal to all tokens: no temperature is the best")
    return np.asarray(linear / square)[()]


def _parabola(mixture: Mixture, heads: FloatArray, length: float) -> tuple[FloatArray, FloatArray]:
    """Coefficients q and s of R(c), each of shape (...)."""
    transposed = np.swapaxes(heads, -1, -2)
    linear, square = risk_slopes(mixture, heads, length)
    return (transposed * linear).sum((-1, -2)), (transposed * square).sum((-1, -2)) / 2


def tilt_temperature(sigma: float, dim: int, length: float, n_clusters: int) -> float:
    """c_tilt: the scale above which an oracle head lowers R by leaving the plane of the centres.

    Parameters
    ----------
    sigma : float
        Noise.
    dim : int
        d > K.
    length : float
        L >= 1; infinite gives (2/s)(s + sigma^2)/(2s + sigma^2), s = 1/K + sigma^2.
    n_clusters : int
        K orthonormal centres of equal weight.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If nothing is off the plane, or for sigma < 0 or L < 1.

    Examples
    --------
    >>> round(tilt_temperature(1.0, 5, 30, 2), 3)
    0.705
    """
    linear, square = _tilt(sigma, dim, length, n_clusters)
    return 2 * linear / square


def maximal_regularization(
    temperature: float,
    sigma: float,
    dim: int,
    length: float,
    n_clusters: int,
    regularizer: Literal["pairwise", "product"] = "pairwise",
) -> float:
    """rho_max(c): the strength above which an oracle head lowers R + rho r by leaving the plane.

    A head tilted by a small angle t costs t^2 (c^2 s_2 - 2 c q_2) in R, and saves t^2 times
    (K-1) sigma^2 / K in the pairwise regulariser, sigma^(2(K-1)) / K in the product.

    Parameters
    ----------
    temperature : float
        c.
    sigma, dim, length, n_clusters
        As for `tilt_temperature`.
    regularizer : {"pairwise", "product"}

    Returns
    -------
    float
        Not positive from c_tilt on; infinite without noise, or for one head and pairwise, below it.

    Examples
    --------
    >>> round(maximal_regularization(0.5 * tilt_temperature(1.0, 5, 30, 2), 1.0, 5, 30, 2), 2)
    0.97
    """
    linear, square = _tilt(sigma, dim, length, n_clusters)
    cost = temperature**2 * square - 2 * temperature * linear
    savings = {
        "pairwise": (n_clusters - 1) * sigma**2 / n_clusters,
        "product": sigma ** (2 * (n_clusters - 1)) / n_clusters,
    }
    if regularizer not in savings:
        raise ValueError(f"regularizer must be pairwise or product, got {regularizer!r}")
    saved = savings[regularizer]
    return cost / saved if saved > 0 else float(np.copysign(np.inf, cost))


def _tilt(sigma: float, dim: int, length: float, n_clusters: int) -> tuple[float, float]:
    """Second-order change (q_2, s_2) of q and s per squared angle, for one head off the plane.

    With n off the plane, u_0 = cos t x_0 + sin t y, so that a gains 2 t x_0 y + t^2 (y^2 - x_0^2).
    Averages over the centres replace x_0^2 by a_0 / K, a_0 = |x|^2 within the plane, a noncentral
    chi-squared of cumulants K v + 1, 2 K v^2 + 4 v, 8 K v^3 + 24 v^2.
    """
    if not sigma >= 0 or not length >= 1 or n_clusters < 1:
        raise ValueError(
            f"need sigma >= 0, length >= 1 and a cluster, got {sigma}, {length} and {n_clusters}"
        )
    if dim <= n_clusters:
        raise ValueError(
            f"{n_clusters} centres span dimension {dim}: there is no direction off their plane"
        )
    K, v, rest = n_clusters, sigma**2, dim - n_clusters
    s = 1 / K + v
    once, twice = v**2 - s**2, -s * (2 * s + v) * (s - v)
    if np.isinf(length):
        return once, twice
    k1, k2, k3 = K * v + 1, 2 * K * v**2 + 4 * v, 8 * K * v**3 + 24 * v**2
    a1, a2, a3 = k1, k2 + k1**2, k3 + 3 * k1 * k2 + k1**3
    off = v + (dim + 2) * v**2  # F off the plane
    on = off + (1 + (dim + 4) * v) / K
    a_y_x = a2 * v + a1 * v**2 * (rest + 2)  # E[a_0 y^2 |x|^2]
    sixth = (4 / K + 2) * a_y_x - (2 / K) * (a3 + a2 * v * rest)
    mixed = (s + v) * (1 + 2 / K) * a1 * v - 2 * s * a2 / K
    fourth = (v - 2 * s) * on + s * off
    linear = (off - on + (length - 1) * once) / length
    square = sixth + (length - 1) * (2 * mixed + fourth + (length - 2) * twice)
    return linear, square / length**2


def variance_reduction_interval(
    sigma: float, dim: int, length: float, n_clusters: int
) -> tuple[float, float] | None:
    """Where in lambda = c / K the oracle heads' risk is below d sigma^2.

    That is the risk of predicting each token by its own centre: the layer does better by shrinking
    the noise within the centres' plane.

    Parameters
    ----------
    sigma : float
        Noise.
    dim : int
        d >= K.
    length : float
        L >= 1; may be infinite.
    n_clusters : int
        K orthonormal centres of equal weight.

    Returns
    -------
    (low, high) or None
        None where no lambda gets below.

    Examples
    --------
    >>> low, high = variance_reduction_interval(1.0, 5, float("inf"), 2)  # (1 -+ sqrt(2/3)) / 3
    >>> round(low, 4), round(high, 4)
    (0.0612, 0.6055)
    """
    oracle = np.eye(dim)[:n_clusters]
    if len(oracle) < n_clusters:
        raise ValueError(f"no {n_clusters} centres are orthonormal in dimension {dim}")
    mixture = Mixture.equal(oracle, noise_variance=sigma**2)
    linear, square = (float(one) for one in _parabola(mixture, oracle, length))
    # tr S - d sigma^2 = 1 for centres of unit length.
    discriminant = linear**2 - square
    if discriminant <= 0:
        return None
    root = np.sqrt(discriminant)
    # 1 / (q + root) = (q - root) / s keeps the digits that the difference loses.
    return float(1 / (linear + root)) / n_clusters, float((linear + root) / square) / n_clusters


def clustering_error(mixture: Mixture, heads: FloatArray) -> FloatArray:
    """Sum of the two class errors of the rule argmax_h <x, mu_h>, signs and order resolved.

    Phi(m_1 . kappa / sigma) + Phi(-m_0 . kappa / sigma), kappa = (mu_0 - mu_1) / |mu_0 - mu_1|;
    with unit centres as heads, 2 Phi(-|m_0 - m_1| / (2 sigma)). The misclassification rate weighs
    the two by w_1 and w_0.

    Parameters
    ----------
    mixture : Mixture
        K = 2.
    heads : array of shape (..., 2, d)
        Unit vectors.

    Returns
    -------
    array of shape (...)
        1 for equal heads, which tell nothing.

    Raises
    ------
    ValueError
        Unless there are two clusters and two unit heads.

    Examples
    --------
    >>> import numpy as np
    >>> two = Mixture.equal(np.eye(5)[:2], noise_variance=1.0)
    >>> round(float(clustering_error(two, np.eye(5)[:2])), 4)
    0.4795
    """
    if mixture.n_clusters != 2 or heads.shape[-2] != 2:
        raise ValueError(
            f"the formula is for two clusters and two heads, got {mixture.n_clusters} and "
            f"{heads.shape[-2]}"
        )
    if not np.allclose(np.linalg.norm(heads, axis=-1), 1, atol=1e-5):
        raise ValueError("heads must be unit vectors: normalise them")
    heads = match(heads, mixture.centroids)
    kappa = heads[..., 0, :] - heads[..., 1, :]
    length = np.linalg.norm(kappa, axis=-1, keepdims=True)
    kappa = kappa / np.where(length == 0, 1, length)
    margin = (mixture.centroids * kappa[..., None, :]).sum(-1)
    if mixture.noise_variance > 0:
        margin = margin / np.sqrt(mixture.noise_variance)
    else:
        margin = np.where(margin == 0, 0, np.copysign(np.inf, margin))
    return np.asarray(ndtr(margin[..., 1]) + ndtr(-margin[..., 0]))[()]
