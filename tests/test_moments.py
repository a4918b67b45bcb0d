from functools import reduce
from operator import add

import numpy as np
import pytest
import scipy.sparse as sp

import attnclust.tokens as tokens_module
from attnclust.moments import Moments, spectrum
from attnclust.tokens import Tokens


def close(a: Moments, b: Moments, rtol: float = 1e-12) -> None:
    assert a.count == pytest.approx(b.count)
    np.testing.assert_allclose(a.mean, b.mean, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(a.scatter, b.scatter, rtol=rtol, atol=rtol * a.count)


def test_merges_are_associative_and_equal_the_one_shot_result():
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((300, 6)) + 10, rng.integers(0, 4, 300).astype(float)
    cuts = [slice(0, 7), slice(7, 150), slice(150, 151), slice(151, 300)]
    a, b, c, d = (Moments.of(Tokens(X[s], w[s])) for s in cuts)
    whole = Moments.of(Tokens(X, w))
    close((a + b) + (c + d), whole)
    close(a + (b + (c + d)), whole)
    close(reduce(add, [d, b, c, a]), whole)
    np.testing.assert_allclose(whole.covariance, np.cov(X.T, bias=True, fweights=w.astype(int)))


def test_the_empty_part_changes_nothing():
    X = np.random.default_rng(1).standard_normal((20, 3))
    whole = Moments.of(Tokens(X))
    empty = Moments.of(Tokens(X[:5], np.zeros(5)))
    close(whole + empty, whole)
    close(empty + whole, whole)


def test_tile_size_does_not_matter(monkeypatch):
    X = np.random.default_rng(2).standard_normal((1000, 8))
    whole = Moments.of(Tokens(X))
    monkeypatch.setattr(tokens_module, "TILE_ELEMENTS", 1)
    close(Moments.of(Tokens(X)), whole)


def test_an_offset_costs_single_precision_no_more_than_it_cost_the_rows():
    X = (np.random.default_rng(3).standard_normal((5000, 4)) + 1e3).astype(np.float32)
    want = np.cov(X.T.astype(np.float64), bias=True)
    np.testing.assert_allclose(Moments.of(Tokens(X)).covariance, want, atol=1e-5)
    raw = X.T @ X / 5000 - np.outer(X.mean(0), X.mean(0))
    assert np.abs(raw - want).max() > 1e-3  # what an uncentred sum would have lost


@pytest.mark.parametrize("offset", [0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_error_is_within_the_stated_bound_whatever_the_offset(offset, dtype):
    spread = np.array([1.0, 10, 100, 1])
    X = np.random.default_rng(3).standard_normal((50_000, 4)) * spread
    X = (X + offset * spread).astype(dtype)
    exact = X.astype(np.longdouble)
    exact -= exact.mean(0)
    error = np.abs(Moments.of(Tokens(X)).covariance - exact.T @ exact / 50_000)
    assert (error <= np.sqrt(50_000) * np.finfo(dtype).eps * np.outer(spread, spread)).all()


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_subspace_iteration_finds_the_leading_eigenpairs(form, monkeypatch):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((400, 60)) * np.r_[9:4:5j, np.ones(55)] + 3
    w = rng.random(400)
    if form == "dense":
        monkeypatch.setattr("attnclust.moments.DENSE_LIMIT", 10)
    found = spectrum(Tokens(X if form == "dense" else sp.csr_matrix(X), w), 5, rng)
    cov = np.cov(X.T, aweights=w, bias=True)
    values, axes = np.linalg.eigh(cov)
    np.testing.assert_allclose(found.values, values[::-1][:5], rtol=1e-6)
    np.testing.assert_allclose(np.abs((found.axes * axes[:, ::-1][:, :5]).sum(0)), 1, rtol=1e-5)
    assert found.trace == pytest.approx(np.trace(cov))
    assert found.trailing_mean(5) == pytest.approx(values[:55].mean(), rel=1e-6)


def test_the_frame_moves_the_spectrum_as_it_moves_the_rows():
    rng = np.random.default_rng(5)
    X, shift = rng.standard_normal((100, 4)), rng.standard_normal(4)
    plain = spectrum(Tokens(X), 2, rng)
    framed = spectrum(Tokens(X, shift=shift, unit=2.0), 2, rng)
    np.testing.assert_allclose(framed.values, plain.values / 4)
    np.testing.assert_allclose(framed.mean, (plain.mean - shift) / 2, atol=1e-14)
