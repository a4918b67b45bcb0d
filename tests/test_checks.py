import numpy as np
import pytest
import scipy.sparse as sp

from attnclust.checks import (
    TILE_ROWS,
    as_rows,
    check_choice,
    check_distinct,
    check_finite,
    check_integer,
    check_number,
    check_weights,
)
from attnclust.tokens import Tokens


def test_the_largest_length_of_a_coordinate_is_found():
    X = np.zeros((2 * TILE_ROWS + 5, 3))
    X[2 * TILE_ROWS + 1, 1] = -7
    X[5, 0] = 6
    assert check_finite(X) == check_finite(sp.csr_matrix(X)) == 7
    assert check_finite(sp.csr_matrix((3, 3))) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, TILE_ROWS - 1, TILE_ROWS, 2 * TILE_ROWS])
def test_the_first_row_that_is_not_finite_is_named(bad, row):
    X = np.ones((2 * TILE_ROWS + 5, 3))
    X[row, 2] = X[-1, 0] = bad
    for rows in (X, sp.csr_matrix(X)):
        with pytest.raises(ValueError, match=rf"at row {row}, column 2"):
            check_finite(rows)


def test_weights_come_out_as_double_precision_or_not_at_all():
    X = np.ones((3, 2))
    assert check_weights(None, X) is None
    for given in ([1, 2, 3], np.array([1, 2, 3], np.float32)):
        weights = check_weights(given, X)
        assert weights.dtype == np.float64
        np.testing.assert_array_equal(weights, [1, 2, 3])
    np.testing.assert_array_equal(check_weights(2, X), [2, 2, 2])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_distinct_rows_are_counted_no_further_than_needed(form):
    X = np.repeat(np.array([[0.0, 1], [0, 2], [-0.0, 1]]), 400, axis=0)
    check_distinct(Tokens(form(X)), 2)
    with pytest.raises(ValueError, match="only 2 distinct rows, fewer than n_clusters=3"):
        check_distinct(Tokens(form(X)), 3)
    scale = 1 / np.linalg.norm(X, axis=1)
    with pytest.raises(ValueError, match="only 1 distinct row,"):
        check_distinct(Tokens(form(X), row_scale=scale), 2)


def test_half_precision_becomes_single_and_the_rest_passes():
    assert as_rows(np.ones((2, 2), np.float16)).dtype == np.float32
    X = np.ones((2, 2))
    assert as_rows(X) is X


def test_parameter_checks_say_what_is_allowed():
    check_integer("k", np.int64(3), 1)
    check_number("tol", np.float32(0.5), 0, 1)
    check_choice("flag", True, ("auto", True))
    for call, message in [
        (lambda: check_integer("k", True, 1), "k must be an integer of at least 1, got True"),
        (lambda: check_number("tol", 2, 0, 1), "tol must be a number from 0 to 1, got 2"),
        (lambda: check_number("tol", float("nan"), 0), "tol must be a number of at least 0"),
        (
            lambda: check_choice("flag", 1, ("auto", True)),
            "flag must be one of 'auto', True, got 1",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
