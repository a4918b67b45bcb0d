import numpy as np
import pytest

from attnclust.attention import linear_attention
from attnclust.manifold import random_heads, random_orthonormal
from attnclust.objective import (
    REGULARIZERS,
    reconstruction,
    reconstruction_gradient,
    reconstruction_risk,
    second_moment,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def finite_difference(function, heads, step=1e-5):
    gradient = np.empty_like(heads)
    for place in np.ndindex(heads.shape):
        moved = np.zeros_like(heads)
        moved[place] = step
        gradient[place] = (function(heads + moved) - function(heads - moved)) / (2 * step)
    return gradient


@pytest.mark.parametrize(("n_heads", "length", "dim"), [(1, 4, 6), (3, 30, 5), (4, 7, 3)])
def test_gradients_equal_autograd_through_the_explicit_layer(rng, n_heads, length, dim):
    torch = pytest.importorskip("torch")
    tokens, heads = rng.standard_normal((6, length, dim)), rng.standard_normal((n_heads, dim))
    X, A = torch.tensor(tokens), torch.tensor(heads, requires_grad=True)
    scores = X @ A.T @ A @ X.transpose(-1, -2)
    risk = ((X - 0.3 / length * scores @ X) ** 2).sum(-1).mean()
    S = second_moment(tokens)
    np.testing.assert_allclose(reconstruction_risk(S, heads, 0.3), risk.item())
    (expected,) = torch.autograd.grad(risk, A)
    np.testing.assert_allclose(
        reconstruction_gradient(S, heads, 0.3), expected, rtol=1e-10, atol=1e-10
    )
    (expected,) = torch.autograd.grad((X @ A.T).square().prod(-1).mean(), A)
    rows = tokens.reshape(-1, dim)
    np.testing.assert_allclose(
        REGULARIZERS["product"].gradient(rows @ heads.T, rows), expected, rtol=1e-10, atol=1e-12
    )


def test_the_risk_is_the_error_of_the_layer(rng):
    tokens, heads = rng.standard_normal((6, 9, 4)), random_heads(rng, (2, 4))
    error = ((tokens - linear_attention(tokens, heads, 0.8)) ** 2).sum(-1).mean()
    np.testing.assert_allclose(reconstruction_risk(second_moment(tokens), heads, 0.8), error)


def test_the_gradient_agrees_with_finite_differences(rng):
    S, heads = second_moment(rng.standard_normal((3, 9, 4))), random_heads(rng, (2, 4))
    numeric = finite_difference(lambda A: reconstruction_risk(S, A, 0.8), heads)
    np.testing.assert_allclose(reconstruction_gradient(S, heads, 0.8), numeric, atol=1e-8)


# One shape for each of the two routes.
@pytest.mark.parametrize(("n_heads", "length", "dim"), [(2, 30, 5), (2, 5, 30)])
def test_the_route_through_tokens_equals_the_route_through_moments(rng, n_heads, length, dim):
    tokens, heads = rng.standard_normal((3, 6, length, dim)), random_heads(rng, (3, n_heads, dim))
    scales = np.array([0.2, 0.5, 1.0])
    risk, gradient = reconstruction(tokens, heads, scales)
    S = second_moment(tokens)
    np.testing.assert_allclose(risk, reconstruction_risk(S, heads, scales))
    np.testing.assert_allclose(gradient, reconstruction_gradient(S, heads, scales), atol=1e-10)


def test_the_risk_sees_tokens_through_their_second_moment_only(rng):
    tokens = rng.standard_normal((1, 8, 4))
    turned = random_orthonormal(rng, 8, 8) @ tokens  # mixes tokens, keeps X^T X
    heads = random_heads(rng, (2, 4))
    for one, other in zip(
        reconstruction(tokens, heads, 0.7), reconstruction(turned, heads, 0.7), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_orthonormal_heads_may_turn_within_their_span_at_no_cost(rng):
    S, heads = second_moment(rng.standard_normal((5, 9, 6))), random_orthonormal(rng, 3, 6)
    turned = random_orthonormal(rng, 3, 3) @ heads
    np.testing.assert_allclose(
        reconstruction_risk(S, heads, 0.7), reconstruction_risk(S, turned, 0.7)
    )


@pytest.mark.parametrize("n_heads", [1, 2, 3, 5])
@pytest.mark.parametrize("name", REGULARIZERS)
def test_regularizers_equal_their_definitions(rng, name, n_heads):
    tokens, heads = rng.standard_normal((40, 4)), random_heads(rng, (n_heads, 4))

    def definition(A):
        q = (tokens @ A.T) ** 2
        if name == "product":
            return q.prod(1).mean()
        return sum((q[:, g] * q[:, h]).mean() for h in range(n_heads) for g in range(h))

    value, gradient = REGULARIZERS[name]
    u = tokens @ heads.T
    np.testing.assert_allclose(value(u), definition(heads), rtol=1e-12)
    numeric = finite_difference(definition, heads)
    np.testing.assert_allclose(gradient(u, tokens), numeric, atol=1e-8)


def test_pairwise_and_product_agree_for_two_heads(rng):
    tokens = rng.standard_normal((40, 4))
    u = tokens @ random_heads(rng, (2, 4)).T
    pairwise, product = REGULARIZERS.values()
    np.testing.assert_allclose(pairwise.value(u), product.value(u))
    np.testing.assert_allclose(pairwise.gradient(u, tokens), product.gradient(u, tokens))


def test_the_product_has_a_gradient_where_scores_are_zero():
    tokens, u = np.eye(3), np.array([[0.0, 2.0], [1.0, 1.0], [0.0, 0.0]])
    gradient = REGULARIZERS["product"].gradient(u, tokens)
    np.testing.assert_allclose(gradient, np.array([[0, 2, 0], [0, 2, 0]]) / 3)


@pytest.mark.parametrize("name", REGULARIZERS)
def test_seeds_in_a_batch_do_not_meet_and_precision_is_kept(rng, name):
    tokens = rng.standard_normal((3, 4, 10, 5)).astype(np.float32)
    heads = random_heads(rng, (3, 2, 5)).astype(np.float32)
    risk, gradient = reconstruction(tokens, heads, 0.7)
    assert risk.dtype == gradient.dtype == np.float32
    flat = tokens.reshape(3, 40, 5)
    u = flat @ np.swapaxes(heads, -1, -2)
    pull = REGULARIZERS[name].gradient(u, flat)
    assert pull.dtype == np.float32
    for s in range(3):
        alone, slope = reconstruction(tokens[s], heads[s], 0.7)
        assert alone.dtype == REGULARIZERS[name].value(u[s]).dtype == np.float32
        np.testing.assert_allclose(risk[s], alone, rtol=1e-5)
        np.testing.assert_allclose(gradient[s], slope, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(pull[s], REGULARIZERS[name].gradient(u[s], flat[s]), rtol=1e-4)
