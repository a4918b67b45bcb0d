"""Mixtures: isotropic Gaussian mixtures sum_j w_j N(m_j, sigma^2 I), their prompts and moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnclust._typing import FloatArray, IntArray


@dataclass(frozen=True)
class Mixture:
    """An isotropic Gaussian mixture.

    Parameters
    ----------
    centroids : array of shape (K, d)
        m_j.
    weights : array of shape (K,)
        w_j, sum to one.
    noise_variance : float
        sigma^2 per coordinate; zero is allowed.

    Raises
    ------
    ValueError
        For weights that do not sum to one or do not match, or sigma < 0.

    Examples
    --------
    >>> import numpy as np
    >>> Mixture.equal(np.eye(3)[:2], 0.25).second_moment
    array([[0.75, 0.  , 0.  ],
           [0.  , 0.75, 0.  ],
           [0.  , 0.  , 0.25]])
    """

    centroids: FloatArray
    weights: FloatArray
    noise_variance: float

    def __post_init__(self) -> None:
        if np.ndim(self.centroids) != 2 or np.shape(self.weights) != (len(self.centroids),):
            raise ValueError(
                f"centroids of shape (K, d) and K weights are needed, got "
                f"{np.shape(self.centroids)} and {np.shape(self.weights)}"
            )
        if not np.isclose(np.sum(self.weights), 1) or np.min(self.weights) < 0:
            raise ValueError(f"weights must be non-negative and sum to one: {self.weights}")
        if not self.noise_variance >= 0:
            raise ValueError(f"noise_variance must not be negative, got {self.noise_variance}")

    @classmethod
    def equal(cls, centroids: FloatArray, noise_variance: float) -> Mixture:
        """Mixture with equal weights."""
        return cls(centroids, np.full(len(centroids), 1 / len(centroids)), noise_variance)

    @property
    def dim(self) -> int:
        """Number of features d."""
        return int(self.centroids.shape[1])

    @property
    def second_moment(self) -> FloatArray:
        """S = E[x x^T] = sum_j w_j m_j m_j^T + sigma^2 I, shape (d, d)."""
        C, w = self.centroids, self.weights
        return np.asarray((C.T * w) @ C + self.noise_variance * np.eye(self.dim))

    def sample(
        self, rng: np.random.Generator, *shape: int
    ) -> tuple[FloatArray, IntArray]:
        """Tokens of shape (*shape, d), say (B, L, d), and their components (*shape)."""
        labels = rng.choice(len(self.weights), size=shape, p=self.weights)
        noise = rng.standard_normal((*shape, self.dim))
        return self.centroids[labels] + np.sqrt(self.noise_variance) * noise, labels
