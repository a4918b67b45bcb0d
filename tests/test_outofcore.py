import io
import json
import os
import resource
import signal
import subprocess
import sys
import tracemalloc
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import adjusted_rand_score as ari

import attnclust.outofcore as outofcore
from attnclust import AttentionClustering, load_model
from attnclust.cli import main
from attnclust.outofcore import free_memory, parse_bytes, plan, resident_memory
from attnclust.persistence import load_state
from attnclust.scores import external_scores, table_scores


def command(*arguments, code=0):
    """Summary, or error, of a command run in this process."""
    out, said = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["attnclust", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(said),
        pytest.raises(SystemExit) as caught,
    ):
        main()
    assert (caught.value.code or 0) == code, said.getvalue()
    if code:
        assert said.getvalue().count("\n") == 1
        return said.getvalue()
    return json.loads(out.getvalue())


def write(path, X, labels, start=0, size=300):
    ids = np.arange(start, start + len(X))
    columns = {"embedding": list(X), "id": ids, "kind": [f"k{k}" for k in labels]}
    pq.write_table(pa.table(columns), path, row_group_size=size)


def spoil(path, group):
    """Overwrite the pages of a row group, and leave the footer as it was."""
    chunk = pq.ParquetFile(path).metadata.row_group(group).column(0)
    with path.open("r+b") as file:
        file.seek(chunk.data_page_offset)
        file.write(b"\xff" * 64)


@pytest.fixture(scope="module")
def data(blobs):
    X, labels, _ = blobs(3000, 6, 3, 0.1, dtype=np.float32)
    return X, labels


@pytest.fixture
def folder(data, tmp_path):
    X, labels = data
    (tmp_path / "rows").mkdir()
    for place, name in enumerate("abc"):
        part = slice(1000 * place, 1000 * (place + 1))
        write(tmp_path / "rows" / f"{name}.parquet", X[part], labels[part], part.start)
    return tmp_path / "rows"


def fit(file, out, *more, code=0):
    return command("fit", file, "-k", 3, "--out", out, "--json", *more, code=code)


class TestBudget:
    def test_sizes(self):
        assert [parse_bytes(t) for t in ("7", "2kb", "2 GiB", "1.5g")] == [
            7,
            2000,
            2**31,
            1_500_000_000,
        ]
        for text in ("", "x", "2 bananas", "-1GB", "0", "1EB"):
            with pytest.raises(ValueError, match="is no size of memory"):
                parse_bytes(text)

    def test_what_the_machine_has(self):
        assert 0 < resident_memory() < free_memory() + resident_memory()

    def test_more_room_is_used_and_too_little_refused(self):
        small, large = (plan(m * 10**6, 64, 4, 10, 30_000) for m in (50, 400))
        assert small.sample_rows < large.sample_rows == 30_000
        assert small.batch_bytes < large.batch_bytes <= 2**26
        with pytest.raises(ValueError, match=r"5 MB for data are too little .* MB more") as caught:
            plan(5 * 10**6, 64, 4, 10, 30_000)
        more = int(str(caught.value).split("give ")[1].split(" MB")[0])
        assert plan((5 + more) * 10**6, 64, 4, 10, 30_000).sample_rows >= 1000


@pytest.mark.parametrize("shape", [(4, 3), (1, 3), (3, 1), (5, 5)])
def test_scores_from_counts_are_those_of_labels(shape):
    table = np.random.default_rng(0).integers(0, 9, shape)
    known, labels = (np.repeat(index.ravel(), table.ravel()) for index in np.indices(shape))
    wanted = external_scores(known.tolist(), labels)
    assert table_scores(table) == pytest.approx(wanted, abs=1e-12)


def test_a_folder_through_the_command(data, folder, tmp_path):
    X, labels = data
    out = tmp_path / "out"
    summary = fit(folder, out, "--label-column", "kind", "--max-samples", 1000)
    table = pq.read_table(out / "labels.parquet")
    assert table.column_names == ["id", "kind", "cluster", "confidence"]
    assert table["id"].to_pylist() == list(range(3000))
    model = load_model(out / "model.safetensors")
    whole = AttentionClustering(3, max_samples=1000, random_state=0).fit(folder)
    np.testing.assert_allclose(model.cluster_centers_, whole.cluster_centers_, atol=1e-6)
    found = table["cluster"].to_numpy()
    np.testing.assert_array_equal(found, model.predict(X))
    np.testing.assert_allclose(table["confidence"], model.predict_proba(X).max(1), atol=1e-6)
    assert summary["scores"] == pytest.approx(external_scores(labels.tolist(), found), abs=1e-9)
    assert summary["score"] == pytest.approx(model.score(X), rel=1e-5)
    assert [c["size"] for c in summary["clusters"]] == np.bincount(found).tolist()
    assert (summary["rows"], summary["parts"], summary["skipped"]) == (3000, 12, [])
    assert summary["clusters"][0]["mostly_share"] == 1.0
    assert sorted(p.name for p in out.iterdir()) == sorted(
        p.rsplit("/")[-1] for p in summary["outputs"]
    )
    assert command("inspect", out / "model.safetensors", "--json")["class"]


