"""What the command tells of a comparison: one document for machines, a column for each method."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attnclust import __version__
from attnclust.compare.comparison import Comparison
from attnclust.compare.methods import methods
from attnclust.compare.page import save_comparison
from attnclust.compare.quality import class_fits
from attnclust.files import Vectors, beside, write_table
from attnclust.summary import record

MOST_CLASSES = 30


def describe(
    file: Path, rows: Vectors, comparison: Comparison, label_column: str | None, seed: int
) -> dict[str, Any]:
    """A comparison as a document that JSON can hold.

    Parameters
    ----------
    file : path
    rows : Vectors
        What was read from it.
    comparison : Comparison
    label_column : str or None
    seed : int

    Returns
    -------
    dict
    """
    named = {m.name: m for m in methods(comparison.metric, comparison.n_starts)}
    document: dict[str, Any] = {
        "command": "compare",
        "version": __version__,
        "file": str(file),
        "vectors": rows.told,
        "rows": int(rows.X.shape[0]),
        "features": int(rows.X.shape[1]),
        "n_clusters": comparison.n_clusters,
        "metric": comparison.metric,
        "n_starts": comparison.n_starts,
        "seed": seed,
        "order": comparison.order,
        "methods": [asdict(row) | {"about": named[row.method].about} for row in comparison.rows],
        "agreement": {
            "methods": list(comparison.labels),
            "adjusted_rand": comparison.agreement.tolist(),
        },
    }
    if rows.known is not None:
        number, largest = class_fits(rows.known, comparison.labels, MOST_CLASSES)
        document["classes"] = {"column": label_column, "number": number, "largest": largest}
    return document


def write_columns(
    folder: Path, suffix: str, comparison: Comparison, carried: pa.Table | None
) -> Path:
    """Write labels.<suffix> into a folder: a column for each method that has labels.

    Tables get them after the columns carried along, and a trailing underscore where such a name is
    taken; .npz files an array for each; .npy files one array of shape (n, methods), best first.

    Parameters
    ----------
    folder : path
    suffix : str
        A format of `attnclust.files`.
    comparison : Comparison
    carried : pyarrow.Table or None

    Returns
    -------
    path
        Of the file.
    """
    path = folder / f"labels{suffix}"
    named = {m.name: m.column for m in methods(comparison.metric, comparison.n_starts)}
    columns: dict[str, Any] = {
        named[method]: labels for method, labels in comparison.labels.items()
    }
    if suffix == ".npy":
        np.save(path, np.column_stack(list(columns.values())))
        return path
    if suffix == ".npz":
        np.savez(path, **columns)
        return path
    write_table(beside(carried, columns), path)
    return path


def write_results(
    folder: Path,
    out: Path,
    suffix: str,
    document: dict[str, Any],
    comparison: Comparison,
    carried: pa.Table | None,
) -> None:
    """Labels, page and comparison.json into a folder; the document learns of them as of `out`.

    Parameters
    ----------
    folder, out : path
    suffix : str
        A format of `attnclust.files`.
    document : dict
    comparison : Comparison
    carried : pyarrow.Table or None
    """
    write_columns(folder, suffix, comparison, carried)
    save_comparison(folder / "comparison.html", document)
    record(document, folder, out, "comparison.json")
