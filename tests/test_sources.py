import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score as ari

from attnclust import AttentionClustering
from attnclust.sources import Source, as_source, rows_per_batch, windows


def gap(found, wanted):
    squares = ((found[:, None] - wanted) ** 2).sum(2)
    assert sorted(squares.argmin(1)) == list(range(len(wanted)))
    return np.sqrt(squares.min(1).max())


@pytest.fixture(scope="module")
def data(blobs):
    return blobs(8000, 10, 4, 0.15, seed=2)


def model(**parameters):
    return AttentionClustering(4, random_state=0, **{"max_samples": 1000} | parameters)


class Again:
    """Batches, as often as asked."""

    def __init__(self, X, size):
        self.X, self.size, self.reads = X, size, 0

    def __iter__(self):
        self.reads += 1
        return (self.X[a:b] for a, b in windows(len(self.X), self.size))


def test_what_is_a_source():
    for rows in (np.zeros((2, 2)), [[0.0, 1.0]], pd.DataFrame({"a": [1.0]}), [], 3, {"a": [1]}):
        assert as_source(rows) is None
    assert not as_source(iter([np.zeros((2, 2))])).again
    assert as_source([np.zeros((2, 2))]).again
    source = as_source(Again(np.zeros((4, 2)), 2))
    assert source.again
    assert as_source(source) is source
    assert isinstance(source, Source)


def test_windows_and_batches():
    assert list(windows(7, 3)) == [(0, 3), (3, 6), (6, 7)]
    assert list(windows(0, 3)) == []
    assert rows_per_batch(10, 4, 400) == 10
    assert rows_per_batch(1000, 8, 400) == 1


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_twice_read_is_fit_on_the_sample_and_a_step_on_all_rows(data, metric):
    X, labels, centres = data
    batches = Again(X, 700)
    twice = model(metric=metric).fit(batches)
    assert batches.reads == 2
    once = model(metric=metric).fit(iter(Again(X, 700)))
    # By hand: the posterior of the centres on the sample, and the mean under it, of all rows.
    P = once.predict_proba(X)
    rows = X / np.linalg.norm(X, axis=1, keepdims=True) if metric == "cosine" else X
    sums = P.T @ rows
    by_hand = sums / P.sum(0)[:, None]
    if metric == "cosine":
        by_hand = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    np.testing.assert_allclose(twice.cluster_centers_, by_hand, atol=1e-6)
    np.testing.assert_allclose(twice.weights_, P.mean(0), atol=1e-6)
    if metric == "euclidean":
        spread = (P * ((rows[:, None] - by_hand) ** 2).sum(2)).sum() / rows.size
        np.testing.assert_allclose(twice.noise_variance_, spread, rtol=1e-6)
        # All rows make better centres than the thousand of the sample.
        assert gap(twice.cluster_centers_, centres) < gap(once.cluster_centers_, centres)
    whole = model(metric=metric).fit(X)
    assert gap(twice.cluster_centers_, whole.cluster_centers_) < 0.01
    assert ari(np.concatenate(list(twice.predict_batches(batches))), whole.labels_) > 0.99
    assert ari(labels, whole.labels_) > 0.99


def test_no_step_where_it_would_change_nothing(data):
    X, _, _ = data
    batches = Again(X, 700)
    model(max_samples="auto").fit(batches)
    assert batches.reads == 1
    batches = Again(X, 700)
    model(half_life=500.0).fit(batches)
    assert batches.reads == 1


def test_a_memory_map_is_fitted_as_the_array(data, tmp_path):
    X, _, _ = data
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        model().fit(mapped).cluster_centers_, model().fit(X).cluster_centers_
    )


def test_errors_name_the_batch(data):
    X, _, _ = data
    with pytest.raises(ValueError, match=r"batch 1 \(counted from 0\): X has 3 features"):
        model().fit([X, X[:, :3]])
    bad = X.copy()
    bad[750, 3] = np.nan
    with pytest.raises(ValueError, match=r"batch 1 .*NaN at row 50, column 3"):
        model().fit(Again(bad, 700))
    with pytest.raises(ValueError, match="sample_weight needs rows in memory"):
        model().fit([X], sample_weight=np.ones(len(X)))
    with pytest.raises(ValueError, match="no batch has come"):
        model().fit(iter([]))
    with pytest.raises(ValueError, match="rows in memory: call predict"):
        next(model().fit([X]).predict_batches(X))


def test_batches_without_rows_are_passed_over(data):
    X, _, _ = data
    none = X[:0]
    np.testing.assert_array_equal(
        model().fit([none, X, none, X]).cluster_centers_, model().fit([X, X]).cluster_centers_
    )


def test_an_iterable_that_changes_is_found_out(data):
    X, _, _ = data

    class Dwindling(Again):
        def __iter__(self):
            whole = list(super().__iter__())
            return iter(whole[: -self.reads + 1 or None])

    with pytest.raises(ValueError, match="7800 rows came the second time, 8000 the first"):
        model().fit(Dwindling(X, 600))
