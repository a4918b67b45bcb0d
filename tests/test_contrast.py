import numpy as np
import pytest

from attnclust.contrast import contrast_gradient, fixed_point
from attnclust.manifold import polar, random_orthonormal


def normalised_mixture(n, weights, noise, seed):
    """Tokens z whose centres are e_j / sqrt(w_j), turned at random, plus noise of diagonal cov."""
    rng = np.random.default_rng(seed)
    k = len(weights)
    turn = random_orthonormal(rng, k, k)
    labels = rng.choice(k, n, p=weights)
    centres = turn / np.sqrt(weights)[:, None]
    return centres[labels] + np.sqrt(noise) * rng.standard_normal((n, k)), turn


@pytest.mark.parametrize("order", [3, 4])
def test_the_gradient_is_that_of_the_denoised_contrast(order):
    rng = np.random.default_rng(0)
    z, weights = rng.standard_normal((200, 4)) + 0.3, rng.random(200)
    weights /= weights.sum()
    noise, heads = rng.random(4), polar(rng.standard_normal((4, 4)))
    mean = weights @ z

    def contrast(heads):
        u, q = z @ heads.T, (heads**2) @ noise
        if order == 3:
            return (weights @ u**3 - 3 * q * (heads @ mean)).sum()
        # On the sphere only: 3 |mu|^2 q keeps the gradient's 3 q mu.
        square = (heads**2).sum(1)
        return (weights @ u**4 - 6 * q * square - 3 * q**2).sum()

    gradient, mean_score = contrast_gradient(z, weights, noise, heads, order)
    numeric = np.empty_like(heads)
    for place in np.ndindex(heads.shape):
        step = np.zeros_like(heads)
        step[place] = 1e-5
        numeric[place] = (contrast(heads + step) - contrast(heads - step)) / 2e-5
    np.testing.assert_allclose(order * gradient, numeric, atol=1e-8)
    np.testing.assert_allclose(mean_score, heads @ mean)


@pytest.mark.parametrize("order", [3, 4])
def test_denoised_moments_at_the_centres_are_powers_of_the_weights(order):
    weights, noise = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.5, 1.0])
    moments, means = [], []
    for seed in range(40):
        z, turn = normalised_mixture(5_000, weights, noise, seed)
        gradient, mean = contrast_gradient(z, np.full(len(z), 1 / len(z)), noise, turn, order)
        moments.append((gradient * turn).sum(1))
        means.append(mean)
    error = 4 * np.std(moments, axis=0, ddof=1) / np.sqrt(40)
    assert (np.abs(np.mean(moments, axis=0) - weights ** (1 - order / 2)) < error).all()
    error = 4 * np.std(means, axis=0, ddof=1) / np.sqrt(40)
    assert (np.abs(np.mean(means, axis=0) - np.sqrt(weights)) < error).all()


@pytest.mark.parametrize("order", [3, 4])
def test_the_centres_are_found_from_every_start(order):
    weights, noise = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.3, 0.6, 1.0])
    z, turn = normalised_mixture(100_000, weights, noise, 0)
    for seed in range(50):
        fit = fixed_point(z[::10], np.ones(10_000), noise, np.random.default_rng(seed), order=order)
        matched = (fit.heads @ turn.T).max(0)
        assert matched.min() > (0.98 if order == 3 else 0.9)
        if order == 3:
            assert fit.quality[-1] == pytest.approx(1, abs=0.1)
            np.testing.assert_allclose(np.sort(fit.weights), np.sort(weights), atol=0.03)


def test_without_the_noise_part_removed_strong_noise_turns_the_heads():
    weights, noise = np.array([0.5, 0.5]), np.array([0.1, 2.0])
    z, turn = normalised_mixture(200_000, weights, noise, 3)
    apart = [
        (fixed_point(z, np.ones(len(z)), n, np.random.default_rng(0), order=4).heads @ turn.T)
        .__abs__()
        .max(0)
        .min()
        for n in (noise, np.zeros(2))
    ]
    assert apart[0] > 0.99
    assert apart[1] < 0.95


def test_heads_that_are_not_at_the_centres_are_seen_and_other_starts_tried():
    """Cut off after one step, starts are bad: each is seen to be, and the best is kept."""
    k = 12
    z = np.sqrt(k) * np.eye(k)
    arguments = z, np.ones(k), np.zeros(k)
    cut = fixed_point(*arguments, np.random.default_rng(0), max_iter=1)
    assert len(cut.quality) == 5
    assert (np.abs(cut.quality - 1) > 0.1).all()
    whole = fixed_point(*arguments, np.random.default_rng(0))
    assert len(whole.quality) == 1
    np.testing.assert_allclose(whole.heads.max(1), 1, atol=1e-6)


def test_two_starts_that_agree_end_the_search():
    """No such mixture, yet one optimum: coordinates that are skewed each by itself."""
    rng = np.random.default_rng(0)
    z = rng.gamma(9, size=(4000, 3))
    z /= np.sqrt((z * z).mean(0))
    fit = fixed_point(z, np.ones(4000), np.zeros(3), rng)
    assert fit.quality[-1] < 0.9
    assert len(fit.quality) < 5
    assert min(abs(q - fit.quality[-1]) for q in fit.quality[:-1]) < 0.01


def test_a_contrast_above_its_promise_asks_for_no_other_start():
    rng = np.random.default_rng(0)
    fit = fixed_point(rng.exponential(size=(4000, 3)), np.ones(4000), np.zeros(3), rng)
    assert len(fit.quality) == 1
    assert fit.quality[0] > 1.1


def test_a_contrast_that_stands_still_ends_a_start_though_heads_go_on_turning():
    """Two of the directions are Gaussian: nothing tells one turn of their heads from another."""
    rng = np.random.default_rng(0)
    z = np.column_stack(
        [np.sqrt(3) * np.eye(3)[rng.integers(3, size=3000)], rng.normal(size=(3000, 2))]
    )
    fit = fixed_point(z, np.ones(3000), np.r_[0, 0, 0, 1, 1], rng)
    assert fit.n_iter < 30
    assert np.sort(np.abs(fit.heads[:, :3]).max(0)).min() > 0.99


def test_row_weights_are_repeated_rows():
    z, _ = normalised_mixture(300, np.array([0.5, 0.3, 0.2]), np.full(3, 0.1), 1)
    w = np.random.default_rng(0).integers(0, 4, 300)
    a = fixed_point(z, w, np.full(3, 0.1), np.random.default_rng(0))
    b = fixed_point(np.repeat(z, w, 0), np.ones(w.sum()), np.full(3, 0.1), np.random.default_rng(0))
    np.testing.assert_allclose(a.heads, b.heads, atol=1e-9)
