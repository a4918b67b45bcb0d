import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from attnclust import AttentionClustering
from attnclust.mixture import Mixture, sample_prompts
from attnclust.refinement import Clusters, attended
from attnclust.tokens import Tokens
from attnclust.trust import describe_clusters, reliability


def blobs(n=600, d=4, k=3, gap=8.0, seed=0):
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, k, n)
    return gap * np.eye(d)[owner] + rng.standard_normal((n, d)), owner


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_confidence_margin_and_outlier_score_are_those_of_the_posterior(dtype, sparse, metric):
    X, _ = blobs()
    X = (sp.csr_matrix(X) if sparse else X).astype(dtype)
    model = AttentionClustering(3, metric=metric, random_state=0).fit(X)
    P = model.predict_proba(X)
    top = np.sort(P, axis=1)
    np.testing.assert_allclose(model.confidence(X), top[:, -1], rtol=1e-4)
    sure = top[:, -2] > 1e-30
    log_odds = np.log(top[sure, -1].astype(float)) - np.log(top[sure, -2].astype(float))
    np.testing.assert_allclose(model.margin(X)[sure], log_odds, rtol=2e-3, atol=1e-3)
    rows = np.asarray(X.toarray() if sparse else X, dtype=np.float64)
    if metric == "cosine":
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    own = model.cluster_centers_[model.labels_].astype(np.float64)
    expected = ((rows - own) ** 2).sum(1) / (4 * model.noise_variance_)
    np.testing.assert_allclose(model.outlier_score(X), expected, rtol=1e-4, atol=1e-6)


def test_outlier_score_of_a_mixture_is_chi_squared():
    X, _ = blobs(n=20_000, d=8, gap=12.0)
    score = 8 * AttentionClustering(3, random_state=0).fit(X).outlier_score(X)
    assert stats.kstest(score, stats.chi2(8).cdf).statistic < 0.015
    assert not stats.kstest(score * 1.1, stats.chi2(8).cdf).statistic < 0.015


def test_outlier_score_keeps_its_digits_where_the_noise_is_far_below_the_spread():
    rng = np.random.default_rng(0)
    X = (np.eye(3)[rng.integers(0, 3, 3000)] + 1e-5 * rng.standard_normal((3000, 3))) + 7.0
    model = AttentionClustering(3, random_state=0).fit(X)
    assert abs(model.outlier_score(X).mean() - 1) < 0.02


def test_gross_outliers_score_highest():
    X, _ = blobs()
    X[:6] += 40 * np.sign(X[:6])
    model = AttentionClustering(3, random_state=0).fit(X[6:])
    assert set(np.argsort(model.outlier_score(X))[-6:]) == set(range(6))


def test_margin_is_infinite_where_nothing_else_is_left():
    tokens = Tokens(np.array([[0.0], [4.0]]))
    alone = attended(tokens, Clusters(np.array([[1.0]]), np.ones(1), 1.0))
    empty = attended(tokens, Clusters(np.array([[1.0], [2.0]]), np.array([1.0, 0.0]), 1.0))
    assert np.isinf(alone.margin).all()
    assert np.isinf(empty.margin).all()
    np.testing.assert_allclose(alone.confidence, 1.0)
    np.testing.assert_allclose(empty.deviation, [1.0, 9.0])


def test_clusters_are_described():
    X, _ = blobs(n=900, gap=12.0)
    model = AttentionClustering(3, random_state=0).fit(X)
    for c in describe_clusters(model, X, n_rows=4):
        rows = np.flatnonzero(model.labels_ == c.cluster)
        centre = model.cluster_centers_[c.cluster]
        distance = np.linalg.norm(X - centre, axis=1)
        assert c.size == len(rows)
        assert c.stability > 0.99
        assert c.cohesion > 0.999
        np.testing.assert_allclose(c.spread, np.sqrt((distance[rows] ** 2).mean() / 4))
        gaps = np.linalg.norm(model.cluster_centers_ - centre, axis=1)
        gaps[c.cluster] = np.inf
        assert c.nearest == gaps.argmin()
        np.testing.assert_allclose(c.separation, gaps.min() / np.sqrt(model.noise_variance_))
        np.testing.assert_array_equal(c.representative, rows[np.argsort(distance[rows])[:4]])
        margins = model.margin(X)
        assert margins[c.borderline].max() <= np.sort(margins[rows])[3]


def test_what_is_cut_off_at_will_is_unstable():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((400, 6)), rng.standard_normal((200, 6)) + 20])
    found = describe_clusters(AttentionClustering(3, random_state=0).fit(X), X)
    assert min(c.stability for c in found) < 0.6
    assert max(found, key=lambda c: c.separation).stability > 0.8


def test_one_cluster_and_unlabelled_rows_are_described():
    X, _ = blobs(gap=2.0)
    (one,) = describe_clusters(AttentionClustering(1).fit(X), X)
    assert (one.nearest, one.separation, one.stability) == (-1, np.inf, 1.0)
    model = AttentionClustering(3, threshold=0.8, random_state=0).fit(X)
    described = describe_clusters(model, X, n_bootstrap=2)
    assert sum(c.size for c in described) == (model.labels_ >= 0).sum() < len(X)


def test_description_repeats():
    X, _ = blobs(gap=4.0)
    model = AttentionClustering(3, random_state=0).fit(X)
    one, two = (describe_clusters(model, X, random_state=3, n_bootstrap=3) for _ in range(2))
    assert [c.stability for c in one] == [c.stability for c in two]


@pytest.mark.parametrize(("k", "d", "ratio"), [(2, 2, 1), (5, 16, 1), (5, 16, 4), (10, 64, 1)])
def test_confidence_is_calibrated(k, d, ratio):
    weights = np.where(np.arange(k) % 2, 1.0, ratio)
    truth = Mixture(np.eye(d)[:k], weights / weights.sum(), 0.12)
    X, owner = sample_prompts(truth, 1, 30_000, np.random.default_rng(1))
    X, owner = X[0], owner[0]
    found = reliability(AttentionClustering(k, random_state=0).fit(X).predict_proba(X), owner)
    assert found.confidence[0] < 0.85
    assert np.abs(found.confidence - found.accuracy).max() < 0.03


def test_reliability_of_a_known_case():
    P = np.array([[0.9, 0.1, 0.0]] * 10 + [[0.0, 0.6, 0.4]] * 10)
    known = ["x"] * 9 + ["y"] + ["y"] * 5 + ["x"] * 5
    found = reliability(P, known, n_bins=2)
    np.testing.assert_allclose(found.confidence, [0.6, 0.9])
    np.testing.assert_allclose(found.accuracy, [0.5, 0.9])
    np.testing.assert_array_equal(found.counts, [10, 10])


def test_reliability_needs_a_class_for_each_row():
    with pytest.raises(ValueError, match="give one class for each row"):
        reliability(np.ones((3, 1)), [1, 2])
