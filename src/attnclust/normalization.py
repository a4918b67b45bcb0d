"""Normalisation: keys and queries in which any centres are orthonormal.

With S the second moment of the (lifted) tokens and sigma^2 D its noise part, the top K eigenpairs
(V, e) of S - sigma^2 D = sum_j w_j m_j m_j^T give W = V diag(e)^(-1/2), z = x W: there the vectors
sqrt(w_j) W^T m_j are orthonormal, whatever the centres m_j were, and the noise has covariance
N = sigma^2 W^T D W.

The affine lift appends a constant coordinate. About the mean the lifted matrix is block diagonal,
cov(x) - sigma^2 I beside 1, so the K eigenpairs are the K - 1 leading ones of the covariance and
the constant itself: z = ((x - mean) V e^(-1/2), 1), with no noise in the last coordinate. By
interlacing the smallest of these eigenvalues is never below the smallest one without the lift.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnclust._typing import FloatArray
from attnclust.moments import Spectrum
from attnclust.tokens import Tokens

# An eigenvalue below this share of the largest is rounding, no direction to divide by.
FLOOR = 1e-9


@dataclass(frozen=True)
class Normalization:
    """The map to normalised keys and queries, and back.

    Parameters
    ----------
    mean : array of shape (d,)
        What is subtracted from the tokens first: their mean, or the origin without the lift.
    axes : array of shape (d, r)
        Eigenvectors V; r = K - 1 with the lift, K without.
    values : array of shape (r,)
        Their eigenvalues e, the noise taken out.
    noise_variance : float
        sigma^2, the mean of the trailing eigenvalues.
    lifted : bool
        Whether a constant coordinate follows the r others.
    """

    mean: FloatArray
    axes: FloatArray
    values: FloatArray
    noise_variance: float
    lifted: bool

    @property
    def conditioning(self) -> float:
        """Least signal eigenvalue over the noise: (w_K - sigma^2) / sigma^2."""
        if self.noise_variance <= 0 or len(self.values) == 0:
            return float("inf")
        return float(self.values[-1] / self.noise_variance)

    @property
    def noise(self) -> FloatArray:
        """Diagonal of the noise covariance N in z coordinates."""
        noise = self.noise_variance / self.values
        return np.append(noise, 0.0) if self.lifted else noise

    def project(self, tokens: Tokens) -> FloatArray:
        """Normalised keys z, in the precision of the tokens: shape (n, K)."""
        W = (self.axes / np.sqrt(self.values)).T
        r = len(W)
        z = np.empty((len(tokens), r + self.lifted), dtype=tokens.dtype)
        for window, tile in tokens.tiles(r):
            z[window, :r] = tile.scores(W, -(W @ self.mean)).T
        if self.lifted:
            z[:, r] = 1.0
        return z

    def centroids(self, heads: FloatArray, alignment: FloatArray) -> FloatArray:
        """Centres of unit heads in z: m_h = (B mu_h) / E[u_h], with B = V e^(1/2), shape (K, d).

        `alignment` is E[u_h] = sqrt(w_h), signed, so the sign of a head does not matter.
        """
        r = len(self.values)
        return self.mean + (heads[:, :r] * np.sqrt(self.values) / alignment[:, None]) @ self.axes.T


def normalize(
    spectrum: Spectrum, n_clusters: int, *, lift: bool = True, origin: FloatArray | None = None
) -> Normalization:
    """Normalisation for K centres from the tokens' covariance spectrum.

    Parameters
    ----------
    spectrum : Spectrum
        At least min(K, d) leading eigenpairs (K - 1 with the lift) about the mean.
    n_clusters : int
        K.
    lift : bool
        Append a constant coordinate (affine lift); else second moment about the origin.
    origin : array of shape (d,), optional
        Where the origin lies in the frame; zero if not given, and of no matter to the lift.

    Returns
    -------
    Normalization

    Raises
    ------
    ValueError
        If K - 1 (K without the lift) directions are more than the d features.

    Examples
    --------
    >>> import numpy as np
    >>> from attnclust.moments import spectrum
    >>> from attnclust.tokens import Tokens
    >>> tokens = Tokens(np.array([[3.0, 0.1], [3.0, -0.1], [-3.0, 0.1], [-3.0, -0.1]]))
    >>> normal = normalize(spectrum(tokens, 2, np.random.default_rng(0)), 2)
    >>> np.round(normal.project(tokens)[[0, 2]] * normal.axes[0, 0], 2)
    array([[ 1.,  1.],
           [-1.,  1.]])
    """
    rank = n_clusters - lift
    if rank > spectrum.dim:
        raise ValueError(
            f"{n_clusters} centres need {rank} directions, more than the {spectrum.dim} features"
        )
    if lift:
        noise = spectrum.trailing_mean(rank)
        return _build(spectrum.mean, spectrum.values[:rank], spectrum.axes[:, :rank], noise, True)
    # S = cov + mean mean^T within the span of the known axes and the mean; beyond it all is noise.
    origin = np.zeros(spectrum.dim) if origin is None else origin
    mean = spectrum.mean - origin
    basis = np.linalg.qr(np.column_stack([spectrum.axes, mean]))[0]
    along = basis.T @ spectrum.axes
    outer = basis.T @ mean
    rest = spectrum.trailing_mean(len(spectrum.values))
    small = (along * spectrum.values) @ along.T + np.outer(outer, outer)
    small += rest * (np.eye(len(small)) - along @ along.T)
    values, turn = np.linalg.eigh(small)
    values, axes = values[::-1][:rank], (basis @ turn[:, ::-1])[:, :rank]
    left = spectrum.dim - rank
    whole = spectrum.trace + float(mean @ mean)
    noise = max(whole - float(values.sum()), 0.0) / left if left > 0 else 0.0
    return _build(origin, values, axes, noise, False)


def _build(
    mean: FloatArray, values: FloatArray, axes: FloatArray, noise: float, lifted: bool
) -> Normalization:
    floor = max(FLOOR * float(values[0]), np.finfo(np.float64).tiny) if len(values) else 1.0
    return Normalization(mean, axes, np.maximum(values - noise, floor), noise, lifted)