def test_a_large_array_is_read_in_parts_and_a_small_one_is_not(data, tmp_path):
    X, _ = data
    np.save(tmp_path / "X.npy", X)
    whole = fit(tmp_path / "X.npy", tmp_path / "a")
    assert "parts" not in whole
    with mock.patch.object(outofcore, "SHARE", 1e-6):
        parts = fit(tmp_path / "X.npy", tmp_path / "b", "--memory", "2GB")
    assert parts["parts"] == 1
    labels = [np.load(tmp_path / out / "labels.npy") for out in "ab"]
    assert ari(*labels) == 1.0
    assert labels[1].dtype == np.int64
    said = fit(tmp_path / "X.npy", tmp_path / "c", "--memory", "1MB", "--resume", code=1)
    assert "too little for 3 clusters of 6 features" in said
    (tmp_path / "x.csv").write_text("a,b\n" * 100)
    assert "read in parts" in fit(tmp_path / "x.csv", tmp_path / "c", "--memory", "1", code=1)
    assert not (tmp_path / "c").exists()


class TestFaults:
    def test_one_bad_row_group_of_a_thousand(self, data, tmp_path):
        X, labels = data
        path, out = tmp_path / "x.parquet", tmp_path / "out"
        write(path, X, labels, size=3)
        spoil(path, 700)
        with mock.patch.object(outofcore, "SHARE", 1e-6):
            said = fit(path, out, "--memory", "2GB", code=1)
        assert "x.parquet, row group 700: cannot be read as .parquet" in said
        assert [p.name for p in out.iterdir()] == ["checkpoint.safetensors"]
        summary = fit(path, out, "--on-error", "skip", "--label-column", "kind")
        assert [(s["part"], s["rows"]) for s in summary["skipped"]] == [
            (f"{path}, row group 700", 3)
        ]
        assert (summary["parts"], summary["unlabelled"]) == (1000, 3)
        table = pq.read_table(out / "labels.parquet")
        assert table["cluster"].to_pylist()[2100:2103] == [-1] * 3
        assert table["id"].to_pylist()[2099:2104] == [2099, None, None, None, 2103]
        assert summary["scores"]["ari"] == 1.0
        assert not (out / "checkpoint.safetensors").exists()

    def test_nan_in_one_row_group_only(self, data, tmp_path):
        X, labels = data[0].copy(), data[1]
        X[1000, 2] = np.nan
        path = tmp_path / "x.parquet"
        write(path, X, labels)
        said = fit(path, tmp_path / "out", "--memory", "2GB", "--resume", code=1)
        assert "x.parquet, row group 3, rows from 0: " in said
        assert "NaN at row 100, column 2" in said
        summary = fit(path, tmp_path / "out", "--on-error", "skip")
        assert [s["rows"] for s in summary["skipped"]] == [300]

    def test_a_truncated_file_in_a_folder(self, folder, tmp_path):
        whole = (folder / "b.parquet").read_bytes()
        (folder / "b.parquet").write_bytes(whole[:-100])
        assert "b.parquet: cannot be read" in fit(folder, tmp_path / "out", code=1)
        summary = fit(folder, tmp_path / "out", "--on-error", "skip")
        assert [s["part"] for s in summary["skipped"]] == [str(folder / "b.parquet")]
        assert summary["rows"] == 2000

    def test_nothing_usable_is_an_error(self, data, tmp_path):
        X, labels = data
        path = tmp_path / "x.parquet"
        write(path, np.full_like(X, np.nan), labels)
        said = fit(path, tmp_path / "out", "--on-error", "skip", code=1)
        assert "no part can be used" in said
        assert not (tmp_path / "out").exists()

    def test_a_file_that_changes_under_the_run_is_never_skipped(self, data, folder, tmp_path):
        kept = outofcore.AttentionClustering.partial_fit

        def meddle(self, X, *more):
            write(folder / "c.parquet", data[0][:50], data[1][:50])
            return kept(self, X, *more)

        with mock.patch.object(outofcore.AttentionClustering, "partial_fit", meddle):
            said = fit(folder, tmp_path / "out", "--on-error", "skip", code=1)
        assert "c.parquet: was changed while it was being read: run again" in said

    @pytest.mark.parametrize("kind", ["npy", "parquet"])
    def test_a_full_disk(self, data, tmp_path, kind):
        X, labels = data
        path, out = tmp_path / f"x.{kind}", tmp_path / "out"
        if kind == "npy":
            np.save(path, X)
        else:
            write(path, X, labels)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        kept = outofcore.label

        def on_a_full_disk(*arguments):
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
            return kept(*arguments)

        try:
            with mock.patch.object(outofcore, "label", on_a_full_disk):
                said = fit(path, out, "--resume", code=3)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, old)
        assert "File too large" in said
        assert [p.name for p in out.iterdir()] == ["checkpoint.safetensors"]
        fit(path, out, "--resume")
        assert (out / f"labels.{kind}").exists()

    def test_results_within_the_input(self, folder):
        assert "choose another" in fit(folder, folder / "out", code=3)
        assert not (folder / "out").exists()


