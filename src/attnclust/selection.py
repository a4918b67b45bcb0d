"""How far noise alone reaches: up to sigma^2 (1 + sqrt(d/n))^2 (Marchenko and Pastur 1967).

Largest eigenvalues pass that edge by a margin of order n^(-2/3) (Tracy and Widom 1994).
"""

from __future__ import annotations

import numpy as np

from attnclust.moments import Spectrum

# Tracy-Widom scales over the Marchenko-Pastur edge: passed by noise one time in a thousand.
MARGIN = 3.3


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
