"""The estimator on Dask arrays and data frames, block by block where the blocks are.

The first pass makes a `State` (moments and sample) of each block and merges them in a tree; heads
and refinement run on the merged one, at the client; the second pass is a step of softmax attention
on all rows, again a tree. Nothing of the size of the data, and no row but of the sample, leaves the
block's worker. Keys of rows come from the number of the block and the row's place in it, so a block
that is read again, elsewhere, gives the same.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np
from dask.base import compute, is_dask_collection
from dask.delayed import delayed

from attnclust import estimators
from attnclust._typing import FloatArray
from attnclust.refinement import Geometry
from attnclust.sources import Batch
from attnclust.streams import Counted, State

# States that are merged at once.
WIDTH = 8
# A block sends at most so many times its even share of the sample.
SLACK = 8


class AttentionClustering(estimators.AttentionClustering):
    """`attnclust.AttentionClustering` whose rows may be a Dask array or data frame.

    Other rows are treated as there. Parameters and attributes are the same but for these: `fit` and
    `predict` give labels, and `predict_proba`, `transform` and `score_samples` their arrays, as
    lazy Dask arrays; `half_life` is refused, as blocks have no order; there are no row weights.

    `fit` reads the blocks twice, and labels read them once more when they are computed. Where the
    rows fit in the workers' memory, persist them first.

    Examples
    --------
    >>> import dask.array as da
    >>> from attnclust.distributed import AttentionClustering
    >>> X = da.from_array([[1.0, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]], chunks=(2, 2))
    >>> model = AttentionClustering(n_clusters=2, random_state=0).fit(X)
    >>> labels = model.labels_.compute()
    >>> bool((labels[:3] == labels[0]).all() and (labels[3:] == 1 - labels[0]).all())
    True
    """

    def fit(self, X: Any, y: object = None, sample_weight: object = None) -> Self:
        """Find heads, centres, weights and noise level; labels are lazy.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features)
            Lengths of blocks need not be known, and blocks may be empty. A block must fit in a
            worker's memory thrice.
        y : object
            Ignored.
        sample_weight : None
            Refused for Dask rows.

        Returns
        -------
        AttentionClustering
            The estimator itself.

        Raises
        ------
        ValueError
            For a parameter or a row that cannot be used, naming the block.
        """
        if not _is_dask(X):
            return super().fit(X, y, sample_weight)
        if sample_weight is not None or self.half_life is not None:
            raise ValueError("sample_weight and half_life are not for Dask rows: leave them out")
        self._check_parameters()
        self.__dict__.pop("state_", None)
        array = self._array(X, reset=True)
        blocks = array.to_delayed().ravel().tolist()
        light = delayed(self._light(), traverse=False)
        state = self._empty_state(array.shape[1], self._dtype(array))
        # Rows in blocks of about one size lose nothing by sending no more than this; of others the
        # sample is still uniform, and is drawn anew if that leaves too little of it.
        share = SLACK * state.size // len(blocks) + 64
        for most in (min(share, state.size), state.size):
            empty = delayed(state, traverse=False)
            states = [
                delayed(_block_state)(light, block, number, empty, most)
                for number, block in enumerate(blocks)
            ]
            (found,) = compute(_tree(states))
            if 4 * len(found.rows) >= min(state.size, found.n_rows):
                break
        self._take(found)
        self._fit_state()
        if self._steps:
            geometry = self._geometry()
            light = delayed(self._light(), traverse=False)
            counted = [
                delayed(_block_counted)(light, block, number, geometry)
                for number, block in enumerate(blocks)
            ]
            self._step(compute(_tree(counted)), geometry)
        self.labels_ = self.predict(X)
        return self

    def predict(self, X: Any) -> Any:
        """Label of each row; a lazy Dask array for Dask rows."""
        return self._lazily("predict", X, (), np.intp) if _is_dask(X) else super().predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Posterior of each cluster; a lazy Dask array for Dask rows."""
        if not _is_dask(X):
            return super().predict_proba(X)
        return self._lazily("predict_proba", X, (len(self.weights_),))

    def transform(self, X: Any) -> Any:
        """Alignment scores; a lazy Dask array for Dask rows."""
        if not _is_dask(X):
            return super().transform(X)
        return self._lazily("transform", X, (len(self.weights_),))

    def score_samples(self, X: Any) -> Any:
        """Log-density of each row; a lazy Dask array for Dask rows."""
        if not _is_dask(X):
            return super().score_samples(X)
        return self._lazily("score_samples", X, (), np.float64)

    def _lazily(self, method: str, X: Any, width: tuple[int, ...], dtype: Any = None) -> Any:
        array = self._array(X, reset=False)
        dtype = self._dtype(array) if dtype is None else dtype
        chunks = (array.chunks[0], *((k,) for k in width))
        axes = {} if width else {"drop_axis": 1}
        return array.map_blocks(
            _block_method,
            model=self._light(),
            method=method,
            width=width,
            out=np.dtype(dtype),
            dtype=dtype,
            chunks=chunks,
            meta=np.empty((0,) * (1 + len(width)), dtype),
            **axes,
        )

    def _array(self, X: Any, *, reset: bool) -> Any:
        """Rows as an array of one block of columns, its names and width checked."""
        if hasattr(X, "to_dask_array"):
            self._rows(X._meta, reset=reset, stream=True)
            return X.to_dask_array()
        self._rows(np.empty((0, X.shape[1]), X.dtype), reset=reset, stream=True)
        return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X

    @staticmethod
    def _dtype(array: Any) -> np.dtype[np.floating[Any]]:
        single = array.dtype in (np.float16, np.float32)
        return np.dtype(np.float32 if single else np.float64)

    def _light(self) -> estimators.AttentionClustering:
        """What workers need of the model: neither the sample nor names, which are checked here."""
        light = estimators.AttentionClustering(**self.get_params())
        for name, value in vars(self).items():
            if name not in ("state_", "labels_", "feature_names_in_"):
                light.__dict__[name] = copy.copy(value)
        return light


def _is_dask(X: Any) -> bool:
    return bool(is_dask_collection(X))


def _tree(parts: Sequence[Any]) -> Any:
    """Delayed parts, added up a few at a time."""
    while len(parts) > 1:
        groups = range(0, len(parts), WIDTH)
        parts = [delayed(_sum)(list(parts[start : start + WIDTH])) for start in groups]
    return parts[0]


def _sum(parts: list[Any]) -> Any:
    return reduce(add, parts)


def _block_state(
    model: estimators.AttentionClustering, block: FloatArray, number: int, empty: State, most: int
) -> State:
    with estimators.at(f"block {number} (counted from 0)"):
        return empty.of(model._stream_tokens(block), stream=number).cut(most)


def _block_counted(
    model: estimators.AttentionClustering, block: FloatArray, number: int, geometry: Geometry
) -> Counted:
    return model._counted(Batch(f"block {number} (counted from 0)", block), geometry)


def _block_method(
    block: FloatArray,
    model: estimators.AttentionClustering,
    method: str,
    width: tuple[int, ...],
    out: np.dtype[Any],
) -> Any:
    if not len(block):
        return np.empty((0, *width), out)
    call: Callable[[FloatArray], Any] = getattr(model, method)
    return call(block)
