"""The estimators for many prompts at once, and the forms in which prompts come."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state

from attnclust._typing import Array, FloatArray, IntArray
from attnclust.attention import quantise
from attnclust.checks import as_rows, check_choice, check_integer, check_number
from attnclust.incontext import PromptClusters, choose_clusters, cluster_prompts
from attnclust.threads import spread

# Numbers in a batch of prompts: 1 MB in float32, so that all steps find it in the cache.
BATCH_ELEMENTS = 2**18


@dataclass(frozen=True)
class Prompts:
    """Prompts as one array of tokens, in the order given, and where each prompt's tokens are.

    Parameters
    ----------
    tokens : array of shape (n, d)
    order : integer array of shape (n,)
        Positions of the tokens, prompt by prompt.
    bounds : integer array of shape (B + 1,)
        Prompt b has the tokens order[bounds[b]:bounds[b + 1]].
    form : {"one", "array", "list", "groups"}
        How the prompts came, and answers go back.
    groups : array of shape (B,)
        What the prompts are called.
    """

    tokens: FloatArray
    order: IntArray
    bounds: IntArray
    form: Literal["one", "array", "list", "groups"]
    groups: Array

    @classmethod
    def of(cls, prompts: Any, groups: Any = None) -> Prompts:
        """Read prompts of any form: (L, d), (B, L, d), a list of (L_b, d), or tokens with groups.

        Raises
        ------
        ValueError
            Naming the prompt that is empty or of another width.
        """
        if groups is not None:
            tokens = _as_tokens(prompts, "the tokens")
            names, inverse = np.unique(_as_groups(groups, len(tokens)), return_inverse=True)
            order = np.argsort(inverse, kind="stable")
            return cls(tokens, order, _bounds(np.bincount(inverse)), "groups", names)
        form: Literal["one", "array", "list"]
        if isinstance(prompts, list | tuple) and len(prompts) and np.ndim(prompts[0]) == 2:
            parts = [_as_tokens(p, f"prompt {b}") for b, p in enumerate(prompts)]
            for b, part in enumerate(parts):
                if part.shape[1] != parts[0].shape[1]:
                    raise ValueError(
                        f"prompt {b} has {part.shape[1]} features where prompt 0 has "
                        f"{parts[0].shape[1]}"
                    )
            form, lengths, tokens = "list", [len(part) for part in parts], np.concatenate(parts)
        else:
            array = np.asarray(as_rows(prompts))
            if array.ndim not in (2, 3):
                raise ValueError(
                    f"prompts have shape {array.shape}: expected (L, d), (B, L, d), a list of "
                    "(L, d) arrays, or tokens (n, d) with groups"
                )
            form = "one" if array.ndim == 2 else "array"
            batch, length = (1, len(array)) if array.ndim == 2 else array.shape[:2]
            lengths = [length] * batch
            tokens = _as_tokens(array.reshape(-1, array.shape[-1]), "the tokens")
        return cls(tokens, np.arange(len(tokens)), _bounds(lengths), form, np.arange(len(lengths)))

    @property
    def lengths(self) -> IntArray:
        """Tokens of each prompt: shape (B,)."""
        return np.diff(self.bounds)

    def name(self, prompt: int) -> str:
        """What messages call a prompt."""
        called = self.groups[prompt : prompt + 1].tolist()[0]
        return f"{'group' if self.form == 'groups' else 'prompt'} {called!r}"

    def faults(self, least: int) -> dict[int, str]:
        """Prompts that cannot be worked on, and why: too few tokens, or not finite ones."""
        found = {
            b: f"{self.name(b)} has {self.lengths[b]} tokens, fewer than n_clusters={least}"
            for b in np.flatnonzero(self.lengths < least).tolist()
        }
        with np.errstate(all="ignore"):
            bad = ~np.isfinite(np.einsum("nd,nd->n", self.tokens, self.tokens))
        rows = np.flatnonzero(bad[self.order])
        owners, first = np.unique(
            np.searchsorted(self.bounds, rows, side="right") - 1, return_index=True
        )
        for b, row in zip(owners.tolist(), rows[first].tolist(), strict=True):
            token = self.tokens[self.order[row]]
            where = f"at its token {row - self.bounds[b]}"
            if np.isfinite(token).all():
                found[b] = f"{self.name(b)} is too large to square {where}: scale the tokens down"
            else:
                found[b] = (
                    f"{self.name(b)} contains NaN or infinity {where}, column "
                    f"{int((~np.isfinite(token)).argmax())} (counted from 0): drop or fill it"
                )
        return found

    def batches(
        self, chosen: IntArray
    ) -> Iterator[tuple[IntArray, IntArray, FloatArray, FloatArray]]:
        """Prompts of like length together.

        Yields
        ------
        which, where, tokens, present
            Prompts (b,), positions of their tokens (b, L), the tokens padded with some row, and
            ones where they are present.
        """
        lengths = self.lengths[chosen]
        sort = np.argsort(lengths, kind="stable")
        chosen, lengths = chosen[sort], lengths[sort]
        dim = self.tokens.shape[1]
        start = 0
        while start < len(chosen):
            most = BATCH_ELEMENTS // (int(lengths[start]) * dim) + 1
            longest = lengths[start : start + most]
            fits = np.arange(1, len(longest) + 1) * longest * dim <= BATCH_ELEMENTS
            stop = start + max(1, int(fits.sum()))
            which = chosen[start:stop]
            places = np.arange(int(lengths[stop - 1]))
            inside = places < lengths[start:stop, None]
            where = self.order[np.where(inside, self.bounds[which][:, None] + places, 0)]
            yield which, where, self.tokens[where], inside.astype(self.tokens.dtype)
            start = stop

    def shaped(self, flat: Array) -> Any:
        """What was computed per token, in the order of the tokens, in the form of the prompts."""
        if self.form == "array":
            return flat.reshape(len(self.groups), -1, *flat.shape[1:])
        return np.split(flat, self.bounds[1:-1]) if self.form == "list" else flat


def _bounds(lengths: Any) -> IntArray:
    return np.concatenate([[0], np.cumsum(lengths)])


def _as_groups(groups: Any, n: int) -> Array:
    groups = np.asarray(groups)
    if groups.shape != (n,):
        raise ValueError(
            f"groups has shape {groups.shape}, expected one entry for each of the {n} tokens"
        )
    null: Any = groups != groups
    if groups.dtype.kind == "O":
        null = [group is None or group != group for group in groups]
    missing = np.flatnonzero(null)
    if len(missing):
        raise ValueError(
            f"token {missing[0]} has no group ({len(missing)} have none): drop them or name one"
        )
    return np.asarray(groups)


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
    n_clusters : int or "auto", default="auto"
        Clusters K in every prompt, at most the number of features and of the shortest prompt's
        tokens; "auto" chooses for each prompt by BIC.
    max_iter : int, default=50
        Most attention steps.
    tol : float, default=1e-4
        Stop when no prompt's mean log-likelihood rises by more.
    on_error : {"raise", "skip"}, default="raise"
        What a prompt with too few tokens or numbers that are not finite does: stop the fit, or get
        label -1, weights of zero and an entry in `errors_`.
    random_state : int, RandomState or None, default=None
        Draws the starts.

    Attributes
    ----------
    labels_ : ndarray of shape (B, L), or a list of arrays, or ndarray of shape (n,)
        In the form of the prompts: (L,) for a single one, a list for a list, flat for tokens with
        groups.
    confidence_ : of the form of `labels_`
        Largest posterior of each token; 0 where it has no label.
    n_clusters_ : ndarray of shape (B,)
        Clusters of each prompt; 0 for one that was skipped.
    cluster_centers_ : ndarray of shape (B, K, d)
        K is the largest number of clusters; NaN beyond a prompt's own.
    weights_ : ndarray of shape (B, K)
        0 beyond a prompt's own.
    noise_variance_ : ndarray of shape (B,)
    log_likelihood_ : ndarray of shape (B,)
        Mean per token.
    groups_ : ndarray of shape (B,)
        The groups in the order of the attributes above; numbers of the prompts without groups.
    sizes_ : ndarray of shape (B,)
        Tokens of each prompt.
    errors_ : dict
        Why prompts were skipped, by group.

    Examples
    --------
    >>> import numpy as np
    >>> from attnclust import InContextClustering
    >>> rng = np.random.default_rng(0)
    >>> centres = rng.standard_normal((100, 1, 3, 8))  # each prompt has its own
    >>> y = rng.integers(0, 3, (100, 50))
    >>> prompts = np.take_along_axis(centres[:, 0], y[..., None], 1)
    >>> prompts = prompts + 0.1 * rng.standard_normal(prompts.shape)
    >>> model = InContextClustering(random_state=0).fit(prompts)
    >>> model.labels_.shape, np.unique(model.n_clusters_)
    ((100, 50), array([3]))
    """

    def __init__(
        self,
        n_clusters: int | Literal["auto"] = "auto",
        *,
        max_iter: int = 50,
        tol: float = 1e-4,
        on_error: Literal["raise", "skip"] = "raise",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.max_iter = max_iter
        self.tol = tol
        self.on_error = on_error
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
        k = self.n_clusters
        if k != "auto":
            check_integer("n_clusters", k, 1)
        check_integer("max_iter", self.max_iter, 1)
        check_number("tol", self.tol, 0.0)
        check_choice("on_error", self.on_error, ("raise", "skip"))
        given = Prompts.of(prompts, groups)
        dim = given.tokens.shape[1]
        if k != "auto" and k > dim:
            raise ValueError(f"n_clusters={k} is more than the {dim} features")
        faults = given.faults(1 if k == "auto" else k)
        if faults and self.on_error == "raise":
            raise ValueError(next(iter(faults.values())))
        sound = np.setdiff1d(np.arange(len(given.groups)), list(faults))
        seed = check_random_state(self.random_state).randint(2**31)
        labels = np.full(len(given.tokens), -1, dtype=np.intp)
        confidence = np.zeros(len(given.tokens), dtype=given.tokens.dtype)
        parts: list[tuple[IntArray, PromptClusters]] = []

        def work(batch: tuple[IntArray, IntArray, FloatArray, FloatArray]) -> None:
            which, where, tokens, present = batch
            rng = np.random.default_rng(seed)  # each batch as if alone
            settings: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol}
            if k == "auto":
                found = choose_clusters(tokens, present, rng, **settings)
            else:
                own = cluster_prompts(tokens, present, k, rng, **settings)
                found = [(np.arange(len(which)), own)]
            for rows, clusters in found:
                inside = present[rows] > 0
                labels[where[rows][inside]] = clusters.labels[inside]
                confidence[where[rows][inside]] = clusters.attention.max(-1)[inside]
                parts.append((which[rows], clusters._replace(attention=None)))

        deque(spread(work, given.batches(sound)), maxlen=0)
        self._store(given, parts)
        self.errors_ = {given.groups[b : b + 1].tolist()[0]: why for b, why in faults.items()}
        self.labels_: Any = given.shaped(labels)
        self.confidence_: Any = given.shaped(confidence)
        return self

    def fit_predict(self, prompts: Any, y: object = None, groups: Array | None = None) -> Any:
        """Labels of every token, in the form of the prompts; see `fit`."""
        return self.fit(prompts, groups=groups).labels_

    def _store(self, given: Prompts, parts: list[tuple[IntArray, PromptClusters]]) -> None:
        batch, dim = len(given.groups), given.tokens.shape[1]
        most = max((found.weights.shape[1] for _, found in parts), default=0)
        self.groups_, self.sizes_ = given.groups, given.lengths
        self.n_clusters_ = np.zeros(batch, dtype=np.intp)
        self.cluster_centers_ = np.full((batch, most, dim), np.nan, given.tokens.dtype)
        self.weights_ = np.zeros((batch, most), given.tokens.dtype)
        self.noise_variance_ = np.full(batch, np.nan, given.tokens.dtype)
        self.log_likelihood_ = np.full(batch, np.nan)
        for which, found in parts:
            k = found.weights.shape[1]
            self.n_clusters_[which] = k
            self.cluster_centers_[which, :k] = found.centroids
            self.weights_[which, :k] = found.weights
            self.noise_variance_[which] = found.noise_variance
            self.log_likelihood_[which] = found.log_likelihood


