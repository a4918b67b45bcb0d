"""Streams: what a fit needs to keep of rows that come in batches, and how such states merge.

A state is the moments of all rows so far and a uniform sample of them. Row t draws E_t ~ Exp(1) by
a counter (its stream and its place there, never the batch it came in) and has the key E_t / w_t;
the sample is the rows of the smallest keys (Efraimidis and Spirakis 2006), so it depends on no
batch sizes, and the union of two samples, cut to the smallest keys, is the sample of both streams.
With every key below a bound b kept, a row is in with probability 1 - exp(-w_t b); the sample's rows
carry the weights w_t / (1 - exp(-w_t b)), under which their sums are unbiased (Cohen and Kaplan
2008). Forgetting is a weight w_t = 2^(t / half-life), and costs nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from attnclust._typing import FloatArray, IntArray
from attnclust.moments import Moments
from attnclust.refinement import Expectation
from attnclust.tokens import Tokens


@dataclass(frozen=True)
class State:
    """Moments and a sample of a stream's rows; ``a + b`` is the state after the rows of both.

    Parameters
    ----------
    moments : Moments
        In the units of the rows (scaled to unit length under cosine), each row weighing less by
        half for every `half_life` rows after it.
    rows : array of shape (m, d)
        The sample, as the rows came, by rising key.
    keys : array of shape (m,)
        log(E_t / w_t).
    log_weights : array of shape (m,)
        log w_t.
    bound : float
        Every row whose key is below it is in the sample; infinite while that is all rows.
    n_rows : int
        Rows so far.
    size : int
        Most rows that the sample holds.
    seed : int
        Draws the keys.
    half_life : float, optional
        Rows after which a row counts half; None forgets nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from attnclust.streams import State
    >>> from attnclust.tokens import Tokens
    >>> X = np.arange(20.0).reshape(10, 2)
    >>> state = State.empty(2, X.dtype, size=4, seed=0)
    >>> whole = state.after(Tokens(X))
    >>> parts = state.after(Tokens(X[:3])).after(Tokens(X[3:]))
    >>> bool((parts.rows == whole.rows).all()), whole.n_rows
    (True, 10)
    """

    moments: Moments
    rows: FloatArray
    keys: FloatArray
    log_weights: FloatArray
    bound: float
    n_rows: int
    size: int
    seed: int
    half_life: float | None = None

    @classmethod
    def empty(
        cls,
        dim: int,
        dtype: np.dtype[np.floating],
        *,
        size: int,
        seed: int,
        half_life: float | None = None,
    ) -> Self:
        """The state before the first row."""
        none = Moments(0.0, np.zeros(dim), np.zeros((dim, dim)))
        blank: FloatArray = np.empty((0, dim), dtype)
        return cls(none, blank, np.empty(0), np.empty(0), np.inf, 0, size, seed, half_life)

    def after(self, tokens: Tokens) -> State:
        """The state after further rows of the same stream."""
        return self + self.of(tokens, start=self.n_rows)

    def of(self, tokens: Tokens, *, start: int = 0, stream: int = 0) -> State:
        """The state of some rows alone, kept as this one keeps its own.

        Parameters
        ----------
        tokens : Tokens
            Dense rows, about no shift.
        start : int
            Place of the first row in its stream.
        stream : int
            Number of the stream: one for each part that is read by itself.

        Raises
        ------
        ValueError
            If the rows have another number of features.
        """
        if tokens.dim != len(self.moments.mean):
            raise ValueError(
                f"rows of {tokens.dim} features, where those before have {len(self.moments.mean)}"
            )
        n = int(tokens.X.shape[0])
        if n == 0:
            return self.empty(
                tokens.dim,
                self.rows.dtype,
                size=self.size,
                seed=self.seed,
                half_life=self.half_life,
            )
        places = np.arange(n) if tokens.rows is None else tokens.rows
        log_weights = np.log(tokens.row_weights())
        fading = tokens
        if self.half_life is not None:
            age = np.exp2((np.arange(n) - n) / self.half_life)
            fading = replace(
                tokens, weights=age if tokens.weights is None else tokens.weights * age
            )
            log_weights = log_weights + np.log(2) * ((start + places) / self.half_life)
        keys = _log_exponentials(self.seed, stream, start, n)[places] - log_weights
        chosen, bound = _smallest(keys, self.size, np.inf)
        return replace(
            self,
            moments=Moments.of(fading).rescaled(tokens.unit),
            rows=tokens.X[places[chosen]].astype(self.rows.dtype, copy=False),
            keys=keys[chosen],
            log_weights=log_weights[chosen],
            bound=bound,
            n_rows=n,
        )

    def __add__(self, other: State) -> State:
        """Both streams' state; with forgetting, the rows of `other` come after these."""
        fade = 1.0 if self.half_life is None else float(np.exp2(-other.n_rows / self.half_life))
        moments = self.moments.faded(fade) + other.moments
        whole = replace(self, moments=moments, n_rows=self.n_rows + other.n_rows)
        bound = min(self.bound, other.bound)
        if bound == self.bound and not (other.keys < bound).any():
            return whole
        keys = np.concatenate([self.keys, other.keys])
        chosen, bound = _smallest(keys, self.size, bound)
        own = chosen < len(self.keys)
        rows = np.empty((len(chosen), self.rows.shape[1]), self.rows.dtype)
        rows[own] = self.rows[chosen[own]]
        rows[~own] = other.rows[chosen[~own] - len(self.keys)]
        log_weights = np.concatenate([self.log_weights, other.log_weights])[chosen]
        return replace(whole, rows=rows, keys=keys[chosen], log_weights=log_weights, bound=bound)

    def cut(self, size: int) -> State:
        """The state with a sample of at most `size` rows, still uniform."""
        if len(self.keys) <= size:
            return self
        kept = {name: getattr(self, name)[:size] for name in ("rows", "keys", "log_weights")}
        return replace(self, bound=float(self.keys[size]), **kept)

    @property
    def weights(self) -> FloatArray | None:
        """Weights under which the sample stands for all rows, the largest 1; None if all are."""
        if len(self.keys) == 0 or np.ptp(self.log_weights) == 0:
            return None
        chance = -np.expm1(-np.exp(np.minimum(self.log_weights + self.bound, 700.0)))
        adjusted = self.log_weights - np.log(chance)
        return np.asarray(np.exp(adjusted - adjusted.max()))


