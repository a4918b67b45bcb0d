"""Cosine similarities of heads, alike ones side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from attnclust._typing import FloatArray
from attnclust.plotting.style import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More heads than this get no numbers in their cells.
MAX_NUMBERS = 12


class HeadSimilarityDisplay(Display):
    """Cosine similarities <mu_g, mu_h> of heads, in the order of their average linkage.

    Parameters
    ----------
    similarities : array of shape (K, K)
        Symmetric, in the order of the clusters.

    Attributes
    ----------
    order : array of shape (K,)
        Heads in the order drawn.
    figure_, ax_ : matplotlib Figure and Axes
        After `plot`.
    """

    def __init__(self, similarities: FloatArray) -> None:
        self.similarities = similarities
        self.order = np.arange(len(similarities))
        if len(similarities) > 2:
            distances = squareform(1 - similarities, checks=False)
            self.order = leaves_list(linkage(distances, "average"))

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the similarities of a fitted estimator's heads.

        Parameters
        ----------
        estimator : AttentionClustering
            Fitted.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        HeadSimilarityDisplay

        Examples
        --------
        >>> import numpy as np
        >>> from attnclust import AttentionClustering
        >>> model = AttentionClustering(2, random_state=0).fit(np.eye(2))
        >>> HeadSimilarityDisplay.from_estimator(model).similarities
        array([[1., 0.],
               [0., 1.]])
        """
        heads = estimator.heads_.astype(np.float64)
        return cls(heads @ heads.T).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw into `ax`, or into a new figure that no global state knows of.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        HeadSimilarityDisplay
        """
        ax = self._canvas(ax, 6, 5)
        shown = self.similarities[np.ix_(self.order, self.order)]
        k = len(shown)
        image = ax.imshow(shown, cmap="RdBu_r", vmin=-1, vmax=1)
        if k <= MAX_NUMBERS:
            for row, column in np.ndindex(k, k):
                value = shown[row, column]
                ax.text(
                    column,
                    row,
                    f"{value:.2f}",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="white" if abs(value) > 0.6 else "black",
                )
        step = 1 + k // 40
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_ticks(range(0, k, step), [str(h) for h in self.order[::step]], fontsize=8)
        if k > 20:
            ax.tick_params(axis="x", rotation=90)
        ax.set(xlabel="head", ylabel="head")
        ax.figure.colorbar(image, ax=ax, label="cosine similarity", shrink=0.85)
        return self
