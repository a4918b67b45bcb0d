import numpy as np
import pytest

from attnclust.manifold import random_heads, random_orthonormal
from attnclust.mixture import Mixture, bayes_error, bayes_labels, posterior, sample_prompts

# A test at 4 standard errors raises a false alarm 6 times in 100,000 per number compared; seeds are
# fixed, so each either passes always or never.


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(params=[0.0, 0.09, 1.0])
def mixture(request, rng):
    centroids = rng.standard_normal((3, 4))
    return Mixture(centroids, np.array([0.5, 0.3, 0.2]), request.param)


def within_four_errors(sample, expected):
    error = sample.std(0, ddof=1) / np.sqrt(len(sample))
    return bool((np.abs(sample.mean(0) - expected) <= 4 * error + 1e-12).all())


def test_moments_agree_with_monte_carlo(rng, mixture):
    X = sample_prompts(mixture, 1, 100_000, rng)[0][0]
    outer = X[:, :, None] * X[:, None, :]
    assert within_four_errors(outer, mixture.second_moment)
    assert within_four_errors((X**2).sum(1)[:, None, None] * outer, mixture.fourth_moment)


def test_moments_of_a_batch_are_those_of_each(rng):
    batch = Mixture(rng.standard_normal((5, 3, 4)), np.array([0.5, 0.3, 0.2]), 0.3)
    for name in ("second_moment", "fourth_moment"):
        each = [getattr(Mixture(m, batch.weights, 0.3), name) for m in batch.centroids]
        np.testing.assert_allclose(getattr(batch, name), each)


def test_components_come_in_their_proportions_with_their_noise(rng, mixture):
    tokens, labels = sample_prompts(mixture, 400, 50, rng)
    assert within_four_errors(np.eye(3)[labels.ravel()], mixture.weights)
    noise = tokens - mixture.centroids[labels]
    assert within_four_errors(noise.reshape(-1, 4), 0.0)
    assert within_four_errors(noise.reshape(-1, 4) ** 2, mixture.noise_variance)


def test_centres_may_differ_by_prompt_or_by_run(rng):
    centroids = rng.standard_normal((5, 2, 3))
    tokens, labels = sample_prompts(Mixture.equal(centroids, noise_variance=0), 5, 7, rng)
    assert tokens.shape == (5, 7, 3)
    for prompt, label, own in zip(tokens, labels, centroids, strict=True):
        np.testing.assert_array_equal(prompt, own[label])
    runs = Mixture.equal(centroids[:, None], noise_variance=0)
    tokens, labels = sample_prompts(runs, 4, 7, rng)
    assert tokens.shape == (5, 4, 7, 3)
    np.testing.assert_array_equal(tokens[3], centroids[3][labels[3]])
    with pytest.raises(ValueError, match="broadcast"):
        sample_prompts(Mixture.equal(centroids, noise_variance=0), 4, 7, rng)


def test_prompts_repeat_bit_for_bit_and_come_in_float32(mixture):
    one, other = (
        sample_prompts(mixture, (2, 3), 5, np.random.default_rng(1), np.float32) for _ in range(2)
    )
    np.testing.assert_array_equal(one[0], other[0])
    assert one[0].dtype == np.float32
    assert one[0].shape == (2, 3, 5, 4)


def test_no_token_of_a_component_without_weight(rng):
    empty = Mixture(np.eye(3), np.array([0.5, 0.5, 0.0]), 0.01)
    tokens, labels = sample_prompts(empty, 1, 10_000, rng)
    assert labels.max() == 1
    assert bayes_labels(empty, tokens).max() == 1
    assert bayes_labels(Mixture(np.eye(3), empty.weights, 0.0), np.eye(3)).tolist() == [0, 1, 0]


def test_the_posterior_is_calibrated(rng, mixture):
    tokens, labels = sample_prompts(mixture, 1, 50_000, rng)
    probability = posterior(mixture, tokens)
    np.testing.assert_allclose(probability.sum(-1), 1)
    # Whatever the token, labels exceed their probability by zero on average.
    excess = np.eye(3)[labels[0]] - probability[0]
    assert within_four_errors(excess, 0.0)
    assert within_four_errors(excess * tokens[0][:, :1], 0.0)


