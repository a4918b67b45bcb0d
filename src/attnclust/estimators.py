"""The estimator: tokens, moments, normalisation, heads, clusters, one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
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
from attnclust.fitting import History, center, find_start, refine, train_start
from attnclust.moments import spectrum
from attnclust.objective import REGULARIZERS
from attnclust.refinement import (
    Clusters,
    Geometry,
    assign,
    attended,
    equal_weights,
    log_density,
    posterior,
)
from attnclust.selection import MOST_EIGENPAIRS, choose, weigh
from attnclust.tokens import Tokens, power_of_two, row_norms, unit_rows

# Rows that heads and refinement look at: so many in all, or per cluster if that is more.
SAMPLE_ROWS = 30_000
SAMPLE_ROWS_PER_CLUSTER = 300


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
        cluster.
    solver : {"fixed_point", "pgd"}, default="fixed_point"
        How heads are found.
    lift : {"auto", "affine", "none"}, default="auto"
        Append a constant coordinate before normalising, so that opposite and aligned centres are
        told apart. "auto" does wherever tokens are normalised: it is never worse conditioned.
    normalize : "auto" or bool, default="auto"
        Normalise keys and queries; "auto" does for the fixed point and not for "pgd".
    order : {3, 4}, default=3
        Moment of the fixed point's contrast.
    refine : "auto" or bool, default="auto"
        Refine by attention; "auto" does for the fixed point and not for "pgd".
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
        Most rows that heads and refinement look at; moments and labels take all. "auto" is 30,000,
        or 300 per cluster if that is more.
    max_iter : int, default=100
        Most steps of softmax attention after the moves.
    tol : float, default=1e-4
        Stop when a step raises the mean log-likelihood per row by less.
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
        Labels of all rows, equal to ``predict(X)``.
    n_iter_ : int
        Softmax-attention steps taken after the moves.
    selection_ : attnclust.selection.Selection or None
        The evidence for K where it was chosen.
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
        lift: Literal["auto", "affine", "none"] = "auto",
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
        self.random_state = random_state

    def fit(self, X: Rows, y: object = None, sample_weight: object = None) -> Self:
        """Find heads, centres, weights, noise level and labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to cluster. float32 stays float32; sparse rows stay sparse.
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
        X = self._rows(X, reset=True)
        k = 1 if self.n_clusters == "auto" else self.n_clusters
        if k > X.shape[0]:
            raise ValueError(
                f"n_clusters={k} is more than n_samples={X.shape[0]}: ask for fewer clusters"
            )
        largest = check_finite(X)
        tokens = self._tokens(X, unit=power_of_two(largest))
        tokens = _weighted(tokens, check_weights(sample_weight, X))
        check_distinct(tokens, k)

        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        n_pairs = MOST_EIGENPAIRS if self.n_clusters == "auto" else k
        seen = spectrum(tokens, min(n_pairs, tokens.dim), rng)
        if self.metric == "euclidean":
            tokens, seen = center(tokens, seen)
        sample = self._sample(tokens, rng)
        geometry = Geometry(
            sample.mean_square(), 8 * float(np.finfo(X.dtype).eps), self.metric == "cosine"
        )
        normalized = self.solver == "fixed_point" if self.normalize == "auto" else self.normalize
        lift = self.lift != "none"
        layer = None
        self.selection_ = None
        if self.n_clusters == "auto":
            n_rows = tokens.effective_rows()
            clusters, selection, sample, geometry = choose(
                sample, seen, geometry, n_rows, rng, lift=lift, order=self.order
            )
            self.selection_ = weigh(selection, sample, geometry, rng, lift=lift, order=self.order)
            history, k = History("choice of K"), selection.n_clusters
            if selection.n_isolated:
                tokens = sample
        if self.solver == "pgd":
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
                f"told apart in {X.dtype} among the {len(sample)} rows looked at: raise "
                "max_samples, pass float64, or ask for fewer clusters"
            )
        self.n_iter_ = 1
        if self.solver == "fixed_point" if self.refine == "auto" else self.refine:
            layer = None
            clusters, history, self.n_iter_ = refine(
                tokens,
                sample,
                clusters,
                geometry,
                history,
                mean_square=seen.trace + float(seen.mean @ seen.mean),
                attention=self.attention,
                max_iter=self.max_iter,
                tol=self.tol,
            )

        self.history_ = history
        self.n_rows_used_ = len(sample)
        self._store(tokens, clusters)
        self.temperature_ = None
        self.values_ = self.cluster_centers_
        if layer is not None:
            self.temperature_ = layer.temperature / tokens.unit**2
            self.values_ = layer.values.astype(X.dtype)
        self.labels_ = self._labels(X)
        return self

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

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
        """
        tokens = self._tokens(self._new_rows(X))
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

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        tokens, clusters = self._state(self._new_rows(X))
        scale = tokens.dim * np.log(tokens.unit)
        return np.asarray(log_density(tokens, clusters) - scale)

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
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        # scikit-learn's checks read this of anything that has predict_proba and takes sparse rows.
        tags.classifier_tags = ClassifierTags(
            multi_class=self.n_clusters == "auto" or self.n_clusters > 2
        )
        return tags

    def _check_parameters(self) -> None:
        if self.n_clusters != "auto":
            check_integer("n_clusters", self.n_clusters, 1)
        check_choice("metric", self.metric, ("euclidean", "cosine"))
        check_choice("solver", self.solver, ("fixed_point", "pgd"))
        check_choice("lift", self.lift, ("auto", "affine", "none"))
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
        if self.solver == "pgd" and self.lift == "affine" and self.normalize is not True:
            raise ValueError('lift="affine" with solver="pgd" needs normalize=True')
        if self.threshold is not None:
            check_number("threshold", self.threshold, 0.0, 1.0)
        if self.max_samples != "auto":
            check_integer("max_samples", self.max_samples, 1)

    def _rows(self, X: Any, *, reset: bool) -> Rows:
        rows: Rows = validate_data(
            self,
            as_rows(X),
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
        )
        return rows

    def _new_rows(self, X: Any) -> Rows:
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        check_finite(rows)
        return rows

    def _tokens(self, X: Rows, shift: FloatArray | None = None, unit: float = 1.0) -> Tokens:
        if self.metric == "euclidean":
            return Tokens(X, shift=shift, unit=unit)
        norms = row_norms(X)
        return Tokens(X, row_scale=np.divide(1.0, norms, out=np.zeros(len(norms)), where=norms > 0))

    def _sample(self, tokens: Tokens, rng: np.random.Generator) -> Tokens:
        k = 1 if self.n_clusters == "auto" else self.n_clusters
        most = (
            max(SAMPLE_ROWS, SAMPLE_ROWS_PER_CLUSTER * k)
            if self.max_samples == "auto"
            else max(self.max_samples, k)
        )
        if len(tokens) <= most:
            return tokens
        rows = np.sort(rng.choice(len(tokens), most, replace=False, shuffle=False))
        return tokens.take(rows).gathered()

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

    def _attended(self, clusters: Clusters) -> Clusters:
        return equal_weights(clusters) if self.history_.attention == "hard" else clusters

    def _labels(self, X: Rows) -> IntArray:
        tokens, clusters = self._state(X)
        if self.threshold is None:
            return assign(tokens, clusters)
        attention = posterior(tokens, clusters)
        labels = attention.argmax(1)
        labels[attention.max(1) < self.threshold] = -1
        return np.asarray(labels)


def _weighted(tokens: Tokens, weights: FloatArray | None) -> Tokens:
    """Tokens with their weights, less the rows that weigh nothing (zeros under cosine, too)."""
    if tokens.row_scale is not None and not tokens.row_scale.all():
        directed = tokens.row_scale > 0
        weights = directed.astype(np.float64) if weights is None else weights * directed
        if not weights.any():
            raise ValueError('no row of weight has a direction: metric="cosine" cannot place zeros')
    if weights is None:
        return tokens
    tokens = replace(tokens, weights=weights)
    return tokens if weights.all() else tokens.take(np.flatnonzero(weights))
