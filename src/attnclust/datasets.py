"""Files too large for memory, read part by part: .npy arrays, Parquet files and folders of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from attnclust.files import InputError, Vectors, from_table, read_error
from attnclust.sources import Batch, Part, Source, rows_per_batch, windows

# Bytes of a part of an .npy file, so that parts do not depend on the memory at hand.
NPY_PART = 2**26


class ChangedError(InputError):
    """A file that is no longer what it was when it was opened."""


@dataclass(frozen=True)
class Stamp:
    """What tells that a file was changed: size and time of the last change."""

    path: Path
    size: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """The present stamp of a file."""
        status = path.stat()
        return cls(path, status.st_size, status.st_mtime_ns)

    def check(self) -> None:
        """Raise ChangedError if the file is gone or has changed."""
        try:
            same = Stamp.of(self.path) == self
        except OSError:
            same = False
        if not same:
            raise ChangedError(f"{self.path}: was changed while it was being read: run again")


@dataclass(frozen=True)
class Dataset:
    """Vectors in files, opened but not read.

    Parameters
    ----------
    path : path
        The file, or the folder.
    parts : tuple of Part
    stamps : tuple of Stamp
        Of all files.
    names : list of str
        The columns that the vectors come from.
    named : bool
        Whether each coordinate is a column with a name of its own.
    dim : int
        Number of features.
    dtype : dtype
        Of the vectors as they are stored.
    schema : pyarrow.Schema or None
        Of the other columns; None where the file is no table.
    """

    path: Path
    parts: tuple[Part, ...]
    stamps: tuple[Stamp, ...]
    names: list[str]
    named: bool
    dim: int
    dtype: np.dtype[Any]
    schema: pa.Schema | None

    @property
    def n_rows(self) -> int:
        """Rows of all parts whose number is known."""
        return sum(part.n_rows for part in self.parts)

    @property
    def nbytes(self) -> int:
        """Bytes of the vectors in memory."""
        return self.n_rows * self.dim * self.dtype.itemsize

    @property
    def source(self) -> Source:
        """The parts, to be read as often as asked."""
        return Source(self.parts, True)

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for a stopped run to go on."""
        return {
            "files": [[str(s.path.absolute()), s.size, s.changed] for s in self.stamps],
            "names": self.names,
            "dim": self.dim,
            "dtype": str(self.dtype),
        }


def open_dataset(
    path: Path,
    vectors: tuple[str, ...] = (),
    label_column: str | None = None,
    keep: tuple[str, ...] | None = None,
    batch_bytes: int = 2**25,
) -> Dataset:
    """Open an .npy file, a Parquet file or a folder of Parquet files.

    Parameters
    ----------
    path : path
        Of a folder, all .parquet files at any depth count, in the order of their names, but those
        whose name begins with a dot or an underscore.
    vectors, label_column, keep
        Of `read_vectors`.
    batch_bytes : int
        Bytes of vectors in memory at once.

    Returns
    -------
    Dataset
        A file of a folder that cannot be opened is a part that raises when read.

    Raises
    ------
    InputError
        Naming the file and what is wrong with it.
    """
    if path.is_dir():
        hidden = (".", "_")
        files = [p for p in sorted(path.rglob("*.parquet")) if not p.name.startswith(hidden)]
        if not files:
            raise InputError(f"{path}: a folder without .parquet files")
        return _open_parquet(path, files, vectors, label_column, keep, batch_bytes)
    if not path.is_file():
        raise InputError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _open_parquet(path, [path], vectors, label_column, keep, batch_bytes)
    if suffix == ".npy":
        if vectors or label_column or keep:
            raise InputError(
                f"{path}: --vectors, --label-column and --keep: an .npy file has no columns"
            )
        return _open_npy(path, batch_bytes)
    raise InputError(
        f"{path}: only .npy and .parquet files, and folders of .parquet files, are read in parts; "
        "convert it to one of them, or read it into memory"
    )


def _open_npy(path: Path, batch_bytes: int) -> Dataset:
    try:
        X = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged file makes NumPy raise of every kind
        raise read_error(path, ".npy", error) from None
    if X.dtype.kind not in "fiub":
        raise InputError(f"{path}: holds {X.dtype}: vectors are made of real numbers")
    if X.ndim != 2 or 0 in X.shape:
        raise InputError(
            f"{path}: has shape {X.shape}: vectors are the rows of a two-dimensional array"
        )
    n, dim = X.shape
    stamp, step = Stamp.of(path), rows_per_batch(dim, X.dtype.itemsize, batch_bytes)
    # Of rows that do not follow each other in the file the map itself is read.
    mapped = None if X.flags.c_contiguous else X
    kind, offset = X.dtype, X.offset

    def part(start: int, stop: int) -> Part:
        def read(_: bool) -> Iterator[Batch]:
            stamp.check()
            for low, high in windows(stop - start, step):
                first, last = start + low, start + high
                if mapped is not None:
                    rows = np.array(mapped[first:last])
                else:
                    begin = offset + first * dim * kind.itemsize
                    try:
                        rows = np.fromfile(path, kind, (last - first) * dim, offset=begin)
                    except OSError as error:
                        raise read_error(path, ".npy", error) from None
                    if len(rows) < (last - first) * dim:
                        raise ChangedError(f"{path}: was cut short while it was being read")
                yield Batch(f"{path}, rows from {first}", rows.reshape(last - first, dim))
            stamp.check()

        return Part(f"{path}, rows {start} to {stop - 1}", read, stop - start)

    bounds = windows(n, rows_per_batch(dim, kind.itemsize, NPY_PART))
    parts = tuple(part(start, stop) for start, stop in bounds)
    return Dataset(path, parts, (stamp,), [], False, dim, kind, None)


