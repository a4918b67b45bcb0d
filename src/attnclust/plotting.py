"""Pictures, in scikit-learn's Display convention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils import check_array

from attnclust._typing import FloatArray, IntArray, Rows
from attnclust.checks import as_rows
from attnclust.tokens import scale_to_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by colour-blind readers, less black and yellow on white.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
MAX_POINTS = 5_000


class ClusterMapDisplay:
    """Rows and centres in the plane in which the centres are spread most.

    Parameters
    ----------
    points : array of shape (n, 2)
        Rows in the plane.
    labels : array of shape (n,)
        Their clusters; -1 for rows without one.
    centres : array of shape (K, 2)
        Centres in the plane.
    share : float
        Share of the centres' variance that the plane shows.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes
        After `plot`.
    """

    def __init__(
        self, points: FloatArray, labels: IntArray, centres: FloatArray, share: float
    ) -> None:
        self.points = points
        self.labels = labels
        self.centres = centres
        self.share = share

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Rows,
        *,
        labels: IntArray | None = None,
        ax: Axes | None = None,
        random_state: int = 0,
    ) -> Self:
        """Draw the rows of X and the centres of a fitted estimator.

        Parameters
        ----------
        estimator : AttentionClustering
            Fitted.
        X : array or sparse matrix of shape (n, d)
            At most 5,000 rows, drawn at random, are shown.
        labels : array of shape (n,), optional
            Labels of the rows; predicted if not given.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        random_state : int
            Draws the rows shown.

        Returns
        -------
        ClusterMapDisplay

        Examples
        --------
        >>> import numpy as np
        >>> from attnclust import AttentionClustering
        >>> X = np.random.default_rng(0).standard_normal((50, 3))
        >>> model = AttentionClustering(3, random_state=0).fit(X)
        >>> ClusterMapDisplay.from_estimator(model, X).centres.shape
        (3, 2)
        """
        n = X.shape[0]
        rows = np.arange(n)
        if n > MAX_POINTS:
            rows = np.random.default_rng(random_state).choice(n, MAX_POINTS, replace=False)
        shown = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
        known = estimator.predict(shown) if labels is None else np.asarray(labels)[rows]
        if estimator.metric == "cosine":
            shown = check_array(as_rows(shown), accept_sparse="csr", dtype=[np.float64, np.float32])
            shown = scale_to_unit(shown)
        centres = np.asarray(estimator.cluster_centers_, dtype=np.float64)
        mean = estimator.weights_ @ centres
        spread = (centres - mean) * np.sqrt(estimator.weights_)[:, None]
        _, lengths, axes = np.linalg.svd(spread, full_matrices=False)
        plane = np.zeros((2, centres.shape[1]))
        plane[: min(2, len(axes))] = axes[:2]
        total = float((lengths**2).sum())
        share = float((lengths[:2] ** 2).sum()) / total if total > 0 else 1.0
        display = cls(
            np.asarray(shown @ plane.T) - mean @ plane.T, known, (centres - mean) @ plane.T, share
        )
        return display.plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw into `ax`, or into a new figure that no global state knows of.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        ClusterMapDisplay
        """
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(7, 5.5), layout="constrained").add_subplot()
        small = len(self.points) > 1_000
        for label in np.unique(self.labels):
            chosen = self.points[self.labels == label]
            ax.scatter(
                chosen[:, 0],
                chosen[:, 1],
                s=9 if small else 18,
                c="#BBBBBB" if label < 0 else COLOURS[label % len(COLOURS)],
                marker="." if label < 0 else MARKERS[label // len(COLOURS) % len(MARKERS)],
                alpha=0.55,
                linewidths=0,
                rasterized=True,
            )
        for label, (x, y) in enumerate(self.centres):
            ax.annotate(
                str(label),
                (x, y),
                ha="center",
                va="center",
                fontsize=9,
                fontweight="bold",
                bbox={
                    "boxstyle": "round,pad=0.25",
                    "facecolor": "white",
                    "edgecolor": COLOURS[label % len(COLOURS)],
                    "linewidth": 1.5,
                },
            )
        ax.set(
            xlabel="first direction of the centres",
            ylabel="second direction of the centres",
            title=f"{len(self.centres)} clusters; the plane shows {self.share:.0%} of their spread",
        )
        ax.set_aspect("equal", "datalim")
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_ = ax
        self.figure_: Figure = ax.figure  # type: ignore[assignment]
        return self
