import numpy as np
import pytest
from scipy.stats import multivariate_normal

from attnclust.refinement import (
    Clusters,
    Geometry,
    assign,
    dispersion,
    em,
    equal_weights,
    expectation,
    maximization,
    posterior,
    told,
)
from attnclust.tokens import Tokens


def start(X, k, seed=0):
    rng = np.random.default_rng(seed)
    return Clusters(X[rng.choice(len(X), k, replace=False)].astype(float), np.full(k, 1 / k), 0.5)


@pytest.fixture
def problem(blobs):
    X, _, _ = blobs(400, 6, 4, 0.3)
    w = np.random.default_rng(1).integers(0, 3, 400).astype(float)
    tokens = Tokens(X, w)
    return tokens, start(X, 4), Geometry(tokens.mean_square(), 1e-12)


def densities(X, clusters):
    return np.column_stack(
        [
            w * multivariate_normal(m, clusters.noise_variance).pdf(X)
            for w, m in zip(clusters.weights, clusters.centroids, strict=True)
        ]
    )


def test_attention_is_the_posterior_and_its_normaliser_the_density(problem):
    tokens, clusters, geometry = problem
    joint = densities(tokens.X, clusters)
    want = joint / joint.sum(1, keepdims=True)
    np.testing.assert_allclose(posterior(tokens, clusters), want, atol=1e-12)
    found = told(tokens, clusters)
    np.testing.assert_allclose(found.log_density, np.log(joint.sum(1)), atol=1e-10)
    np.testing.assert_allclose(found.confidence, want.max(1), atol=1e-12)
    np.testing.assert_array_equal(found.labels, want.argmax(1))
    np.testing.assert_array_equal(assign(tokens, clusters), want.argmax(1))
    seen = expectation(tokens, clusters, geometry)
    w = tokens.weights / tokens.weights.sum()
    assert seen.log_likelihood == pytest.approx(w @ np.log(joint.sum(1)))
    np.testing.assert_allclose(seen.counts, w @ want)
    np.testing.assert_allclose(seen.sums, (w[:, None] * want).T @ tokens.X)


def test_attention_agrees_with_the_layer_of_the_theory(problem):
    from attnclust.attention import softmax_attention

    tokens, clusters, _ = problem
    want = softmax_attention(
        tokens.X, clusters.centroids, np.log(clusters.weights), clusters.noise_variance
    )
    np.testing.assert_allclose(posterior(tokens, clusters), want, atol=1e-12)


def expected_likelihood(tokens, attention, clusters):
    """The M step's objective, written out."""
    w = tokens.row_weights() / tokens.row_weights().sum()
    square = ((tokens.X[:, None] - clusters.centroids) ** 2).sum(2)
    logs = (
        np.log(clusters.weights)
        - 0.5 * square / clusters.noise_variance
        - 0.5 * tokens.dim * np.log(2 * np.pi * clusters.noise_variance)
    )
    return (w[:, None] * attention * logs).sum()


@pytest.mark.parametrize("on_sphere", [False, True])
def test_the_m_step_is_the_maximum(problem, on_sphere):
    tokens, clusters, geometry = problem
    geometry = Geometry(geometry.mean_square, geometry.floor, on_sphere)
    attention = posterior(tokens, clusters)
    best = maximization(clusters, expectation(tokens, clusters, geometry), geometry)
    top = expected_likelihood(tokens, attention, best)
    rng = np.random.default_rng(0)
    if on_sphere:
        np.testing.assert_allclose(np.linalg.norm(best.centroids, axis=1), 1)
    for _ in range(30):
        moved = best.centroids + 1e-3 * rng.standard_normal(best.centroids.shape)
        if on_sphere:
            moved /= np.linalg.norm(moved, axis=1, keepdims=True)
        w = best.weights * np.exp(1e-3 * rng.standard_normal(4))
        noise = best.noise_variance * np.exp(1e-3 * rng.standard_normal())
        assert expected_likelihood(tokens, attention, Clusters(moved, w / w.sum(), noise)) < top


@pytest.mark.parametrize("on_sphere", [False, True])
def test_the_likelihood_never_falls(blobs, on_sphere):
    for seed in range(10):
        X, _, _ = blobs(300, 5, 4, 0.5, seed=seed)
        if on_sphere:
            X /= np.linalg.norm(X, axis=1, keepdims=True)
        tokens = Tokens(X)
        geometry = Geometry(tokens.mean_square(), 1e-12, on_sphere)
        _, seen = em(tokens, start(X, 4, seed), geometry, n_steps=40)
        assert (np.diff([s.log_likelihood for s in seen]) > -1e-12).all()


