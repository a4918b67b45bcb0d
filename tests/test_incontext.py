import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score as ari

from attnclust.incontext import _fixed_point, _normalize, cluster_prompts
from attnclust.refinement import Clusters, Geometry, maximization, told
from attnclust.refinement import expectation as e_step
from attnclust.tokens import Tokens


def draw(batch, length, dim, k, sigma, seed=0, dtype=np.float64):
    """Prompts, each with its own random unit centres."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((batch, k, dim))
    centres /= np.linalg.norm(centres, axis=2, keepdims=True)
    labels = rng.integers(0, k, (batch, length))
    tokens = np.take_along_axis(centres, labels[..., None], 1)
    tokens = tokens + sigma * rng.standard_normal(tokens.shape)
    return tokens.astype(dtype), labels, centres


def fit(tokens, k, present=None, **options):
    present = np.ones(tokens.shape[:2], tokens.dtype) if present is None else present
    return cluster_prompts(tokens, present, k, np.random.default_rng(0), **options)


@pytest.mark.parametrize("shape", [(60, 200, 16, 4, 0.12), (60, 30, 100, 3, 0.03)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_prompt_is_solved_nearly_as_by_its_own_bayes_rule(shape, dtype):
    tokens, labels, centres = draw(*shape, dtype=dtype)
    found = fit(tokens, shape[3])
    assert found.centroids.dtype == dtype
    bayes = (tokens @ centres.swapaxes(1, 2) - 0.5 * (centres**2).sum(2)[:, None]).argmax(2)
    ours = np.mean([ari(y, p) for y, p in zip(labels, found.labels, strict=True)])
    best = np.mean([ari(y, p) for y, p in zip(labels, bayes, strict=True)])
    assert ours > best - 0.01


def test_normalised_second_moments_are_the_identity_plus_the_noise():
    for length, dim in ((50, 8), (20, 40)):  # either Gram side
        y, _, _ = draw(5, length, dim, 3, 0.2)
        y = y - y.mean(1, keepdims=True)
        share = np.full(y.shape[:2], 1 / length)
        _, _, _, z, noise, back, variance, _ = _normalize(y, share, 3)
        for b in range(5):
            values = np.linalg.eigvalsh(y[b].T @ y[b] / length)[::-1]
            assert variance[b] == pytest.approx(values[2:].sum() / (dim - 2))
            want = np.eye(3) + np.diag(noise[b])
            np.testing.assert_allclose(z[b].T @ z[b] / length, want, atol=1e-9)
            signal = np.diag(values[:2] - variance[b])
            np.testing.assert_allclose(back[b] @ back[b].T, signal, atol=1e-9)


def test_the_batched_fixed_point_equals_the_one_of_the_large_fit():
    from attnclust.contrast import fixed_point

    y, _, _ = draw(4, 300, 8, 3, 0.2)
    y = y - y.mean(1, keepdims=True)
    share = np.full(y.shape[:2], 1 / 300)
    keys = _normalize(y, share, 3)
    z, noise = keys.z, keys.noise
    heads, _, quality = _fixed_point(z, share, noise, np.random.default_rng(0), 30)
    for b in range(4):
        alone = fixed_point(z[b], np.ones(300), noise[b], np.random.default_rng(5))
        np.testing.assert_allclose(np.abs(alone.heads @ heads[b].T).max(0), 1, atol=2e-3)
        assert quality[b] == pytest.approx(alone.quality[-1], abs=2e-2)


def test_the_likelihood_is_that_of_the_mixture_and_at_rest():
    tokens, _, _ = draw(5, 100, 6, 3, 0.3)
    found = fit(tokens, 3, max_iter=400, tol=1e-12)
    for b in range(5):
        rows = Tokens(tokens[b])
        clusters = Clusters(found.centroids[b], found.weights[b], float(found.noise_variance[b]))
        assert found.log_likelihood[b] == pytest.approx(told(rows, clusters).log_density.mean())
        geometry = Geometry(rows.mean_square(), 1e-12)
        after = maximization(clusters, e_step(rows, clusters, geometry), geometry)
        np.testing.assert_allclose(after.centroids, clusters.centroids, atol=1e-3)
        assert after.noise_variance == pytest.approx(clusters.noise_variance, rel=1e-3)


def test_padding_and_company_change_nothing():
    tokens, _, _ = draw(6, 80, 6, 3, 0.2)
    present = np.ones((6, 80))
    for b in range(6):
        present[b, 80 - 5 * b :] = 0
    tokens[present == 0] = 1e3
    together = fit(tokens, 3, present, tol=1e-9, max_iter=300)
    for b in range(6):
        alone = fit(tokens[b : b + 1, : 80 - 5 * b], 3, tol=1e-9, max_iter=300)
        np.testing.assert_allclose(together.centroids[b], alone.centroids[0], atol=1e-5)
        np.testing.assert_array_equal(together.labels[b, : 80 - 5 * b], alone.labels[0])


def test_one_cluster_and_equal_tokens():
    tokens, _, _ = draw(3, 20, 4, 2, 0.3)
    one = fit(tokens, 1)
    np.testing.assert_allclose(one.centroids[:, 0], tokens.mean(1), atol=1e-12)
    assert np.isfinite(fit(np.ones((2, 10, 4)), 2).centroids).all()
