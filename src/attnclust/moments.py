"""Moments: mergeable sufficient statistics of tokens, and their leading eigenpairs.

Everything that the heads need of n rows is count, mean and scatter sum_i w_i (y_i - mean)(y_i -
mean)^T. Tiles are centred about their own mean in the precision of X and merged in float64 by the
parallel update of Chan, Golub and LeVeque (1979), so an offset costs no digits and moments add up
across tiles, files and machines. Whatever the offset, an entry of the covariance is off by at most
about sqrt(t) eps s_i s_j, with t the rows of a tile, eps the precision of X and s the columns'
standard deviations, beside what storing the rows in that precision had cost already.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnclust._typing import FloatArray
from attnclust.tokens import Tokens

# Up to this many features the d x d scatter is formed; beyond it only products with it.
DENSE_LIMIT = 1024


@dataclass(frozen=True)
class Moments:
    """Count, mean and scatter of weighted rows; `a + b` merges those of disjoint rows.

    Parameters
    ----------
    count : float
        Sum of the row weights.
    mean : array of shape (d,)
        Weighted mean.
    scatter : array of shape (d, d)
        Weighted sum of outer products about the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from attnclust.moments import Moments
    >>> from attnclust.tokens import Tokens
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> parts = Moments.of(Tokens(X[:2])) + Moments.of(Tokens(X[2:]))
    >>> bool(np.allclose(parts.covariance, np.cov(X.T, bias=True)))
    True
    """

    count: float
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def of(cls, tokens: Tokens) -> Moments:
        """Moments of all tokens, in one tiled pass."""
        return tokens.fold(lambda _window, tile: cls._of_tile(tile), tokens.dim)

    @classmethod
    def _of_tile(cls, tile: Tokens) -> Moments:
        Y, w = tile.dense(), tile.row_weights()
        count = float(w.sum())
        if count == 0:
            return cls(0.0, np.zeros(tile.dim), np.zeros((tile.dim, tile.dim)))
        narrow = w.astype(Y.dtype)
        mean = (narrow @ Y) / Y.dtype.type(count)
        Y -= mean
        # What rounding the mean to the precision of Y left behind.
        rest = (narrow @ Y).astype(np.float64) / count
        if tile.weights is not None:
            Y *= np.sqrt(narrow)[:, None]
        scatter = (Y.T @ Y).astype(np.float64) - count * np.outer(rest, rest)
        return cls(count, mean + rest, scatter)

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        if count == 0:
            return self
        gap = other.mean - self.mean
        return Moments(
            count,
            self.mean + gap * (other.count / count),
            self.scatter + other.scatter + np.outer(gap, gap) * (self.count * other.count / count),
        )

    @property
    def covariance(self) -> FloatArray:
        """Scatter / count, shape (d, d)."""
        return self.scatter / self.count

    def rescaled(self, unit: float) -> Moments:
        """The moments of the rows times `unit`."""
        return Moments(self.count, self.mean * unit, self.scatter * unit**2)

    def faded(self, factor: float) -> Moments:
        """The moments with every weight times `factor`."""
        return Moments(self.count * factor, self.mean, self.scatter * factor)

    def spectrum(self, k: int) -> Spectrum:
        """The k largest eigenpairs of the covariance."""
        covariance = self.covariance
        values, axes = np.linalg.eigh(covariance)
        return Spectrum(
            self.mean,
            np.maximum(values[::-1][:k], 0.0),
            axes[:, ::-1][:, :k],
            float(np.trace(covariance)),
        )


@dataclass(frozen=True)
class Spectrum:
    """Leading eigenpairs of the covariance and what they leave.

    Parameters
    ----------
    mean : array of shape (d,)
        Weighted mean of the tokens.
    values : array of shape (k,)
        Largest eigenvalues, falling.
    axes : array of shape (d, k)
        Their eigenvectors.
    trace : float
        Sum of all d eigenvalues: E|y - mean|^2.
    """

    mean: FloatArray
    values: FloatArray
    axes: FloatArray
    trace: float

    @property
    def dim(self) -> int:
        """Number of features d."""
        return len(self.mean)

    def trailing_mean(self, k: int) -> float:
        """Mean of all eigenvalues but the k largest; zero when none is left."""
        left = self.dim - k
        return max(self.trace - float(self.values[:k].sum()), 0.0) / left if left > 0 else 0.0


def spectrum(tokens: Tokens, k: int, rng: np.random.Generator) -> Spectrum:
    """The k largest eigenpairs of the tokens' covariance.

    Dense rows of up to `DENSE_LIMIT` features go through the d x d covariance, in one pass. Others
    go by randomised subspace iteration (Halko, Martinsson and Tropp 2011), whose passes are two
    products with the rows, so sparse rows are never made dense.

    Parameters
    ----------
    tokens : Tokens
        n rows of d features.
    k : int
        How many eigenpairs; at most d.
    rng : numpy.random.Generator
        Draws the first block of the subspace iteration.

    Returns
    -------
    Spectrum
        With min(k, d) eigenpairs.

    Examples
    --------
    >>> import numpy as np
    >>> from attnclust.tokens import Tokens
    >>> X = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    >>> spectrum(Tokens(X), 1, np.random.default_rng(0)).values
    array([2.])
    """
    k = min(k, tokens.dim)
    if tokens.dim <= DENSE_LIMIT and not tokens.sparse:
        return Moments.of(tokens).spectrum(k)
    return _subspace_iteration(tokens, k, rng)


def _subspace_iteration(
    tokens: Tokens, k: int, rng: np.random.Generator, oversampling: int = 10, n_passes: int = 8
) -> Spectrum:
    mean = tokens.mean()
    trace = max(tokens.mean_square() - float(mean @ mean), 0.0)
    block = min(k + oversampling, tokens.dim)
    Q = np.linalg.qr(rng.standard_normal((tokens.dim, block)))[0]
    for _ in range(n_passes):
        Q = np.linalg.qr(_covariance_times(tokens, mean, Q))[0]
    values, turn = np.linalg.eigh(Q.T @ _covariance_times(tokens, mean, Q))
    return Spectrum(mean, np.maximum(values[::-1][:k], 0.0), (Q @ turn[:, ::-1])[:, :k], trace)


def _covariance_times(tokens: Tokens, mean: FloatArray, Q: FloatArray) -> FloatArray:
    def work(_window: slice, tile: Tokens) -> FloatArray:
        P = tile.scores(Q.T, -(mean @ Q)) * tile.row_weights().astype(tile.dtype)
        return tile.sums(P).T - np.outer(mean, P.sum(1, dtype=np.float64))

    return np.asarray(tokens.fold(work, Q.shape[1]) / tokens.row_weights().sum())
