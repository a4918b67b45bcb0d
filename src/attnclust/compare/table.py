"""The figures of a comparison as text, the same on a terminal and on the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Parameters
    ----------
    key : str
        Of the figure in a row.
    head, told : str
        Its name, and what it is.
    best : callable or None
        max or min; None where no figure is better than another.
    """

    key: str
    head: str
    told: str
    best: Callable[..., float] | None = None


COLUMNS = (
    Column("ari", "ARI", "Adjusted Rand index against the known labels", max),
    Column("nmi", "NMI", "Normalised mutual information with the known labels", max),
    Column("matched_accuracy", "Accuracy", "Share of rows right under the best matching", max),
    Column("relative_inertia", "Inertia", "Sum of squares about the means, over the least", min),
    Column("silhouette", "Silhouette", "Mean silhouette, on at most 2,000 rows", max),
    Column("seconds", "Seconds", "Of one run", min),
    Column("clusters", "Clusters", "Distinct labels"),
    Column("sizes", "Sizes", "Rows of the smallest and of the largest cluster"),
)


def shown_columns(rows: list[dict[str, Any]]) -> list[Column]:
    """The columns in which some row has a figure.

    Parameters
    ----------
    rows : list of dict
        The methods of a document.

    Returns
    -------
    list of Column
    """
    return [c for c in COLUMNS if c.key == "sizes" or any(row[c.key] is not None for row in rows)]


def cell(row: dict[str, Any], column: Column) -> str:
    """A figure as text, a dash where there is none.

    Parameters
    ----------
    row : dict
    column : Column

    Returns
    -------
    str

    Examples
    --------
    >>> cell({"ari": 0.99916}, COLUMNS[0])
    '0.9992'
    """
    key = column.key
    value = row["smallest" if key == "sizes" else key]
    if value is None:
        return "–"
    if key == "sizes":
        return f"{value:,} to {row['largest']:,}"
    if key == "clusters":
        return f"{value:,}" + (f" ({row['empty']:,} empty)" if row["empty"] else "")
    if key == "seconds":
        return f"{value:.3f}"
    return f"{value:.4f}" if value < 1000 else f"{value:.1e}"


def best_cell(rows: list[dict[str, Any]], column: Column) -> str | None:
    """What the best figure of a column reads; others that read the same are as good.

    Parameters
    ----------
    rows : list of dict
    column : Column

    Returns
    -------
    str or None
        None where no figure is better than another.
    """
    held = [row for row in rows if column.best and row[column.key] is not None]
    if not held or column.best is None:
        return None
    best = column.best(row[column.key] for row in held)
    return cell({column.key: best}, column)
