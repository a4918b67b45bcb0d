"""Training runs of the claims: all seeds advance as one array program.

Every run has its own orthonormal (or random) centres and its own prompts. The scale is half of
c*(L) of orthonormal equal-weight centres unless a claim says otherwise: below c_tilt by far.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnclust._typing import FloatArray
from attnclust.mixture import Mixture, sample_prompts
from attnclust.theory import optimal_temperature

LENGTH = 30
DIM = 5


def best_temperature(sigma: float, dim: int, length: float, n_clusters: int) -> float:
    """c*(L) of K orthonormal centres of equal weight, the heads at the centres.

    Parameters
    ----------
    sigma : float
    dim : int
        d >= K.
    length : float
        L; may be infinite.
    n_clusters : int
        K.

    Returns
    -------
    float
    """
    oracle = np.eye(dim)[:n_clusters]
    mixture = Mixture.equal(oracle, noise_variance=sigma**2)
    return float(optimal_temperature(mixture, oracle, length))


def prompts_of(
    centroids: FloatArray,
    sigma: float,
    n_prompts: int,
    rng: np.random.Generator,
    *,
    length: int = LENGTH,
    weights: FloatArray | None = None,
) -> Callable[[int], FloatArray]:
    """What `train_heads` draws its prompts from: float32, fresh at every step, for every run.

    Parameters
    ----------
    centroids : array of shape (R, K, d)
        One set for each run.
    sigma : float
    n_prompts : int
        B, per step and run.
    rng : numpy.random.Generator
    length : int
        L.
    weights : array of shape (K,), optional
        Equal by default.

    Returns
    -------
    callable
        Of the step, to tokens of shape (R, B, L, d).
    """
    k = centroids.shape[1]
    shares = np.full(k, 1 / k) if weights is None else weights
    mixture = Mixture(centroids[:, None], shares, sigma**2)
    shape = (len(centroids), n_prompts)
    return lambda _step: sample_prompts(mixture, shape, length, rng, np.float32)[0]
