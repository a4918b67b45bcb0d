import numpy as np
import pytest
from scipy.stats import multivariate_normal

from attnclust.attention import (
    in_context_attention,
    linear_attention,
    matrix_attention,
    quantise,
    signal_temperature,
    softmax_attention,
)
from attnclust.manifold import random_heads, random_orthonormal

SHAPES = [(3, 8), (8, 3), (1, 4), (6, 6)]


def explicit(tokens, matrix, temperature):
    """The layer through its L x L scores."""
    scores = tokens @ matrix @ np.swapaxes(tokens, -1, -2)
    return temperature / tokens.shape[-2] * scores @ tokens


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize(("length", "dim"), SHAPES)
def test_linear_heads_equal_the_explicit_layer(rng, length, dim):
    tokens, heads = rng.standard_normal((2, 3, length, dim)), random_heads(rng, (2, 1, 2, dim))
    expected = explicit(tokens, np.swapaxes(heads, -1, -2) @ heads, 0.7)
    np.testing.assert_allclose(linear_attention(tokens, heads, 0.7), expected, atol=1e-12)


@pytest.mark.parametrize(("length", "dim"), SHAPES)
def test_a_matrix_head_is_the_sum_of_its_rank_one_heads(rng, length, dim):
    tokens, matrix = rng.standard_normal((length, dim)), rng.standard_normal((dim, dim))
    left, values, right = np.linalg.svd(matrix)
    query = left.T * values[:, None]
    expected = explicit(tokens, matrix, 0.7)
    np.testing.assert_allclose(matrix_attention(tokens, query, right, 0.7), expected, atol=1e-11)
    parts = [
        matrix_attention(tokens, q[None], k[None], 0.7) for q, k in zip(query, right, strict=True)
    ]
    np.testing.assert_allclose(sum(parts), expected, atol=1e-11)


@pytest.mark.parametrize(("length", "dim"), SHAPES)
def test_d_orthonormal_heads_are_the_parameter_free_layer(rng, length, dim):
    tokens = rng.standard_normal((4, length, dim))
    output = in_context_attention(tokens, 0.7)
    heads = random_orthonormal(rng, dim, dim)
    np.testing.assert_allclose(linear_attention(tokens, heads, 0.7), output, atol=1e-12)
    np.testing.assert_allclose(explicit(tokens, np.eye(dim), 0.7), output, atol=1e-12)


def test_temperatures_broadcast_over_leading_dimensions(rng):
    tokens, heads, scales = rng.standard_normal((3, 5, 4)), np.eye(2, 4), np.array([0.1, 1, 2])
    together = linear_attention(tokens, heads, scales)
    for one, prompt, scale in zip(together, tokens, scales, strict=True):
        np.testing.assert_allclose(one, linear_attention(prompt, heads, scale))
    assert in_context_attention(tokens, scales).shape == (3, 5, 4)


def test_the_layer_commutes_with_rotations_and_permutations(rng):
    tokens, heads = rng.standard_normal((7, 4)), random_heads(rng, (2, 4))
    turn, order = random_orthonormal(rng, 4, 4), rng.permutation(7)
    output = linear_attention(tokens, heads, 1)
    np.testing.assert_allclose(
        linear_attention(tokens[order] @ turn, heads @ turn, 1), output[order] @ turn, atol=1e-12
    )


@pytest.mark.parametrize("sigma", [0.05, 1.0])
def test_softmax_heads_are_the_posterior_of_a_mixture(rng, sigma):
    centroids, weights = rng.standard_normal((3, 4)), np.array([0.5, 0.3, 0.2])
    tokens = centroids[[0, 1, 2, 2]] + sigma * rng.standard_normal((4, 4))
    density = np.stack([multivariate_normal.pdf(tokens, m, sigma**2) for m in centroids], 1)
    expected = weights * density / (weights * density).sum(1, keepdims=True)
    attention = softmax_attention(tokens, centroids, np.log(weights), sigma**2)
    np.testing.assert_allclose(attention, expected, rtol=1e-8, atol=1e-12)


def test_softmax_is_stable_and_can_switch_centres_off():
    with np.errstate(divide="ignore"):
        log_weights = np.log([0.5, 0.5, 0.0])
    far = softmax_attention(np.array([[1e3, 0.0]]), np.eye(3, 2), log_weights, 1e-3)
    np.testing.assert_array_equal(far, [[1, 0, 0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_is_kept(rng, dtype):
    tokens, heads = rng.standard_normal((2, 5, 3)).astype(dtype), np.eye(2, 3)
    assert linear_attention(tokens, heads, 0.5).dtype == dtype
    assert in_context_attention(tokens, np.full(2, 0.5)).dtype == dtype
    assert softmax_attention(tokens, heads, np.log([0.5, 0.5]), 0.1).dtype == dtype
    assert linear_attention(np.ones((2, 3), dtype=int), heads, 0.5).dtype == np.float64


@pytest.mark.parametrize("noise", [0.0, -1.0, np.nan])
def test_softmax_needs_noise(noise):
    with pytest.raises(ValueError, match="noise_variance must be positive"):
        softmax_attention(np.eye(2), np.eye(2), np.zeros(2), noise)
    with pytest.raises(ValueError, match="no centre"):
        softmax_attention(np.eye(2), np.eye(2), np.full(2, -np.inf), 1.0)


def test_an_empty_prompt_is_an_error():
    with pytest.raises(ValueError, match="at least one token"):
        in_context_attention(np.empty((0, 3)), 1)


def test_the_signal_temperature_keeps_the_signals_length(rng):
    tokens = np.eye(20)[rng.integers(0, 2, 500)] * [[3.0] + [1.0] * 19]
    tokens = tokens + 0.1 * rng.standard_normal((500, 20))
    values, axes = np.linalg.eigh(tokens.T @ tokens / 500)
    assert values[-2] > 0.3 > 0.05 > values[-3]
    signal = axes[:, -2:] * np.sqrt(values[-2:] - values[:-2].mean())  # of two directions
    out = in_context_attention(tokens, signal_temperature(tokens))
    gain = np.linalg.lstsq(tokens, out, rcond=None)[0]
    np.testing.assert_allclose(np.sum((gain.T @ signal) ** 2), np.sum(signal**2), rtol=1e-9)


def test_the_signal_temperature_of_either_side_and_of_padded_prompts(rng):
    tokens = np.eye(40)[rng.integers(0, 2, 15)] + 0.05 * rng.standard_normal((15, 40))
    wide = np.concatenate([tokens, np.full((5, 40), 7.0)])
    present = (np.arange(20) < 15).astype(float)
    assert signal_temperature(wide, present) == pytest.approx(float(signal_temperature(tokens)))
    np.testing.assert_allclose(
        quantise(wide, present)[:15],
        in_context_attention(tokens, signal_temperature(tokens)),
    )
    np.testing.assert_array_equal(quantise(wide, present)[15:], 0)


@pytest.mark.parametrize("tokens", [np.zeros((4, 3)), np.ones((4, 1)), np.ones((1, 3))])
def test_degenerate_prompts_have_a_temperature(tokens):
    c = signal_temperature(tokens)
    assert np.isfinite(c)
    np.testing.assert_allclose(in_context_attention(tokens, c), tokens, atol=1e-12)
