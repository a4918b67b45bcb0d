"""The estimator for many prompts at once, and the forms in which prompts come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from attnclust._typing import Array, FloatArray, IntArray
from attnclust.checks import as_rows, check_finite, check_integer, check_number
from attnclust.incontext import PromptClusters, cluster_prompts

# Numbers in a batch of prompts: 1 MB in float32, so that all steps find it in the cache.
BATCH_ELEMENTS = 2**18


@dataclass(frozen=True)
class Prompts:
    """Prompts as one array of tokens, in the order given, and where each prompt's tokens are.

    Parameters
    ----------
    tokens : array of shape (n, d)
    rows : list of integer arrays
        Positions of the tokens of each prompt.
    names : sequence
        What to call each prompt in messages.
    """

    tokens: FloatArray
    rows: Sequence[IntArray]
    names: Sequence[Any]

    @classmethod
    def of(cls, prompts: Any, groups: Any = None) -> Prompts:
        """Read prompts of any form: (L, d), (B, L, d), a list of (L_b, d), or tokens with groups.

        Raises
        ------
        ValueError
            Naming the prompt that is empty, of another width, or not finite.
        """
        if groups is not None:
            tokens = _as_tokens(prompts, "the tokens")
            groups = np.asarray(groups)
            if groups.shape != (len(tokens),):
                raise ValueError(
                    f"groups has shape {groups.shape}, expected one entry for each of the "
                    f"{len(tokens)} tokens"
                )
            names, inverse = np.unique(groups, return_inverse=True)
            order = np.argsort(inverse, kind="stable")
            rows = np.split(order, np.cumsum(np.bincount(inverse))[:-1])
            return cls._checked(tokens, rows, [f"group {name!r}" for name in names.tolist()])
        if isinstance(prompts, list | tuple) and len(prompts) and np.ndim(prompts[0]) == 2:
            parts = [_as_tokens(p, f"prompt {b}") for b, p in enumerate(prompts)]
            for b, part in enumerate(parts):
                if part.shape[1] != parts[0].shape[1]:
                    raise ValueError(
                        f"prompt {b} has {part.shape[1]} features where prompt 0 has "
                        f"{parts[0].shape[1]}"
                    )
            lengths = [len(part) for part in parts]
            tokens = np.concatenate(parts)
            rows = np.split(np.arange(len(tokens)), np.cumsum(lengths)[:-1])
        else:
            array = np.asarray(as_rows(prompts))
            if array.ndim not in (2, 3):
                raise ValueError(
                    f"prompts have shape {array.shape}: expected (L, d), (B, L, d), a list of "
                    "(L, d) arrays, or tokens (n, d) with groups"
                )
            batch, length = (1, len(array)) if array.ndim == 2 else array.shape[:2]
            tokens = _as_tokens(array.reshape(-1, array.shape[-1]), "the tokens")
            rows = list(np.arange(batch * length).reshape(batch, length))
        return cls._checked(tokens, rows, [f"prompt {b}" for b in range(len(rows))])

    @classmethod
    def _checked(cls, tokens: FloatArray, rows: Sequence[IntArray], names: list[str]) -> Prompts:
        try:
            check_finite(tokens)
        except ValueError as error:
            for name, own in zip(names, rows, strict=True):
                bad = np.argwhere(~np.isfinite(tokens[own]))
                if len(bad):
                    raise ValueError(
                        f"{name} contains NaN or infinity at its token {bad[0][0]}, column "
                        f"{bad[0][1]} (counted from 0): drop or fill such tokens"
                    ) from error
            raise
        return cls(tokens, rows, names)

    def batches(self) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
        """Prompts of like length together: their numbers, padded tokens, and which are present."""
        lengths = np.array([len(own) for own in self.rows])
        order = np.argsort(lengths, kind="stable")
        dim = self.tokens.shape[1]
        start = 0
        while start < len(order):
            stop = start + 1
            while (
                stop < len(order)
                and (stop + 1 - start) * lengths[order[stop]] * dim <= BATCH_ELEMENTS
            ):
                stop += 1
            chosen = order[start:stop]
            longest = int(lengths[chosen[-1]])
            present = np.arange(longest) < lengths[chosen, None]
            where = np.zeros(present.shape, dtype=np.intp)
            where[present] = np.concatenate([self.rows[b] for b in chosen])
            yield chosen, self.tokens[where], present.astype(self.tokens.dtype)
            start = stop


def _as_tokens(array: Any, name: str) -> FloatArray:
    tokens = np.asarray(as_rows(array))
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise ValueError(f"{name} has shape {tokens.shape}, expected tokens of shape (L, d)")
    if tokens.dtype not in (np.float32, np.float64):
        if tokens.dtype.kind not in "biuf":
            raise ValueError(f"{name} holds {tokens.dtype}: tokens are made of real numbers")
        tokens = tokens.astype(np.float64)
    return tokens


class InContextClustering(BaseEstimator):  # type: ignore[misc]
    """Cluster many prompts, each by itself, as one batched array program.

    No parameter is trained across prompts: each prompt's own moments normalise it, and heads and
    attention steps follow for all prompts together.

    Parameters
    ----------
    n_clusters : int, default=2
        Clusters K in every prompt; at most the number of features, and of the shortest prompt.
    max_iter : int, default=50
        Most attention steps.
    tol : float, default=1e-4
        Stop when no prompt's mean log-likelihood rises by more.
    random_state : int, RandomState or None, default=None
        Draws the starts.

    Attributes
    ----------
    labels_ : ndarray of shape (B, L), or a list of arrays, or ndarray of shape (n,)
        In the form of the prompts: (L,) for a single one, a list for a list, flat for tokens with
        groups.
    cluster_centers_ : ndarray of shape (B, K, d)
    weights_ : ndarray of shape (B, K)
    noise_variance_ : ndarray of shape (B,)
    log_likelihood_ : ndarray of shape (B,)
        Mean per token.
    groups_ : ndarray of shape (B,)
        The groups in the order of the attributes above; numbers of the prompts without groups.

    Examples
    --------
    >>> import numpy as np
    >>> from attnclust import InContextClustering
    >>> rng = np.random.default_rng(0)
    >>> centres = rng.standard_normal((100, 1, 3, 8))  # each prompt has its own
    >>> y = rng.integers(0, 3, (100, 50))
    >>> prompts = np.take_along_axis(centres[:, 0], y[..., None], 1)
    >>> prompts = prompts + 0.1 * rng.standard_normal(prompts.shape)
    >>> InContextClustering(3, random_state=0).fit_predict(prompts).shape
    (100, 50)
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        max_iter: int = 50,
        tol: float = 1e-4,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, prompts: Any, y: object = None, groups: Array | None = None) -> Self:
        """Cluster every prompt.

        Parameters
        ----------
        prompts : array of shape (L, d) or (B, L, d), list of arrays, or tokens of shape (n, d)
            float32 stays float32.
        y : object
            Ignored.
        groups : array of shape (n,), optional
            The prompt that each token belongs to; tokens of one prompt need not be neighbours.

        Returns
        -------
        InContextClustering

        Raises
        ------
        ValueError
            Naming the prompt that cannot be clustered, and why.
        """
        check_integer("n_clusters", self.n_clusters, 1)
        check_integer("max_iter", self.max_iter, 1)
        check_number("tol", self.tol, 0.0)
        given = Prompts.of(prompts, groups)
        dim, k = given.tokens.shape[1], self.n_clusters
        if k > dim:
            raise ValueError(f"n_clusters={k} is more than the {dim} features")
        for name, own in zip(given.names, given.rows, strict=True):
            if len(own) < k:
                raise ValueError(f"{name} has {len(own)} tokens, fewer than n_clusters={k}")
        seed = check_random_state(self.random_state).randint(2**31)
        batch, dtype = len(given.rows), given.tokens.dtype
        self.cluster_centers_ = np.empty((batch, k, dim), dtype)
        self.weights_ = np.empty((batch, k), dtype)
        self.noise_variance_ = np.empty(batch, dtype)
        self.log_likelihood_ = np.empty(batch)
        flat = np.empty(len(given.tokens), dtype=np.intp)
        # Threads of a BLAS that shares out matrices this small spend their time waiting.
        with threadpool_limits(limits=1, user_api="blas"):
            for chosen, tokens, present in given.batches():
                rng = np.random.default_rng(seed)  # each batch as if alone
                found = cluster_prompts(
                    tokens, present, k, rng, max_iter=self.max_iter, tol=self.tol
                )
                self._store(chosen, found)
                flat[np.concatenate([given.rows[b] for b in chosen])] = found.labels[present > 0]
        if groups is not None:
            self.groups_ = np.unique(np.asarray(groups))
            self.labels_: Any = flat
        else:
            self.groups_ = np.arange(batch)
            parts = [flat[own] for own in given.rows]
            single = np.ndim(prompts[0]) == 1
            self.labels_ = (
                parts
                if isinstance(prompts, list | tuple) and not single
                else parts[0]
                if single
                else np.array(parts)
            )
        return self

    def fit_predict(self, prompts: Any, y: object = None, groups: Array | None = None) -> Any:
        """Labels of every token, in the form of the prompts; see `fit`."""
        return self.fit(prompts, groups=groups).labels_

    def _store(self, chosen: IntArray, found: PromptClusters) -> None:
        self.cluster_centers_[chosen] = found.centroids
        self.weights_[chosen] = found.weights
        self.noise_variance_[chosen] = found.noise_variance
        self.log_likelihood_[chosen] = found.log_likelihood
