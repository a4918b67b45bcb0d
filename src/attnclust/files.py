"""Vectors in files, and labels back into files of the same kind.

Arrays: .npy, .npz (dense, or a sparse matrix saved by SciPy). Tables: .csv, .tsv, .parquet and
.feather; there the vectors are one list-typed column, or the numeric columns. Every other column is
carried along to the labels.
"""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import scipy.sparse as sp

from attnclust._typing import Array, FloatArray, IntArray, Rows

SUFFIXES = (".npy", ".npz", ".csv", ".tsv", ".parquet", ".feather")
# Names of columns that number the rows rather than describe them.
IDENTIFIER = re.compile(
    r"(id|idx|index|row|row_?number|.*[_ ]id|unnamed: 0|__index_level_\d+__|)", re.IGNORECASE
)
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
MISSING = re.compile(r"\s*([-+]?(nan|inf|infinity)|#?n/?a|null|none|)\s*", re.IGNORECASE)


class InputError(ValueError):
    """A file that cannot be used: what is wrong with it, where, and what to do."""


@dataclass(frozen=True)
class Vectors:
    """Vectors read from a file.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    names : list of str
        The columns, or the array, that the vectors come from.
    known : array of shape (n,) or None
        The label column; None in it where a row has no label.
    carried : pyarrow.Table or None
        Columns to carry along; None where the file is no table.
    named : bool
        Whether each coordinate is a column with a name of its own.
    shown : dict of str to list
        Values of the columns that rows are shown by.
    """

    X: Rows
    names: list[str]
    known: Array | None
    carried: pa.Table | None
    named: bool = False
    shown: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def told(self) -> list[str]:
        """The names, cut short where they are many."""
        return self.names if len(self.names) <= 20 else [*self.names[:19], "..."]


