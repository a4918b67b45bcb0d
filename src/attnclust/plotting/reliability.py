"""Confidence against the share that is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from attnclust._typing import FloatArray, IntArray, Rows
from attnclust.plotting.style import COLOURS, GREY, Display, plural
from attnclust.trust import reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ReliabilityDisplay(Display):
    """Share of rows that are right against their mean confidence, bin by bin.

    The band about the diagonal is where 95% of bins of calibrated posteriors lie at least: two
    standard errors of a share of so many rows.

    Parameters
    ----------
    confidence, accuracy : array of shape (n_bins,)
        Mean of the largest posterior, and share of rows whose cluster is that of their class.
    counts : array of shape (n_bins,)
        Rows of each bin.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes
        After `plot`.
    """

    def __init__(self, confidence: FloatArray, accuracy: FloatArray, counts: IntArray) -> None:
        self.confidence = confidence
        self.accuracy = accuracy
        self.counts = counts

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Rows, known: object, *, n_bins: int = 10, ax: Axes | None = None
    ) -> Self:
        """Draw how reliable the posteriors of a fitted estimator are.

        Parameters
        ----------
        estimator : AttentionClustering
            Fitted.
        X : array or sparse matrix of shape (n, d)
        known : array-like of shape (n,)
            Classes.
        n_bins : int
            Bins of equally many rows.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ReliabilityDisplay
        """
        return cls.from_probabilities(estimator.predict_proba(X), known, n_bins=n_bins, ax=ax)

    @classmethod
    def from_probabilities(
        cls, probabilities: FloatArray, known: object, *, n_bins: int = 10, ax: Axes | None = None
    ) -> Self:
        """Draw how reliable posteriors are.

        Parameters
        ----------
        probabilities : array of shape (n, K)
            Posterior of each row.
        known, n_bins, ax
            As in `from_estimator`.

        Returns
        -------
        ReliabilityDisplay

        Raises
        ------
        ValueError
            If the two differ in length or there are no rows.

        Examples
        --------
        >>> import numpy as np
        >>> posterior = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
        >>> ReliabilityDisplay.from_probabilities(posterior, ["a", "b", "b"], n_bins=2).accuracy
        array([0.5, 1. ])
        """
        found = reliability(probabilities, known, n_bins)
        return cls(found.confidence, found.accuracy, found.counts).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw into `ax`, or into a new figure that no global state knows of.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        ReliabilityDisplay
        """
        ax = self._canvas(ax, 5.5, 5)
        low = 0.98 * min(self.confidence.min(), self.accuracy.min())
        ends = np.array([low, 1.01])
        ax.plot(
            ends, ends, color=GREY, linewidth=1, linestyle="--", label="confidence = share right"
        )
        rows = int(np.median(self.counts))
        level = np.linspace(max(low, 0), 1, 200)
        error = 2 * np.sqrt(level * (1 - level) / rows)
        ax.fill_between(
            level,
            level - error,
            np.minimum(level + error, 1),
            color=GREY,
            alpha=0.18,
            linewidth=0,
            label="two standard errors",
        )
        ax.plot(
            self.confidence,
            self.accuracy,
            color=COLOURS[0],
            marker="o",
            markersize=5,
            linewidth=1,
            label=f"{plural(len(self.counts), 'bin')} of about {plural(rows, 'row')}",
        )
        ax.set(xlabel="mean confidence", ylabel="share right", xlim=ends, ylim=ends, aspect="equal")
        ax.legend(frameon=False, fontsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        return self
