import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score as ari
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import attnclust.tokens as tokens_module
from attnclust import AttentionClustering


def expected_failures(estimator):
    """What a choice of K, or prompts drawn at random with one head per direction, cannot keep."""
    if estimator.n_clusters == "auto":
        shape = "as many columns as there are classes are expected"
        relative = "the choice takes weights relative to their mean"
        return {
            "check_estimator_sparse_array": shape,
            "check_estimator_sparse_matrix": shape,
            "check_sample_weight_equivalence_on_dense_data": relative,
            "check_sample_weight_equivalence_on_sparse_data": relative,
        }
    if estimator.lift == "nystrom":
        landmarks = "landmarks are drawn from rows, and a row of weight two is one of them"
        kept_from = {"check_sample_weight_equivalence_on_dense_data": landmarks}
        if sklearn.__version__ < "1.7":  # it asked of all what only some take
            kept_from["check_sample_weight_equivalence_on_sparse_data"] = "sparse rows are refused"
        return kept_from
    if estimator.solver != "pgd":
        return {}
    draws = "prompts are drawn by weight, from rows in another order"
    return {
        "check_sample_weight_equivalence_on_dense_data": draws,
        "check_sample_weight_equivalence_on_sparse_data": draws,
        "check_clustering": "three heads do not fit in two dimensions",
    }


