"""The spectrum and what it says of the number of clusters.

K centres spread over at most K - 1 directions, so at most K - 1 eigenvalues of the rows' covariance
can rise above the edge that noise alone reaches (`attnclust.selection.noise_edge`).
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from attnclust._typing import FloatArray
from attnclust.moments import DENSE_LIMIT, spectrum
from attnclust.selection import Selection, noise_edge
from attnclust.tokens import Tokens

SHOWN = 60  # eigenvalues at most
WIDTH, HEIGHT = 680, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 14, 42


def reason_for(model: Any, tokens: Tokens, random_state: int = 0) -> Selection:
    """The model's own choice of K, or the spectrum beside a K that was given.

    Parameters
    ----------
    model : AttentionClustering
        Fitted; `selection_` is there where it chose K.
    tokens : Tokens
        The rows, in the units of the model.
    random_state : int
        For the spectrum of many features.

    Returns
    -------
    Selection
        Without candidates where K was given.
    """
    chosen: Selection | None = getattr(model, "selection_", None)
    if chosen is not None:
        return chosen
    k = len(model.weights_)
    whole = tokens.dim <= DENSE_LIMIT and not tokens.sparse
    n_pairs = tokens.dim if whole else max(2 * k, SHOWN)
    seen = spectrum(tokens, n_pairs, np.random.default_rng(random_state))
    noise, edge = noise_edge(seen, len(tokens))
    return Selection(k, _given(k, seen.values, edge, seen.dim), noise, edge, seen.values)


def _given(n_clusters: int, values: FloatArray, edge: float, dim: int) -> str:
    above, most = int((values[: dim - 1] > edge).sum()), min(n_clusters, dim) - 1
    most_seen = "at least " if above == len(values) else ""
    said = (
        f"K = {n_clusters} was given. The centres of so many clusters raise at most "
        f"{most} eigenvalue{'' if most == 1 else 's'} above the noise edge; here "
        f"{most_seen}{above} {'is' if above == 1 else 'are'} above it. "
    )
    if above > most:
        return said + "There may be more clusters, or noise that is not alike in all directions."
    if above < most:
        return said + "Centres may share directions or drown in the noise; or clusters are fewer."
    return said + "That speaks for this K."


def picture(values: FloatArray, edge: float) -> str:
    """An SVG of the eigenvalues on a logarithmic scale, with the noise edge.

    Parameters
    ----------
    values : array of shape (k,)
        Falling; at most 60 are shown.
    edge : float

    Returns
    -------
    str
        Colours are those of the page's style.
    """
    values = values[:SHOWN]
    values = values[values > 1e-12 * values.max(initial=0.0)]
    if len(values) == 0:
        return "<p>All rows are alike: the spectrum is zero.</p>"
    seen = [*values, *([edge] if edge > 1e-6 * values[-1] else [])]
    low, high = np.log10(min(seen)) - 0.08, np.log10(max(seen)) + 0.08

    def across(place: float) -> float:
        return LEFT + (place - 0.5) / len(values) * (WIDTH - LEFT - RIGHT)

    def down(value: float) -> float:
        return float(TOP + (high - np.log10(value)) / (high - low) * (HEIGHT - TOP - BOTTOM))

    floor, end = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for tick in _ticks(low, high):
        y = down(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:.3g}</text>')
    step = max(1, -(-len(values) // 12))
    for place in range(1, len(values) + 1, step):
        parts.append(
            f'<text x="{across(place):.1f}" y="{floor + 18}" text-anchor="middle">{place}</text>'
        )
    for place, value in enumerate(values, start=1):
        x, y, kind = across(place), down(value), "above" if value > edge else "below"
        parts.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{floor}" y2="{y:.1f}"/>')
        parts.append(
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4">'
            f"<title>eigenvalue {place}: {value:.4g}</title></circle>"
        )
    if len(seen) > len(values):
        y = down(edge)
        lift = -6 if y > TOP + 20 else 16
        parts.append(f'<line class="edge" x1="{LEFT}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="edge" x="{end}" y="{y + lift:.1f}" text-anchor="end">'
            f"noise edge {edge:.3g}</text>"
        )
    middle = (LEFT + end) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 4}" text-anchor="middle">rank</text>')
    above = int((values > edge).sum())
    label = escape(f"{len(values)} leading eigenvalues, {above} above the noise edge {edge:.3g}")
    return (
        f'<svg class="spectrum" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers of a logarithmic axis: powers of ten, with more between where they are few."""
    powers = range(int(np.floor(low)), int(np.ceil(high)) + 1)
    for leads in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)):
        ticks = [lead * 10.0**p for p in powers for lead in leads]
        ticks = [tick for tick in ticks if low <= np.log10(tick) <= high]
        if len(ticks) >= 3:
            break
    return ticks[:: -(-len(ticks) // 8) or 1]
