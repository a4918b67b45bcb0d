import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import attnclust.tokens as tokens_module
from attnclust.tokens import Tokens, power_of_two, row_norms, unit_rows


@pytest.fixture(params=["dense", "sparse"])
def framed(request):
    """Tokens in a frame with every part in use, and the rows they stand for."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 7)) * (rng.random((50, 7)) < 0.5)
    scale, shift, unit = rng.random(50) + 0.5, rng.standard_normal(7), 4.0
    rows = np.arange(0, 50, 2)
    view = Tokens(
        X if request.param == "dense" else sp.csr_matrix(X),
        rng.random(50),
        scale,
        shift,
        unit,
        rows,
    )
    return view, ((X * scale[:, None] - shift) / unit)[rows]


def test_products_equal_those_of_explicit_rows(framed):
    tokens, Y = framed
    rng = np.random.default_rng(1)
    tile = tokens.part(slice(None))
    A, bias, P = rng.standard_normal((3, 7)), rng.standard_normal(3), rng.random((3, 25))
    labels, values = rng.integers(0, 3, 25), rng.standard_normal(25)
    np.testing.assert_allclose(tile.scores(A, bias), A @ Y.T + bias[:, None], atol=1e-12)
    np.testing.assert_allclose(tile.sums(P), P @ Y, atol=1e-12)
    np.testing.assert_allclose(tile.own_scores(A, labels), (Y * A[labels]).sum(1), atol=1e-12)
    own = [(values[labels == k] @ Y[labels == k]) for k in range(3)]
    np.testing.assert_allclose(tile.own_sums(values, labels, 3), own, atol=1e-12)
    np.testing.assert_allclose(tile.square_lengths(), (Y**2).sum(1), atol=1e-12)
    np.testing.assert_allclose(tile.dense(), Y, atol=1e-12)
    w = tokens.row_weights()
    np.testing.assert_allclose(tokens.mean_square(), w @ (Y**2).sum(1) / w.sum())


def test_tiles_cover_the_rows_in_order(framed, monkeypatch):
    tokens, Y = framed
    monkeypatch.setattr(tokens_module, "TILE_ELEMENTS", 1)
    tokens = tokens.take(np.tile(np.arange(25), 21))
    parts = list(tokens.tiles())
    assert len(parts) == 3
    np.testing.assert_allclose(np.vstack([t.dense() for _, t in parts]), np.tile(Y, (21, 1)))
    assert [w.start for w, _ in parts] == [0, 256, 512]


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_single_precision_keeps_its_digits_at_any_scale_and_offset(scale):
    rng = np.random.default_rng(2)
    Y = rng.standard_normal((40, 5))
    X = ((Y + 100) * scale).astype(np.float32)
    tokens = Tokens(X, shift=np.full(5, 100 * scale), unit=power_of_two(scale))
    want = (X.astype(np.float64) - 100 * scale) / power_of_two(scale)
    A = rng.standard_normal((3, 5))
    np.testing.assert_allclose(tokens.scores(A), A @ want.T, atol=2e-4)
    np.testing.assert_allclose(tokens.sums(np.ones((1, 40), np.float32))[0], want.sum(0), atol=2e-3)


@pytest.mark.parametrize("order", ["C", "F"])
def test_sums_keep_the_digits_of_their_weights_whatever_the_order(order):
    """An offset multiplies what the total weight is off by."""
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((16_000, 64)) + 100).astype(np.float32)
    shift = X.mean(0, dtype=np.float64)
    P = np.asarray(rng.random((10, 16_000)), dtype=np.float32, order=order)
    want = P.astype(np.float64) @ (X - shift)
    np.testing.assert_allclose(Tokens(X, shift=shift).sums(P) / 8_000, want / 8_000, atol=1e-4)


@given(st.floats(1e-300, 1e300))
@settings(max_examples=50)
def test_power_of_two_is_one_and_near(scale):
    unit = power_of_two(scale)
    assert np.frexp(unit)[0] == 0.5
    assert 0.49 * scale < unit <= scale * (1 + 1e-12)


def test_power_of_two_of_nothing_is_one():
    assert power_of_two(0.0) == 1.0


def test_row_norms_survive_what_squares_do_not():
    X = np.array([[3e30, 4e30], [3e-30, 4e-30], [0, 0]], dtype=np.float32)
    np.testing.assert_allclose(row_norms(X), [5e30, 5e-30, 0], rtol=1e-6)
    np.testing.assert_allclose(row_norms(sp.csr_matrix(X)), [5e30, 5e-30, 0], rtol=1e-6)


def test_unit_rows_leave_zeros():
    np.testing.assert_array_equal(unit_rows(np.array([[3.0, 4], [0, 0]])), [[0.6, 0.8], [0, 0]])
