"""The estimator: tokens, moments, normalisation, heads, clusters, one after the other."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
    clone,
)
from sklearn.exceptions import NotFittedError
from sklearn.utils import ClassifierTags, Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from attnclust._typing import FloatArray, IntArray, Rows
from attnclust.checks import (
    as_rows,
    check_choice,
    check_distinct,
    check_finite,
    check_integer,
    check_number,
    check_weights,
)
from attnclust.fitting import History, center, find_start, kernel_start, refine, train_start
from attnclust.moments import Spectrum, spectrum
from attnclust.objective import REGULARIZERS
from attnclust.refinement import (
    Clusters,
    Expectation,
    Geometry,
    Told,
    assign,
    attended,
    equal_weights,
    expectation,
    maximization,
    posterior,
    told,
)
from attnclust.selection import MOST_EIGENPAIRS, choose, weigh
from attnclust.sources import Batch, Source, as_source
from attnclust.streams import Counted, State
from attnclust.tokens import Tokens, power_of_two, row_norms, unit_rows

KERNELS = ("fourier", "nystrom")
# Rows that heads and refinement look at: so many in all, or per cluster if that is more; with
# these the ARI is within .0005 of that with six times as many (benchmarks/sample.md). More rows
# where K is to be chosen: they decide what can be told apart.
SAMPLE_ROWS, SAMPLE_ROWS_TO_CHOOSE = 10_000, 30_000
SAMPLE_ROWS_PER_CLUSTER = 300
# Squared sine to which moments are to know the least of the directions that heads need: they take
# the sample, as many rows as that asks for, or all. Refinement makes good what is left
# (benchmarks/sample.md).
BLUR = 0.1
# What a state decides, found when first asked for.
DEFERRED = (
    "cluster_centers_",
    "heads_",
    "values_",
    "weights_",
    "noise_variance_",
    "temperature_",
    "n_iter_",
    "n_rows_used_",
    "history_",
    "selection_",
    "lift_",
    "feature_map_",
)


class AttentionClustering(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Cluster vectors by attention heads.

    Heads are found on normalised tokens, where the centres of any mixture are orthonormal, by a
    fixed point that needs no restarts from the user; softmax attention with split-and-merge moves
    then refines centres, weights and noise level. With ``solver="pgd"`` the heads are trained by
    Riemannian gradient descent on prompts drawn from the rows, as published [1]_.

    Parameters
    ----------
    n_clusters : int or "auto", default=2
        Number of clusters K. "auto" chooses it by spectrum, penalised likelihood and the gaps
        between clusters (`attnclust.selection`); row weights then count relative to their mean.
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine" scales every row to unit length and keeps the centres on the unit sphere. Rows of
        zeros have no direction: they carry no weight in the fit and get the label of the largest
        cluster (of the first, where attention is hard).
    solver : {"fixed_point", "pgd"}, default="fixed_point"
        How heads are found.
    lift : {"auto", "affine", "none", "fourier", "nystrom"}, default="auto"
        Where heads look. "affine" appends a constant coordinate before normalising, so that
        opposite and aligned centres are told apart, and "auto" does wherever tokens are normalised:
        it is never worse conditioned. Where the spectrum does not carry one direction per cluster
        (K > d above all) both start from splits instead. "fourier" finds heads on random features
        of a Gaussian kernel, for round clusters, more of them than features. "nystrom" finds heads
        on that kernel divided by its row sums, for clusters of any shape that gaps part: their
        labels are not refined, and every row is compared to at least 500 landmarks.
    normalize : "auto" or bool, default="auto"
        Normalise keys and queries; "auto" does for the fixed point and not for "pgd".
    order : {3, 4}, default=3
        Moment of the fixed point's contrast.
    refine : "auto" or bool, default="auto"
        Refine by attention; "auto" does for the fixed point, but not under ``lift="nystrom"``, nor
        for "pgd".
    attention : {"auto", "soft", "hard"}, default="auto"
        What refines. "soft" is softmax attention, the EM step of a spherical mixture, and right
        where that mixture holds, above all for overlapping clusters of unequal weight. "hard" lets
        each row attend to its nearest centre only: the k-means step, least squares that suppose no
        distribution. "auto" is "hard" where squared distances to the centres scatter by a quarter
        more than the mixture says.
    temperature : "auto" or float, default="auto"
        Scale c of the layer that "pgd" trains, for centres of unit length; "auto" is half of the
        closed-form optimum c*(L).
    regularizer : {"pairwise", "product"}, default="pairwise"
        What makes "pgd" heads part; its strength falls to zero in training.
    strength : float, default=0.3
        First strength rho of the regulariser.
    prompt_length : int, default=30
        Tokens L per prompt of "pgd".
    n_steps : int, default=3000
        Gradient steps of "pgd", of 64 prompts each.
    threshold : float, optional
        Rows whose largest posterior is below it get the label -1; by default every row has one.
    max_samples : "auto" or int, default="auto"
        Most rows that heads and refinement look at; labels take all, moments where the sample does
        not show the directions clearly. "auto" is 10,000, or 300 per cluster if that is more, and
        30,000 where K is to be chosen.
    max_iter : int, default=100
        Most steps of softmax attention after the moves.
    tol : float, default=1e-4
        Stop when a step raises the mean log-likelihood per row by less.
    half_life : float, optional
        Rows after which `partial_fit` counts a row half; by default it forgets nothing.
    random_state : int, RandomState or None, default=None
        Draws the sample and the starts. The same seed repeats bit for bit on one machine with the
        same number of threads; between thread counts sums differ in their last bits.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Centres m_j, in the units of X.
    heads_ : ndarray of shape (n_clusters, n_features)
        Unit vectors along the centres (zero for a centre at the origin).
    values_ : ndarray of shape (n_clusters, n_features)
        What attention to a head contributes to `attend`: the centre, or c S mu_h for the linear
        layer of unrefined "pgd".
    weights_ : ndarray of shape (n_clusters,)
        Weights w_j, sum to one.
    noise_variance_ : float
        sigma^2 per coordinate, in squared units of X.
    temperature_ : float or None
        Scale c of the linear layer of unrefined "pgd", in the units of X; None for softmax heads.
    labels_ : ndarray of shape (n_samples,)
        Labels of all rows, equal to ``predict(X)``; not after `partial_fit`.
    state_ : attnclust.streams.State
        What `partial_fit` keeps of the rows so far.
    selection_ : attnclust.selection.Selection or None
        The evidence for K where it was chosen.
    lift_ : str
        Where heads looked, and why.
    feature_map_ : attnclust.features.FeatureMap or None
        From rows to their heads, for kernel lifts that were not refined. Centres are then the means
        of the labelled rows, which decide no label.
    n_iter_ : int
        Attention steps taken after the moves.
    n_rows_used_ : int
        Rows that heads and refinement looked at.
    history_ : attnclust.fitting.History
        Start, contrast, likelihoods, moves and why it stopped.
    n_features_in_ : int
        Number of features d.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had them.

    References
    ----------
    .. [1] Maulen-Soto, Boyer, Marion, "Attention-based clustering", arXiv 2505.13112.

    Examples
    --------
    >>> import numpy as np
    >>> from attnclust import AttentionClustering
    >>> X = np.array([[1.0, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> model = AttentionClustering(n_clusters=2, random_state=0).fit(X)
    >>> labels = model.labels_
    >>> bool((labels[:3] == labels[0]).all() and (labels[3:] == 1 - labels[0]).all())
    True
    >>> np.sort(model.cluster_centers_[:, 0])
    array([ 1., 10.])
    """

    def __init__(
        self,
        n_clusters: int | Literal["auto"] = 2,
        *,
        metric: Literal["euclidean", "cosine"] = "euclidean",
        solver: Literal["fixed_point", "pgd"] = "fixed_point",
        lift: Literal["auto", "affine", "none", "fourier", "nystrom"] = "auto",
        normalize: bool | Literal["auto"] = "auto",
        order: Literal[3, 4] = 3,
        refine: bool | Literal["auto"] = "auto",
        attention: Literal["auto", "soft", "hard"] = "auto",
        temperature: float | Literal["auto"] = "auto",
        regularizer: Literal["pairwise", "product"] = "pairwise",
        strength: float = 0.3,
        prompt_length: int = 30,
        n_steps: int = 3000,
        threshold: float | None = None,
        max_samples: int | Literal["auto"] = "auto",
        max_iter: int = 100,
        tol: float = 1e-4,
        half_life: float | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.solver = solver
        self.lift = lift
        self.normalize = normalize
        self.order = order
        self.refine = refine
        self.attention = attention
        self.temperature = temperature
        self.regularizer = regularizer
        self.strength = strength
        self.prompt_length = prompt_length
        self.n_steps = n_steps
        self.threshold = threshold
        self.max_samples = max_samples
        self.max_iter = max_iter
        self.tol = tol
        self.half_life = half_life
        self.random_state = random_state

    def fit(self, X: Rows, y: object = None, sample_weight: object = None) -> Self:
        """Find heads, centres, weights, noise level and labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), iterable or path
            Rows to cluster. float32 stays float32; sparse rows stay sparse. An iterable of arrays
            is read batch by batch: an iterator once, any other twice, for a last step on all
            rows. A path is an .npy or Parquet file, or a folder of Parquet files, read likewise.
            Then there are no `labels_`: see `predict_batches`.
        y : object
            Ignored.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights; a weight of two is the row twice, and their scale is free.

        Returns
        -------
        AttentionClustering
            The estimator itself.

        Raises
        ------
        ValueError
            For a parameter, a weight or a row that cannot be used, saying which and why.
        """
        self._check_parameters()
        self.__dict__.pop("state_", None)
        if (source := as_source(X)) is not None:
            if sample_weight is not None:
                raise ValueError("sample_weight needs rows in memory: pass it to partial_fit")
            return self._fit_source(source)
        X = self._rows(X, reset=True)
        k = self._least_clusters
        if k > X.shape[0]:
            raise ValueError(
                f"n_clusters={k} is more than n_samples={X.shape[0]}: ask for fewer clusters"
            )
        largest = check_finite(X)
        tokens = self._tokens(X, unit=power_of_two(largest))
        tokens = _weighted(tokens, check_weights(sample_weight, X))
        if not len(tokens):
            raise ValueError('no row of weight has a direction: metric="cosine" cannot place zeros')
        check_distinct(tokens, k)

        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        self._fit_tokens(*self._look(tokens, rng), tokens.effective_rows(), rng)
        self.labels_ = self._labels(X)
        return self

    def partial_fit(self, X: Rows, y: object = None, sample_weight: object = None) -> Self:
        """Take in a batch of a stream; the fit follows when something asks for it.

        Moments take every row and `state_` keeps a uniform sample of `max_samples` of them, so the
        centres are those of `fit` on all rows up to the sampling error, whatever the batches: up
        to rounding while `max_samples` rows have not been passed. Neither the number of rows nor
        the time per batch grows what is kept. Centres are found anew when they, or what needs
        them, are first asked for after a batch. There are no `labels_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A batch of any size; no rows will do.
        y : object
            Ignored.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        AttentionClustering
            The estimator itself.

        Raises
        ------
        ValueError
            For a row or a width that cannot be used; the state is then as before the batch.

        Examples
        --------
        >>> import numpy as np
        >>> from attnclust import AttentionClustering
        >>> model = AttentionClustering(n_clusters=2, random_state=0)
        >>> for batch in ([[1.0, 2], [10, 4]], [[1.0, 4], [10, 2]]):
        ...     model = model.partial_fit(np.array(batch))
        >>> np.sort(model.cluster_centers_[:, 0])
        array([ 1., 10.])
        """
        self._check_parameters()
        state = self.__dict__.get("state_")
        tokens = self._stream_tokens(X, sample_weight, reset=state is None)
        if state is None:
            state = self._empty_state(tokens.dim, tokens.dtype)
        self._take(state.after(tokens))
        return self

    def gather(self, X: Rows, *, stream: int = 0) -> State:
        """The state of some rows alone, for a map and reduce on any engine; changes nothing here.

        States of parts are merged by ``+``, in any order, and `fit_state` fits on what they add up
        to. Give `random_state` a number, the same everywhere, so that the draws repeat.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows of a part, which may be empty.
        stream : int
            Number of the part, another for each.

        Returns
        -------
        attnclust.streams.State
            Of the size of the sample and of n_features squared, however many the rows.

        Raises
        ------
        ValueError
            For a row that cannot be used.

        Examples
        --------
        >>> import numpy as np
        >>> from attnclust import AttentionClustering
        >>> model = AttentionClustering(n_clusters=2, random_state=0)
        >>> parts = [[[1.0, 2], [10, 4]], [[1.0, 4], [10, 2]]]
        >>> first, second = (model.gather(part, stream=i) for i, part in enumerate(parts))
        >>> np.sort(model.fit_state(first + second).cluster_centers_[:, 0])
        array([ 1., 10.])
        """
        self._check_parameters()
        twin: Self = clone(self)
        tokens = twin._stream_tokens(X, reset=True)
        return twin._empty_state(tokens.dim, tokens.dtype).of(tokens, stream=stream)

    def fit_state(self, state: State) -> Self:
        """Fit on the state of a stream, or of many: moments, and a sample of the rows.

        Parameters
        ----------
        state : attnclust.streams.State
            As `gather`, `partial_fit` or `load_state` give it.

        Returns
        -------
        AttentionClustering
            The estimator itself; `partial_fit` goes on from here.

        Raises
        ------
        ValueError
            For a parameter that cannot be used, or fewer rows than clusters.
        """
        self._check_parameters()
        self.n_features_in_ = len(state.moments.mean)
        self._take(state)
        self._fit_state()
        return self

    def _stream_tokens(
        self, X: Rows, sample_weight: object = None, *, reset: bool = False
    ) -> Tokens:
        """Rows of a batch, checked, in a unit in which their squares are safe."""
        X = self._rows(X, reset=reset, stream=True)
        tokens = self._tokens(X, unit=power_of_two(check_finite(X)))
        return _weighted(tokens, check_weights(sample_weight, X)) if len(tokens) else tokens

    def _empty_state(self, dim: int, dtype: np.dtype[np.floating]) -> State:
        return State.empty(
            dim,
            dtype,
            size=self._most_rows(),
            seed=check_random_state(self.random_state).randint(2**31),
            half_life=self.half_life,
        )

    def _fit_source(self, source: Source) -> Self:
        for batch in source.batches():
            with at(batch.where):
                self.partial_fit(batch.X)
        if "state_" not in self.__dict__:
            raise ValueError("no batch has come: an iterator can be read once only")
        self._finish(source)
        return self

    def _finish(self, source: Source) -> None:
        """Fit on the state, and on all rows once more where they can be read again."""
        self._fit_state()
        if source.again and self._steps:
            geometry = self._geometry()
            self._step((self._counted(batch, geometry) for batch in source.batches()), geometry)

    def _counted(self, batch: Batch, geometry: Geometry) -> Counted:
        """Expectation of the rows of a batch."""
        with at(batch.where):
            tokens, clusters = self._state(self._new_rows(batch.X, stream=True))
            tokens = _weighted(tokens, None)
        if not len(tokens):
            nothing = np.zeros(len(clusters.weights)), np.zeros_like(clusters.centroids)
            return Counted(0.0, Expectation(*nothing, 0.0))
        return Counted(float(len(tokens)), expectation(tokens, clusters, geometry))

    def _geometry(self) -> Geometry:
        """Of all rows that the state has seen, in the frame that the fitted attributes decide."""
        moments = self.state_.moments
        tokens, _ = self._state(self.state_.rows[:0])
        shift = np.zeros(tokens.dim) if tokens.shift is None else tokens.shift
        square = float(np.trace(moments.covariance) + ((moments.mean - shift) ** 2).sum())
        return Geometry(
            square / tokens.unit**2,
            8 * float(np.finfo(tokens.dtype).eps),
            self.metric == "cosine",
            self.history_.attention == "hard",
        )

    @property
    def _steps(self) -> bool:
        """Whether a step on all rows would change what it should.

        Not where the sample was all rows already, nor where rows are to be forgotten, nor for heads
        that are not to be refined.
        """
        return self.state_.bound < np.inf and self.half_life is None and self._refines

    def _step(self, parts: Iterable[Counted], geometry: Geometry) -> None:
        """One step of softmax attention on all rows, as `refine` ends with."""
        whole = reduce(operator.add, parts)
        if whole.total != self.state_.moments.count:
            raise ValueError(
                f"{whole.total:.0f} rows came the second time, {self.state_.moments.count:.0f} the "
                "first: pass an iterator, which is read once"
            )
        tokens, clusters = self._state(self.state_.rows[:0])
        self._store(tokens, maximization(clusters, whole.seen, geometry))
        self.values_ = self.cluster_centers_

    def _take(self, state: State) -> None:
        """Hold a state, from which the fitted attributes follow when asked for."""
        for name in (*DEFERRED, "labels_"):
            self.__dict__.pop(name, None)
        self.state_ = state

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in DEFERRED or "state_" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self._fit_state()
            return self.__dict__[name]

    def _fit_state(self) -> None:
        """Fit on the sample of the state, with the spectrum of its moments."""
        state = self.state_
        tokens = _weighted(self._tokens(state.rows), state.weights)
        if len(tokens) < self._least_clusters:
            raise NotFittedError(
                f"n_clusters={self._least_clusters} is more than the {len(tokens)} rows so far: "
                "go on with partial_fit"
            )
        check_distinct(tokens, self._least_clusters)
        rng = np.random.default_rng(state.seed)
        seen = state.moments.spectrum(self._n_pairs(tokens.dim))
        if self.metric == "euclidean":
            tokens, seen = center(tokens, seen)
        self._fit_tokens(tokens, tokens, seen, state.moments.count, rng)

    def _fit_tokens(
        self,
        tokens: Tokens,
        sample: Tokens,
        seen: Spectrum,
        n_rows: float,
        rng: np.random.Generator,
    ) -> None:
        """Heads and refinement on the sample, a last step on all tokens: the fitted attributes.

        `n_rows` is the effective number of rows that the spectrum was made from.
        """
        k = self._least_clusters
        geometry = Geometry(
            sample.mean_square(), 8 * float(np.finfo(tokens.dtype).eps), self.metric == "cosine"
        )
        normalized = self.solver == "fixed_point" if self.normalize == "auto" else self.normalize
        lift = self.lift != "none"
        layer = self.feature_map_ = self.selection_ = None
        if self.n_clusters == "auto":
            clusters, selection, sample, geometry = choose(
                sample, seen, geometry, n_rows, rng, lift=lift, order=self.order
            )
            self.selection_ = weigh(selection, sample, geometry, rng, lift=lift, order=self.order)
            history, k = History("choice of K"), selection.n_clusters
            if selection.n_isolated:
                tokens = sample
        if self.lift in KERNELS:
            clusters, history, self.feature_map_ = kernel_start(sample, geometry, k, rng, self.lift)
            bandwidth = self.feature_map_.bandwidth * tokens.unit
            self.lift_ = f"{self.lift}: as asked, with a bandwidth of {bandwidth:.3g}"
        elif self.solver == "pgd":
            clusters, history, layer = train_start(
                sample,
                seen,
                geometry,
                k,
                rng,
                normalized=normalized,
                lift=lift,
                regularizer=self.regularizer,
                strength=self.strength,
                temperature=None if self.temperature == "auto" else self.temperature,
                prompt_length=self.prompt_length,
                n_steps=self.n_steps,
            )
        elif self.n_clusters != "auto":
            clusters, history = find_start(
                sample, seen, geometry, k, rng, lift=lift, order=self.order
            )
        if len(clusters.weights) < k:
            raise ValueError(
                f"only {len(clusters.weights)} of n_clusters={k} clusters can be "
                f"told apart in {tokens.dtype} among the {len(sample)} rows looked at: raise "
                "max_samples, pass float64, or ask for fewer clusters"
            )
        self.n_iter_ = 1
        if self._refines:
            layer = self.feature_map_ = None
            clusters, history, self.n_iter_ = refine(
                tokens,
                sample,
                clusters,
                geometry,
                history,
                attention=self.attention,
                max_iter=self.max_iter,
                tol=self.tol,
            )

        self.history_ = history
        if self.lift not in KERNELS:
            self.lift_ = self._lift_found(normalized and lift, k)
        self.n_rows_used_ = len(sample)
        self._store(tokens, clusters)
        self.temperature_ = None
        self.values_ = self.cluster_centers_
        if layer is not None:
            self.temperature_ = layer.temperature / tokens.unit**2
            self.values_ = layer.values.astype(tokens.dtype)

    def predict(self, X: Rows) -> IntArray:
        """Label of each row: the centre that it attends to most.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            -1 where the largest posterior is below `threshold`, if that is set.
        """
        return self._labels(self._new_rows(X))

    def predict_batches(self, X: Any) -> Iterator[IntArray]:
        """Labels of a stream, batch by batch.

        Parameters
        ----------
        X : iterable of array-like, or path
            As for `fit`.

        Yields
        ------
        ndarray of shape (n_batch,)
            As `predict` gives them.
        """
        source = as_source(X)
        if source is None:
            raise ValueError("X is rows in memory: call predict")
        for batch in source.batches():
            with at(batch.where):
                yield self._labels(self._new_rows(batch.X, stream=True))

    def predict_proba(self, X: Rows) -> FloatArray:
        """Attention weights: the posterior of each cluster given the row.

        On mixtures as fitted they are calibrated, if a cluster has many more rows than there are
        features; with n_k rows each, rows of the fit itself are sure by d / n_k nats too much.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
            Rows sum to one.
        """
        return posterior(*self._state(self._new_rows(X)))

    def confidence(self, X: Rows) -> FloatArray:
        """Largest posterior of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            Between 1 / n_clusters and 1.
        """
        return attended(*self._state(self._new_rows(X))).confidence

    def margin(self, X: Rows) -> FloatArray:
        """Log-odds of the best cluster of each row against the second best.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats, at least 0; infinite for one cluster.
        """
        return attended(*self._state(self._new_rows(X))).margin

    def outlier_score(self, X: Rows) -> FloatArray:
        """Squared distance of each row to the centre of its cluster, over d sigma^2.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            Of the mixture's own rows d times it is chi-squared of d degrees: 1, give or take
            sqrt(2 / d). Rows of zeros under "cosine" score as the point 0.
        """
        return attended(*self._state(self._new_rows(X))).deviation

    def transform(self, X: Rows) -> FloatArray:
        """Alignment scores <x, head> (of rows scaled to unit length under "cosine").

        Of unrefined kernel lifts: the coordinates of the rows' features along the heads.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
        """
        X = self._new_rows(X)
        if self.feature_map_ is not None:
            return self._state(X)[0].part(slice(None)).dense()
        tokens = self._tokens(X)
        out = np.empty((len(tokens), len(self.heads_)), dtype=tokens.dtype)
        for window, tile in tokens.tiles(len(self.heads_)):
            out[window] = tile.scores(self.heads_.astype(np.float64)).T
        return out

    def attend(self, X: Rows) -> FloatArray:
        """The layer's output T(x): the quantised tokens.

        Softmax heads give each row the mean of the centres it attends to; the linear layer of
        unrefined "pgd" gives c sum_h <x, mu_h> S mu_h.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        scores = self.predict_proba(X) if self.temperature_ is None else self.transform(X)
        return np.asarray(scores @ self.values_)

    def score_samples(self, X: Rows) -> FloatArray:
        """Log-density of each row under the fitted mixture.

        Of unrefined kernel lifts: that of the coordinates along the heads.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._told(self._new_rows(X)).log_density

    def score(self, X: Rows, y: object = None, sample_weight: object = None) -> float:
        """Mean log-density of the rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : object
            Ignored.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        float
            In nats per row.
        """
        samples = self.score_samples(X)
        return float(np.average(samples, weights=check_weights(sample_weight, samples)))

    @property
    def _n_features_out(self) -> int:
        return len(self.heads_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.lift != "nystrom"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        # scikit-learn's checks read this of anything that has predict_proba and takes sparse rows.
        tags.classifier_tags = ClassifierTags(
            multi_class=self.n_clusters == "auto" or self.n_clusters > 2
        )
        return tags

    @property
    def _refines(self) -> bool:
        if self.refine == "auto":
            return self.solver == "fixed_point" and self.lift != "nystrom"
        return self.refine

    def _check_parameters(self) -> None:
        if self.n_clusters != "auto":
            check_integer("n_clusters", self.n_clusters, 1)
        check_choice("metric", self.metric, ("euclidean", "cosine"))
        check_choice("solver", self.solver, ("fixed_point", "pgd"))
        check_choice("lift", self.lift, ("auto", "affine", "none", *KERNELS))
        check_choice("normalize", self.normalize, ("auto", True, False))
        check_choice("order", self.order, (3, 4))
        check_choice("refine", self.refine, ("auto", True, False))
        check_choice("attention", self.attention, ("auto", "soft", "hard"))
        check_choice("regularizer", self.regularizer, tuple(REGULARIZERS))
        check_integer("prompt_length", self.prompt_length, 1)
        check_integer("n_steps", self.n_steps, 1)
        check_integer("max_iter", self.max_iter, 1)
        check_number("tol", self.tol, 0.0)
        check_number("strength", self.strength, 0.0)
        if self.temperature != "auto":
            check_number("temperature", self.temperature, 0.0)
        if self.solver == "fixed_point" and self.normalize is False:
            raise ValueError(
                'solver="fixed_point" works on normalised tokens: leave normalize="auto"'
            )
        if self.solver == "pgd" and self.lift in KERNELS:
            raise ValueError(f'lift="{self.lift}" needs solver="fixed_point"')
        if self.solver == "pgd" and self.lift == "affine" and self.normalize is not True:
            raise ValueError('lift="affine" with solver="pgd" needs normalize=True')
        if self.threshold is not None:
            check_number("threshold", self.threshold, 0.0, 1.0)
        if self.max_samples != "auto":
            check_integer("max_samples", self.max_samples, 1)
        if self.half_life is not None:
            check_number("half_life", self.half_life, 1.0)

    def _rows(self, X: Any, *, reset: bool, stream: bool = False) -> Rows:
        rows: Rows = validate_data(
            self,
            as_rows(X),
            reset=reset,
            accept_sparse=False if stream else "csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            ensure_min_samples=0 if stream else 1,
        )
        return rows

    def _new_rows(self, X: Any, *, stream: bool = False) -> Rows:
        check_is_fitted(self)
        rows = self._rows(X, reset=False, stream=stream)
        check_finite(rows)
        return rows

    def _tokens(self, X: Rows, shift: FloatArray | None = None, unit: float = 1.0) -> Tokens:
        if self.metric == "euclidean":
            return Tokens(X, shift=shift, unit=unit)
        norms = row_norms(X)
        return Tokens(X, row_scale=np.divide(1.0, norms, out=np.zeros(len(norms)), where=norms > 0))

    @property
    def _least_clusters(self) -> int:
        """K, or 1 where it is to be chosen."""
        return 1 if self.n_clusters == "auto" else self.n_clusters

    def _n_pairs(self, dim: int) -> int:
        """Leading eigenpairs that the fit looks at."""
        return min(MOST_EIGENPAIRS if self.n_clusters == "auto" else self.n_clusters, dim)

    def _most_rows(self) -> int:
        k = self._least_clusters
        if self.n_clusters == "auto" == self.max_samples:
            return SAMPLE_ROWS_TO_CHOOSE
        if self.max_samples == "auto":
            return max(SAMPLE_ROWS, SAMPLE_ROWS_PER_CLUSTER * k)
        return max(self.max_samples, k)

    def _look(self, tokens: Tokens, rng: np.random.Generator) -> tuple[Tokens, Tokens, Spectrum]:
        """All tokens and those to look at, in one frame, and the spectrum there.

        The spectrum is of no more rows than the directions ask for, if their heads are refined.
        """
        most, n_pairs = self._most_rows(), self._n_pairs(tokens.dim)
        if len(tokens) <= most:
            sample, seen = tokens, spectrum(tokens, n_pairs, rng)
        else:
            sample, need = drawn(tokens, most, rng), float(len(tokens))
            if self.n_clusters != "auto" and self._refines:
                seen = spectrum(sample, n_pairs, rng)
                rank = min(self.n_clusters - (self.lift != "none"), n_pairs)
                need = most * seen.blur(rank, sample.effective_rows()) / BLUR
            if need > most:
                rows = tokens if 2 * need > len(tokens) else drawn(tokens, int(need), rng)
                seen = spectrum(rows, n_pairs, rng)
        if self.metric == "euclidean":
            sample, _ = center(sample, seen)
            tokens, seen = center(tokens, seen)
        return tokens, sample, seen

    def _store(self, tokens: Tokens, clusters: Clusters) -> None:
        """Clusters of a frame as attributes in the units of X."""
        origin = 0.0 if tokens.shift is None else tokens.shift
        centres = origin + tokens.unit * clusters.centroids
        if self.metric == "cosine":
            centres = unit_rows(centres)
        self.cluster_centers_ = centres.astype(tokens.dtype)
        self.heads_ = unit_rows(centres).astype(tokens.dtype)
        self.weights_ = clusters.weights
        self.noise_variance_ = clusters.noise_variance * tokens.unit**2

    def _state(self, X: Rows) -> tuple[Tokens, Clusters]:
        """Rows and clusters in a frame that the fitted attributes alone decide."""
        if self.feature_map_ is not None:
            return self.feature_map_.state(
                self._tokens(X, self.feature_map_.shift, self.feature_map_.unit)
            )
        centres = self.cluster_centers_.astype(np.float64)
        if self.metric == "cosine":
            found = Clusters(centres, self.weights_, self.noise_variance_)
            return self._tokens(X), self._attended(found)
        shift = self.weights_ @ centres
        spread = self.weights_ @ ((centres - shift) ** 2).mean(1)
        unit = power_of_two(float(np.sqrt(self.noise_variance_ + spread)))
        return (
            self._tokens(X, shift, unit),
            self._attended(
                Clusters((centres - shift) / unit, self.weights_, self.noise_variance_ / unit**2)
            ),
        )

    def _lift_found(self, affine: bool, k: int) -> str:
        """What was chosen, and why, in words."""
        if k == 1:
            return "none: one cluster needs no heads"
        if self.history_.start == "splits":
            return f"none: no {k} heads of their own in the spectrum, so splits instead"
        how = "as asked" if self.lift != "auto" else "never worse conditioned than without"
        return f"affine: {how}" if affine else "none: as asked"

    def _attended(self, clusters: Clusters) -> Clusters:
        return equal_weights(clusters) if self.history_.attention == "hard" else clusters

    def _told(self, X: Rows) -> Told:
        """Labels, confidence and log-density of checked rows, in one pass."""
        tokens, clusters = self._state(X)
        found = told(tokens, clusters)
        if self.threshold is not None:
            found.labels[found.confidence < self.threshold] = -1
        return replace(found, log_density=found.log_density - tokens.dim * np.log(tokens.unit))

    def _labels(self, X: Rows) -> IntArray:
        return assign(*self._state(X)) if self.threshold is None else self._told(X).labels


def drawn(tokens: Tokens, n_rows: int, rng: np.random.Generator) -> Tokens:
    """So many of the tokens, without replacement and in their order."""
    rows = rng.choice(len(tokens), n_rows, replace=False, shuffle=False)
    return tokens.take(np.sort(rows)).gathered()


@contextmanager
def at(where: str) -> Iterator[None]:
    """Say of which batch an error about rows speaks."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _weighted(tokens: Tokens, weights: FloatArray | None) -> Tokens:
    """Tokens with their weights, less the rows that weigh nothing (zeros under cosine, too)."""
    if tokens.row_scale is not None and not tokens.row_scale.all():
        directed = tokens.row_scale > 0
        weights = directed.astype(np.float64) if weights is None else weights * directed
    if weights is None:
        return tokens
    tokens = replace(tokens, weights=weights)
    return tokens if weights.all() else tokens.take(np.flatnonzero(weights))
