import copy
import pickle

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score as ari

from attnclust import AttentionClustering, load_model, save_model
from attnclust.moments import Moments
from attnclust.streams import State
from attnclust.tokens import Tokens


def empty(dim=2, **options):
    return State.empty(dim, np.dtype(float), **{"size": 20, "seed": 0} | options)


def streamed(X, sizes, k=5, **parameters):
    model = AttentionClustering(k, random_state=0, **parameters)
    start = 0
    while start < len(X):
        size = next(sizes)
        model.partial_fit(X[start : start + size])
        start += size
    return model


def gap(found, wanted):
    """Largest distance of a centre to its own, one to one."""
    squares = ((found[:, None] - wanted) ** 2).sum(2)
    assert sorted(squares.argmin(1)) == list(range(len(wanted)))
    return np.sqrt(squares.min(1).max())


class TestState:
    @pytest.mark.parametrize("half_life", [None, 30.0])
    def test_no_batch_boundary_matters(self, half_life):
        X = np.random.default_rng(1).standard_normal((200, 2))
        start = empty(half_life=half_life)
        whole = start.after(Tokens(X))
        for cuts in ([1, 2, 3, 120], [50, 100, 150], [], [0, 200]):
            parts = start
            for piece in np.split(X, cuts):
                parts = parts.after(Tokens(piece))
            np.testing.assert_array_equal(parts.rows, whole.rows)
            np.testing.assert_allclose(parts.keys, whole.keys, rtol=0, atol=1e-12)
            np.testing.assert_allclose(parts.moments.scatter, whole.moments.scatter, rtol=1e-12)
            np.testing.assert_allclose(parts.moments.count, whole.moments.count, rtol=1e-12)
            assert (parts.n_rows, parts.bound) == (200, pytest.approx(whole.bound, abs=1e-12))

    def test_states_of_streams_merge_in_any_order(self):
        X = np.random.default_rng(1).standard_normal((300, 2))
        start = empty()
        a, b, c = (start.of(Tokens(p), stream=i) for i, p in enumerate(np.split(X, 3)))
        one, other = (a + b) + c, c + (b + a)
        np.testing.assert_array_equal(one.rows, other.rows)
        np.testing.assert_allclose(one.moments.covariance, np.cov(X.T, bias=True))
        assert one.bound == other.bound

    def test_the_sample_is_uniform(self):
        # Each row is kept 20 times of 100; 5 standard errors of a binomial over 400 seeds.
        X = np.arange(100.0)[:, None]
        kept = np.zeros(100)
        for seed in range(400):
            state = empty(1, seed=seed)
            for batch in np.split(X, 4):
                state = state.after(Tokens(batch))
            kept[state.rows[:, 0].astype(int)] += 1
            assert len(state.rows) == 20
        assert state.weights is None
        assert np.abs(kept / 400 - 0.2).max() < 5 * np.sqrt(0.2 * 0.8 / 400)

    def test_weights_of_the_sample_sum_to_those_of_the_rows(self):
        # The estimator of Cohen and Kaplan is unbiased: mean of 2,000 seeds within 4 errors.
        rng = np.random.default_rng(0)
        X, w = rng.standard_normal((60, 1)), rng.exponential(size=60)
        sums = []
        for seed in range(2000):
            state = empty(1, seed=seed).after(Tokens(X, weights=w))
            chance = -np.expm1(-np.exp(state.log_weights + state.bound))
            adjusted = np.exp(state.log_weights) / chance
            np.testing.assert_allclose(state.weights, adjusted / adjusted.max())
            sums.append((adjusted.sum(), adjusted @ state.rows[:, 0]))
        error = np.std(sums, 0) / np.sqrt(2000)
        assert (np.abs(np.mean(sums, 0) - [w.sum(), w @ X[:, 0]]) < 4 * error).all()

    def test_forgetting_halves_by_the_half_life(self):
        X = np.random.default_rng(0).standard_normal((100, 2))
        state = empty(half_life=10.0).after(Tokens(X[:70])).after(Tokens(X[70:]))
        w = 0.5 ** ((100 - np.arange(100)) / 10)
        wanted = Moments.of(Tokens(X, weights=w))
        np.testing.assert_allclose(state.moments.count, wanted.count)
        np.testing.assert_allclose(state.moments.mean, wanted.mean)
        np.testing.assert_allclose(state.moments.scatter, wanted.scatter)

    def test_cut_is_the_smaller_sample(self):
        X = np.random.default_rng(0).standard_normal((100, 2))
        large, small = (empty(size=size).after(Tokens(X)) for size in (20, 8))
        np.testing.assert_array_equal(large.cut(8).rows, small.rows)
        assert large.cut(8).bound == small.bound
        assert large.cut(99) is large