@parametrize_with_checks(
    [
        AttentionClustering(),
        AttentionClustering(n_clusters=4, metric="cosine"),
        AttentionClustering(order=4, lift="none"),
        AttentionClustering("auto"),
        AttentionClustering(lift="fourier", attention="hard"),
        AttentionClustering(lift="nystrom"),
        AttentionClustering(solver="pgd", n_steps=30),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def fitted(X, k=5, **parameters):
    weight = parameters.pop("sample_weight", None)
    return AttentionClustering(k, random_state=0, **parameters).fit(X, sample_weight=weight)


def matched(a, b):
    """Rows of a, ordered as the nearest rows of b."""
    gap = ((a[:, None] - b) ** 2).sum(2)
    order = gap.argmin(0)
    assert len(set(order)) == len(b)
    return a[order]


class TestAttributes:
    def test_shapes_dtypes_and_meaning(self, blobs):
        for dtype in (np.float32, np.float64):
            X, labels, centres = blobs(2000, 12, 5, 0.1, dtype=dtype)
            model = fitted(X)
            assert model.cluster_centers_.dtype == model.heads_.dtype == dtype
            assert model.transform(X).dtype == model.predict_proba(X).dtype == dtype
            assert model.attend(X).dtype == dtype
            np.testing.assert_allclose(np.linalg.norm(model.heads_, axis=1), 1, rtol=1e-6)
            np.testing.assert_allclose(matched(model.cluster_centers_, centres), centres, atol=0.02)
            assert model.noise_variance_ == pytest.approx(0.01, rel=0.05)
            np.testing.assert_allclose(
                np.sort(model.weights_), np.sort(np.bincount(labels) / 2000), atol=1e-3
            )
            assert model.labels_.shape == (2000,)
            assert ari(labels, model.labels_) == 1
            assert model.n_features_in_ == 12
            assert model.n_rows_used_ == 2000
            assert model.n_iter_ >= 1

    def test_transform_is_alignment_and_attend_the_posterior_mean(self, blobs):
        X, _, _ = blobs(300, 12, 5, 0.2)
        model = fitted(X)
        np.testing.assert_allclose(model.transform(X), X @ model.heads_.T)
        posterior = model.predict_proba(X)
        np.testing.assert_allclose(posterior.sum(1), 1)
        np.testing.assert_allclose(model.attend(X), posterior @ model.cluster_centers_)

    def test_attention_quantises_its_input(self, blobs):
        X, labels, centres = blobs(2000, 12, 5, 0.1)
        out = fitted(X).attend(X)
        assert ((out - centres[labels]) ** 2).sum() < 0.05 * ((X - centres[labels]) ** 2).sum()

    def test_score_is_the_mean_log_density(self, blobs):
        from scipy.stats import multivariate_normal

        X, _, _ = blobs(200, 4, 3, 0.3)
        model = fitted(X, 3)
        density = sum(
            w * multivariate_normal(m, model.noise_variance_).pdf(X)
            for w, m in zip(model.weights_, model.cluster_centers_, strict=True)
        )
        np.testing.assert_allclose(model.score_samples(X), np.log(density))
        w = np.arange(200)
        want = np.average(np.log(density), weights=w)
        assert model.score(X, sample_weight=w) == pytest.approx(want)

    def test_history_tells_how_it_went(self, blobs):
        X, _, _ = blobs(2000, 12, 5, 0.3)
        history = fitted(X).history_
        assert history.start == "heads"
        assert history.quality[-1] == pytest.approx(1, abs=0.1)
        assert (np.diff(history.log_likelihood) > -1e-9).all()
        assert "tol" in history.reason
        assert "max_iter=1 " in fitted(X, max_iter=1, tol=0).history_.reason
        assert fitted(X, 15).history_.start == "splits"
        assert fitted(X, 1).history_.start == "mean"

    def test_names_and_output_containers(self, blobs):
        X, _, _ = blobs(100, 3, 2)
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        model = fitted(frame, 2).set_output(transform="pandas")
        assert list(model.feature_names_in_) == ["a", "b", "c"]
        names = ["attentionclustering0", "attentionclustering1"]
        assert list(model.get_feature_names_out()) == names
        assert list(model.transform(frame).columns) == names

    def test_in_a_pipeline_and_cloned(self, blobs):
        X, labels, _ = blobs(500, 6, 3, 0.05)
        pipe = make_pipeline(StandardScaler(), AttentionClustering(3, random_state=0))
        assert ari(labels, pipe.fit_predict(X)) == 1
        assert clone(pipe[-1]).get_params() == pipe[-1].get_params()


class TestEquivariance:
    def test_rotating_the_rows_rotates_the_heads(self, blobs):
        X, _, _ = blobs(1000, 8, 4, 0.1)
        turn = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 8)))[0]
        a, b = fitted(X, 4), fitted(X @ turn, 4)
        np.testing.assert_allclose(matched(b.heads_, a.heads_ @ turn), a.heads_ @ turn, atol=1e-6)

    def test_permuting_the_rows_permutes_the_labels(self, blobs):
        X, _, _ = blobs(1000, 8, 4, 0.1)
        order = np.random.default_rng(0).permutation(1000)
        a, b = fitted(X, 4), fitted(X[order], 4)
        assert ari(a.labels_[order], b.labels_) == 1

    @pytest.mark.parametrize("scale", [1e-30, 3.7, 1e30])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_scaling_scales_the_centres(self, blobs, scale, dtype):
        X, _, _ = blobs(1000, 8, 4, 0.1, dtype=dtype)
        a, b = fitted(X, 4), fitted(X * dtype(scale), 4)
        assert ari(a.labels_, b.labels_) == 1
        back = b.cluster_centers_.astype(float) / scale
        np.testing.assert_allclose(matched(back, a.cluster_centers_), a.cluster_centers_, atol=1e-5)
        assert b.noise_variance_ == pytest.approx(a.noise_variance_ * scale**2, rel=1e-4)

    def test_shifting_shifts_the_centres(self, blobs):
        X, _, _ = blobs(1000, 8, 4, 0.1)
        a, b = fitted(X, 4), fitted(X + 1e4, 4)
        moved = a.cluster_centers_ + 1e4
        np.testing.assert_allclose(matched(b.cluster_centers_, moved), moved, atol=1e-5)

    def test_far_from_the_origin_in_single_precision(self, blobs):
        X, labels, _ = blobs(1000, 8, 4, 0.05)
        assert ari(labels, fitted((X + 1e4).astype(np.float32), 4).labels_) == 1


