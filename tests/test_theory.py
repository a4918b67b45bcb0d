import numpy as np
import pytest

from attnclust.manifold import random_heads, random_orthonormal
from attnclust.mixture import Mixture, sample_prompts
from attnclust.objective import reconstruction_risk, second_moment
from attnclust.theory import (
    clustering_error,
    maximal_regularization,
    optimal_temperature,
    population_gradient,
    population_risk,
    tilt_temperature,
    variance_reduction_interval,
)

# A test at 4 standard errors raises a false alarm 6 times in 100,000 per number compared.


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def mixture(rng):
    return Mixture(rng.standard_normal((3, 4)), np.array([0.5, 0.3, 0.2]), 0.4)


def oracle(sigma, dim=5, n_clusters=2):
    centroids = np.eye(dim)[:n_clusters]
    return Mixture.equal(centroids, noise_variance=sigma**2), centroids


def tilted(heads, angle):
    """The first head turned towards the last coordinate, which is off the centres' plane."""
    heads = heads.copy()
    heads[0] = np.cos(angle) * heads[0] + np.sin(angle) * np.eye(heads.shape[1])[-1]
    return heads


def within_four_errors(sample, expected):
    error = sample.std(0, ddof=1) / np.sqrt(len(sample))
    return bool((np.abs(sample.mean(0) - expected) <= 4 * error + 1e-12).all())


# At L = 1, 2 and 3 other terms of the formula come in; together they pin each.
@pytest.mark.parametrize("length", [1, 2, 3, 12])
def test_population_risk_agrees_with_monte_carlo(rng, mixture, length):
    heads = rng.standard_normal((2, 4))
    tokens, _ = sample_prompts(mixture, 100_000, length, rng)
    S = second_moment(tokens)[:, None]
    for temperature in (0.0, 0.1, 5.0):
        sample = reconstruction_risk(S, heads, temperature)
        assert within_four_errors(sample, population_risk(mixture, heads, temperature, length))


@pytest.mark.parametrize("length", [1, 2, 3, 30, np.inf])
@pytest.mark.parametrize("n_heads", [1, 3, 5])
def test_population_gradient_agrees_with_finite_differences(rng, mixture, length, n_heads):
    heads, step = rng.standard_normal((n_heads, 4)), 1e-5
    numeric = np.empty_like(heads)
    for place in np.ndindex(heads.shape):
        moved = np.zeros_like(heads)
        moved[place] = step
        up, down = (population_risk(mixture, heads + s * moved, 0.3, length) for s in (1, -1))
        numeric[place] = (up - down) / (2 * step)
    gradient = population_gradient(mixture, heads, 0.3, length)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6)


def test_the_limit_is_the_risk_of_the_population_moment(rng, mixture):
    heads = rng.standard_normal((2, 4))
    limit = population_risk(mixture, heads, 0.3, np.inf)
    np.testing.assert_allclose(
        limit, reconstruction_risk(mixture.second_moment[None], heads, 0.3), rtol=1e-12
    )
    np.testing.assert_allclose(population_risk(mixture, heads, 0.3, 1e9), limit, rtol=1e-6)


def test_mixtures_heads_and_temperatures_batch(rng):
    batch = Mixture(rng.standard_normal((5, 3, 4)), np.array([0.5, 0.3, 0.2]), 0.4)
    heads, scales = random_heads(rng, (5, 2, 4)), rng.random(5)
    together = (
        population_risk(batch, heads, scales, 7),
        population_gradient(batch, heads, scales, 7),
        optimal_temperature(batch, heads, 7),
    )
    for s in range(5):
        one = Mixture(batch.centroids[s], batch.weights, 0.4)
        np.testing.assert_allclose(together[0][s], population_risk(one, heads[s], scales[s], 7))
        gradient = population_gradient(one, heads[s], scales[s], 7)
        np.testing.assert_allclose(together[1][s], gradient, atol=1e-12)
        np.testing.assert_allclose(together[2][s], optimal_temperature(one, heads[s], 7))


@pytest.mark.parametrize("length", [1, 30, np.inf])
def test_orthonormal_heads_turn_freely_in_their_span(rng, mixture, length):
    heads = random_orthonormal(rng, 2, 4)
    risks = [
        population_risk(mixture, t @ heads, 0.3, length)
        for t in random_orthonormal(rng, 2, 2, (3,))
    ]
    np.testing.assert_allclose(risks, risks[0])


@pytest.mark.parametrize("length", [1, 5, np.inf])
def test_the_optimal_temperature_is_where_the_risk_is_least(rng, mixture, length):
    heads = rng.standard_normal((2, 4))
    best = optimal_temperature(mixture, heads, length)
    least = population_risk(mixture, heads, best, length)
    for factor in (0.99, 1.01):
        assert population_risk(mixture, heads, factor * best, length) > least


