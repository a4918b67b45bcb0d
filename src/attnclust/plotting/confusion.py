"""Known classes against clusters, those that belong together on the diagonal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.optimize import linear_sum_assignment

from attnclust._typing import IntArray, Rows
from attnclust.plotting.style import Display, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More rows or columns than this get no numbers in their cells; ticks are at most so many.
MAX_NUMBERS = 20
MAX_TICKS = 40


class ConfusionDisplay(Display):
    """Counts of known classes by clusters; the shade is the share of the class.

    Classes and clusters are matched one to one so that most rows lie on the diagonal; what is left
    over of either follows, and rows without a cluster come last.

    Parameters
    ----------
    table : array of shape (n_classes, n_clusters)
        Counts, rows and columns in the order drawn.
    classes, clusters : list of str
        Names of rows and columns.
    n_matched : int
        How many of the first rows and columns are matched.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes
        After `plot`.
    """

    def __init__(
        self, table: IntArray, classes: list[str], clusters: list[str], n_matched: int
    ) -> None:
        self.table = table
        self.classes = classes
        self.clusters = clusters
        self.n_matched = n_matched

    @classmethod
    def from_estimator(cls, estimator: Any, X: Rows, known: Any, *, ax: Axes | None = None) -> Self:
        """Draw known classes against the labels that a fitted estimator gives.

        Parameters
        ----------
        estimator : AttentionClustering
            Fitted.
        X : array or sparse matrix of shape (n, d)
        known : array-like of shape (n,)
            Classes; rows whose class is None are left out.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ConfusionDisplay
        """
        return cls.from_labels(known, estimator.predict(X), ax=ax)

    @classmethod
    def from_labels(cls, known: Any, labels: Any, *, ax: Axes | None = None) -> Self:
        """Draw known classes against labels.

        Parameters
        ----------
        known : array-like of shape (n,)
            Classes; rows whose class is None are left out.
        labels : array-like of shape (n,)
            Clusters; -1 is none.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ConfusionDisplay

        Raises
        ------
        ValueError
            If the two differ in length or no row has a class.

        Examples
        --------
        >>> found = ConfusionDisplay.from_labels(["a", "a", "b", "b"], [1, 1, 0, -1])
        >>> found.clusters
        ['1', '0', 'none']
        >>> found.table
        array([[2, 0, 0],
               [0, 1, 1]])
        """
        labels = np.asarray(labels)
        if len(known) != len(labels):
            raise ValueError(
                f"{len(known)} known classes and {len(labels)} labels: give one of each per row"
            )
        told = np.array([value is not None for value in known], dtype=bool)
        if not told.any():
            raise ValueError("no rows to show: none has a known class")
        classes, row = np.unique([v for v in known if v is not None], return_inverse=True)
        clusters, column = np.unique(labels[told], return_inverse=True)
        table = np.zeros((len(classes), len(clusters)), dtype=np.intp)
        np.add.at(table, (row, column), 1)
        named = np.flatnonzero(clusters != -1)
        rows, own = linear_sum_assignment(-table[:, named])
        columns = named[own]
        rows = np.append(rows, np.setdiff1d(np.arange(len(classes)), rows))
        left = np.setdiff1d(named, columns)
        columns = np.concatenate([columns, left, np.flatnonzero(clusters == -1)])
        return cls(
            table[np.ix_(rows, columns)],
            [str(name) for name in classes[rows]],
            ["none" if name == -1 else str(name) for name in clusters[columns]],
            len(own),
        ).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw into `ax`, or into a new figure that no global state knows of.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        ConfusionDisplay
        """
        n, k = self.table.shape
        ax = self._canvas(ax, 4 + 0.4 * min(k, 20), 2 + 0.4 * min(n, 20))
        totals = self.table.sum(1, keepdims=True)
        shares = self.table / np.maximum(totals, 1)
        image = ax.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        if max(n, k) <= MAX_NUMBERS:
            for place in zip(*np.nonzero(self.table), strict=True):
                ax.text(
                    place[1],
                    place[0],
                    str(self.table[place]),
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="white" if shares[place] > 0.55 else "black",
                )
        for axis, names in ((ax.xaxis, self.clusters), (ax.yaxis, self.classes)):
            step = -(-len(names) // MAX_TICKS)
            axis.set_ticks(range(0, len(names), step), names[::step], fontsize=8)
        if k > MAX_NUMBERS:
            ax.tick_params(axis="x", rotation=90)
        right = int(np.trace(self.table[: self.n_matched, : self.n_matched]))
        ax.set(xlabel="cluster", ylabel="known class")
        ax.set_title(
            f"{right:,} of {plural(int(totals.sum()), 'row')} on the diagonal", fontsize=10
        )
        ax.figure.colorbar(image, ax=ax, label="share of the class")
        return self
