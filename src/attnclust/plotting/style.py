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
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    n = X.shape[0]
    if hasattr(X, "tocsr"):
        X = X.tocsr()
    if n <= MAX_POINTS:
        return np.arange(n), X
    rows = np.random.default_rng(random_state).choice(n, MAX_POINTS, replace=False)
    return rows, X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def scatter(
    ax: Axes, points: FloatArray, labels: IntArray, *, alpha: float = 0.55, size: float = 18
) -> None:
    """Points (n, 2) in the colour and marker of their label; grey crosses for -1."""
    if len(points) > 1_000:
        size /= 2
    for label in np.unique(labels):
        chosen = points[labels == label]
        ax.scatter(
            chosen[:, 0],
            chosen[:, 1],
            s=size,
            c=GREY if label < 0 else COLOURS[label % len(COLOURS)],
            marker="x" if label < 0 else MARKERS[label // len(COLOURS) % len(MARKERS)],
            alpha=alpha,
            linewidths=0.8 if label < 0 else 0,
            rasterized=True,
            label="no cluster (-1)" if label < 0 else None,
        )
    ax.set_aspect("equal", "datalim")
    ax.spines[["top", "right"]].set_visible(False)


def mark_centres(ax: Axes, centres: FloatArray, extent: float) -> None:
    """The number of each cluster where its centre (K, 2) lies, or beside it with a line to it.

    `extent` is the width of the picture, in units of the centres.
    """
    many = len(centres) > 20
    labels = apart(centres, extent * (0.05 if many else 0.06))
    for cluster, (centre, label) in enumerate(zip(centres, labels, strict=True)):
        colour = COLOURS[cluster % len(COLOURS)]
        ax.annotate(
            str(cluster),
            centre,
            label,
            ha="center",
            va="center",
            fontsize=7 if many else 9,
            fontweight="bold",
            arrowprops={"arrowstyle": "-", "color": "black", "linewidth": 0.8},
            bbox={
                "boxstyle": "round,pad=0.25",
                "facecolor": "white",
                "edgecolor": colour,
                "linewidth": 1.5,
            },
        )


def apart(places: FloatArray, gap: float) -> FloatArray:
    """Places (K, 2) pushed from one another until they are `gap` apart, or nearly so.

    Examples
    --------
    >>> apart(np.array([[0.0, 1.0], [0.1, 1.0], [3.0, 1.0]]), 0.5)[:, 0].round(1)
    array([-0.2,  0.3,  3. ])
    """
    turn = np.arange(len(places))
    moved = places + 1e-3 * gap * np.column_stack([np.cos(turn), np.sin(turn)])
    for _ in range(100):
        offsets = moved[:, None] - moved
        distances = np.linalg.norm(offsets, axis=2)
        np.fill_diagonal(distances, np.inf)
        short = np.maximum(gap - distances, 0)
        if not short.any():
            break
        moved += (offsets * (short / distances)[:, :, None]).sum(1) / 2
    return np.where(
        np.linalg.norm(moved - places, axis=1, keepdims=True) > 0.01 * gap, moved, places
    )


def whole_ticks(axis: Axis) -> None:
    """Ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def plural(count: int, noun: str) -> str:
    """The count and its noun: "1 cluster", "2 clusters"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
