"""What the displays share: colours, where to draw, which rows to show, points and centres."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attnclust._typing import FloatArray, IntArray, Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by colour-blind readers, less black and yellow on white.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
MAX_POINTS = 5_000
# Lines and words that stand back.
GREY = "#6E6E6E"


class Display:
    """A picture that knows the axes it was drawn on."""

    ax_: Axes
    figure_: Figure

    def _canvas(self, ax: Axes | None, width: float = 7.0, height: float = 5.5) -> Axes:
        """`ax`, or axes of a new figure that no global state knows of."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(width, height), layout="constrained").add_subplot()
        self.ax_ = ax
        self.figure_ = ax.figure  # type: ignore[assignment]
        return ax


def shown_rows(X: Rows, random_state: int) -> tuple[IntArray, Rows]:
    """At most `MAX_POINTS` rows drawn at random: their places in X, and themselves."""
    n = X.shape[0]
    if n <= MAX_POINTS:
        return np.arange(n), X
    rows = np.random.default_rng(random_state).choice(n, MAX_POINTS, replace=False)
    return rows, X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def scatter(
    ax: Axes, points: FloatArray, labels: IntArray, *, alpha: float = 0.55, size: float = 18
) -> None:
    """Points (n, 2) in the colour and marker of their label; grey dots for -1."""
    if len(points) > 1_000:
        size /= 2
    for label in np.unique(labels):
        chosen = points[labels == label]
        ax.scatter(
            chosen[:, 0],
            chosen[:, 1],
            s=size,
            c="#BBBBBB" if label < 0 else COLOURS[label % len(COLOURS)],
            marker="." if label < 0 else MARKERS[label // len(COLOURS) % len(MARKERS)],
            alpha=alpha,
            linewidths=0,
            rasterized=True,
            label="no cluster (-1)" if label < 0 else None,
        )
    if len(labels) and labels.min() < 0:
        ax.legend(frameon=False, fontsize=8, loc="best", markerscale=2)


def mark_centres(ax: Axes, centres: FloatArray) -> None:
    """The number of each cluster where its centre (K, 2) lies."""
    for label, (x, y) in enumerate(centres):
        ax.annotate(
            str(label),
            (x, y),
            ha="center",
            va="center",
            fontsize=9 if len(centres) <= 20 else 7,
            fontweight="bold",
            bbox={
                "boxstyle": "round,pad=0.25",
                "facecolor": "white",
                "edgecolor": COLOURS[label % len(COLOURS)],
                "linewidth": 1.5,
            },
        )


def whole_ticks(axis: Axis) -> None:
    """Ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def plural(count: int, noun: str) -> str:
    """The count and its noun: "1 cluster", "2 clusters"."""
    return f"{count} {noun}{'s' * (count != 1)}"
