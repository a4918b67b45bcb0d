"""Arrays of any library that follows the array API standard: whose they are, and to and from them.

PyTorch's are recognised here, and only where it is already imported: the recognition of
array_api_compat is cached, which `torch.compile` cannot see through.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from array_api_compat import array_namespace, to_device

from attnclust._typing import ApiArray, Array


def namespace(array: ApiArray) -> Any:
    """The array API namespace of an array.

    Parameters
    ----------
    array : array

    Returns
    -------
    module

    Raises
    ------
    TypeError
        If it is no array.

    Examples
    --------
    >>> import numpy as np
    >>> namespace(np.zeros(2)).__name__
    'array_api_compat.numpy'
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        import array_api_compat.torch

        return array_api_compat.torch
    return array_namespace(array)


def like(values: Any, array: ApiArray) -> ApiArray:
    """Values as an array of another's library, precision and device.

    Parameters
    ----------
    values : float, array of that library, or what its asarray takes
    array : array

    Returns
    -------
    array
    """
    xp = namespace(array)
    if isinstance(values, type(array)):
        return xp.astype(values, array.dtype, copy=False)
    return xp.asarray(values, dtype=array.dtype, device=getattr(array, "device", None))


def take(array: ApiArray, rows: Array) -> ApiArray:
    """Rows of an array, by a NumPy array of positions.

    Parameters
    ----------
    array : array of shape (B, ...)
    rows : NumPy integer array of shape (b,)

    Returns
    -------
    array of shape (b, ...)
    """
    xp = namespace(array)
    return xp.take(array, xp.asarray(rows, device=getattr(array, "device", None)), axis=0)


def to_host(array: ApiArray) -> Array:
    """Real numbers as a NumPy array of their own.

    Parameters
    ----------
    array : array

    Returns
    -------
    NumPy array of the same shape
    """
    place = str(getattr(array, "device", "cpu")).lower()
    return np.array(np.from_dlpack(array if "cpu" in place else to_device(array, "cpu")))