class InContextAttention(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Quantise the tokens of each prompt by the layer without parameters.

    T(x) = (c/L) sum_k <x, x_k> x_k pulls each token towards the centres of its own prompt: a
    direction of variance lambda_i is scaled by c lambda_i, so that noise, whose variance is small,
    is shrunk. Nothing is fitted.

    Parameters
    ----------
    n_layers : int, default=1
        Layers stacked, each on the output of the one before. Each sharpens the quantisation, but
        also favours the stronger of unequal directions, more so with each layer.
    temperature : float or "auto", default="auto"
        Scale c. "auto" keeps the length of the signal for each prompt and layer (`quantise`); a
        number is used as it is, and stacked layers then shrink or blow up their tokens.

    Examples
    --------
    >>> import numpy as np
    >>> from attnclust import InContextAttention
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 400)
    >>> tokens = np.eye(20)[y] + 0.1 * rng.standard_normal((400, 20))
    >>> quantised = InContextAttention(n_layers=2).fit_transform(tokens)
    >>> [round(float(x[y == 0].var(0).sum()), 3) for x in (tokens, quantised)]
    [0.197, 0.017]
    """

    def __init__(self, n_layers: int = 1, *, temperature: float | Literal["auto"] = "auto") -> None:
        self.n_layers = n_layers
        self.temperature = temperature

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, prompts: Any, y: object = None) -> Self:
        """Check the parameters; there is nothing to fit.

        Parameters
        ----------
        prompts, y : object
            Ignored.

        Returns
        -------
        InContextAttention
        """
        check_integer("n_layers", self.n_layers, 1)
        if self.temperature != "auto":
            check_number("temperature", self.temperature, 0.0)
        return self

    def transform(self, prompts: Any, groups: Array | None = None) -> Any:
        """Quantised tokens, in the form of the prompts.

        Parameters
        ----------
        prompts, groups
            As for `InContextClustering.fit`.

        Returns
        -------
        array of shape (L, d), (B, L, d) or (n, d), or list of arrays
            In the precision of the tokens.

        Raises
        ------
        ValueError
            Naming the prompt that is not finite.
        """
        self.fit(prompts)
        given = Prompts.of(prompts, groups)
        faults = given.faults(1)
        if faults:
            raise ValueError(next(iter(faults.values())))
        out = np.empty_like(given.tokens)
        c = None if self.temperature == "auto" else self.temperature

        def work(batch: tuple[IntArray, IntArray, FloatArray, FloatArray]) -> None:
            _, where, tokens, present = batch
            for _ in range(self.n_layers):
                tokens = quantise(tokens, present, c)
            inside = present > 0
            out[where[inside]] = tokens[inside]

        deque(spread(work, given.batches(np.arange(len(given.groups)))), maxlen=0)
        return given.shaped(out)
