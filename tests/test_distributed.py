import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score as ari

import attnclust

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

import attnclust.distributed as distributed_module  # noqa: E402
from attnclust.distributed import AttentionClustering  # noqa: E402
from attnclust.streams import State  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own


@pytest.fixture(scope="module")
def data(blobs):
    return blobs(8000, 8, 4, 0.15, seed=1)


@pytest.fixture(autouse=True)
def threads():
    with dask.config.set(scheduler="synchronous"):
        yield


def model(**parameters):
    return AttentionClustering(4, random_state=0, **{"max_samples": 1500} | parameters)


def gap(found, wanted):
    squares = ((found[:, None] - wanted) ** 2).sum(2)
    assert sorted(squares.argmin(1)) == list(range(len(wanted)))
    return np.sqrt(squares.min(1).max())


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("chunks", [(500, 8), (3000, 3), (8000, 8)])
def test_arrays(data, metric, chunks):
    X, _, _ = data
    found = model(metric=metric).fit(da.from_array(X, chunks=chunks))
    whole = attnclust.AttentionClustering(4, metric=metric, max_samples=1500, random_state=0).fit(X)
    assert gap(found.cluster_centers_, whole.cluster_centers_) < 0.01
    assert isinstance(found.labels_, da.Array)
    assert found.labels_.shape == (8000,)
    labels = found.labels_.compute()
    np.testing.assert_array_equal(labels, found.predict(X))
    assert ari(labels, whole.labels_) > 0.99
    assert found.n_rows_used_ == 1500


def test_the_state_is_that_of_all_rows(data):
    X, _, _ = data
    state = model().fit(da.from_array(X, chunks=(700, 8))).state_
    assert state.n_rows == 8000
    np.testing.assert_allclose(state.moments.covariance, np.cov(X.T, bias=True))
    rows = {row.tobytes() for row in X}
    assert {row.tobytes() for row in state.rows} <= rows


def test_lazy_arrays(data):
    X, _, _ = data
    array = da.from_array(X.astype(np.float32), chunks=(900, 4))
    found = model().fit(array)
    assert found.cluster_centers_.dtype == np.float32
    local = attnclust.AttentionClustering(**found.get_params())
    local.__dict__.update({k: v for k, v in vars(found).items() if k != "labels_"})
    for method in ("predict", "predict_proba", "transform", "score_samples"):
        lazy = getattr(found, method)(array)
        now = getattr(local, method)(X.astype(np.float32))
        assert (lazy.shape, lazy.dtype) == (now.shape, now.dtype), method
        np.testing.assert_allclose(lazy.compute(), now, rtol=1e-5, atol=1e-5)


def test_data_frames(data):
    X, _, _ = data
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)])
    lazy = dd.from_pandas(frame, npartitions=7)
    found = model().fit(lazy)
    assert list(found.feature_names_in_) == list(frame.columns)
    labels = found.labels_.compute()
    np.testing.assert_array_equal(labels, found.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        found.predict(lazy[list(frame.columns[::-1])])
    some = lazy[lazy["x0"] > -10]  # of unknown lengths
    np.testing.assert_array_equal(found.predict(some).compute(), labels)


def test_empty_partitions(data):
    X, _, _ = data
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)])
    lazy = dd.concat([dd.from_pandas(frame[a:b], npartitions=1) for a, b in [(0, 1), (1, 8000)]])
    lazy = lazy[lazy["x0"] != frame["x0"][0]]  # leaves the first without rows
    found = model().fit(lazy)
    assert found.state_.n_rows == 7999
    assert len(found.labels_.compute()) == 7999


def test_uneven_blocks_lose_none_of_the_sample(data):
    X, _, _ = data
    chunks = ((1,) * 99 + (7901,), (8,))
    found = model(max_samples=4000).fit(da.from_array(X, chunks=chunks))
    assert found.n_rows_used_ >= 1000
    kept = found.state_
    assert ((kept.keys < kept.bound).all()) or np.isinf(kept.bound)


def test_the_same_seed_repeats(data):
    array = da.from_array(data[0], chunks=(700, 8))
    a, b, other = model().fit(array), model().fit(array), model().set_params(random_state=1)
    np.testing.assert_array_equal(a.cluster_centers_, b.cluster_centers_)
    assert not np.array_equal(a.state_.rows, other.fit(array).state_.rows)


def test_nothing_of_the_size_of_the_data_comes_to_the_client(data, monkeypatch):
    came = []
    kept = distributed_module.compute

    def compute(*collections, **options):
        out = kept(*collections, **options)
        came.extend(out)
        return out

    monkeypatch.setattr(distributed_module, "compute", compute)
    model().fit(da.from_array(data[0], chunks=(700, 8)))
    states, steps = [c for c in came if isinstance(c, State)], came[1:]
    assert len(states) == len(steps) == 1
    assert states[0].rows.shape == (1500, 8)
    assert steps[0].seen.sums.shape == (4, 8)


class TestFaults:
    def test_nan_in_one_block_only(self, data):
        X = data[0].copy()
        X[3100, 2] = np.nan
        with pytest.raises(ValueError, match=r"block 3 .* NaN at row 100, column 2"):
            model().fit(da.from_array(X, chunks=(1000, 8)))

    def test_a_block_of_another_width(self, data):
        array = da.from_array(data[0], chunks=(1000, 8))
        narrow = array.map_blocks(
            lambda b, block_info=None: b[:, : 8 - (block_info[0]["chunk-location"][0] == 5)],
            dtype=float,
            meta=np.empty((0, 0)),
        )
        with pytest.raises(ValueError, match=r"block 5 .* 7 features"):
            model().fit(narrow)

    def test_what_blocks_do_not_have(self, data):
        array = da.from_array(data[0], chunks=(1000, 8))
        with pytest.raises(ValueError, match="not for Dask rows"):
            model().fit(array, sample_weight=np.ones(8000))
        with pytest.raises(ValueError, match="not for Dask rows"):
            model(half_life=5.0).fit(array)
        with pytest.raises(ValueError, match="n_clusters=4 is more than the 3 rows"):
            model().fit(array[:3])


def test_rows_in_memory_are_fitted_as_by_the_estimator(data):
    X = data[0]
    local = attnclust.AttentionClustering(4, max_samples=1500, random_state=0).fit(X)
    np.testing.assert_array_equal(model().fit(X).labels_, local.labels_)


def slow(block, patience):
    time.sleep(patience)
    return block


def test_a_worker_killed_in_the_middle_changes_nothing(data):
    distributed = pytest.importorskip("distributed")
    array = da.from_array(data[0], chunks=(400, 8))
    with (
        dask.config.set(scheduler=None),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        undisturbed = model().fit(array)
        first, second = (worker.pid for worker in cluster.workers.values())
        killed = []

        def kill():
            os.kill(first, signal.SIGKILL)
            killed.append(time.monotonic())

        killer = threading.Timer(1.0, kill)
        killer.start()
        # Twenty blocks of 0.3 s on two workers: at one second a third of the first pass is done.
        found = model().fit(array.map_blocks(slow, patience=0.3, dtype=float))
        assert killed[0] < time.monotonic() - 1.0
        labels = found.predict(array).compute()
        now = {worker.pid for worker in cluster.workers.values()}
        assert first not in now
        assert second in now
        np.testing.assert_array_equal(found.cluster_centers_, undisturbed.cluster_centers_)
        np.testing.assert_array_equal(found.state_.rows, undisturbed.state_.rows)
        np.testing.assert_array_equal(labels, undisturbed.labels_.compute())
        assert client.status == "running"
