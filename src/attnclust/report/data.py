"""What the page's script reads: arrays in base64, texts cut, JSON that no text can break out of.

Rows are told apart by position. The map holds at most `MAP_ROWS` of them, the labels all.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from attnclust._typing import Array, FloatArray, IntArray
from attnclust.trust import ClusterDescription

MAP_ROWS = 200_000
# Characters of a text kept for every row of the map, and for the rows that clusters are shown by.
HOVER_CHARACTERS, LIST_CHARACTERS = 200, 1_000
# What would end a script element, or a line of JavaScript, and so must not stand in JSON as it is.
UNSAFE = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def embed(value: Any) -> str:
    r"""JSON that can stand inside a script element, whatever texts it holds.

    Parameters
    ----------
    value : object
        Of lists, dicts, texts, finite numbers, booleans and None.

    Returns
    -------
    str

    Examples
    --------
    >>> embed("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(UNSAFE)


def pack(values: Array, dtype: str) -> str:
    """Base64 of an array's bytes; `dtype` is little-endian, as browsers read them."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode()


def clip(value: object, most: int) -> str | None:
    """Text of at most so many characters, the last an ellipsis if some were cut.

    Parameters
    ----------
    value : object
        None and NaN have no text.
    most : int

    Returns
    -------
    str or None

    Examples
    --------
    >>> clip("abcdef", 4), clip(None, 4)
    ('abc…', None)
    """
    if value is None or value != value:
        return None
    text = str(value).encode("utf-8", "replace").decode()  # half a surrogate pair is no text
    return text if len(text) <= most else text[: most - 1] + "…"


def finite(value: float) -> float | None:
    """A number as JSON has it: None for NaN and infinity."""
    return value if math.isfinite(value) else None


def tell_clusters(
    described: Sequence[ClusterDescription], summary: dict[str, Any]
) -> list[dict[str, Any]]:
    """A row of the table for each cluster.

    Parameters
    ----------
    described : sequence of ClusterDescription
    summary : dict
        Of the fit: its rows and clusters.

    Returns
    -------
    list of dict
    """
    figures = ("size", "weight", "cohesion", "spread", "separation", "stability")
    return [
        {
            "cluster": one.cluster,
            **{name: finite(getattr(one, name)) for name in figures},
            "share": one.size / summary["rows"],
            "nearest": one.nearest if one.nearest >= 0 else None,
            "mostly": clip(told.get("mostly"), HOVER_CHARACTERS),
            "mostly_share": told.get("mostly_share"),
            "representative": one.representative.tolist(),
            "borderline": one.borderline.tolist() if one.nearest >= 0 else [],
        }
        for one, told in zip(described, summary["clusters"], strict=True)
    ]


def tell_rows(
    points: FloatArray,
    labels: IntArray,
    figures: dict[str, FloatArray],
    listed: Iterable[int],
    *,
    ids: Sequence[Any] | None,
    texts: Sequence[Any] | None,
    known: Array | None,
    random_state: int,
) -> dict[str, Any]:
    """Places, labels, figures and texts of the rows.

    Parameters
    ----------
    points : array of shape (n, 2)
    labels : array of shape (n,)
    figures : dict of str to array of shape (n,)
    listed : iterable of int
        Rows that get longer texts.
    ids, texts, known : sequences of n values, or None
    random_state : int
        Draws the rows of the map where there are too many.

    Returns
    -------
    dict
    """
    drawn, rows = None, np.arange(len(points))
    if len(points) > MAP_ROWS:
        rng = np.random.default_rng(random_state)
        rows = np.sort(rng.choice(len(points), MAP_ROWS, replace=False))
        drawn = pack(rows, "<i4")
    return {
        "drawn": drawn,
        "x": pack(points[rows, 0], "<f4"),
        "y": pack(points[rows, 1], "<f4"),
        "labels": pack(labels, "<i4"),
        "figures": {name: pack(values, "<f4") for name, values in figures.items()},
        "ids": None if ids is None else [clip(value, sys.maxsize) or "" for value in ids],
        "texts": None
        if texts is None
        else [clip(texts[row], HOVER_CHARACTERS) for row in rows.tolist()],
        "long": {int(row): texts and clip(texts[row], LIST_CHARACTERS) for row in listed},
        "known": None if known is None else _coded(known),
    }


def _coded(known: Array) -> dict[str, Any]:
    """Names of the known labels, and which of them each row has; -1 for none."""
    names = [clip(value, HOVER_CHARACTERS) for value in known]
    codes: dict[str | None, int] = {None: -1}
    for name in names:
        codes.setdefault(name, len(codes) - 1)
    places = np.array([codes[name] for name in names])
    return {"names": list(codes)[1:], "codes": pack(places, "<i4")}