@pytest.mark.parametrize(("n_heads", "n_clusters"), [(1, 2), (2, 2), (2, 4)])
def test_the_limit_of_lambda_for_orthonormal_heads_in_the_span(rng, n_heads, n_clusters):
    mixture, centroids = oracle(0.7, n_clusters=n_clusters)
    heads = random_orthonormal(rng, n_heads, n_clusters) @ centroids
    expected = (n_clusters / n_heads) / (1 + n_clusters * 0.49)
    np.testing.assert_allclose(optimal_temperature(mixture, heads, np.inf) / n_heads, expected)


def test_oracle_heads_are_critical_on_the_spheres():
    mixture, heads = oracle(0.3, n_clusters=3)
    gradient = population_gradient(mixture, heads, 0.9, 30)
    off = gradient - (gradient * heads).sum(-1, keepdims=True) * heads
    np.testing.assert_allclose(off, 0, atol=1e-14)


@pytest.mark.parametrize(("sigma", "ratio"), [(0.0, 1.0), (0.1, 1.01), (0.3, 1.07), (1.0, 1.24)])
def test_tilt_temperature_over_the_optimal_one(sigma, ratio):
    best = optimal_temperature(*oracle(sigma), 30)
    np.testing.assert_allclose(tilt_temperature(sigma, 5, 30, 2) / best, ratio, atol=5e-3)


@pytest.mark.parametrize(
    ("sigma", "dim", "length", "n_clusters"),
    [
        (0.0, 5, 30, 2),
        (0.3, 5, 30, 2),
        (0.8, 7, 4, 3),
        (1.0, 5, 2, 4),
        (0.5, 5, 1, 3),
        (0.5, 6, np.inf, 3),
    ],
)
def test_above_the_tilt_temperature_a_tilt_lowers_the_risk(sigma, dim, length, n_clusters):
    mixture, heads = oracle(sigma, dim, n_clusters)
    edge = tilt_temperature(sigma, dim, length, n_clusters)
    # The difference quotient has an error of order angle^2, 1e-6.
    slopes = [
        (
            population_risk(mixture, tilted(heads, 1e-3), c, length)
            - population_risk(mixture, heads, c, length)
        )
        / 1e-6
        for c in (0.99 * edge, edge, 1.01 * edge)
    ]
    scale = abs(slopes[2] - slopes[0])
    assert slopes[0] > 0.3 * scale
    assert slopes[2] < -0.3 * scale
    assert abs(slopes[1]) < 0.01 * scale


def test_tilt_temperature_in_the_limit():
    for sigma, n_clusters in ((0.1, 2), (0.5, 3), (2.0, 5)):
        v, s = sigma**2, 1 / n_clusters + sigma**2
        expected = (2 / s) * (s + v) / (2 * s + v)
        np.testing.assert_allclose(tilt_temperature(sigma, 9, np.inf, n_clusters), expected)


@pytest.mark.parametrize(("sigma", "rho"), [(0.1, 49.7), (0.3, 6.59), (1.0, 0.966)])
def test_maximal_regularization_at_half_of_the_limits_temperature(sigma, rho):
    half = optimal_temperature(*oracle(sigma), np.inf) / 2
    found = maximal_regularization(half, sigma, 5, 30, 2)
    np.testing.assert_allclose(found, rho, rtol=1e-3)
    mixture, heads = oracle(sigma)
    gain = population_risk(mixture, tilted(heads, 1e-3), half, 30)
    slope = (gain - population_risk(mixture, heads, half, 30)) / 1e-6
    np.testing.assert_allclose(found, slope / (sigma**2 / 2), rtol=1e-4)


@pytest.mark.parametrize("n_clusters", [2, 3, 4])
@pytest.mark.parametrize("name", ["pairwise", "product"])
def test_what_a_tilt_saves_in_the_regularizer(rng, name, n_clusters):
    sigma, c = 0.8, 0.5
    mixture, heads = oracle(sigma, n_clusters=n_clusters)
    X = sample_prompts(mixture, 1, 400_000, rng)[0][0]
    q = (X @ heads.T) ** 2
    others = q[:, 1:].sum(1) if name == "pairwise" else q[:, 1:].prod(1)
    change = (X[:, -1] ** 2 - q[:, 0]) * others  # of r, per squared angle
    cost = (
        population_risk(mixture, tilted(heads, 1e-3), c, 30)
        - population_risk(mixture, heads, c, 30)
    ) / 1e-6
    saved = cost / maximal_regularization(c, sigma, 5, 30, n_clusters, name)
    assert within_four_errors(-change, saved)