class TestResume:
    def test_a_stopped_run_goes_on(self, folder, tmp_path):
        out, whole = tmp_path / "out", tmp_path / "whole"
        fit(folder, whole, "--max-samples", 1000)
        kept, calls = outofcore.AttentionClustering.partial_fit, []
        at = 7

        def stop(self, X, *more):
            calls.append(len(X))
            if len(calls) == at:
                raise KeyboardInterrupt
            return kept(self, X, *more)

        with mock.patch.object(outofcore.AttentionClustering, "partial_fit", stop):
            assert "interrupted" in fit(folder, out, "--max-samples", 1000, code=130)
        state, about = load_state(out / "checkpoint.safetensors")
        assert about["progress"]["done"] == 6
        assert state.n_rows == 1600
        calls.clear()
        at = None
        with mock.patch.object(outofcore.AttentionClustering, "partial_fit", stop):
            fit(folder, out, "--max-samples", 1000, "--resume")
        assert sum(calls) == 1400
        for name in ("labels.parquet", "model.safetensors"):
            assert (out / name).read_bytes() == (whole / name).read_bytes()

    def test_a_killed_run_goes_on(self, folder, tmp_path):
        """Nobody can tell a killed run to save: what it saved before is what counts."""
        out = tmp_path / "out"
        code = (
            "import os, attnclust.outofcore as o; from attnclust.cli import main; "
            "o.SECONDS_BETWEEN = -1; kept = o.save_state; calls = []\n"
            "def save(*a):\n"
            "    kept(*a); calls.append(0)\n"
            "    if len(calls) == 5: os.kill(os.getpid(), 9)\n"
            "o.save_state = save; main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, "fit", folder, "-k", "3", "--out", out], check=False
        )
        assert done.returncode == -9
        assert load_state(out / "checkpoint.safetensors")[1]["progress"]["done"] == 5
        assert fit(folder, out, "--resume")["rows"] == 3000

    def test_a_checkpoint_of_something_else(self, data, folder, tmp_path):
        out = tmp_path / "out"
        spoil(folder / "c.parquet", 1)
        fit(folder, out, code=1)
        assert "other seed: run without" in fit(folder, out, "--resume", "--seed", 1, code=1)
        write(folder / "c.parquet", data[0][:50], data[1][:50])
        assert "other files: run without" in fit(folder, out, "--resume", code=1)
        (out / "checkpoint.safetensors").write_bytes(b"nothing")
        assert "damaged" in fit(folder, out, "--resume", code=1)
        assert fit(folder, out)["rows"] == 2050


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """200 MB of vectors, as an array and as a table."""
    out = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((4, 64)).astype(np.float32) / 8
    array = np.lib.format.open_memmap(out / "X.npy", "w+", np.float32, (800_000, 64))
    vectors = pa.list_(pa.float32(), 64)
    with pq.ParquetWriter(out / "X.parquet", pa.schema([("embedding", vectors)])) as table:
        for start in range(0, 800_000, 100_000):
            X = centres[rng.integers(0, 4, 100_000)]
            X += 0.05 * rng.standard_normal(X.shape, dtype=np.float32)
            array[start : start + 100_000] = X
            flat = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 64)
            table.write_table(pa.table({"embedding": flat}))
    array.flush()
    return out


class TestMemory:
    """200 MB of vectors in a twentieth of that, as 20 GB in 1 GB."""

    def test_what_python_holds(self, large):
        from attnclust.datasets import open_dataset

        source = open_dataset(large / "X.npy", batch_bytes=2**20).source
        model = AttentionClustering(4, max_samples=5000, random_state=0)
        model.partial_fit(next(source.batches()).X).cluster_centers_  # noqa: B018 loads what it uses
        tracemalloc.start()
        try:
            model.fit(source)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert model.state_.n_rows == 800_000
        assert peak < 10e6

    @pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
    def test_what_the_command_holds(self, large, tmp_path):
        """The budget holds the program too, which is most of so small a one."""
        code = (
            "import importlib.util as u, pathlib, sys, attnclust.outofcore, attnclust.cli as cli\n"
            "if u.find_spec('matplotlib'): import matplotlib.figure\n"
            "attnclust.outofcore.open_dataset(pathlib.Path(sys.argv[2]))\n"
            "base = attnclust.outofcore.resident_memory() + 45 * 10**6\n"
            "sys.argv += ['--memory', str(base)]\n"
            "try: cli.main()\n"
            "finally:\n"
            "    peak = open('/proc/self/status').read().split('VmHWM:')[1].split()[0]\n"
            "    print(base, 1024 * int(peak))"
        )
        arguments = ["fit", large / "X.parquet", "-k", "4", "--out", tmp_path / "out", "--quiet"]
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=True,
        )
        budget, peak = map(int, done.stdout.split())
        assert peak < budget
        assert json.loads((tmp_path / "out" / "summary.json").read_text())["parts"] > 1
