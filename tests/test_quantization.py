import numpy as np
import pytest

from attnclust.attention import in_context_attention, linear_attention
from attnclust.mixture import Mixture, sample_prompts
from attnclust.quantization import output_moments

# A test at 4 standard errors raises a false alarm 6 times in 100,000 per number compared: here 30
# means and 48 (co)variances, once in 200 seeds; the seed is fixed.


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.fixture
def mixture(rng):
    return Mixture(rng.standard_normal((3, 4)), np.array([0.5, 0.3, 0.2]), 0.4)


# At L = 1, 2 and 3 other terms of the formula come in; together they pin each.
@pytest.mark.parametrize("length", [1, 2, 3, 20])
def test_output_moments_agree_with_monte_carlo(rng, mixture, length):
    heads, temperature = rng.standard_normal((2, 4)), 0.4
    means, covariance = output_moments(mixture, heads, temperature, length)
    tokens, labels = sample_prompts(mixture, 200_000, length, rng)
    # The first token of each prompt only, so that samples are independent.
    output = linear_attention(tokens, heads, temperature)[:, 0]
    for j in range(3):
        own = output[labels[:, 0] == j]
        error = own.std(0) / np.sqrt(len(own))
        assert (np.abs(own.mean(0) - means[j]) <= 4 * error).all()
        centred = own - means[j]
        products = centred[:, :, None] * centred[:, None, :]
        error = products.std(0) / np.sqrt(len(own))
        assert (np.abs(products.mean(0) - covariance[j]) <= 4 * error).all()


def test_long_prompts_reach_the_limit(rng, mixture):
    heads = rng.standard_normal((2, 4))
    limit = output_moments(mixture, heads, 0.4)
    near = output_moments(mixture, heads, 0.4, 1e7)
    for far, close in zip(limit, near, strict=True):
        assert far.shape == close.shape
        np.testing.assert_allclose(far, close, rtol=1e-4, atol=1e-4)


def test_leading_dimensions_are_as_many_mixtures(rng):
    centroids, heads = rng.standard_normal((5, 3, 4)), rng.standard_normal((5, 2, 4))
    many = Mixture.equal(centroids, noise_variance=0.3)
    for length in (7, np.inf):
        means, covariance = output_moments(many, heads, 0.5, length)
        for b in range(5):
            one = output_moments(
                Mixture.equal(centroids[b], noise_variance=0.3), heads[b], 0.5, length
            )
            np.testing.assert_allclose(means[b], one[0])
            np.testing.assert_allclose(covariance[b], one[1])


def test_the_parameter_free_layer_shrinks_the_noise_by_its_closed_form():
    sigma, dim, K = 0.6, 5, 3
    mixture = Mixture.equal(np.eye(dim)[:K], noise_variance=sigma**2)
    c, s = 1 / (1 / K + sigma**2), 1 / K + sigma**2  # keeps the length of the centres
    means, covariance = output_moments(mixture, np.eye(dim), c)
    np.testing.assert_allclose(means, mixture.centroids)
    expected = sigma**2 * (K * (c * s) ** 2 + (dim - K) * (c * sigma**2) ** 2)
    np.testing.assert_allclose(np.trace(covariance, axis1=1, axis2=2), expected)


def test_without_noise_one_token_is_mapped_as_the_layer_maps_it():
    mixture = Mixture.equal(np.array([[2.0, 1.0]]), noise_variance=0.0)
    means, covariance = output_moments(mixture, np.eye(2), 0.5, 1)
    np.testing.assert_allclose(means, in_context_attention(mixture.centroids, 0.5))
    np.testing.assert_allclose(covariance, 0, atol=1e-12)


def test_a_prompt_has_a_token(mixture):
    with pytest.raises(ValueError, match="at least one token"):
        output_moments(mixture, np.eye(4), 1.0, 0)
