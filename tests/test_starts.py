import numpy as np
import pytest

from attnclust.manifold import random_orthonormal, tangent
from attnclust.starts import leave_manifold, manifold_heads, token_heads


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def constraints(heads, centroids):
    """What vanishes on the manifold, K = any: <mu_h, m_g>, and <v_h, v_g> for h < g."""
    k = centroids.shape[-2]
    cross = heads @ np.swapaxes(centroids, -1, -2)
    v = heads - cross @ centroids
    off = ~np.eye(k, dtype=bool)
    upper = np.triu_indices(k, 1)
    return np.concatenate(
        [cross[..., off], (v @ np.swapaxes(v, -1, -2))[..., upper[0], upper[1]]], axis=-1
    )


@pytest.mark.parametrize("k", [2, 3])
def test_starts_on_the_manifold_satisfy_its_equations(rng, k):
    centroids = random_orthonormal(rng, k, 7, (50,))
    heads = manifold_heads(rng, centroids, 0.2)
    np.testing.assert_allclose(constraints(heads, centroids), 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(heads, axis=-1), 1)
    alpha = (heads * centroids).sum(-1)
    assert (np.abs(alpha) >= 0.2).all()
    assert (alpha < 0).any()
    assert (alpha > 0).any()


@pytest.mark.parametrize("k", [2, 3])
def test_leaving_it_is_normal_to_it_and_as_far_as_asked(rng, k):
    centroids = random_orthonormal(rng, k, 8, (20,))
    heads = manifold_heads(rng, centroids, 0.1)
    moved = leave_manifold(rng, heads, centroids, 0.3)
    np.testing.assert_allclose(np.linalg.norm(moved, axis=-1), 1)
    angles = np.arccos((moved * heads).sum(-1).clip(-1, 1))
    np.testing.assert_allclose(np.linalg.norm(angles, axis=-1), 0.3)
    # Normal: orthogonal to every direction that keeps the constraints, found by differences.
    step = 1e-6
    normal = (leave_manifold(rng, heads, centroids, step) - heads) / step
    for run in range(5):
        directions = tangent(heads[run], rng.standard_normal((200, k, 8)))
        slopes = (constraints(heads[run] + 1e-6 * directions, centroids[run])) / 1e-6
        null = np.linalg.svd(slopes.T)[2][slopes.shape[1] :]
        kept = np.tensordot(null, directions, 1)
        np.testing.assert_allclose(np.tensordot(kept, normal[run], 2), 0, atol=1e-3)
    np.testing.assert_allclose(leave_manifold(rng, heads, centroids, 0.0), heads, atol=1e-12)


def test_token_heads_are_directions_of_tokens_far_apart(rng):
    tokens = np.eye(4)[rng.integers(0, 3, (5, 40))] * 2.0
    heads = token_heads(rng, tokens, 3)
    np.testing.assert_array_equal(np.sort(heads.argmax(-1), axis=-1), [[0, 1, 2]] * 5)
    np.testing.assert_array_equal(heads.max(-1), 1)


def test_bad_starts_are_refused(rng):
    with pytest.raises(ValueError, match="dimension 3 has 1"):
        manifold_heads(rng, np.eye(3)[:2])
    with pytest.raises(ValueError, match="orthonormal centres: these are not"):
        manifold_heads(rng, 2 * np.eye(5)[:2])
    with pytest.raises(ValueError, match="not negative"):
        leave_manifold(rng, np.eye(5)[:2], np.eye(5)[:2], -0.1)
    with pytest.raises(ValueError, match="2 tokens cannot start 3 heads"):
        token_heads(rng, np.eye(2), 3)