def _open_parquet(
    path: Path,
    files: list[Path],
    vectors: tuple[str, ...],
    label_column: str | None,
    keep: tuple[str, ...] | None,
    batch_bytes: int,
) -> Dataset:
    stamps = tuple(Stamp.of(file) for file in files)
    head, schema = _head(path, files, vectors, label_column, keep)
    assert head.carried is not None
    beside = list(dict.fromkeys([*head.carried.column_names, *filter(None, [label_column])]))
    layout = _Layout(
        head.names,
        beside,
        pa.schema([schema.field(name) for name in dict.fromkeys([*head.names, *beside])]),
        head.X.shape[1],
        rows_per_batch(head.X.shape[1], head.X.dtype.itemsize, batch_bytes),
    )
    parts: list[Part] = []
    for file, stamp in zip(files, stamps, strict=True):
        try:
            with _parquet_file(file) as opened:
                footer = opened.metadata
            sizes = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        except Exception as error:  # a damaged file makes parsers raise of every kind
            parts.append(_unreadable(file, error))
        else:
            parts += [
                _group(file, footer, stamp, group, size, layout)
                for group, size in enumerate(sizes)
                if size
            ]
    aside = pa.schema([schema.field(name) for name in head.carried.column_names])
    return Dataset(
        path, tuple(parts), stamps, head.names, head.named, layout.dim, head.X.dtype, aside
    )


@dataclass(frozen=True)
class _Layout:
    """What all row groups have in common: columns, their types, and how they are read."""

    names: list[str]
    beside: list[str]
    schema: pa.Schema
    dim: int
    step: int


def _head(
    path: Path,
    files: list[Path],
    vectors: tuple[str, ...],
    label_column: str | None,
    keep: tuple[str, ...] | None,
) -> tuple[Vectors, pa.Schema]:
    """The first rows of the first file that has any, and its schema."""
    broken: InputError | None = None
    for file in files:
        try:
            with _parquet_file(file) as opened:
                first = next(opened.iter_batches(batch_size=256), None)
                schema = opened.schema_arrow
        except Exception as error:  # a damaged file makes parsers raise of every kind
            broken = broken or read_error(file, ".parquet", error)
            continue
        if first is not None and first.num_rows:
            table = pa.Table.from_batches([first])
            return from_table(file, table, True, list(vectors), label_column, keep), schema
    raise broken or InputError(f"{path}: the table has no rows")


def _parquet_file(file: Path, footer: pq.FileMetaData | None = None) -> pq.ParquetFile:
    # Buffered: pages come one by one, not a column of the row group at once.
    return pq.ParquetFile(file, metadata=footer, buffer_size=2**20, pre_buffer=False)


def _unreadable(file: Path, error: Exception) -> Part:
    def read(_: bool) -> Iterator[Batch]:
        raise read_error(file, ".parquet", error)
        yield  # a generator, so that it raises where parts are read

    return Part(str(file), read)


def _group(
    file: Path, footer: pq.FileMetaData, stamp: Stamp, group: int, n_rows: int, layout: _Layout
) -> Part:
    """One row group as a part."""
    where = f"{file}, row group {group}"

    def read(whole: bool) -> Iterator[Batch]:
        stamp.check()
        start = 0
        try:
            with _parquet_file(file, footer) as opened:
                _check_schema(file, opened.schema_arrow, layout.schema)
                columns = layout.schema.names if whole else layout.names
                records = opened.iter_batches(layout.step, [group], columns, use_threads=False)
                for record in records:
                    place = f"{where}, rows from {start}"
                    table = pa.Table.from_batches([record])
                    X = from_table(Path(place), table, True, layout.names, None, ()).X
                    if X.shape[1] != layout.dim:
                        raise InputError(
                            f"{place}: vectors of {X.shape[1]} numbers, where those before have "
                            f"{layout.dim}"
                        )
                    yield Batch(place, X, table.select(layout.beside) if whole else None)
                    start += len(X)
        except InputError:
            stamp.check()
            raise
        except Exception as error:  # a damaged file makes parsers raise of every kind
            stamp.check()
            raise read_error(Path(where), ".parquet", error) from None
        stamp.check()
        if start != n_rows:
            raise InputError(f"{where}: holds {start} rows, where the file says {n_rows}")

    return Part(where, read, n_rows)


def _check_schema(file: Path, schema: pa.Schema, wanted: pa.Schema) -> None:
    for field in wanted:
        place = schema.get_field_index(field.name)
        if place < 0:
            raise InputError(f"{file}: no column {field.name!r}, which the first file has")
        if schema.field(place).type != field.type:
            raise InputError(
                f"{file}: column {field.name!r} is of {schema.field(place).type}, in the first "
                f"file of {field.type}"
            )