def read_vectors(
    path: Path,
    vectors: Sequence[str] = (),
    label_column: str | None = None,
    keep: Sequence[str] | None = None,
    features: Sequence[str] = (),
    shown: Sequence[str] = (),
) -> Vectors:
    """Read the vectors of a file.

    Parameters
    ----------
    path : path
        Its suffix is the format.
    vectors : sequence of str
        The list-typed column, the numeric columns, or the array of an .npz. By default the only
        column of number lists; else all numeric columns but the label column, those kept, and
        those named like identifiers (id, index, row, ..._id); in an .npz the array X, or the only
        one of two dimensions.
    label_column : str, optional
        Column (array) of known labels.
    keep : sequence of str, optional
        Columns to carry along, in place of all that are not vectors.
    features : sequence of str, optional
        Names that a model knows its coordinates by: taken, in this order, where `vectors` are not
        given and the coordinates are columns with names.
    shown : sequence of str, optional
        Columns (arrays) that rows are shown by, no vectors by default.

    Returns
    -------
    Vectors

    Raises
    ------
    InputError
        Naming file, row and column, and what to do.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: unknown kind of file {suffix!r}; use {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise InputError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty")
    try:
        if suffix == ".npy":
            if vectors or label_column or keep or shown:
                raise InputError(f"{path}: an .npy file has no columns that options could name")
            X = np.load(path, mmap_mode="r", allow_pickle=False)
            return Vectors(_matrix(path, "the array", X), [], None, None)
        if suffix == ".npz":
            if keep:
                raise InputError(f"{path}: --keep needs a table, and an .npz file is none")
            return _read_npz(path, vectors, label_column, shown)
        table, header = _read_table(path, suffix)
        _ = table.column_names  # damaged ones raise here
    except InputError:
        raise
    except Exception as error:  # a damaged file makes parsers raise of every kind
        raise read_error(path, suffix, error) from None
    if features and not vectors and header and not _list_columns(table, {label_column}):
        vectors = features
    return from_table(path, table, header, list(vectors), label_column, keep, shown)


def read_error(path: Path, suffix: str, error: Exception) -> InputError:
    """What a parser raised, as one line that names the file."""
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return InputError(f"{path}: cannot be read as {suffix}: {reason}")


def _read_npz(
    path: Path, vectors: Sequence[str], label_column: str | None, shown: Sequence[str]
) -> Vectors:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        names = list(archive.files)
        if {"format", "shape", "data"} <= set(names):
            if vectors or label_column or shown:
                raise InputError(f"{path}: a sparse matrix has no columns to name")
            sparse = sp.csr_matrix(sp.load_npz(path))
            sparse.check_format(full_check=True)
            return Vectors(_matrix(path, "the matrix", sparse), [], None, None)
        beside = [*shown, *([label_column] if label_column else [])]
        for name in [*vectors, *beside]:
            _require(path, "array", name, names)
        if len(vectors) > 1:
            raise InputError(f"{path}: --vectors names one array of an .npz file")
        if vectors:
            chosen = vectors[0]
        elif "X" in names:
            chosen = "X"
        else:
            flat = [name for name in names if name not in beside and archive[name].ndim == 2]
            if len(flat) != 1:
                raise InputError(
                    f"{path}: say which array holds the vectors by --vectors: {', '.join(names)}"
                )
            chosen = flat[0]
        X = _matrix(path, f"array {chosen!r}", archive[chosen])
        columns = {name: archive[name] for name in beside}
    for name, column in columns.items():
        if column.shape != X.shape[:1]:
            raise InputError(
                f"{path}: {name} has shape {column.shape}, expected one value for each of the "
                f"{X.shape[0]} rows"
            )
    known = None
    if label_column is not None:
        known = _known(path, label_column, columns[label_column].tolist())
    return Vectors(X, [chosen], known, None, shown={n: columns[n].tolist() for n in shown})


def _matrix(path: Path, what: str, X: Rows) -> Rows:
    if X.dtype.kind not in "fiub":
        raise InputError(f"{path}: {what} holds {X.dtype}: vectors are made of real numbers")
    if X.ndim != 2 or 0 in X.shape:
        raise InputError(
            f"{path}: {what} has shape {X.shape}: vectors are the rows of a two-dimensional array"
        )
    return X


def _known(path: Path, name: str, values: list[Any]) -> Array:
    """The labels of a column that has some."""
    known = known_labels(values)
    if all(value is None for value in known):
        raise InputError(f"{path}: column {name!r} has no value in any row: leave it out")
    return known


def known_labels(values: list[Any]) -> Array:
    """Labels, with None for empty text and NaN, too."""
    known = np.empty(len(values), dtype=object)
    known[:] = [None if v is None or v == "" or v != v else v for v in values]
    return known


def _read_table(path: Path, suffix: str) -> tuple[pa.Table, bool]:
    """The table, and whether its columns have names."""
    if suffix in (".parquet", ".feather"):
        return (pa.parquet if suffix == ".parquet" else pa.feather).read_table(path), True
    delimiter = "," if suffix == ".csv" else "\t"
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, delimiter=delimiter)
        header = _is_header(next(lines, []), next(lines, []))
    table = pa.csv.read_csv(
        path,
        read_options=pa.csv.ReadOptions(autogenerate_column_names=not header),
        parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
    )
    return table, header


def _is_header(first: list[str], second: list[str]) -> bool:
    """Whether the first row names the columns: some field is neither a number nor missing.

    So do pandas' column names 0, 1, ... above a row that is not all integers.
    """
    if any(not re.match(NUMBER, field) and not MISSING.fullmatch(field) for field in first):
        return True
    counted = first[first[:1] == [""] :]
    return counted == [str(i) for i in range(len(counted))] and not all(
        re.fullmatch(r"\s*[-+]?\d+\s*", field) for field in second
    )


def from_table(
    path: Path,
    table: pa.Table,
    header: bool,
    vectors: list[str],
    label_column: str | None,
    keep: Sequence[str] | None,
    shown: Sequence[str] = (),
) -> Vectors:
    """Vectors and labels of a table; the other parameters are those of `read_vectors`.

    Parameters
    ----------
    path : path
        For errors.
    table : pyarrow.Table
    header : bool
        Whether its columns have names.
    vectors, label_column, keep, shown
        Names of columns that are there.
    """
    names = table.column_names
    for name in [*vectors, *(keep or []), *shown, *([label_column] if label_column else [])]:
        _require(path, "column", name, names)
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InputError(f"{path}: two columns are named {doubled[0]!r}; rename one")
    if table.num_rows == 0:
        raise InputError(f"{path}: the table has no rows")
    known = None
    if label_column is not None:
        known = _known(path, label_column, table[label_column].to_pylist())
    aside = {label_column, *(keep or []), *shown}
    if not vectors:
        lists = _list_columns(table, aside)
        if len(lists) > 1:
            raise InputError(f"{path}: say which column holds the vectors: {', '.join(lists)}")
        vectors = lists or _numeric_columns(path, table, aside)
    single_list = len(vectors) == 1 and _is_list(table.schema.field(vectors[0]).type)
    if single_list:
        X = _from_lists(path, vectors[0], table[vectors[0]])
    else:
        columns = [_from_column(path, name, table[name]) for name in vectors]
        single = all(c.dtype == np.float32 for c in columns)
        X = np.empty((table.num_rows, len(columns)), np.float32 if single else np.float64)
        for place, column in enumerate(columns):
            X[:, place] = column
    others = [n for n in names if n not in vectors] if keep is None else list(dict.fromkeys(keep))
    return Vectors(
        X,
        vectors,
        known,
        table.select(others),
        header and not single_list,
        {name: table[name].to_pylist() for name in shown},
    )


def _list_columns(table: pa.Table, aside: set[str | None]) -> list[str]:
    """Columns of lists of numbers; where there are none, those of any lists."""
    fields = [f for f in table.schema if _is_list(f.type) and f.name not in aside]
    numeric = [f for f in fields if _is_numeric(f.type.value_type)]
    return [f.name for f in numeric or fields]


def _numeric_columns(path: Path, table: pa.Table, aside: set[str | None]) -> list[str]:
    found = []
    for name in table.column_names:
        if name in aside:
            continue
        kind = table.schema.field(name).type
        if _is_numeric(kind) or pa.types.is_null(kind):
            if not (pa.types.is_integer(kind) and IDENTIFIER.fullmatch(name)):
                found.append(name)
        elif pa.types.is_string(kind):
            _refuse_almost_numeric(path, name, table[name])
    if not found:
        there = ", ".join(table.column_names)
        raise InputError(f"{path}: no list-typed and no numeric column; the columns are {there}")
    return found


def _refuse_almost_numeric(path: Path, name: str, column: pa.ChunkedArray) -> None:
    """A column of numbers with a few words in it would else drop out of the vectors unseen."""
    numeric = pc.fill_null(pc.match_substring_regex(column, NUMBER), False).to_numpy()
    if 0.5 < numeric.mean() < 1:
        row = int(np.flatnonzero(~numeric)[0])
        raise InputError(
            f"{_cell(path, row, name)} holds {column[row].as_py()!r}, not a number: "
            f"mend it, or carry the column along by --keep"
        )


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _from_lists(path: Path, name: str, column: pa.ChunkedArray) -> FloatArray:
    _refuse(path, name, column.is_null().to_numpy(), "is empty")
    kind = column.type.value_type
    if not _is_numeric(kind):
        raise InputError(f"{path}: column {name!r} holds lists of {kind}, not of numbers")
    sizes = pc.list_value_length(column).to_numpy()
    other = np.flatnonzero(sizes != sizes[0])
    if len(other):
        raise InputError(
            f"{_cell(path, other[0], name)} has {sizes[other[0]]} numbers where row 0 has "
            f"{sizes[0]}: vectors must be of one length"
        )
    if sizes[0] == 0:
        raise InputError(f"{path}: column {name!r} holds empty lists")
    flat = pc.list_flatten(column)
    if flat.null_count:
        row, place = divmod(int(flat.is_null().to_numpy().argmax()), int(sizes[0]))
        raise InputError(f"{_cell(path, row, name)} has no number at position {place}")
    return np.asarray(flat.to_numpy()).reshape(len(column), int(sizes[0]))


def _from_column(path: Path, name: str, column: pa.ChunkedArray) -> FloatArray:
    kind = column.type
    if pa.types.is_null(kind):
        raise InputError(f"{path}: column {name!r} is empty: carry it along by --keep")
    if not _is_numeric(kind):
        if pa.types.is_string(kind):
            _refuse_almost_numeric(path, name, column)
        raise InputError(
            f"{path}: column {name!r} holds {kind}, and row 0 {column[0].as_py()!r}: "
            "vectors are made of numbers"
        )
    _refuse(path, name, column.is_null().to_numpy(), "is empty")
    out = np.asarray(column.to_numpy())
    _refuse(path, name, np.isnan(out), "holds NaN")
    _refuse(path, name, np.isinf(out), "holds infinity")
    return out.astype(np.float32) if out.dtype == np.float16 else out


def _refuse(path: Path, name: str, bad: Array, what: str) -> None:
    if bad.any():
        raise InputError(
            f"{_cell(path, int(bad.argmax()), name)} {what}: fill or drop such rows, or carry the "
            "column along by --keep"
        )


def _cell(path: Path, row: int, name: str) -> str:
    return f"{path}: row {row} (counted from 0), column {name!r}"


def _require(path: Path, what: str, name: str, names: list[str]) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names[:20])}"
        raise InputError(f"{path}: no {what} {name!r}; {hint}")


def write_labels(
    folder: Path, suffix: str, labels: IntArray, confidence: FloatArray, carried: pa.Table | None
) -> Path:
    """Write labels.<suffix> into a folder.

    Tables get the columns `cluster` and `confidence` (the largest posterior) after those carried
    along, and both a trailing underscore where such a name is taken; .npz files the arrays `labels`
    and `confidence`; .npy files the labels alone.

    Parameters
    ----------
    folder : path
    suffix : str
        One of `SUFFIXES`.
    labels, confidence : arrays of shape (n,)
    carried : pyarrow.Table or None

    Returns
    -------
    path
        Of the file.
    """
    path = folder / f"labels{suffix}"
    if suffix == ".npy":
        np.save(path, labels)
        return path
    if suffix == ".npz":
        np.savez(path, labels=labels, confidence=confidence)
        return path
    write_table(beside(carried, {"cluster": labels, "confidence": confidence}), path)
    return path


def beside(carried: pa.Table | None, columns: dict[str, Array]) -> pa.Table:
    """Columns after those carried along, with a trailing underscore where a name is taken.

    Parameters
    ----------
    carried : pyarrow.Table or None
    columns : dict of str to array of shape (n,)

    Returns
    -------
    pyarrow.Table

    Examples
    --------
    >>> beside(pa.table({"cluster": ["x"]}), {"cluster": np.array([0])}).column_names
    ['cluster', 'cluster_']
    """
    whole = {} if carried is None else dict(zip(carried.column_names, carried.columns, strict=True))
    for name, values in columns.items():
        while name in whole:
            name += "_"
        whole[name] = pa.array(values)
    return pa.table(whole)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table in the format of the path's suffix.

    Parameters
    ----------
    table : pyarrow.Table
    path : path
        .csv, .tsv, .parquet or .feather.
    """
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    elif path.suffix == ".feather":
        pa.feather.write_feather(table, str(path))
    else:
        options: Any = pa.csv.WriteOptions(delimiter="," if path.suffix == ".csv" else "\t")
        pa.csv.write_csv(table, path, write_options=options)