class TestWeights:
    @pytest.mark.parametrize("metric", ["euclidean", "cosine"])
    @pytest.mark.parametrize("k", [4, 11])
    def test_integer_weights_are_repeated_rows(self, blobs, metric, k):
        X, _, _ = blobs(300, 8, 4, 0.3)
        w = np.random.default_rng(0).integers(0, 4, 300)
        a = fitted(X, k, metric=metric, sample_weight=w)
        b = fitted(np.repeat(X, w, 0), k, metric=metric)
        np.testing.assert_allclose(a.cluster_centers_, b.cluster_centers_, atol=1e-7)
        np.testing.assert_array_equal(a.predict(X), b.predict(X))
        np.testing.assert_allclose(a.history_.log_likelihood, b.history_.log_likelihood)
        assert a.history_.moves == b.history_.moves
        assert len(a.labels_) == 300

    def test_scaled_weights_change_nothing(self, blobs):
        X, _, _ = blobs(300, 8, 4, 0.3)
        w = np.random.default_rng(0).random(300)
        a, b = fitted(X, 4, sample_weight=w), fitted(X, 4, sample_weight=1e6 * w)
        np.testing.assert_allclose(a.cluster_centers_, b.cluster_centers_, atol=1e-9)
        assert a.score(X, sample_weight=w) == pytest.approx(a.score(X, sample_weight=3 * w))

    def test_weights_are_checked(self, blobs):
        X, _, _ = blobs(10, 3, 2)
        for bad, message in [
            (np.ones(9), r"shape \(9,\), expected \(10,\)"),
            (np.r_[np.ones(9), -1], r"sample_weight\[9\] is -1"),
            (np.r_[np.nan, np.ones(9)], r"sample_weight\[0\] is nan"),
            (np.zeros(10), "zero for every row"),
        ]:
            with pytest.raises(ValueError, match=message):
                fitted(X, 2, sample_weight=bad)


