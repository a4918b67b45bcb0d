"""Sources: rows that come in batches, whatever holds them.

A source is made of parts (a batch of an iterable, a row group of a file), and a part of batches
that fit in memory. A part is the unit that is skipped, checked for change, or resumed at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Batch:
    """Rows in memory.

    Parameters
    ----------
    where : str
        For errors: file, row group, row.
    X : array-like of shape (n_b, d)
    aside : pyarrow.Table or None
        The other columns, where they were asked for.
    """

    where: str
    X: Any
    aside: Any = None


@dataclass(frozen=True)
class Part:
    """A piece of a source.

    Parameters
    ----------
    where : str
        For errors: file and row group, or number of the batch.
    read : callable
        Its batches; given True, with the other columns.
    n_rows : int
        Number of rows; 0 where it is not known before.
    """

    where: str
    read: Callable[[bool], Iterator[Batch]]
    n_rows: int = 0


@dataclass(frozen=True)
class Source:
    """Parts, once or as often as asked.

    Parameters
    ----------
    parts : iterable of Part
    again : bool
        Whether the parts can be read a second time.
    """

    parts: Iterable[Part]
    again: bool

    def batches(self) -> Iterator[Batch]:
        """Batches of all parts."""
        for part in self.parts:
            yield from part.read(False)


@dataclass(frozen=True)
class _Numbered:
    """Each array of an iterable as a part of one batch."""

    arrays: Iterable[Any]

    def __iter__(self) -> Iterator[Part]:
        for number, X in enumerate(self.arrays):
            batch = Batch(f"batch {number} (counted from 0)", X)
            yield Part(batch.where, lambda _, batch=batch: iter([batch]))  # type: ignore[misc]


def as_source(X: Any) -> Source | None:
    """The source that X is; None where it is rows in memory.

    Parameters
    ----------
    X : object
        A path is a file, or a folder of Parquet files. An iterator of arrays can be read once; a
        list of arrays, or any other iterable that is no array itself, as often as asked.

    Returns
    -------
    Source or None

    Examples
    --------
    >>> import numpy as np
    >>> source = as_source([np.zeros((2, 3)), np.ones((1, 3))])
    >>> source.again, [len(batch.X) for batch in source.batches()]
    (True, [2, 1])
    >>> as_source(np.zeros((2, 3))) is None
    True
    """
    if isinstance(X, Source):
        return X
    if isinstance(X, str | PathLike):
        from attnclust.datasets import open_dataset

        return open_dataset(Path(X)).source
    if isinstance(X, list | tuple):
        return Source(_Numbered(X), True) if len(X) and _is_matrix(X[0]) else None
    if any(hasattr(X, name) for name in ("shape", "__array__", "__dataframe__", "keys")):
        return None
    if isinstance(X, Iterable):
        return Source(_Numbered(X), not isinstance(X, Iterator))
    return None


def _is_matrix(X: Any) -> bool:
    return hasattr(X, "shape") and len(X.shape) == 2


def rows_per_batch(dim: int, itemsize: int, size: int = 2**25) -> int:
    """Rows that fill `size` bytes; at least one."""
    return max(1, size // (dim * itemsize))


def windows(n: int, step: int) -> Iterator[tuple[int, int]]:
    """Bounds of n rows, `step` at a time."""
    starts = np.arange(0, n, step)
    yield from zip(starts.tolist(), np.minimum(starts + step, n).tolist(), strict=True)
