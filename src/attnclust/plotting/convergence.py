"""How the likelihood rose, and which moves were kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from attnclust.plotting.style import COLOURS, Display, whole_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ConvergenceDisplay(Display):
    """Mean log-likelihood of each state that was kept, and the rounds of moves below.

    A state is the start, what an attention step made of the last, or what was left of a round of
    moves that was kept, after a few attention steps of its own.

    Parameters
    ----------
    log_likelihood : sequence of float
        In nats per row used, in the fit's own unit of length: only differences mean something.
    moves : sequence of (int, bool)
        Rounds: split-and-merge moves made at once, and whether they were kept.
    reason : str
        Why the fit stopped.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes
        After `plot`.
    """

    def __init__(
        self,
        log_likelihood: Sequence[float],
        moves: Sequence[tuple[int, bool]] = (),
        reason: str = "",
    ) -> None:
        self.log_likelihood = np.asarray(log_likelihood, dtype=np.float64)
        self.moves = moves
        self.reason = reason

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the history of a fitted estimator.

        Parameters
        ----------
        estimator : AttentionClustering
            Fitted, with refinement.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ConvergenceDisplay

        Raises
        ------
        ValueError
            If the fit was not refined.

        Examples
        --------
        >>> import numpy as np
        >>> from attnclust import AttentionClustering
        >>> X = np.random.default_rng(0).standard_normal((50, 3))
        >>> model = AttentionClustering(3, random_state=0).fit(X)
        >>> bool((np.diff(ConvergenceDisplay.from_estimator(model).log_likelihood) > 0).any())
        True
        """
        history = estimator.history_
        if not history.log_likelihood:
            raise ValueError(
                "the fit was not refined, so it has no likelihoods to show: set refine=True"
            )
        return cls(history.log_likelihood, history.moves, history.reason).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw into `ax`, or into a new figure that no global state knows of.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        ConvergenceDisplay
        """
        ax = self._canvas(ax, 7, 4.5)
        rise = self.log_likelihood - self.log_likelihood[0]
        ax.plot(rise, color=COLOURS[0], marker="o", markersize=4, linewidth=1.4)
        ax.set(xlabel="state kept", ylabel="log-likelihood, rise in nats")
        ax.set_title(f"Stopped: {self.reason}" if self.reason else "", fontsize=10)
        whole_ticks(ax.xaxis)
        ax.spines[["top", "right"]].set_visible(False)
        if self.moves:
            self._draw_moves(_below(ax))
        return self

    def _draw_moves(self, strip: Axes) -> None:
        sizes, kept = np.array(self.moves).T
        rounds = np.arange(1, len(sizes) + 1)
        for chosen, colour, told in ((kept == 1, COLOURS[2], "kept"), (kept == 0, "w", "not kept")):
            if not chosen.any():
                continue
            strip.bar(
                rounds[chosen],
                sizes[chosen],
                color=colour,
                edgecolor=COLOURS[2],
                width=0.7,
                label=f"{chosen.sum()} {told}",
            )
        strip.set(xlabel="round of moves", ylabel="at once", xlim=(0.4, max(len(rounds), 12) + 0.6))
        strip.set_yticks([0, sizes.max()])
        whole_ticks(strip.xaxis)
        strip.spines[["top", "right"]].set_visible(False)
        strip.legend(frameon=False, fontsize=8, ncols=2, loc="lower right", bbox_to_anchor=(1, 0.9))


def _below(ax: Axes) -> Axes:
    """Axes in the lowest quarter of the place of `ax`, or below it if it has no place in a grid."""
    place = ax.get_subplotspec()
    if place is None:
        return ax.inset_axes((0, -0.5, 1, 0.25))
    halves = place.subgridspec(2, 1, height_ratios=(3, 1))
    ax.set_subplotspec(halves[0])
    return ax.figure.add_subplot(halves[1])