class TestConsistency:
    def test_fit_predict_fit_then_predict_and_labels_agree(self, blobs):
        for k in (5, 20):
            X, _, _ = blobs(800, 12, 5, 0.4)
            model = AttentionClustering(k, random_state=0)
            np.testing.assert_array_equal(model.fit_predict(X), model.fit(X).predict(X))
            np.testing.assert_array_equal(model.labels_, model.predict_proba(X).argmax(1))

    def test_known_labels_change_nothing(self, blobs):
        X, labels, _ = blobs(300, 6, 3, 0.2)
        a = AttentionClustering(3, random_state=0).fit(X)
        b = AttentionClustering(3, random_state=0).fit(X, labels)
        np.testing.assert_array_equal(a.cluster_centers_, b.cluster_centers_)

    def test_the_same_seed_repeats_bit_for_bit(self, blobs):
        X, _, _ = blobs(3000, 12, 5, 0.3)
        a, b = (fitted(X, max_samples=1000) for _ in range(2))
        np.testing.assert_array_equal(a.cluster_centers_, b.cluster_centers_)
        assert a.history_ == b.history_

    def test_tile_size_threads_and_memory_layout_change_no_label(self, blobs, monkeypatch):
        X, labels, _ = blobs(3000, 12, 5, 0.1, dtype=np.float32)
        plain = fitted(X)
        frozen = X.copy()
        frozen.flags.writeable = False
        wide = np.zeros((6000, 24), np.float32)
        wide[::2, ::2] = X
        for same in (np.asfortranarray(X), frozen, wide[::2, ::2]):
            np.testing.assert_array_equal(fitted(same).labels_, plain.labels_)
            np.testing.assert_array_equal(plain.predict(same), plain.labels_)
        with threadpool_limits(1):
            np.testing.assert_array_equal(fitted(X).labels_, plain.labels_)
        monkeypatch.setattr(tokens_module, "TILE_ELEMENTS", 1)
        np.testing.assert_array_equal(fitted(X).labels_, plain.labels_)
        np.testing.assert_array_equal(plain.predict(X), plain.labels_)
        assert ari(labels, plain.labels_) == 1

    @pytest.mark.parametrize("metric", ["euclidean", "cosine"])
    def test_dense_equals_sparse_and_sparse_is_never_made_dense(self, blobs, metric, monkeypatch):
        X, _, _ = blobs(800, 40, 4, 0.05)
        X = np.where(np.abs(X) > 0.05, X, 0)
        dense = fitted(X, 4, metric=metric)

        def refuse(*_args, **_kwargs):
            raise AssertionError("made dense")

        for form in (sp.csr_matrix, sp.csr_array, sp.csc_matrix):
            rows = form(X)
            with monkeypatch.context() as patch:
                for kind in (sp.csr_matrix, sp.csr_array):
                    patch.setattr(kind, "toarray", _only_small(kind.toarray, 10_000))
                    patch.setattr(kind, "todense", refuse)
                sparse = fitted(rows, 4, metric=metric)
                predicted = sparse.predict(rows)
            assert ari(dense.labels_, sparse.labels_) == 1
            np.testing.assert_array_equal(predicted, sparse.labels_)
            np.testing.assert_allclose(
                matched(sparse.cluster_centers_, dense.cluster_centers_),
                dense.cluster_centers_,
                atol=1e-6,
            )
            np.testing.assert_allclose(sparse.transform(rows), sparse.transform(X), atol=1e-12)
            assert sparse.score(rows) == pytest.approx(dense.score(X))

    def test_text_in_many_dimensions_stays_sparse(self):
        rng = np.random.default_rng(0)
        n, d, k = 600, 20_000, 4
        labels = rng.integers(0, k, n)
        columns = rng.integers(0, 60, (n, 12)) + 60 * labels[:, None]
        columns = np.hstack([columns, rng.integers(0, d, (n, 3))])
        rows = np.repeat(np.arange(n), 15)
        X = sp.csr_matrix((np.ones(n * 15), (rows, columns.ravel())), shape=(n, d))
        assert ari(labels, fitted(X, k, metric="cosine").labels_) > 0.98

    def test_rows_of_other_libraries(self, blobs):
        X, _, _ = blobs(200, 3, 2, 0.05, dtype=np.float32)
        plain = fitted(X, 2)
        frame = pd.DataFrame(X, columns=list("abc"))
        for rows in (frame, pl.DataFrame(X, schema=list("abc")), X.tolist()):
            model = fitted(rows, 2)
            np.testing.assert_array_equal(model.labels_, plain.labels_)
            np.testing.assert_array_equal(model.predict(rows), plain.labels_)

    def test_torch_tensors(self, blobs):
        torch = pytest.importorskip("torch", reason="torch is not installed")
        X, _, _ = blobs(200, 3, 2, 0.05, dtype=np.float32)
        plain = fitted(X, 2)
        tensor = torch.tensor(X, requires_grad=True)
        np.testing.assert_array_equal(fitted(tensor, 2).labels_, plain.labels_)
        assert plain.transform(tensor).dtype == np.float32
        np.testing.assert_array_equal(plain.predict(tensor.bfloat16()), plain.labels_)

    def test_half_precision_and_integers(self, blobs):
        X, labels, _ = blobs(300, 3, 2, 0.05)
        half = fitted(X.astype(np.float16), 2)
        assert half.cluster_centers_.dtype == np.float32
        assert ari(labels, half.labels_) == 1
        whole = fitted(np.round(X * 100).astype(np.int16), 2)
        assert whole.cluster_centers_.dtype == np.float64
        assert ari(labels, whole.labels_) == 1


def _only_small(method, most):
    def limited(self, *args, **kwargs):
        assert np.prod(self.shape) <= most, "made dense"
        return method(self, *args, **kwargs)

    return limited