CENTRES = {
    "pair": (np.array([[1.0, 0, 0], [0.2, 0.9, 0]]), np.array([0.8, 0.2])),
    "orthonormal": (np.eye(4), np.full(4, 0.25)),
    "simplex": (3 * np.eye(3) - 1, np.full(3, 1 / 3)),
    "any": (np.array([[1.0, 0, 0], [0, 2, 0], [0, 1, 1], [1, 1, 1]]), np.full(4, 0.25)),
    "uneven": (np.eye(3), np.array([0.6, 0.3, 0.1])),
    "doubled": (np.array([[1.0, 0], [1, 0], [0, 1]]), np.array([0.2, 0.3, 0.5])),
    "all doubled": (np.eye(3)[[0, 0, 1, 1, 2, 2]], np.full(6, 1 / 6)),
    "weightless": (np.eye(3), np.array([0.6, 0.4, 0.0])),
}


@pytest.mark.parametrize("sigma", [0.2, 0.5, 2.0])
@pytest.mark.parametrize("name", CENTRES)
def test_bayes_error_is_the_share_that_the_bayes_rule_gets_wrong(rng, name, sigma):
    mixture = Mixture(*CENTRES[name], sigma**2)
    X, labels = sample_prompts(mixture, 1, 100_000, rng)
    wrong = (bayes_labels(mixture, X) != labels)[0]
    value, error = bayes_error(mixture, rng)
    spread = 4 * np.hypot(np.sqrt(max(value, 1e-5) / 1e5), error)
    assert abs(wrong.mean() - value) < spread
    assert (error > 0) == (name in ("any", "uneven"))


def test_bayes_error_of_an_integral_equals_the_closed_form_for_two():
    from attnclust.mixture import _even_error

    for sigma in (0.05, 0.1, 0.5, 3.0):
        two = Mixture.equal(np.eye(2), noise_variance=sigma**2)
        integral = _even_error(np.sqrt(2) / sigma, 2)
        np.testing.assert_allclose(integral, bayes_error(two)[0], rtol=1e-6)


def test_bayes_error_at_the_limits():
    assert bayes_error(Mixture(np.eye(3), np.array([0.5, 0.3, 0.2]), 0.0)) == (0.0, 0.0)
    same = Mixture(np.ones((3, 2)), np.array([0.5, 0.3, 0.2]), 1.0)
    assert bayes_error(same) == (0.5, 0.0)
    assert bayes_error(Mixture(np.ones((1, 2)), np.ones(1), 1.0)) == (0.0, 0.0)
    noisy = Mixture.equal(np.eye(3), noise_variance=1e6)
    np.testing.assert_allclose(bayes_error(noisy)[0], 2 / 3, atol=1e-3)


def test_bayes_error_does_not_turn_with_the_data(rng):
    heads, turn = random_heads(rng, (2, 5)), random_orthonormal(rng, 5, 5)
    one, other = (Mixture.equal(m, noise_variance=0.3) for m in (heads, heads @ turn))
    np.testing.assert_allclose(bayes_error(one), bayes_error(other))


@pytest.mark.parametrize(
    ("centroids", "weights", "noise", "message"),
    [
        (np.eye(2), [0.5, 0.6], 1.0, "sum 1.1"),
        (np.eye(2), [1.5, -0.5], 1.0, "least is -0.5"),
        (np.eye(2), [np.nan, 0.5], 1.0, "least is nan"),
        (np.eye(2), [1.0], 1.0, "2 centroids need as many weights"),
        (np.ones(2), [1.0], 1.0, r"shape \(2,\)"),
        (np.empty((0, 2)), [], 1.0, r"shape \(0, 2\)"),
        (np.full((1, 2), np.inf), [1.0], 1.0, "finite"),
        (np.eye(2), [0.5, 0.5], -1.0, "noise_variance must not be negative"),
        (np.eye(2), [0.5, 0.5], np.nan, "noise_variance must not be negative"),
    ],
)
def test_bad_mixtures_are_refused(centroids, weights, noise, message):
    with pytest.raises(ValueError, match=message):
        Mixture(centroids, weights, noise)


def test_bayes_error_takes_one_mixture():
    with pytest.raises(ValueError, match="one mixture at a time"):
        bayes_error(Mixture.equal(np.ones((2, 2, 3)), noise_variance=1.0))
