"""What goes into the layer and what comes out, in one plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from attnclust._typing import FloatArray, IntArray, Rows
from attnclust.plotting.planes import PlaneName, find_plane
from attnclust.plotting.style import GREY, Display, scatter, shown_rows
from attnclust.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More paths than this hide what they join.
MAX_PATHS = 150


class QuantizationDisplay(Display):
    """Rows, pale, and what `attend` makes of them, dark, with the way of some.

    Parameters
    ----------
    points, outputs : array of shape (n, 2)
        Rows and their quantised outputs in the plane.
    labels : array of shape (n,)
        Their clusters; -1 for rows without one.
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
        outputs: FloatArray,
        labels: IntArray,
        names: tuple[str, str] = ("", ""),
    ) -> None:
        self.points = points
        self.outputs = outputs
        self.labels = labels
        self.names = names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Rows,
        *,
        plane: PlaneName = "centres",
        heads: tuple[int, int] = (0, 1),
        ax: Axes | None = None,
        random_state: int = 0,
    ) -> Self:
        """Draw rows of X and what a fitted estimator makes of them.

        Parameters
        ----------
        estimator : AttentionClustering
            Fitted.
        X : array or sparse matrix of shape (n, d)
            At most 5,000 rows, drawn at random, are shown.
        plane, heads
            As in `ClusterMapDisplay.from_estimator`.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        random_state : int
            Draws the rows shown.

        Returns
        -------
        QuantizationDisplay

        Raises
        ------
        ValueError
            For another plane, or heads that are not two of the estimator's.

        Examples
        --------
        >>> import numpy as np
        >>> from attnclust import AttentionClustering
        >>> X = np.random.default_rng(0).standard_normal((50, 3))
        >>> model = AttentionClustering(2, random_state=0).fit(X)
        >>> QuantizationDisplay.from_estimator(model, X).outputs.shape
        (50, 2)
        """
        _, shown = shown_rows(X, random_state)
        tokens = estimator._tokens(estimator._new_rows(shown))
        found, _, _ = find_plane(estimator, tokens, plane, heads)
        display = cls(
            found.points(tokens),
            found.points(Tokens(estimator.attend(shown))),
            estimator.predict(shown),
            found.names,
        )
        return display.plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw into `ax`, or into a new figure that no global state knows of.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        QuantizationDisplay
        """
        from matplotlib.collections import LineCollection

        ax = self._canvas(ax)
        some = np.linspace(0, len(self.points) - 1, min(MAX_PATHS, len(self.points))).astype(int)
        paths = np.stack([self.points[some], self.outputs[some]], axis=1)
        ax.add_collection(
            LineCollection(list(paths), colors=GREY, linewidths=0.5, alpha=0.5, zorder=0)
        )
        scatter(ax, self.points, self.labels, alpha=0.2)
        scatter(ax, self.outputs, self.labels, alpha=1.0, size=40)
        ax.set(xlabel=self.names[0], ylabel=self.names[1], title="Pale rows go in, dark ones out")
        if (self.labels < 0).any():
            ax.legend(*(part[-1:] for part in ax.get_legend_handles_labels()), frameon=False)
        return self