class TestCosine:
    def test_centres_have_unit_norm_and_row_lengths_do_not_matter(self, blobs):
        X, labels, _ = blobs(1000, 12, 5, 0.1)
        stretch = np.random.default_rng(0).uniform(0.1, 10, (1000, 1))
        a, b = fitted(X, metric="cosine"), fitted(X * stretch, metric="cosine")
        np.testing.assert_allclose(np.linalg.norm(a.cluster_centers_, axis=1), 1)
        np.testing.assert_allclose(a.cluster_centers_, b.cluster_centers_, atol=1e-9)
        np.testing.assert_array_equal(a.labels_, b.labels_)
        assert ari(labels, a.labels_) > 0.99

    @pytest.mark.parametrize("parameters", [{}, {"refine": False}, {"solver": "pgd"}])
    def test_centres_lie_on_the_sphere_whatever_found_them(self, blobs, parameters):
        X, _, _ = blobs(300, 6, 3, 0.3)
        model = fitted(X, 3, metric="cosine", n_steps=50, **parameters)
        np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1)

    def test_moves_stay_on_the_sphere(self):
        X = np.random.default_rng(0).standard_normal((2000, 3))
        model = fitted(X, 40, metric="cosine")
        assert (np.diff(model.history_.log_likelihood) > -1e-9).all()
        np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1)
        assert len(np.unique(model.labels_)) == 40
        rows = X / np.linalg.norm(X, axis=1, keepdims=True)
        means = KMeans(40, n_init=10, random_state=0).fit(rows)
        centres = np.array([rows[model.labels_ == k].mean(0) for k in range(40)])
        assert ((rows - centres[model.labels_]) ** 2).sum() < 1.05 * means.inertia_

    def test_zero_rows_carry_no_weight_and_get_the_largest_cluster(self, blobs):
        X, _, _ = blobs(500, 12, 3, 0.1, weights=[0.6, 0.3, 0.1])
        padded = np.vstack([np.zeros((3, 12)), X])
        a, b = fitted(X, 3, metric="cosine"), fitted(padded, 3, metric="cosine")
        np.testing.assert_allclose(a.cluster_centers_, b.cluster_centers_)
        assert (b.labels_[:3] == b.weights_.argmax()).all()
        with pytest.raises(ValueError, match="no row of weight has a direction"):
            fitted(np.zeros((5, 2)), 1, metric="cosine")


class TestThreshold:
    def test_every_row_has_a_label_unless_asked_otherwise(self, blobs):
        X, _, _ = blobs(1000, 4, 3, 0.5)
        assert (fitted(X, 3).labels_ >= 0).all()
        picky = fitted(X, 3, threshold=0.9)
        sure = picky.predict_proba(X).max(1) >= 0.9
        assert 0 < sure.sum() < 1000
        np.testing.assert_array_equal(picky.labels_ == -1, ~sure)
        np.testing.assert_array_equal(picky.predict(X), picky.labels_)


class TestMemory:
    @pytest.mark.parametrize("metric", ["euclidean", "cosine"])
    def test_a_fit_copies_no_rows(self, metric):
        """Beyond X: labels, the bounded sample's (m, K) keys, and tiles."""
        import tracemalloc

        n, dim, k = 400_000, 64, 5
        rng = np.random.default_rng(0)
        X = (
            rng.standard_normal((n, dim), dtype=np.float32)
            + np.eye(dim, dtype=np.float32)[rng.integers(0, k, n)] * 9
        )
        tracemalloc.start()
        model = fitted(X, k, metric=metric)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert model.n_rows_used_ == 10_000
        assert peak < 0.35 * X.nbytes

    def test_rows_on_disk_stay_there(self, blobs, tmp_path):
        X, labels, _ = blobs(2000, 12, 5, 0.1, dtype=np.float32)
        np.save(tmp_path / "X.npy", X)
        rows = np.load(tmp_path / "X.npy", mmap_mode="r")
        model = fitted(rows)
        np.testing.assert_array_equal(model.labels_, fitted(X).labels_)
        assert ari(labels, model.predict(rows)) == 1


class TestSampling:
    def test_rows_used_are_reported_and_labels_cover_all(self, blobs):
        X, labels, _ = blobs(5000, 12, 5, 0.1)
        model = fitted(X, max_samples=500)
        assert model.n_rows_used_ == 500
        assert len(model.labels_) == 5000
        assert ari(labels, model.labels_) == 1
        assert fitted(X).n_rows_used_ == 5000

    def test_rows_of_zero_weight_are_not_drawn(self, blobs):
        X, _, _ = blobs(5000, 12, 5, 0.1)
        w = np.zeros(5000)
        w[:400] = 1
        X[400:] += 100
        a, b = fitted(X, sample_weight=w, max_samples=450), fitted(X[:400])
        np.testing.assert_allclose(a.cluster_centers_, b.cluster_centers_)