def test_em_agrees_with_a_spherical_mixture_fitted_elsewhere(blobs):
    """Equal variances are the maximum when the data have them: compare the log-likelihoods."""
    from sklearn.mixture import GaussianMixture

    X, _, centres = blobs(3000, 4, 3, 0.2)
    tokens = Tokens(X)
    ours, seen = em(
        tokens,
        Clusters(centres, np.full(3, 1 / 3), 0.1),
        Geometry(tokens.mean_square(), 0.0),
        n_steps=200,
        tol=1e-12,
    )
    theirs = GaussianMixture(3, covariance_type="spherical", means_init=centres, tol=1e-9).fit(X)
    assert seen[-1].log_likelihood == pytest.approx(theirs.score(X), abs=2e-3)
    np.testing.assert_allclose(ours.centroids, theirs.means_, atol=5e-3)


def test_a_cluster_that_nothing_attends_to_keeps_its_centre(problem):
    tokens, clusters, geometry = problem
    far = Clusters(np.vstack([clusters.centroids[:3], np.full((1, 6), 1e3)]), clusters.weights, 0.1)
    after = maximization(far, expectation(tokens, far, geometry), geometry)
    np.testing.assert_array_equal(after.centroids[3], far.centroids[3])
    assert after.weights[3] == 0
    assert np.isfinite(expectation(tokens, after, geometry).log_likelihood)


def test_the_noise_never_falls_below_the_floor():
    X = np.repeat(np.eye(3), 5, axis=0)
    tokens = Tokens(X)
    clusters, _ = em(
        tokens, Clusters(np.eye(3), np.full(3, 1 / 3), 1e-3), Geometry(1.0, 1e-9), n_steps=3
    )
    assert clusters.noise_variance == 1e-9


def test_dispersion_is_one_of_a_spherical_mixture_whatever_its_overlap(blobs):
    for dim, sigma in ((1, 0.1), (2, 0.5), (8, 0.3), (60, 0.2)):
        X, _, centres = blobs(20_000, dim, 3, sigma, weights=[0.6, 0.3, 0.1])
        tokens = Tokens(7 * X, np.full(20_000, 0.5))
        clusters = Clusters(7 * centres, np.array([0.6, 0.3, 0.1]), (7 * sigma) ** 2)
        geometry = Geometry(tokens.mean_square(), 1e-12)
        assert dispersion(tokens, clusters, geometry) == pytest.approx(1, abs=0.06)


def test_dispersion_of_other_clusters_follows_their_covariance(blobs):
    spread = np.array([2.0, 1, 1, 0.5])
    X, _, centres = blobs(200_000, 4, 2, 0.0)
    noise = np.random.default_rng(1).standard_normal(X.shape)
    X = 50 * X + noise * np.sqrt(spread)
    clusters = Clusters(50 * centres, np.array([0.5, 0.5]), spread.mean())
    geometry = Geometry(1.0, 1e-12)
    want = 4 * (spread**2).sum() / spread.sum() ** 2
    assert dispersion(Tokens(X), clusters, geometry) == pytest.approx(want, rel=0.02)


def test_dispersion_on_the_sphere_and_of_rows_that_equal_their_centres(blobs):
    X, _, centres = blobs(20_000, 10, 3, 0.05)
    unit = Tokens(X / np.linalg.norm(X, axis=1, keepdims=True))
    clusters = Clusters(centres, np.full(3, 1 / 3), 0.05**2)
    assert dispersion(unit, clusters, Geometry(1.0, 1e-12, on_sphere=True)) == pytest.approx(
        1, abs=0.06
    )
    same = Clusters(np.eye(3), np.full(3, 1 / 3), 1e-9)
    assert dispersion(Tokens(np.repeat(np.eye(3), 5, axis=0)), same, Geometry(1.0, 1e-9)) == 1


def test_equal_weights_attend_most_to_the_nearest_centre(problem):
    tokens, clusters, _ = problem
    clusters = equal_weights(Clusters(clusters.centroids, np.array([0.97, 0.01, 0.01, 0.01]), 0.5))
    nearest = ((tokens.X[:, None] - clusters.centroids) ** 2).sum(2).argmin(1)
    np.testing.assert_array_equal(assign(tokens, clusters), nearest)
