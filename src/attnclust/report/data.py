"""What the page's script reads: arrays in base64, texts cut, and JSON that no text can break out of.

Rows are told apart by position. The map holds at most `MAP_ROWS` of them, the labels all.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnclust._typing import Array, FloatArray, IntArray

MAP_ROWS = 200_000
# Characters of a text kept for every row of the map, and for the rows that clusters are shown by.
HOVER_CHARACTERS, LIST_CHARACTERS = 200, 1_000
# What would end a script element, or a line of JavaScript, and so must not stand in JSON as it is.
UNSAFE = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def embed(value: Any) -> str:
    """JSON that can stand inside a script element, whatever texts it holds.

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
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(str.maketrans(UNSAFE))


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


def finite(value: Any) -> Any:
    """A number as JSON has it: NaN and infinity are None, NumPy's scalars plain."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


def tell_clusters(described: Sequence[Any], summary: dict[str, Any]) -> list[dict[str, Any]]:
    """A row of the table for each cluster.

    Parameters
    ----------
    described : sequence of ClusterDescription
    summary : dict
        Of the fit: its rows, and what known label a cluster mostly has.

    Returns
    -------
    list of dict
    """
    told = {cluster["cluster"]: cluster for cluster in summary["clusters"]}
    figures = ("size", "weight", "cohesion", "spread", "separation", "stability")
    return [
        {
            "cluster": int(one.cluster),
            **{name: finite(getattr(one, name)) for name in figures},
            "share": one.size / summary["rows"],
            "nearest": int(one.nearest) if one.nearest >= 0 else None,
            "mostly": clip(told[one.cluster].get("mostly"), HOVER_CHARACTERS),
            "mostly_share": told[one.cluster].get("mostly_share"),
            "representative": np.asarray(one.representative).tolist(),
            "borderline": np.asarray(one.borderline).tolist(),
        }
        for one in described
    ]


def tell_rows(
    points: FloatArray,
    labels: IntArray,
    confidence: FloatArray,
    clusters: Sequence[dict[str, Any]],
    *,
    ids: Sequence[Any] | None,
    texts: Sequence[Any] | None,
    known: Array | None,
    random_state: int,
) -> dict[str, Any]:
    """Places, labels and texts of the rows.

    Parameters
    ----------
    points : array of shape (n, 2)
    labels, confidence : arrays of shape (n,)
    clusters : sequence of dict
        From `tell_clusters`; their rows get longer texts.
    ids, texts, known : sequences of n values, or None
    random_state : int
        Draws the rows of the map where there are too many.

    Returns
    -------
    dict
    """
    n = len(points)
    drawn, rows = None, np.arange(n)
    if n > MAP_ROWS:
        rng = np.random.default_rng(random_state)
        rows = np.sort(rng.choice(n, MAP_ROWS, replace=False))
        drawn = pack(rows, "<i4")
    listed = sorted({row for c in clusters for kind in KINDS for row in c[kind]})
    return {
        "drawn": drawn,
        "x": pack(points[rows, 0], "<f4"),
        "y": pack(points[rows, 1], "<f4"),
        "labels": pack(labels, "<i4"),
        "confidence": pack(confidence, "<f4"),
        "ids": None if ids is None else [_whole(value) for value in ids],
        "texts": None if texts is None else [clip(texts[row], HOVER_CHARACTERS) for row in rows],
        "long": {row: None if texts is None else clip(texts[row], LIST_CHARACTERS) for row in listed},
        "known": None if known is None else _coded(known),
    }


KINDS = ("representative", "borderline")


def _whole(value: object) -> str:
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


def _coded(known: Array) -> dict[str, Any]:
    """Names of the known labels, and which of them each row has; -1 for none."""
    names = [clip(value, HOVER_CHARACTERS) for value in known]
    codes = {name: code for code, name in enumerate(dict.fromkeys(n for n in names if n is not None))}
    places = np.array([-1 if name is None else codes[name] for name in names])
    return {"names": list(codes), "codes": pack(places, "<i4")}
