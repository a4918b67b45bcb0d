"""What input must be, and errors that say what is wrong, where, and what to do."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from attnclust._typing import FloatArray, Rows
from attnclust.tokens import Tokens

# Beyond these lengths squares leave the range of float64, and of float32 within a tile's sums.
LARGEST = {"float32": 1e33, "float64": 1e150}
TILE_ROWS = 8192


def as_rows(X: Any) -> Any:
    """What scikit-learn's validation can read: torch tensors and half precision made arrays of it.

    Half precision (float16, bfloat16) becomes float32; anything else passes as it is.
    """
    if hasattr(X, "detach") and hasattr(X, "cpu"):
        X = X.detach().cpu()
        X = (X.float() if X.dtype.itemsize == 2 and X.is_floating_point() else X).numpy()
    if getattr(X, "dtype", None) == np.float16:
        X = X.astype(np.float32)
    return X


def check_finite(X: Rows) -> float:
    """Largest |x|, in one read of X.

    Raises
    ------
    ValueError
        Naming row and column of the first NaN or infinity, or if the rows are too large to square.
    """
    largest = 0.0
    step = X.shape[0] if sp.issparse(X) else TILE_ROWS
    for start in range(0, X.shape[0], max(step, 1)):
        tile = X.data if sp.issparse(X) else X[start : start + step]
        if tile.size == 0:
            continue
        top = max(float(tile.max()), -float(tile.min()))
        if not np.isfinite(top):
            row, column = _first_bad(X, start, step)
            value = "NaN" if np.isnan(X[row, column]) else "infinity"
            raise ValueError(
                f"Input X contains {value} at row {row}, column {column} (counted from 0): "
                "drop or fill such rows"
            )
        largest = max(largest, top)
    limit = LARGEST[X.dtype.name]
    if largest > limit or 0 < largest < 1 / limit:
        raise ValueError(
            f"the largest |x| is {largest:.3g}, beyond what {X.dtype} can square: rescale X"
        )
    return largest


def _first_bad(X: Rows, start: int, step: int) -> tuple[int, int]:
    if sp.issparse(X):
        position = int(np.flatnonzero(~np.isfinite(X.data))[0])
        row = int(np.searchsorted(X.indptr, position, side="right")) - 1
        return row, int(X.indices[position])
    row, column = np.argwhere(~np.isfinite(X[start : start + step]))[0]
    return start + int(row), int(column)


def check_weights(sample_weight: Any, X: Rows) -> FloatArray | None:
    """Row weights as float64 of shape (n,); None where none were given.

    Raises
    ------
    ValueError
        For a wrong length, a negative or non-finite weight, or weights that are all zero.
    """
    n = X.shape[0]
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(f"sample_weight has shape {weights.shape}, expected ({n},)")
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if len(bad):
        raise ValueError(
            f"sample_weight[{bad[0]}] is {weights[bad[0]]}: weights must be finite and not negative"
        )
    if not weights.any():
        raise ValueError("sample_weight is zero for every row")
    return weights


def check_distinct(tokens: Tokens, n_clusters: int) -> None:
    """Refuse fewer distinct rows than clusters; reads no further than it must.

    Raises
    ------
    ValueError
        With the number of distinct rows.
    """
    seen: set[bytes] = set()
    for start in range(0, len(tokens), 256):
        tile = tokens.part(slice(start, min(start + 256, len(tokens))))
        for row in range(len(tile)):
            one = tile.X[[row]]
            if tile.sparse:
                one.sum_duplicates()
                one.eliminate_zeros()
                values, places = one.data, one.indices.tobytes()
            else:
                values, places = one[0], b""
            if tile.row_scale is not None:
                values = np.round(values * tile.row_scale[row], 6)
            seen.add(places + (values + 0.0).tobytes())
            if len(seen) >= n_clusters:
                return
    raise ValueError(
        f"X has only {len(seen)} distinct row{'s' * (len(seen) != 1)}, fewer than "
        f"n_clusters={n_clusters}: ask for at most {len(seen)}"
    )


def check_integer(name: str, value: object, least: int) -> None:
    """Refuse what is not an integer of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")


def check_number(name: str, value: object, low: float, high: float = np.inf) -> None:
    """Refuse what is not a number within [low, high]."""
    if not isinstance(value, Real) or isinstance(value, bool) or not low <= float(value) <= high:
        bounds = f"of at least {low}" if high == np.inf else f"from {low} to {high}"
        raise ValueError(f"{name} must be a number {bounds}, got {value!r}")


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Refuse what is none of the choices."""
    if not any(value is c or (type(value) is type(c) and value == c) for c in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