class TestTrained:
    def test_gradient_training_finds_orthonormal_centres(self):
        rng = np.random.default_rng(0)
        centres = np.linalg.qr(rng.standard_normal((5, 5)))[0][:2]
        labels = rng.integers(0, 2, 20_000)
        X = centres[labels] + 0.3 * rng.standard_normal((20_000, 5))
        model = fitted(X, 2, solver="pgd", max_samples=len(X))
        assert np.abs(model.heads_ @ centres.T).max(1).min() > 0.999
        assert model.history_.start == "trained heads"
        # As published: the label is the head of the largest alignment.
        np.testing.assert_array_equal(model.labels_, model.transform(X).argmax(1))
        S = X.T @ X / len(X)
        linear = model.temperature_ * model.transform(X) @ model.heads_ @ S
        np.testing.assert_allclose(model.attend(X), linear, rtol=1e-6)

    def test_scale_of_the_rows_does_not_matter(self):
        rng = np.random.default_rng(1)
        X = np.eye(4)[rng.integers(0, 2, 2000)] + 0.2 * rng.standard_normal((2000, 4))
        a, b = (fitted(X * s, 2, solver="pgd", n_steps=300) for s in (1.0, 1000.0))
        np.testing.assert_allclose(a.heads_, b.heads_, atol=1e-6)
        np.testing.assert_allclose(a.temperature_, b.temperature_ * 1e6, rtol=1e-6)

    def test_normalised_and_refined_on_any_centres(self, blobs):
        X, labels, _ = blobs(5000, 10, 3, 0.1)
        for parameters in ({"normalize": True}, {"normalize": True, "refine": True}):
            model = fitted(X, 3, solver="pgd", n_steps=1500, **parameters)
            assert ari(labels, model.labels_) > 0.98
            assert model.temperature_ is None

    def test_what_does_not_go_together_is_refused(self, blobs):
        X, _, _ = blobs(50, 3, 2)
        with pytest.raises(ValueError, match="fixed_point"):
            fitted(X, 2, normalize=False)
        with pytest.raises(ValueError, match='lift="affine"'):
            fitted(X, 2, solver="pgd", lift="affine")
        with pytest.raises(ValueError, match="at most 3"):
            fitted(X, 4, solver="pgd")


class TestStructure:
    def test_opposite_aligned_and_as_many_as_features(self):
        rng = np.random.default_rng(0)
        for centres in (
            np.array([[1.0, 0, 0], [-1, 0, 0]]),
            np.array([[1.0, 0, 0], [3, 0, 0]]),
            np.array([[0.0, 0, 1], [0, 0, -1], [0, 2, 0]]),
        ):
            labels = rng.integers(0, len(centres), 3000)
            X = centres[labels] + 0.15 * rng.standard_normal((3000, 3))
            model = fitted(X, len(centres))
            assert model.history_.start == "heads"
            assert ari(labels, model.labels_) > 0.99

    def test_rare_clusters_are_found(self, blobs):
        for seed in range(5):
            X, labels, _ = blobs(5000, 10, 5, 0.1, seed=seed, weights=[0.5, 0.25, 0.15, 0.07, 0.03])
            assert ari(labels, fitted(X).labels_) > 0.99

    def test_digits_and_sentence_embeddings(self, intents):
        digits = load_digits()
        assert ari(digits.target, fitted(digits.data, 10).labels_) > 0.64
        X, names = intents
        for metric in ("euclidean", "cosine"):
            assert ari(names, fitted(X, 15, metric=metric).labels_) > 0.8

    def test_inertia_of_real_rows_is_that_of_ten_starts_of_k_means(self, intents):
        for X, k in ((load_digits().data, 10), (intents[0], 15)):
            model, means = fitted(X, k), KMeans(k, n_init=10, random_state=0).fit(X)
            centres = np.array([X[model.labels_ == j].mean(0) for j in range(k)])
            assert ((X - centres[model.labels_]) ** 2).sum() < 1.005 * means.inertia_


