import numpy as np
import pytest

from attnclust.moments import Spectrum
from attnclust.selection import noise_edge


def _seen(X):
    values = np.linalg.eigvalsh(np.atleast_2d(np.cov(X.T, bias=True)))[::-1]
    return Spectrum(X.mean(0), values, np.eye(X.shape[1]), float(values.sum()))


@pytest.mark.parametrize(("n", "d"), [(2000, 20), (500, 400), (200, 800)])
def test_noise_stays_below_its_edge_and_close_to_it(n, d):
    rng = np.random.default_rng(0)
    for _ in range(3):
        X = 3 * rng.standard_normal((n, d))
        noise, edge = noise_edge(_seen(X), n)
        top = np.linalg.eigvalsh(np.atleast_2d(np.cov(X.T, bias=True)))[-1]
        assert noise == pytest.approx(9, rel=0.05)
        assert edge > top > 0.8 * edge


def test_directions_above_the_edge_do_not_raise_the_noise():
    X = np.random.default_rng(0).standard_normal((4000, 30))
    X[:, :5] *= [40, 20, 10, 5, 3]
    noise, edge = noise_edge(_seen(X), len(X))
    assert noise == pytest.approx(1, rel=0.02)
    assert 1 < edge < 1.4


def test_one_feature_is_all_noise():
    noise, edge = noise_edge(_seen(np.random.default_rng(0).standard_normal((100, 1))), 100)
    assert edge > noise