def _log_exponentials(seed: int, stream: int, start: int, n: int) -> FloatArray:
    """Log E_t for t = start, ..., start + n - 1 of a stream, by a counter-based generator."""
    bits = np.random.Philox(key=np.array([seed, stream], dtype=np.uint64))
    before = start % 4  # a counter gives four numbers
    raw = bits.advance(start // 4).random_raw(before + n)[before:]
    uniform = ((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return np.asarray(np.log(-np.log1p(-uniform)))


def _smallest(keys: FloatArray, size: int, bound: float) -> tuple[IntArray, float]:
    """Places of the smallest keys below the bound, rising, and the bound that they now keep."""
    near = np.flatnonzero(keys < bound)
    if len(near) > size:
        near = near[np.argpartition(keys[near], size)[: size + 1]]
    order = near[np.argsort(keys[near], kind="stable")]
    if len(order) > size:
        return order[:size], float(keys[order[size]])
    return order, bound


@dataclass(frozen=True)
class Counted:
    """An expectation and the weight of the rows that it is the mean of; ``a + b`` is of both."""

    total: float
    seen: Expectation

    def __add__(self, other: Counted) -> Counted:
        total = self.total + other.total
        if total == 0:
            return self
        share = other.total / total
        mine, theirs = self.seen, other.seen
        return Counted(
            total,
            Expectation(
                mine.counts + share * (theirs.counts - mine.counts),
                mine.sums + share * (theirs.sums - mine.sums),
                mine.log_likelihood + share * (theirs.log_likelihood - mine.log_likelihood),
            ),
        )
