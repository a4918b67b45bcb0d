"""Rows, centres and decision lines in a plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from attnclust._typing import FloatArray, IntArray, Rows
from attnclust.plotting.planes import ROUNDING, PlaneName, decision_lines, find_plane
from attnclust.plotting.style import GREY, Display, mark_centres, plural, scatter, shown_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ClusterMapDisplay(Display):
    """Rows and centres in a plane, with the lines where the label changes.

    The lines are those of points of the plane. Rows lie off it, and may lie across a line; only
    where all clusters with lines have their centres in the plane do the lines hold for every row.

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
    logits : array of shape (m, 3), optional
        Functions a x + b y + c of the plane, one for each cluster whose region is to be shown: the
        largest tells where a point of the plane belongs.
    note : str
        What the lines say.
    names : tuple of two str
        What the axes are.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes
        After `plot`.
    """

    def __init__(
        self,
        points: FloatArray,
        labels: IntArray,
        centres: FloatArray,
        share: float,
        *,
        logits: FloatArray | None = None,
        note: str = "",
        names: tuple[str, str] = ("", ""),
    ) -> None:
        self.points = points
        self.labels = labels
        self.centres = centres
        self.share = share
        self.logits = logits
        self.note = note
        self.names = names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Rows,
        *,
        plane: PlaneName = "centres",
        heads: tuple[int, int] = (0, 1),
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
        plane : {"centres", "heads", "normalised"}
            The plane in which the centres spread most; that of two heads, whose coordinates are the
            alignment scores <x, mu_h>; or that of the first two directions of the normalised rows,
            in which the centres of any mixture are orthonormal but for their weights. Under
            "heads" the one line is that between the two clusters, and holds for all rows. Under
            metric="cosine" lines are drawn only if they hold for all rows.
        heads : tuple of two int
            The heads of plane="heads".
        labels : array of shape (n,), optional
            Labels of the rows; predicted if not given.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        random_state : int
            Draws the rows shown.

        Returns
        -------
        ClusterMapDisplay

        Raises
        ------
        ValueError
            For another plane, or heads that are not two of the estimator's.

        Examples
        --------
        >>> import numpy as np
        >>> from attnclust import AttentionClustering
        >>> X = np.random.default_rng(0).standard_normal((50, 3))
        >>> model = AttentionClustering(3, random_state=0).fit(X)
        >>> ClusterMapDisplay.from_estimator(model, X).centres.shape
        (3, 2)
        """
        rows, shown = shown_rows(X, random_state)
        tokens = estimator._tokens(estimator._new_rows(shown))
        found, clusters, among = find_plane(estimator, tokens, plane, heads)
        share = found.share(clusters)
        exact = share > 1 - ROUNDING
        note = "Lines: where the label changes"
        if plane == "heads":
            note = f"Line: where clusters {heads[0]} and {heads[1]} part"
        elif not exact:
            note += " in this plane; rows off it may lie across"
        lines = among and (exact or plane == "heads" or estimator.metric == "euclidean")
        display = cls(
            found.points(tokens),
            estimator.predict(shown) if labels is None else np.asarray(labels)[rows],
            (clusters.centroids - found.origin) @ found.axes.T,
            share,
            logits=found.logits(estimator._attended(clusters))[among] if lines else None,
            note=note,
            names=found.names,
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
        ax = self._canvas(ax)
        extent = float(np.ptp(self.points, axis=0).max())
        points = self.points
        if not (points[:, 1].any() or self.centres[:, 1].any()):
            # One direction only: what would be a line is made a band.
            heights = np.random.default_rng(0).uniform(-0.1, 0.1, len(points))
            points = np.column_stack([points[:, 0], extent * heights])
            ax.set_yticks([])
        scatter(ax, points, self.labels)
        if self.logits is not None and len(self.logits) > 1:
            self._draw_lines(ax, self.logits)
        mark_centres(ax, self.centres, extent)
        title = plural(len(self.centres), "cluster")
        if len(self.centres) > 1:
            title += f"; the plane shows {self.share:.0%} of their spread"
        ax.set_title(title, pad=18)
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        if (self.labels < 0).any():
            ax.legend(frameon=False, fontsize=8)
        return self

    def _draw_lines(self, ax: Axes, logits: FloatArray) -> None:
        from matplotlib.collections import LineCollection

        reach = 100 * float(np.abs(self.points).max())
        segments, _ = decision_lines(logits, reach)
        ax.add_collection(
            LineCollection(list(segments), colors=GREY, linewidths=0.8), autolim=False
        )
        ax.text(0.5, 1.01, self.note, transform=ax.transAxes, ha="center", fontsize=8, color=GREY)
