import numpy as np
import pytest

from attnclust.moments import Spectrum, spectrum
from attnclust.normalization import normalize
from attnclust.tokens import Tokens


def orthonormality_error(blobs, n, *, lift, weights, seed=0):
    """Distance of sqrt(w_j) W^T m_j from orthonormal, and the relative error of the noise level."""
    X, _, centres = blobs(n, 12, 4, 0.3, seed=seed, weights=weights)
    tokens = Tokens(X)
    normal = normalize(spectrum(tokens, 4, np.random.default_rng(0)), 4, lift=lift)
    z = normal.project(Tokens(centres)) * np.sqrt(weights)[:, None]
    return np.abs(z @ z.T - np.eye(4)).max(), abs(normal.noise_variance / 0.09 - 1)


@pytest.mark.parametrize("lift", [True, False])
@pytest.mark.parametrize("weights", [[0.25] * 4, [0.4, 0.3, 0.2, 0.1]])
def test_normalised_true_centres_become_orthonormal_like_one_over_root_n(blobs, lift, weights):
    few = np.median(
        [
            orthonormality_error(blobs, 2_000, lift=lift, weights=weights, seed=s)[0]
            for s in range(5)
        ]
    )
    many, noise = np.median(
        [
            orthonormality_error(blobs, 200_000, lift=lift, weights=weights, seed=s)
            for s in range(5)
        ],
        axis=0,
    )
    assert many < 0.05
    assert 4 < few / many < 25  # ten in expectation
    assert noise < 0.02


def test_noise_covariance_and_second_moment_in_z(blobs):
    X, labels, centres = blobs(100_000, 10, 3, 0.2)
    tokens = Tokens(X)
    normal = normalize(spectrum(tokens, 3, np.random.default_rng(0)), 3)
    z = normal.project(tokens)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(3) + np.diag(normal.noise), atol=1e-6)
    rest = z - normal.project(Tokens(centres))[labels]
    np.testing.assert_allclose(rest.T @ rest / len(z), np.diag(normal.noise), atol=0.02)


def test_heads_at_the_normalised_centres_map_back_to_the_centres(blobs):
    X, _, centres = blobs(100_000, 10, 3, 0.2)
    normal = normalize(spectrum(Tokens(X), 3, np.random.default_rng(0)), 3)
    z = normal.project(Tokens(centres))
    length = np.linalg.norm(z, axis=1)
    for sign in (1, -1):
        back = normal.centroids(sign * z / length[:, None], sign / length)
        np.testing.assert_allclose(back, centres, atol=0.02)


def test_the_lift_is_never_worse_conditioned(blobs):
    for seed in range(30):
        X, _, _ = blobs(2_000, 8, 4, 0.2, seed=seed)
        seen = spectrum(Tokens(X + seed / 10), 8, np.random.default_rng(0))
        signal = [normalize(seen, 4, lift=lift).values[-1] for lift in (True, False)]
        noise = [normalize(seen, 4, lift=lift).noise_variance for lift in (True, False)]
        assert signal[0] + noise[0] >= (signal[1] + noise[1]) * (1 - 1e-9)


def test_without_the_lift_the_eigenpairs_are_those_of_the_second_moment(blobs):
    X, _, _ = blobs(5_000, 9, 3, 0.2)
    normal = normalize(spectrum(Tokens(X), 9, np.random.default_rng(0)), 3, lift=False)
    values = np.linalg.eigvalsh(X.T @ X / len(X))[::-1]
    np.testing.assert_allclose(normal.values + normal.noise_variance, values[:3], rtol=1e-9)
    assert normal.noise_variance == pytest.approx(values[3:].mean())


def test_the_origin_may_lie_anywhere_in_the_frame(blobs):
    X, _, _ = blobs(5_000, 9, 3, 0.2)
    shift, rng = X.mean(0), np.random.default_rng(0)
    there = normalize(spectrum(Tokens(X), 9, rng), 3, lift=False)
    moved = Tokens(X, shift=shift, unit=2.0)
    here = normalize(spectrum(moved, 9, rng), 3, lift=False, origin=moved.origin)
    np.testing.assert_allclose(here.values, there.values / 4)
    np.testing.assert_allclose(
        np.abs(here.project(moved)), np.abs(there.project(Tokens(X))), atol=1e-6
    )


def test_opposite_centres_need_the_lift():
    rng = np.random.default_rng(0)
    centre = np.r_[1.0, np.zeros(5)]
    X = np.where(rng.random((20_000, 1)) < 0.5, centre, -centre) + 0.2 * rng.standard_normal(
        (20_000, 6)
    )
    seen = spectrum(Tokens(X), 6, rng)
    assert normalize(seen, 2).conditioning > 10
    assert normalize(seen, 2, lift=False).conditioning < 0.1


def test_more_directions_than_features_are_refused():
    seen = Spectrum(np.zeros(2), np.ones(2), np.eye(2), 2.0)
    with pytest.raises(ValueError, match="more than the 2 features"):
        normalize(seen, 4)
