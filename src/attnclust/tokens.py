"""Tokens: the rows of X seen in a frame, tile by tile, never copied.

A row x_i is seen as y_i = (r_i x_i - shift) / unit: r_i = 1/|x_i| under cosine scaling and 1
otherwise, `shift` the mean and `unit` a power of two near the spread, so that neither an offset nor
a scale costs digits. Every pass over the data is made of two products, `scores` (A y_i) and `sums`
(sum_i P_i y_i), into which the frame is folded: dense rows need no centred copy, sparse ones stay
sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TypeVar

import numpy as np
import scipy.sparse as sp

from attnclust._typing import FloatArray, IntArray, Rows
from attnclust.threads import spread

T = TypeVar("T")

# Tiles are shared among threads in so many spans; fewer tiles than these are not.
SPANS, FEW_TILES = 8, 4
# Scattered rows are copied together if they take no more.
GATHERED_BYTES = 48 * 2**20
# Elements of the larger of a tile's two faces (rows x features, rows x clusters): 2 MB in float32.
TILE_ELEMENTS = 2**19
# Features up to which sums by label go column by column.
FEW = 8
# Features from which a product with the rows is faster with the rows on the left.
WIDE = 32


@dataclass(frozen=True)
class Tokens:
    """Rows of X with weights, in a frame.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        The rows as the user gave them.
    weights : array of shape (n,), optional
        Non-negative row weights; None means one each.
    row_scale : array of shape (n,), optional
        The factor r_i of each row; None means one.
    shift : array of shape (d,), optional
        Origin of the frame, in units of r_i x_i; None means zero.
    unit : float
        Length of one unit of the frame, in units of r_i x_i.
    rows : integer array of shape (m,), optional
        The rows of X that count, gathered a tile at a time; None means all.
    """

    X: Rows
    weights: FloatArray | None = None
    row_scale: FloatArray | None = None
    shift: FloatArray | None = None
    unit: float = 1.0
    rows: IntArray | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0] if self.rows is None else len(self.rows))

    @property
    def dim(self) -> int:
        """Number of features d."""
        return int(self.X.shape[1])

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Precision of the rows, and of everything of their size."""
        dtype: np.dtype[np.floating] = self.X.dtype
        return dtype

    @property
    def sparse(self) -> bool:
        """Whether X is a CSR matrix."""
        return bool(sp.issparse(self.X))

    @property
    def origin(self) -> FloatArray:
        """Where the rows' own origin lies in the frame, shape (d,)."""
        return np.zeros(self.dim) if self.shift is None else -self.shift / self.unit

    def part(self, window: slice) -> Tokens:
        """The rows of a window, as tokens of their own with X in hand."""
        keep: slice | IntArray = window if self.rows is None else self.rows[window]
        X = self.X[keep]
        return replace(
            self,
            X=X if self.sparse else np.ascontiguousarray(X),
            weights=None if self.weights is None else self.weights[keep],
            row_scale=None if self.row_scale is None else self.row_scale[keep],
            rows=None,
        )

    def windows(self, width: int = 0) -> list[slice]:
        """Windows of rows that fit the cache; `width` is the other face of a tile."""
        n, step = len(self), max(256, TILE_ELEMENTS // max(min(self.dim, 4096), width, 1))
        return [slice(start, min(start + step, n)) for start in range(0, max(n, 1), step)]

    def tiles(self, width: int = 0) -> Iterator[tuple[slice, Tokens]]:
        """Windows of rows, each with its tokens."""
        for window in self.windows(width):
            yield window, self.part(window)

    def fold(self, work: Callable[[slice, Tokens], T], width: int = 0) -> T:
        """Sum of work(window, tile) over the tiles, several of them at a time.

        Tiles are added within spans, and spans in order, so that the sum does not depend on the
        number of threads and few terms are held at once.
        """
        windows = self.windows(width)

        def span(some: list[slice]) -> T:
            return reduce(add, (work(window, self.part(window)) for window in some))

        if len(windows) < FEW_TILES:
            return span(windows)
        size = -(-len(windows) // SPANS)
        spans = [windows[start : start + size] for start in range(0, len(windows), size)]
        return reduce(add, spread(span, spans))

    def take(self, rows: IntArray) -> Tokens:
        """Only these rows (positions among the present ones), still ungathered."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def gathered(self) -> Tokens:
        """The same rows, together in memory where that takes no more than `GATHERED_BYTES`."""
        small = len(self) * self.dim * self.dtype.itemsize <= GATHERED_BYTES
        return self if self.rows is None or not (small or self.sparse) else self.part(slice(None))

    def row_weights(self) -> FloatArray:
        """Weights of the rows at hand, float64; ones where none were given."""
        if self.weights is None:
            return np.ones(len(self))
        picked = self.weights if self.rows is None else self.weights[self.rows]
        return np.asarray(picked, dtype=np.float64)

    def effective_rows(self) -> float:
        """(sum of weights)^2 / sum of their squares: n where all weigh the same."""
        w = self.row_weights()
        return float(w.sum() ** 2 / (w @ w))

    def scores(self, A: FloatArray, bias: FloatArray | None = None) -> FloatArray:
        """A y_i + bias for one tile: shape (len(A), rows), in either order."""
        A = A / self.unit
        out: FloatArray
        if self.sparse or self.dim >= WIDE:
            out = np.asarray(self.X @ A.T.astype(self.dtype)).T
        else:
            out = A.astype(self.dtype) @ self.X.T
        if self.row_scale is not None:
            out *= self.row_scale.astype(self.dtype)
        offset = np.zeros(len(A)) if bias is None else bias
        if self.shift is not None:
            offset = offset - A @ self.shift
        out += offset.astype(self.dtype)[:, None]
        return out

    def sums(self, P: FloatArray) -> FloatArray:
        """sum_i P_ki y_i for one tile and P of shape (k, rows): (k, d) in float64."""
        total = P.sum(1, dtype=np.float64)
        if self.row_scale is not None:
            P = P * self.row_scale.astype(self.dtype)
        out = np.asarray((self.X.T @ P.T).T if self.sparse else P @ self.X, dtype=np.float64)
        if self.shift is not None:
            out -= total[:, None] * self.shift
        return out / self.unit

    def own_scores(self, V: FloatArray, labels: IntArray) -> FloatArray:
        """<y_i, V[labels_i]> for one tile, float64: shape (rows,)."""
        if self.sparse:
            return np.asarray(self.scores(V)[labels, np.arange(len(self))], dtype=np.float64)
        scaled = V / self.unit
        out = np.einsum("id,id->i", self.X, scaled.astype(self.dtype)[labels]).astype(np.float64)
        if self.row_scale is not None:
            out *= self.row_scale
        if self.shift is not None:
            out -= (scaled @ self.shift)[labels]
        return np.asarray(out)

    def own_sums(self, values: FloatArray, labels: IntArray, n_clusters: int) -> FloatArray:
        """Sum of values_i y_i over the rows of each label, for one tile: (n_clusters, d)."""
        n = len(self)
        total = np.bincount(labels, values, minlength=n_clusters)
        if self.row_scale is not None:
            values = values * self.row_scale
        if self.dim <= FEW and not self.sparse:
            out = np.array([np.bincount(labels, values * x, n_clusters) for x in self.X.T]).T
        else:
            P = sp.csc_matrix(
                (values.astype(self.dtype), labels, np.arange(n + 1)), shape=(n_clusters, n)
            )
            product = P @ self.X
            out = np.asarray(product.toarray() if self.sparse else product, dtype=np.float64)
        if self.shift is not None:
            out -= total[:, None] * self.shift
        return out / self.unit

    def square_lengths(self) -> FloatArray:
        """|y_i|^2 of the rows of one tile, float64 summed in their precision: shape (rows,)."""
        if not self.sparse:
            Y = self.dense()
            return np.asarray(np.einsum("id,id->i", Y, Y), dtype=np.float64)
        scaled = replace(self, shift=None)
        squares = self.X.astype(np.float64) / self.unit
        squares.data **= 2
        out = np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
        if self.row_scale is not None:
            out *= self.row_scale**2
        if self.shift is not None:
            out += float(self.shift @ self.shift) / self.unit**2
            out -= 2 * scaled.scores(self.shift[None, :] / self.unit)[0].astype(np.float64)
        return out

    def mean(self) -> FloatArray:
        """E[y] over the weighted rows, shape (d,)."""

        def work(_window: slice, tile: Tokens) -> FloatArray:
            w = tile.row_weights()
            return np.append(tile.sums(w.astype(tile.dtype)[None, :])[0], w.sum())

        *total, count = self.fold(work)
        return np.asarray(np.array(total) / count)

    def mean_square(self) -> float:
        """E|y|^2 over the weighted rows."""

        def work(_window: slice, tile: Tokens) -> FloatArray:
            w = tile.row_weights()
            return np.array([w @ tile.square_lengths(), w.sum()])

        total, count = self.fold(work)
        return float(total / count)

    def dense(self) -> FloatArray:
        """The rows of one tile in the frame, as an array: shape (rows, d)."""
        Y = self.X.toarray() if self.sparse else self.X
        if self.row_scale is not None:
            Y = Y * self.row_scale.astype(self.dtype)[:, None]
        if self.shift is not None:
            Y = Y - self.shift.astype(self.dtype)
        return np.asarray(Y * self.dtype.type(1.0 / self.unit))


def power_of_two(scale: float) -> float:
    """The power of two nearest below `scale`, so that scaling by it rounds nothing; 1 for 0."""
    return float(2.0 ** np.floor(np.log2(scale))) if scale > 0 else 1.0


def row_norms(X: Rows) -> FloatArray:
    """Lengths of the rows, float64, safe from over- and underflow of squares in float32."""
    if sp.issparse(X):
        squares = X.astype(np.float64)
        squares.data **= 2
        return np.asarray(np.sqrt(np.asarray(squares.sum(axis=1)).ravel()))
    norms: FloatArray = np.empty(len(X))
    for start in range(0, len(X), 8192):
        wide = X[start : start + 8192].astype(np.float64)
        norms[start : start + len(wide)] = np.sqrt(np.einsum("id,id->i", wide, wide))
    return norms


def scale_to_unit(X: Rows) -> Rows:
    """Rows scaled to unit length, in their precision, sparse ones sparse; rows of zeros stay.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)

    Returns
    -------
    array or CSR matrix of shape (n, d)

    Examples
    --------
    >>> scale_to_unit(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    norms = row_norms(X)
    factors = np.divide(1.0, norms, out=np.zeros(len(norms)), where=norms > 0).astype(X.dtype)
    return sp.csr_matrix(sp.diags(factors) @ X) if sp.issparse(X) else X * factors[:, None]


def unit_rows(A: FloatArray) -> FloatArray:
    """Rows scaled to unit length; zero rows stay."""
    length = np.linalg.norm(A, axis=1, keepdims=True)
    return np.asarray(A / np.where(length > 0, length, 1.0))
