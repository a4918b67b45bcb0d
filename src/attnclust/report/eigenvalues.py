"""The spectrum and what it says of the number of clusters.

K centres spread over at most K - 1 directions, so at most K - 1 eigenvalues of the rows' covariance
can rise above what noise alone reaches: sigma^2 (1 + sqrt(d / n))^2, the edge of Marchenko and
Pastur (1967).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from attnclust._typing import FloatArray
from attnclust.moments import spectrum
from attnclust.tokens import Tokens

SHOWN = 60  # eigenvalues at most
WIDTH, HEIGHT = 680, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 14, 42


@dataclass(frozen=True)
class Reasoning:
    """Leading eigenvalues, the noise edge, and why there are K clusters.

    Parameters
    ----------
    n_clusters : int
    eigenvalues : array of shape (k,)
        Falling.
    edge, noise_variance : float
    reason : str
    candidates : list of dict
        What was seen of each K that was tried; empty where K was given.
    """

    n_clusters: int
    eigenvalues: FloatArray
    edge: float
    noise_variance: float
    reason: str
    candidates: list[dict[str, Any]] = field(default_factory=list)


def reason_for(model: Any, tokens: Tokens, rng: np.random.Generator) -> Reasoning:
    """The model's own choice of K, or the spectrum beside a K that was given.

    Parameters
    ----------
    model : AttentionClustering
        Fitted; `selection_` is there where it chose K.
    tokens : Tokens
        The rows, in the units of the model.
    rng : numpy.random.Generator
        For the spectrum of many features.

    Returns
    -------
    Reasoning
    """
    chosen = getattr(model, "selection_", None)
    if chosen is not None:
        return Reasoning(
            int(chosen.n_clusters),
            np.asarray(chosen.eigenvalues, dtype=np.float64),
            float(chosen.edge),
            float(chosen.noise_variance),
            str(chosen.reason),
            list(chosen.candidates),
        )
    n_clusters, noise = len(model.weights_), float(model.noise_variance_)
    values = spectrum(tokens, min(max(2 * n_clusters, 20), SHOWN, tokens.dim), rng).values
    edge = noise * (1 + np.sqrt(tokens.dim / len(tokens))) ** 2
    return Reasoning(
        n_clusters, values, edge, noise, _given(n_clusters, values, edge, tokens.dim)
    )


def _given(n_clusters: int, values: FloatArray, edge: float, dim: int) -> str:
    above, most = int((values > edge).sum()), min(n_clusters - 1, dim)
    number = f"at least {above}" if above == len(values) < dim else str(above)
    said = (
        f"K = {n_clusters} was given. So many centres can raise {_count(most, 'eigenvalue')} "
        f"above the noise edge; {number} of the rows' {'are' if above != 1 else 'is'}."
    )
    if above > most:
        said += " The others come from more clusters, or from noise that is not alike in all"
        said += " directions."
    elif above < most:
        said += " Centres may lie along shared directions, or there may be fewer clusters."
    return said


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def picture(values: Sequence[float] | FloatArray, edge: float) -> str:
    """An SVG of the eigenvalues on a logarithmic scale, with the noise edge.

    Parameters
    ----------
    values : sequence of float
        Falling; at most 60 are shown.
    edge : float

    Returns
    -------
    str
        Colours are those of the page's style.
    """
    values = np.asarray(values, dtype=np.float64)[:SHOWN]
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
    """Round numbers of a logarithmic axis: powers of ten, and 2 and 5 between where those are few."""
    powers = range(int(np.floor(low)), int(np.ceil(high)) + 1)
    for leads in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)):
        ticks = [lead * 10.0**p for p in powers for lead in leads]
        ticks = [tick for tick in ticks if low <= np.log10(tick) <= high]
        if len(ticks) >= 3:
            break
    return ticks[:: -(-len(ticks) // 8) or 1]