class TestNumericalCare:
    """Right or refused, never quietly wrong: whatever the lift."""

    LIFTS = ("auto", "fourier", "nystrom")

    @pytest.mark.parametrize("lift", LIFTS)
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_offsets_scales_and_columns_that_dominate(self, blobs, lift, dtype):
        X, labels, _ = blobs(1200, 8, 4, 0.08)
        rng = np.random.default_rng(0)
        wide = np.column_stack([1e4 * (labels > 1) + rng.standard_normal(1200), X])
        for rows, known in (
            (X + 1e4 * X.std(), labels),
            (1e-12 * X, labels),
            (1e12 * X, labels),
            (np.column_stack([X, np.full(1200, 1e6)]), labels),
            (wide, labels > 1),
            (X @ rng.standard_normal((8, 30)), labels),
        ):
            k = len(np.unique(known))
            assert ari(known, fitted(rows.astype(dtype), k, lift=lift).labels_) == 1

    @pytest.mark.parametrize("lift", LIFTS)
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_duplicates_by_the_thousand_and_one_dimension(self, blobs, lift, dtype):
        six = np.random.default_rng(0).standard_normal((6, 3)).repeat(1000, axis=0)
        assert ari(np.arange(6000) // 1000, fitted(six.astype(dtype), 6, lift=lift).labels_) == 1
        X, labels, _ = blobs(400, 8, 4, 0.05)
        heavy = np.vstack([X[:1].repeat(3000, axis=0), X]).astype(dtype)
        found = fitted(heavy, 4, lift=lift).labels_
        assert ari(np.r_[labels[:1].repeat(3000), labels], found) == 1
        places = np.arange(4).repeat(200)
        line = places + 0.08 * np.random.default_rng(0).standard_normal(800)
        for rows in (line[:, None], line[:, None] * np.arange(1, 11)):
            assert ari(places, fitted(rows.astype(dtype), 4, lift=lift).labels_) == 1

    @pytest.mark.parametrize("lift", LIFTS)
    def test_integers_booleans_and_one_hot_tables(self, blobs, lift):
        X, labels, _ = blobs(800, 8, 4, 0.08)
        for whole in (np.round(1000 * X).astype(np.int64), np.round(50 * X).astype(np.int8)):
            assert ari(labels, fitted(whole, 4, lift=lift).labels_) == 1
        rng = np.random.default_rng(0)
        labels = rng.integers(0, 3, 900)
        flags = (rng.random((3, 40)) < 0.5)[labels] ^ (rng.random((900, 40)) < 0.05)
        assert ari(labels, fitted(flags, 3, lift=lift).labels_) == 1
        if lift == "nystrom":
            return  # refused
        columns = np.array([rng.choice(12, 5, replace=False) + 50 * label for label in labels])
        rows = np.arange(900).repeat(5)
        table = sp.csr_matrix((np.ones(4500), (rows, columns.ravel())), shape=(900, 150))
        for same in (table, table.astype(bool), table.astype(int), table.toarray()):
            assert ari(labels, fitted(same, 3, lift=lift).labels_) == 1


class TestRareClusters:
    @pytest.mark.parametrize("ratio", [20, 100])
    @pytest.mark.parametrize(("dim", "k", "sigma"), [(10, 5, 0.1), (2, 8, 0.12)])
    def test_each_rare_cluster_has_its_centre(self, ratio, dim, k, sigma):
        for seed in range(3):
            rng = np.random.default_rng(seed)
            centres = rng.standard_normal((k, dim))
            centres /= np.linalg.norm(centres, axis=1, keepdims=True)
            if dim == 2:
                centres = rng.permutation(np.argwhere(np.ones((4, 4))))[:k].astype(float)
            sizes = np.where(np.arange(k) < 2, 20, 20 * ratio)
            labels = np.repeat(np.arange(k), sizes)
            X = centres[labels] + sigma * rng.standard_normal((len(labels), dim))
            model = fitted(X, k)
            gap = np.linalg.norm(centres[:, None] - model.cluster_centers_, axis=2)
            assert sorted(gap.argmin(1)) == list(range(k))
            assert gap.min(1).max() < 1.2 * sigma


class TestBadInput:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"n_clusters": 0}, "n_clusters must be an integer of at least 1, got 0"),
            ({"n_clusters": 2.5}, "n_clusters must be an integer"),
            ({"n_clusters": 11}, "n_clusters=11 is more than n_samples=10"),
            ({"metric": "l1"}, "metric must be one of 'euclidean', 'cosine', got 'l1'"),
            ({"order": 5}, "order must be one of 3, 4"),
            ({"lift": "spline"}, "lift must be"),
            ({"lift": "nystrom", "solver": "pgd"}, 'lift="nystrom" needs solver="fixed_point"'),
            ({"threshold": 1.5}, "threshold must be a number from 0.0 to 1.0"),
            ({"tol": -1}, "tol must be"),
            ({"max_samples": 0}, "max_samples must be"),
            ({"max_iter": 0}, "max_iter must be"),
            ({"solver": "newton"}, "solver must be"),
            ({"temperature": "hot"}, "temperature must be"),
        ],
    )
    def test_parameters(self, blobs, parameters, message):
        X, _, _ = blobs(10, 3, 2)
        with pytest.raises(ValueError, match=message):
            AttentionClustering(**parameters).fit(X)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_what_is_not_finite_is_named(self, blobs, bad):
        X, _, _ = blobs(20_000, 3, 2)
        model = fitted(X, 2)
        X[17_001, 2] = bad
        for rows in (X, np.asfortranarray(X), sp.csr_matrix(X)):
            for call in (model.fit, model.predict):
                with pytest.raises(ValueError, match="at row 17001, column 2"):
                    call(rows)

    def test_shapes_and_kinds(self, blobs):
        X, _, _ = blobs(10, 3, 2)
        model = fitted(X, 2)
        with pytest.raises(ValueError, match="X has 2 features"):
            model.predict(X[:, :2])
        for bad in (np.empty((0, 3)), np.empty((3, 0)), [["a", "b"]], [[1, 2], [3]], X[0]):
            with pytest.raises(ValueError, match=r"\S"):
                fitted(bad, 1)

    def test_degenerate_rows(self, blobs):
        X, _, _ = blobs(50, 3, 2, 0.05)
        assert fitted(X[:1], 1).predict(X).sum() == 0
        assert len(np.unique(fitted(X[:2], 2).labels_)) == 2
        assert len(np.unique(fitted(X[:3], 3).labels_)) == 3
        with pytest.raises(ValueError, match="only 1 distinct row, fewer than n_clusters=2"):
            fitted(np.ones((9, 3)), 2)
        with pytest.raises(ValueError, match="only 3 distinct rows"):
            fitted(np.repeat(X[:3], 5, 0), 4)
        with pytest.raises(ValueError, match="only 2 distinct rows"):
            fitted(np.array([[1.0, 0], [2, 0], [0, 1]]), 3, metric="cosine")
        np.testing.assert_allclose(fitted(np.ones((9, 3)), 1).cluster_centers_, 1)
        constant = np.column_stack([X, np.full(50, 7.0)])
        np.testing.assert_array_equal(fitted(constant, 2).labels_, fitted(X, 2).labels_)
        line = np.r_[np.zeros(20), np.ones(20)][:, None] + X[:40, :1] / 10
        assert ari(np.repeat([0, 1], 20), fitted(line, 2).labels_) == 1

    def test_every_distinct_row_its_own_cluster(self):
        for k in (3, 7, 12):
            X = np.repeat(np.random.default_rng(k).standard_normal((k, 2)), 3, axis=0)
            assert len(np.unique(fitted(X, k).labels_)) == k

    def test_scales_that_cannot_be_squared_are_refused(self):
        X = np.random.default_rng(0).standard_normal((10, 2)).astype(np.float32)
        for scale in (1e36, 1e-36):
            with pytest.raises(ValueError, match="rescale X"):
                fitted(X * np.float32(scale), 2)

    def test_no_warnings_in_a_plain_fit(self, blobs):
        X, _, _ = blobs(500, 6, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted(X, 3).score(X)
