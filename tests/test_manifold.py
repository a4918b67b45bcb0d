import numpy as np
import pytest
from scipy.linalg import polar as scipy_polar

from attnclust.manifold import (
    alignment,
    match,
    normalize,
    polar,
    random_heads,
    random_orthonormal,
    retract,
    tangent,
)


@pytest.fixture
def heads(rng):
    return random_heads(rng, (4, 3, 6))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_random_heads_are_unit_and_uniform(rng):
    heads = random_heads(rng, (20_000, 3))
    np.testing.assert_allclose(np.linalg.norm(heads, axis=-1), 1)
    # Each coordinate of a uniform point on the sphere in R^3 has mean 0 and variance 1/3.
    assert (np.abs(heads.mean(0)) < 4 * np.sqrt(1 / 3 / 20_000)).all()
    np.testing.assert_allclose((heads**2).mean(0), 1 / 3, atol=4 * np.sqrt(4 / 45 / 20_000))


def test_tangent_is_the_orthogonal_projection(rng, heads):
    gradient = rng.standard_normal(heads.shape)
    flat = tangent(heads, gradient)
    np.testing.assert_allclose((flat * heads).sum(-1), 0, atol=1e-14)
    np.testing.assert_allclose(tangent(heads, flat), flat, atol=1e-14)
    np.testing.assert_allclose(((gradient - flat) * flat).sum(-1), 0, atol=1e-14)


def test_retraction_is_first_order(rng, heads):
    step = tangent(heads, rng.standard_normal(heads.shape))
    errors = [np.linalg.norm(retract(heads, t * step) - heads - t * step) for t in (1e-2, 1e-3)]
    assert 80 < errors[0] / errors[1] < 120
    np.testing.assert_allclose(np.linalg.norm(retract(heads, 5 * step), axis=-1), 1)


@pytest.mark.parametrize("step", [-1.0, np.nan])
def test_a_head_without_direction_is_an_error(step):
    with pytest.raises(ValueError, match="vector 0, 1 has length"):
        retract(np.ones((1, 2, 3)), np.stack([np.zeros((1, 3)), np.full((1, 3), step)], 1))
    with pytest.raises(ValueError, match="no direction"):
        normalize(np.zeros(3))


def test_polar_agrees_with_scipy_and_is_batched(rng):
    A = rng.standard_normal((5, 3, 6))
    np.testing.assert_allclose(polar(A), [scipy_polar(one, "left")[0] for one in A], atol=1e-12)
    assert polar(A.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_polar_of_a_matrix_without_full_rank_is_orthonormal(rng, rank):
    A = rng.standard_normal((3, rank)) @ rng.standard_normal((rank, 6))
    frame = polar(A)
    np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-12)
    # Still a nearest frame: tr(frame A^T) is the nuclear norm.
    np.testing.assert_allclose((frame * A).sum(), np.linalg.norm(A, "nuc"), atol=1e-12)


def test_polar_refuses_nan():
    with pytest.raises(np.linalg.LinAlgError):
        polar(np.full((2, 3), np.nan))


def test_random_frames_are_orthonormal(rng):
    frames = random_orthonormal(rng, 3, 5, (7,))
    gram = frames @ np.swapaxes(frames, -1, -2)
    np.testing.assert_allclose(gram, np.broadcast_to(np.eye(3), gram.shape), atol=1e-12)
    with pytest.raises(ValueError, match="dimension 2"):
        random_orthonormal(rng, 3, 2)


@pytest.mark.parametrize(("n_heads", "n_clusters"), [(2, 4), (3, 3), (4, 2)])
def test_alignment_finds_shuffled_signed_scaled_centres(rng, n_heads, n_clusters):
    frames = random_orthonormal(rng, 4, 6, (5,))
    order = rng.permutation(n_clusters)
    centroids = 3 * frames[:, :n_clusters][:, order] * rng.choice([-1, 1], (5, n_clusters, 1))
    found = alignment(frames[:, :n_heads], centroids)
    assert found.shape == (5, min(n_heads, n_clusters))
    np.testing.assert_allclose(found, 1)


def test_alignment_is_the_best_over_all_matchings(rng):
    from itertools import permutations

    heads, centroids = random_heads(rng, (4, 3)), random_heads(rng, (4, 3))
    cosine = np.abs(heads @ centroids.T)
    best = max(cosine[range(4), list(p)].sum() for p in permutations(range(4)))
    np.testing.assert_allclose(alignment(heads, centroids).sum(), best)


def test_a_zero_head_is_aligned_with_nothing():
    np.testing.assert_array_equal(alignment(np.eye(2, 3) * [[1], [0]], np.eye(3)), [1, 0])
    with pytest.raises(ValueError, match="invalid"):
        alignment(np.full((1, 2), np.nan), np.eye(2))


def test_match_undoes_shuffles_and_signs(rng):
    frames = random_orthonormal(rng, 3, 6, (5,))
    order, sides = rng.permutation(3), rng.choice([-1, 1], (5, 3, 1))
    np.testing.assert_array_equal(match((sides * frames)[:, order], 3 * frames), frames)
    surplus = np.concatenate([frames[0], random_heads(rng, (2, 6))])
    np.testing.assert_array_equal(match(surplus, frames[0]), frames[0])
    np.testing.assert_allclose(
        (match(frames, frames[0]) * frames[0]).sum(-1).sum(-1), alignment(frames, frames[0]).sum(-1)
    )
    with pytest.raises(ValueError, match="2 heads cannot"):
        match(np.eye(2, 3), np.eye(3))
