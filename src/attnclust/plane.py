"""The plane in which the centres are spread most: sum_j w_j |P (m_j - mean)|^2 is largest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnclust._typing import FloatArray
from attnclust.moments import spectrum
from attnclust.tokens import Tokens


@dataclass(frozen=True)
class Plane:
    """Rows and centres in a plane.

    Parameters
    ----------
    points : array of shape (n, 2)
    centres : array of shape (K, 2)
    share : float
        Share of the centres' variance that the plane shows.
    """

    points: FloatArray
    centres: FloatArray
    share: float


def project(
    tokens: Tokens, centres: FloatArray, weights: FloatArray, *, random_state: int = 0
) -> Plane:
    """Rows and centres in the plane of the centres' two largest principal axes.

    Where the centres span fewer than two directions, the widest ones of the rows fill in.

    Parameters
    ----------
    tokens : Tokens
        n rows of d features, in the units of the centres.
    centres : array of shape (K, d)
    weights : array of shape (K,)
    random_state : int
        For the widest directions of sparse rows, or of many features.

    Returns
    -------
    Plane

    Examples
    --------
    >>> import numpy as np
    >>> from attnclust.tokens import Tokens
    >>> centres = np.array([[3.0, 0, 0], [-3, 0, 0]])
    >>> plane = project(Tokens(np.array([[1.0, 2, 0], [0, -2, 0]])), centres, np.full(2, 0.5))
    >>> np.abs(plane.points).round(6).tolist(), plane.share
    ([[1.0, 2.0], [0.0, 2.0]], 1.0)
    """
    centres = np.asarray(centres, dtype=np.float64)
    mean = weights @ centres
    spread = (centres - mean) * np.sqrt(weights)[:, None]
    _, lengths, axes = np.linalg.svd(spread, full_matrices=False)
    found = int((lengths[:2] > 1e-12 * np.abs(centres).max()).sum())
    frame = np.zeros((2, centres.shape[1]))
    frame[:found] = axes[:found]
    if found < 2:
        seen = spectrum(tokens, 2, np.random.default_rng(random_state))
        rest = seen.axes.T - seen.axes.T @ frame.T @ frame
        norms = np.linalg.norm(rest, axis=1)
        order = np.argsort(-norms * np.sqrt(seen.values), kind="stable")[: 2 - found]
        order = order[norms[order] > 1e-6]
        frame[found : found + len(order)] = rest[order] / norms[order, None]
    points = np.empty((len(tokens), 2))
    for window, tile in tokens.tiles(2):
        points[window] = tile.scores(frame, -frame @ mean).T
    squares = lengths**2
    total = float(squares.sum())
    share = float(squares[:2].sum()) / total if total > 0 else 1.0
    return Plane(points, (centres - mean) @ frame.T, share)
