"""How many clusters: what the spectrum says.

Of K affinely independent centres the covariance has K - 1 eigenvalues above the noise, whose own
reach up to sigma^2 (1 + sqrt(d/n))^2 (Marchenko and Pastur 1967) and pass that edge by a margin of
order n^(-2/3) (Tracy and Widom 1994).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from attnclust._typing import FloatArray
from attnclust.moments import Spectrum

if TYPE_CHECKING:
    from pandas import DataFrame

# Tracy-Widom scales over the Marchenko-Pastur edge: passed by noise one time in a thousand.
MARGIN = 3.3


@dataclass(frozen=True)
class Selection:
    """The number of clusters and what speaks for it.

    Parameters
    ----------
    n_clusters : int
        K.
    reason : str
        Why this K; says so where the evidence is weak.
    noise_variance, edge : float
        sigma^2 of the spectrum's trailing part, and what noise alone reaches up to, in squared
        units of X.
    eigenvalues : array of shape (k,)
        Leading eigenvalues of the covariance, in squared units of X.
    dispersion : float
        Variance of the squared distances to the centres over that of spherical Gaussian noise.
    n_isolated : int
        Rows put aside, as they have hardly a neighbour within the noise.
    candidates : list of dict
        For each K looked at: "n_clusters"; "eigenvalue", the last one it needs, over the edge;
        "criterion", penalised log-likelihood per row in nats; "redundant", heads that share a mode
        with another; "held_out", reconstruction risk E|y - m|^2 / d on rows left out, in squared
        units of X; "stability", adjusted Rand index of labels by two halves of the rows.
    """

    n_clusters: int
    reason: str
    noise_variance: float
    edge: float
    eigenvalues: FloatArray
    dispersion: float = 1.0
    n_isolated: int = 0
    candidates: list[dict[str, Any]] = field(default_factory=list)

    def to_frame(self) -> DataFrame:
        """The candidates as a pandas data frame, one row for each K."""
        from pandas import DataFrame

        return DataFrame(self.candidates).set_index("n_clusters")


def noise_edge(seen: Spectrum, n_rows: float) -> tuple[float, float]:
    """Noise level of a spectrum and the largest eigenvalue that noise alone would show.

    sigma^2 is the mean of the eigenvalues below the edge, which moves down with it until both
    stand still. The edge is that of Marchenko and Pastur with 3.3 scales of Tracy and Widom.

    Parameters
    ----------
    seen : Spectrum
    n_rows : float
        Rows n that it was made from.

    Returns
    -------
    noise_variance, edge : float

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([5.0, 1.0, 1.0, 1.0])
    >>> noise, edge = noise_edge(Spectrum(np.zeros(4), values, np.eye(4), 8.0), 1000)
    >>> noise, bool(1 < edge < 1.3)
    (1.0, True)
    """
    n, d = np.sqrt(n_rows), np.sqrt(seen.dim)
    reach = (n + d) ** 2 + MARGIN * (n + d) * (1 / n + 1 / d) ** (1 / 3)
    count, most = 0, min(len(seen.values), seen.dim - 1)
    while True:
        noise = seen.trailing_mean(count)
        edge = float(noise * reach / n_rows)
        above = int((seen.values[:most] > edge).sum())
        if above <= count:
            return noise, edge
        count = above