def test_maximal_regularization_at_its_limits():
    assert maximal_regularization(0.5, 0.0, 5, 30, 2) == np.inf
    edge = tilt_temperature(0.5, 5, 30, 2)
    assert abs(maximal_regularization(edge, 0.5, 5, 30, 2)) < 1e-12
    assert maximal_regularization(1.1 * edge, 0.5, 5, 30, 2) < 0
    with pytest.raises(ValueError, match="pairwise or product"):
        maximal_regularization(0.5, 0.5, 5, 30, 2, "ridge")


@pytest.mark.parametrize(
    ("length", "low", "high"),
    [
        (5, 0.031, 0.318),
        (10, 0.041, 0.406),
        (30, 0.053, 0.514),
        (100, 0.058, 0.574),
        (1000, 0.061, 0.602),
    ],
)
def test_variance_reduction_interval_at_finite_length(length, low, high):
    # (5, 0.0312, 0.31745): the printed third digit may be rounded up.
    np.testing.assert_allclose(
        variance_reduction_interval(1.0, 5, length, 2), (low, high), atol=6e-4
    )


def test_variance_reduction_interval_in_the_limit():
    expected = (1 + np.array([-1, 1]) * np.sqrt(2 / 3)) / 3
    np.testing.assert_allclose(variance_reduction_interval(1.0, 5, np.inf, 2), expected, atol=1e-9)
    np.testing.assert_allclose(variance_reduction_interval(1.0, 2, np.inf, 2), expected, atol=1e-9)
    np.testing.assert_allclose(optimal_temperature(*oracle(1.0), np.inf) / 2, 1 / 3, atol=1e-9)


def test_at_the_ends_of_the_interval_the_risk_is_that_of_the_centres():
    for length, n_clusters in ((20, 3), (np.inf, 4)):
        mixture, heads = oracle(0.8, 6, n_clusters)
        ends = np.array(variance_reduction_interval(0.8, 6, length, n_clusters)) * n_clusters
        np.testing.assert_allclose(population_risk(mixture, heads, ends, length), 6 * 0.64)
        inside = population_risk(mixture, heads, ends.mean(), length)
        assert inside < 6 * 0.64


def test_there_may_be_no_interval():
    mixture, heads = oracle(0.1)
    assert variance_reduction_interval(0.1, 5, 2, 2) is None
    best = optimal_temperature(mixture, heads, 2)
    assert population_risk(mixture, heads, best, 2) > 5 * 0.01
    assert variance_reduction_interval(0.0, 5, np.inf, 2) is None


@pytest.mark.parametrize("sigma", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("kind", ["orthonormal", "random", "poor heads"])
def test_clustering_error_agrees_with_monte_carlo(rng, kind, sigma):
    orthonormal = random_orthonormal(rng, 2, 5)
    centroids = orthonormal if kind == "orthonormal" else random_heads(rng, (2, 5))
    heads = 0.5 * random_heads(rng, (2, 5)) + centroids if kind == "poor heads" else centroids
    heads = heads / np.linalg.norm(heads, axis=1, keepdims=True)
    mixture = Mixture(centroids, np.array([0.3, 0.7]), sigma**2)
    X, labels = sample_prompts(mixture, 1, 200_000, rng)
    wrong = (X[0] @ heads.T).argmax(1) != labels[0]
    sides = [wrong[labels[0] == j] for j in range(2)]
    error = 4 * np.sqrt(sum(one.var() / len(one) for one in sides)) + 1e-4
    expected = clustering_error(mixture, heads)
    assert abs(sum(one.mean() for one in sides) - expected) < error
    np.testing.assert_allclose(clustering_error(mixture, -heads[::-1]), expected)


def test_clustering_error_at_its_limits(rng):
    mixture, heads = oracle(0.0)
    assert clustering_error(mixture, heads) == 0
    assert clustering_error(mixture, heads[[0, 0]]) == 1
    assert clustering_error(oracle(1.0)[0], random_heads(rng, (3, 2, 5))).shape == (3,)
    with pytest.raises(ValueError, match="unit vectors"):
        clustering_error(mixture, 2 * heads)
    with pytest.raises(ValueError, match="two clusters and two heads, got 2 and 3"):
        clustering_error(mixture, np.eye(5)[:3])


def test_bad_settings_are_refused(mixture):
    with pytest.raises(ValueError, match="at least one token"):
        population_risk(mixture, np.eye(4), 0.5, 0)
    with pytest.raises(ValueError, match="orthogonal to all tokens"):
        optimal_temperature(oracle(0.0)[0], np.eye(5)[3:], 30)
    with pytest.raises(ValueError, match="no direction off"):
        tilt_temperature(0.1, 2, 30, 2)
    with pytest.raises(ValueError, match="sigma >= 0"):
        tilt_temperature(-0.1, 5, 30, 2)
    with pytest.raises(ValueError, match="orthonormal in dimension 2"):
        variance_reduction_interval(1.0, 2, 30, 3)
