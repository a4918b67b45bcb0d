"""What the pictures share: colours, a figure, medians with their bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnclust.plotting import COLOURS, MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame


def panels(n: int = 1, *, width: float = 4.6, height: float = 3.6) -> tuple[Figure, list[Axes]]:
    """A figure of n panels side by side, which no global state knows of.

    Parameters
    ----------
    n : int
    width, height : float
        Of one panel, in inches.

    Returns
    -------
    figure : matplotlib Figure
    axes : list of n matplotlib Axes
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n, height), layout="constrained")
    axes = [figure.add_subplot(1, n, place + 1) for place in range(n)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#E6E6E6", linewidth=0.6)
        ax.set_axisbelow(True)
    return figure, axes


def bands(
    ax: Axes,
    frame: DataFrame,
    x: str,
    y: str,
    by: str | None = None,
    *,
    names: dict[Any, str] | None = None,
    order: Sequence[Any] | None = None,
) -> None:
    """Median of y over x as a line, its 10 to 90% band around it, one colour per group.

    Parameters
    ----------
    ax : matplotlib Axes
    frame : DataFrame
    x, y : str
        Numeric columns.
    by : str, optional
        Column of the groups.
    names : dict, optional
        What the legend calls the groups; "<by> <value>" by default.
    order : sequence, optional
        Groups in the order of their colours.
    """
    groups: Sequence[Any] = [None] if by is None else (order or list(frame[by].unique()))
    for place, group in enumerate(groups):
        part = frame if by is None else frame[frame[by] == group]
        at = part.groupby(x)[y].quantile([0.1, 0.5, 0.9]).unstack()
        colour = COLOURS[place % len(COLOURS)]
        label = None if by is None else (names or {}).get(group, f"{by} {group}")
        ax.fill_between(at.index, at[0.1], at[0.9], color=colour, alpha=0.18, linewidth=0)
        ax.plot(
            at.index,
            at[0.5],
            color=colour,
            marker=MARKERS[place % len(MARKERS)],
            markersize=4.5,
            linewidth=1.6,
            label=label,
        )
    ax.set(xlabel=x, ylabel=y)
    if by is not None:
        ax.legend(frameon=False, fontsize=8)


def strips(
    ax: Axes, frame: DataFrame, x: str, y: str, *, names: dict[Any, str] | None = None
) -> None:
    """Each seed as a point, in one column per group, with the median across.

    Parameters
    ----------
    ax : matplotlib Axes
    frame : DataFrame
    x, y : str
        Column of the groups, in order of appearance; numeric column.
    names : dict, optional
        What the axis calls the groups.
    """
    groups = list(frame[x].unique())
    for place, group in enumerate(groups):
        values = np.sort(frame.loc[frame[x] == group, y].to_numpy(dtype=float))
        offsets = 0.25 * np.sin(2.4 * np.arange(len(values)))  # spread without chance
        ax.scatter(place + offsets, values, s=12, alpha=0.6, color=COLOURS[0], linewidths=0)
        ax.plot([place - 0.35, place + 0.35], [np.median(values)] * 2, color=COLOURS[3], lw=1.8)
    ax.set_xticks(range(len(groups)), [(names or {}).get(g, str(g)) for g in groups])
    ax.set_ylabel(y)
