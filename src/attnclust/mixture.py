"""Spherical Gaussian mixtures sum_j w_j N(m_j, sigma^2 I): prompts, moments, Bayes rule.

    S = E[x x^T]       = sum_j w_j m_j m_j^T + sigma^2 I
    F = E[|x|^2 x x^T] = sum_j w_j [ (|m_j|^2 + (d+4) sigma^2) m_j m_j^T
                                     + (|m_j|^2 sigma^2 + (d+2) sigma^4) I ]

Centres drawn at random are `manifold.random_heads`, orthonormal ones `manifold.random_orthonormal`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr

from attnclust._typing import FloatArray, IntArray
from attnclust.attention import softmax_attention

# Rows per tile where a sample is only averaged over.
TILE_ROWS = 8192


@dataclass(frozen=True)
class Mixture:
    """A spherical Gaussian mixture.

    Parameters
    ----------
    centroids : array of shape (..., K, d)
        m_j. Leading dimensions are as many mixtures: one for each run, or for each prompt.
    weights : array of shape (K,)
        w_j >= 0, sum to one.
    noise_variance : float
        sigma^2 >= 0, per coordinate.

    Raises
    ------
    ValueError
        For centres that are not finite or not of that shape, weights that do not match them, are
        negative or do not sum to one, or a negative noise variance.

    Examples
    --------
    >>> import numpy as np
    >>> Mixture.equal(np.eye(3)[:2], noise_variance=0.25).second_moment
    array([[0.75, 0.  , 0.  ],
           [0.  , 0.75, 0.  ],
           [0.  , 0.  , 0.25]])
    """

    centroids: FloatArray
    weights: FloatArray
    noise_variance: float

    def __post_init__(self) -> None:
        centroids = np.asarray(self.centroids, dtype=np.float64)
        weights = np.asarray(self.weights, dtype=np.float64)
        if centroids.ndim < 2 or 0 in centroids.shape or not np.isfinite(centroids).all():
            raise ValueError(
                f"centroids must be finite, of shape (..., K, d), got shape {centroids.shape}"
            )
        if weights.shape != centroids.shape[-2:-1]:
            raise ValueError(
                f"{centroids.shape[-2]} centroids need as many weights, got shape {weights.shape}"
            )
        if not (weights >= 0).all() or not np.isclose(weights.sum(), 1, atol=1e-6):
            raise ValueError(
                f"weights must not be negative and must sum to one: the least is "
                f"{weights.min():g}, the sum {weights.sum():g}"
            )
        if not 0 <= self.noise_variance < np.inf:
            raise ValueError(f"noise_variance must not be negative, got {self.noise_variance}")
        object.__setattr__(self, "centroids", centroids)
        object.__setattr__(self, "weights", weights / weights.sum())

    @classmethod
    def equal(cls, centroids: FloatArray, *, noise_variance: float) -> Mixture:
        """Mixture of equal weights."""
        n_clusters = np.shape(centroids)[-2]
        return cls(centroids, np.full(n_clusters, 1 / n_clusters), noise_variance)

    @property
    def n_clusters(self) -> int:
        """Number of components K."""
        return len(self.weights)

    @property
    def dim(self) -> int:
        """Number of features d."""
        return int(self.centroids.shape[-1])

    @property
    def second_moment(self) -> FloatArray:
        """S = E[x x^T], shape (..., d, d)."""
        return self._outer(self.weights) + self.noise_variance * np.eye(self.dim)

    @property
    def fourth_moment(self) -> FloatArray:
        """F = E[|x|^2 x x^T], shape (..., d, d)."""
        along, around = self.fourth_moment_terms
        return self._outer(along) + around[..., None, None] * np.eye(self.dim)

    @property
    def fourth_moment_terms(self) -> tuple[FloatArray, FloatArray]:
        """Weights (..., K) of m_j m_j^T and (...) of I in F."""
        d, v = self.dim, self.noise_variance
        square = (self.centroids**2).sum(-1)
        along = self.weights * (square + (d + 4) * v)
        around = (self.weights * (square * v + (d + 2) * v**2)).sum(-1)
        return along, np.asarray(around)

    def _outer(self, factors: FloatArray) -> FloatArray:
        return np.asarray(
            np.swapaxes(self.centroids, -1, -2) @ (factors[..., None] * self.centroids)
        )


def sample_prompts(
    mixture: Mixture,
    n_prompts: int | tuple[int, ...],
    length: int,
    rng: np.random.Generator,
    dtype: npt.DTypeLike = np.float64,
) -> tuple[FloatArray, IntArray]:
    """Prompts of independent tokens.

    Parameters
    ----------
    mixture : Mixture
        Leading dimensions of the centres broadcast against those of the prompts: centres (K, d) are
        shared, (B, K, d) are one set for each of B prompts, (R, 1, K, d) one for each of R runs.
    n_prompts : int or tuple of int
        B, or several leading dimensions.
    length : int
        Tokens per prompt L.
    rng : numpy.random.Generator
    dtype : dtype
        Precision of the tokens, drawn in it.

    Returns
    -------
    tokens : array of shape (..., B, L, d)
    assignments : integer array of shape (..., B, L)
        Component of each token.

    Raises
    ------
    ValueError
        If the centres do not broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> pair = Mixture.equal(np.eye(2), noise_variance=0.0)
    >>> tokens, assignments = sample_prompts(pair, 4, 30, np.random.default_rng(0))
    >>> tokens.shape, bool((tokens.argmax(-1) == assignments).all())
    ((4, 30, 2), True)
    """
    prompts = (n_prompts,) if isinstance(n_prompts, int) else n_prompts
    centroids = mixture.centroids.astype(dtype)
    shape = np.broadcast_shapes(prompts, centroids.shape[:-2])
    steps = np.cumsum(mixture.weights)
    steps[-1] = 1.0
    assignments = np.searchsorted(steps, rng.random((*shape, length)), side="right")
    tokens = rng.standard_normal((*shape, length, mixture.dim), dtype=centroids.dtype)
    tokens *= np.sqrt(mixture.noise_variance).astype(dtype)
    # One gather of rows out of all sets of centres.
    sets = np.arange(centroids[..., 0, 0].size).reshape(*centroids.shape[:-2], 1)
    rows = mixture.n_clusters * np.broadcast_to(sets, (*shape, 1)) + assignments
    tokens += centroids.reshape(-1, mixture.dim).take(rows, axis=0)
    return tokens, assignments


def posterior(mixture: Mixture, X: FloatArray) -> FloatArray:
    """Probability of each component given each token.

    Parameters
    ----------
    mixture : Mixture
    X : array of shape (..., L, d)

    Returns
    -------
    array of shape (..., L, K)
        Rows sum to one. Without noise it is one at the nearest centre of positive weight.

    Examples
    --------
    >>> import numpy as np
    >>> pair = Mixture.equal(np.eye(2), noise_variance=0.5)
    >>> posterior(pair, np.array([[1.0, 0.0], [0.5, 0.5]])).round(2)
    array([[0.88, 0.12],
           [0.5 , 0.5 ]])
    """
    with np.errstate(divide="ignore"):
        log_weights = np.log(mixture.weights)
    if mixture.noise_variance > 0:
        variance = mixture.noise_variance
        return np.asarray(softmax_attention(X, mixture.centroids, log_weights, variance))
    offsets = X[..., :, None, :] - mixture.centroids[..., None, :, :]
    distances = np.where(mixture.weights > 0, (offsets**2).sum(-1), np.inf)
    return np.asarray(np.eye(mixture.n_clusters)[distances.argmin(-1)])


def bayes_labels(mixture: Mixture, X: FloatArray) -> IntArray:
    """Most probable component of each token: the Bayes rule.

    Parameters
    ----------
    mixture : Mixture
    X : array of shape (..., L, d)

    Returns
    -------
    integer array of shape (..., L)

    Examples
    --------
    >>> import numpy as np
    >>> pair = Mixture.equal(np.eye(2), noise_variance=0.5)
    >>> bayes_labels(pair, np.array([[1.0, 0.0], [0.1, 0.5]]))
    array([0, 1])
    """
    return np.asarray(posterior(mixture, X).argmax(-1))


def bayes_error(
    mixture: Mixture, rng: np.random.Generator | None = None, n: int = 100_000
) -> tuple[float, float]:
    """Misclassification rate of the Bayes rule, which no clustering beats.

    Closed form without noise and for K = 2; one integral for equal weights and equal distances
    between all centres (orthonormal ones, say); else the mean of 1 - max_j p(j | x) over a sample.

    Parameters
    ----------
    mixture : Mixture
        A single one: centroids of shape (K, d).
    rng : numpy.random.Generator, optional
        Draws the sample; seeded with 0 if None.
    n : int
        Size of the sample.

    Returns
    -------
    value, standard_error : float
        The standard error is zero unless a sample was drawn.

    Raises
    ------
    ValueError
        For a batch of mixtures.

    Examples
    --------
    >>> import numpy as np
    >>> value, _ = bayes_error(Mixture.equal(np.eye(2), noise_variance=1.0))
    >>> round(value, 4)  # Phi(-|m_0 - m_1| / (2 sigma))
    0.2398
    """
    if mixture.centroids.ndim != 2:
        raise ValueError(f"one mixture at a time, got centroids of {mixture.centroids.shape}")
    # Equal centres act as their heaviest one, and those of no weight not at all.
    centroids, inverse = np.unique(mixture.centroids, axis=0, return_inverse=True)
    heaviest = np.zeros(len(centroids))
    np.maximum.at(heaviest, inverse.ravel(), mixture.weights)
    lost = 1 - float(heaviest.sum())
    centroids, weights = centroids[heaviest > 0], heaviest[heaviest > 0]
    if mixture.noise_variance == 0 or len(weights) == 1:
        return max(lost, 0.0), 0.0
    distances = np.linalg.norm(centroids[:, None] - centroids, axis=-1)
    distances = distances[np.triu_indices(len(weights), 1)] / np.sqrt(mixture.noise_variance)
    even = np.allclose(weights, weights[0], rtol=1e-9)
    if len(weights) == 2:
        shift = np.log(weights[0] / weights[1]) / distances[0]
        half = distances[0] / 2
        pair = weights[0] * ndtr(-half - shift) + weights[1] * ndtr(-half + shift)
        return lost + float(pair), 0.0
    if even and np.allclose(distances, distances[0], rtol=1e-9):
        return lost + (1 - lost) * _even_error(float(distances[0]), len(weights)), 0.0
    rng = np.random.default_rng(0) if rng is None else rng
    wrong = np.empty(n)
    for start in range(0, n, TILE_ROWS):
        window = wrong[start : start + TILE_ROWS]
        X, _ = sample_prompts(mixture, 1, len(window), rng)
        window[:] = 1 - posterior(mixture, X[0]).max(-1)
    return float(wrong.mean()), float(wrong.std(ddof=1) / np.sqrt(n))


def _even_error(distance: float, n_clusters: int) -> float:
    """K equally likely centres, all `distance` sigmas apart.

    As for orthogonal centres of length distance / sqrt(2): the own score must exceed K - 1
    independent ones, 1 - E[Phi(t + distance / sqrt(2))^(K-1)] with t standard normal.
    """
    length = distance / np.sqrt(2)

    def integrand(t: float) -> float:
        miss = -np.expm1((n_clusters - 1) * log_ndtr(t + length))
        return float(miss * np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi))

    # Both factors fall off as Gaussians, around 0 and -length: the peak is between.
    value, _ = quad(integrand, -length - 9, 9, points=(-length, -length / 2, 0.0), limit=200)
    return float(value)
