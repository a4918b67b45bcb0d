"""Eigenvalues of the covariance against what noise alone reaches up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from attnclust._typing import FloatArray, Rows
from attnclust.moments import spectrum
from attnclust.plotting.style import COLOURS, GREY, Display, plural, whole_ticks
from attnclust.selection import MOST_EIGENPAIRS, noise_edge

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class SpectrumDisplay(Display):
    """Eigenvalues of the covariance, on a log scale, with the edge of the noise.

    K centres in general position have K - 1 directions above the edge; a direction of little weight
    or length may drown below it.

    Parameters
    ----------
    eigenvalues : array of shape (k,)
        Falling, in squared units of X.
    edge : float
        What noise alone reaches up to.
    n_clusters : int, optional
        K, whose K - 1 directions are marked.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes
        After `plot`.
    """

    def __init__(self, eigenvalues: FloatArray, edge: float, n_clusters: int | None = None) -> None:
        self.eigenvalues = eigenvalues
        self.edge = edge
        self.n_clusters = n_clusters

    @classmethod
    def from_estimator(cls, estimator: Any, X: Rows, *, ax: Axes | None = None) -> Self:
        """Draw the spectrum of rows as a fitted estimator sees them.

        Parameters
        ----------
        estimator : AttentionClustering
            Fitted.
        X : array or sparse matrix of shape (n, d)
            Rows; of unit length under metric="cosine".
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        SpectrumDisplay

        Examples
        --------
        >>> import numpy as np
        >>> from attnclust import AttentionClustering
        >>> X = np.random.default_rng(0).standard_normal((500, 3))
        >>> X[:250, 0] += 9
        >>> model = AttentionClustering(2, random_state=0).fit(X)
        >>> display = SpectrumDisplay.from_estimator(model, X)
        >>> display.eigenvalues > display.edge
        array([ True, False, False])
        """
        tokens = estimator._tokens(estimator._new_rows(X))
        k = len(estimator.weights_)
        seen = spectrum(tokens, max(MOST_EIGENPAIRS, k), np.random.default_rng(0))
        return cls(seen.values, noise_edge(seen, len(tokens))[1], k).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw into `ax`, or into a new figure that no global state knows of.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        SpectrumDisplay
        """
        ax = self._canvas(ax, 7, 4)
        # Zeros and rounding have no place on the scale.
        values = self.eigenvalues[self.eigenvalues > 1e-12 * self.eigenvalues.max(initial=0)]
        places = np.arange(1, len(values) + 1)
        above = values > self.edge
        for chosen, colour in ((above, COLOURS[0]), (~above, COLOURS[6])):
            ax.scatter(places[chosen], values[chosen], s=16, color=colour, linewidths=0)
        ax.axhline(
            self.edge,
            color=COLOURS[3],
            linestyle="--",
            linewidth=1.2,
            label=f"noise edge, {above.sum()} above",
        )
        if self.n_clusters is not None and 1 < self.n_clusters <= len(values):
            ax.axvline(
                self.n_clusters - 0.5,
                color=GREY,
                linestyle=":",
                linewidth=1.2,
                label=f"{plural(self.n_clusters, 'cluster')}: {self.n_clusters - 1} to the left",
            )
        ax.set(xlabel="rank", ylabel="eigenvalue of the covariance")
        if len(values):
            ax.set_yscale("log")
            ax.set_xlim(0.5 - 0.02 * len(values), 0.5 + 1.02 * len(values))
        whole_ticks(ax.xaxis)
        ax.legend(frameon=False, fontsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        return self