class TestPartialFit:
    @pytest.mark.parametrize("metric", ["euclidean", "cosine"])
    def test_equals_fit_while_the_sample_holds_all_rows(self, blobs, metric):
        X, _, _ = blobs(3000, 12, 5, 0.15)
        whole = AttentionClustering(5, metric=metric, random_state=0).fit(X)
        for sizes in (iter(lambda: 7, 0), iter(lambda: 1000, 0), iter([1, 2999])):
            parts = streamed(X, sizes, metric=metric)
            assert gap(parts.cluster_centers_, whole.cluster_centers_) < 2e-3
            assert ari(parts.predict(X), whole.labels_) > 0.999

    def test_any_batches_and_order_within_the_sampling_error(self, blobs):
        X, _, centres = blobs(30_000, 12, 5, 0.15, seed=3)
        whole = AttentionClustering(5, max_samples=4000, random_state=0).fit(X)
        # A centre of n_k rows of the sample errs by sigma sqrt(d / n_k).
        tolerance = 3 * 0.15 * np.sqrt(12 / (4000 / 5))
        turned = X[np.random.default_rng(0).permutation(len(X))]
        found = [
            streamed(rows, iter(lambda size=size: size, 0), max_samples=4000).cluster_centers_
            for rows, size in [(X, 250), (X, 30_000), (turned, 999), (X[np.argsort(X[:, 0])], 999)]
        ]
        for one in found:
            assert gap(one, whole.cluster_centers_) < tolerance
            assert gap(one, centres) < tolerance
        np.testing.assert_allclose(found[0], found[1], atol=1e-9)

    def test_a_moving_mixture_is_followed(self):
        rng = np.random.default_rng(0)
        n, half_life = 40_000, 1000.0
        turn = np.linspace(0, np.pi / 2, n)
        side = rng.integers(0, 2, n)
        X = np.stack([np.cos(turn), np.sin(turn)], 1) * (2.0 * side - 1)[:, None]
        X += 0.1 * rng.standard_normal((n, 2))
        centres = {}
        for life in (None, half_life):
            model = AttentionClustering(2, half_life=life, random_state=0)
            for batch in np.split(X, 80):
                model.partial_fit(batch)
            centres[life] = model.cluster_centers_
        # The mean age of what counts is half_life / ln 2, and so far back is the centre.
        lag = turn[-1] - half_life / np.log(2) * turn[1]
        now = np.array([[np.cos(lag), np.sin(lag)]])
        assert gap(centres[half_life], np.vstack([now, -now])) < 0.03
        whole = np.array([[2 / np.pi, 2 / np.pi]])  # the mean over the quarter turn
        assert gap(centres[None], np.vstack([whole, -whole])) < 0.05

    def test_forgetting_with_more_rows_than_the_sample(self, blobs):
        old, _, _ = blobs(20_000, 6, 3, 0.1, seed=1)
        new, _, centres = blobs(20_000, 6, 3, 0.1, seed=2)
        model = AttentionClustering(3, half_life=1500, max_samples=1000, random_state=0)
        for batch in np.split(np.vstack([old, new]), 40):
            model.partial_fit(batch)
        assert gap(model.cluster_centers_, centres) < 0.05
        assert model.n_rows_used_ == 1000

    def test_row_weights(self, blobs):
        X, _, _ = blobs(2000, 6, 3, 0.1)
        w = np.random.default_rng(0).integers(0, 3, 2000)
        a = AttentionClustering(3, random_state=0).fit(X, sample_weight=w)
        b = AttentionClustering(3, random_state=0)
        for rows, weights in zip(np.split(X, 4), np.split(w, 4), strict=True):
            b.partial_fit(rows, sample_weight=weights)
        assert gap(a.cluster_centers_, b.cluster_centers_) < 1e-3
        np.testing.assert_allclose(np.sort(a.weights_), np.sort(b.weights_), atol=1e-3)

    def test_what_is_kept_does_not_grow(self, blobs):
        X, _, _ = blobs(20_000, 4, 3, 0.1, dtype=np.float32)
        model = streamed(X, iter(lambda: 500, 0), k=3, max_samples=800)
        assert model.state_.rows.shape == (800, 4)
        assert model.state_.rows.dtype == model.cluster_centers_.dtype == np.float32
        assert not hasattr(model, "labels_")

    def test_centres_follow_when_asked_for(self, blobs):
        X, _, _ = blobs(1000, 4, 3, 0.1)
        model = AttentionClustering(3, random_state=0)
        with pytest.raises(AttributeError, match="no attribute 'cluster_centers_'"):
            _ = model.cluster_centers_
        model.partial_fit(X[:2])
        with pytest.raises(NotFittedError, match="more than the 2 rows so far"):
            model.predict(X)
        model.partial_fit(X[2:500])
        first = model.cluster_centers_
        assert model.cluster_centers_ is first
        model.partial_fit(X[500:])
        assert not np.array_equal(model.cluster_centers_, first)
        assert model.predict_proba(X).shape == (1000, 3)
        with pytest.raises(AttributeError, match="no attribute 'nothing_'"):
            _ = model.nothing_

    def test_copies_files_and_fit(self, blobs, tmp_path):
        X, _, _ = blobs(1000, 4, 3, 0.1)
        model = AttentionClustering(3, random_state=0).partial_fit(X)
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(twin.cluster_centers_, model.cluster_centers_)
        save_model(model, tmp_path / "model.safetensors")
        loaded = load_model(tmp_path / "model.safetensors")
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        assert not hasattr(model.fit(X), "state_")
        assert hasattr(model.partial_fit(X), "state_")
        assert not hasattr(model, "labels_")

    @pytest.mark.parametrize(
        ("bad", "said"),
        [
            (np.zeros((3, 5)), "5 features"),
            (np.array([[0.0, np.nan, 0, 0]]), "NaN at row 0, column 1"),
            (np.array([[1e200, 0, 0, 0]]), "rescale X"),
        ],
    )
    def test_a_bad_batch_changes_nothing(self, blobs, bad, said):
        X, _, _ = blobs(300, 4, 3, 0.1)
        model = AttentionClustering(3, random_state=0).partial_fit(X)
        before = model.state_
        with pytest.raises(ValueError, match=said):
            model.partial_fit(bad)
        assert model.state_ is before
        model.partial_fit(np.empty((0, 4)))
        assert model.state_.n_rows == 300

    def test_map_and_reduce(self, blobs):
        X, _, _ = blobs(3000, 5, 3, 0.1)
        model = AttentionClustering(3, max_samples=900, random_state=0)
        parts = [model.gather(part, stream=i) for i, part in enumerate(np.split(X, 3))]
        assert vars(model).keys() == model.get_params().keys()
        a = model.fit_state(parts[0] + (parts[1] + parts[2])).cluster_centers_
        b = model.fit_state((parts[2] + parts[0]) + parts[1]).cluster_centers_
        np.testing.assert_allclose(a, b, atol=1e-6)
        assert model.state_.n_rows == 3000
        assert model.n_rows_used_ == 900
        with pytest.raises(ValueError, match="rows so far"):
            model.fit_state(model.gather(X[:2]))

    def test_rows_of_zeros_have_no_direction(self, blobs):
        X, _, _ = blobs(300, 4, 3, 0.1)
        model = AttentionClustering(3, metric="cosine", random_state=0)
        model.partial_fit(np.zeros((5, 4))).partial_fit(X)
        alone = AttentionClustering(3, metric="cosine", random_state=0).fit(X)
        assert gap(model.cluster_centers_, alone.cluster_centers_) < 1e-3

    def test_scales_far_from_one(self, blobs):
        X, labels, _ = blobs(500, 4, 3, 0.1, dtype=np.float32)
        for scale in (1e-18, 1e25):
            model = streamed(X * np.float32(scale), iter(lambda: 100, 0), k=3)
            assert ari(model.predict(X * np.float32(scale)), labels) == 1

    def test_published_training_on_a_stream(self, blobs):
        X, labels, _ = blobs(500, 6, 3, 0.05)
        model = streamed(X, iter(lambda: 100, 0), k=3, solver="pgd", n_steps=300)
        assert model.history_.start == "trained heads"
        assert ari(model.predict(X), labels) > 0.9
