"""The array aliases that the package's annotations share."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
# Rows as the user gave them: an array or a SciPy CSR matrix, which share no type.
Rows: TypeAlias = Any
# Of any library that follows the array API standard.
ApiArray: TypeAlias = Any
