"""The plane in which the centres are spread most: sum_k w_k |P (m_k - mean)|^2 is largest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnclust._typing import FloatArray
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


def project(tokens: Tokens, centres: FloatArray, weights: FloatArray) -> Plane:
    """Rows and centres in the plane of the centres' two largest principal axes.

    Parameters
    ----------
    tokens : Tokens
        n rows of d features, in the units of the centres.
    centres : array of shape (K, d)
    weights : array of shape (K,)

    Returns
    -------
    Plane

    Examples
    --------
    >>> import numpy as np
    >>> from attnclust.tokens import Tokens
    >>> centres = np.array([[3.0, 0, 0], [-3, 0, 0]])
    >>> plane = project(Tokens(np.array([[1.0, 5, 5]])), centres, np.full(2, 0.5))
    >>> float(abs(plane.points[0, 0])), plane.share
    (1.0, 1.0)
    """
    centres = np.asarray(centres, dtype=np.float64)
    mean = weights @ centres
    _, lengths, axes = np.linalg.svd(
        (centres - mean) * np.sqrt(weights)[:, None], full_matrices=False
    )
    axes[lengths <= 1e-12 * lengths[0]] = 0.0  # directions that the centres do not span
    frame = np.zeros((2, centres.shape[1]))
    frame[: min(2, len(axes))] = axes[:2]
    points = np.empty((len(tokens), 2))
    for window, tile in tokens.tiles(2):
        points[window] = tile.scores(frame, -frame @ mean).T
    squares = lengths**2
    total = float(squares.sum())
    share = float(squares[:2].sum()) / total if total > 0 else 1.0
    return Plane(points, (centres - mean) @ frame.T, share)
