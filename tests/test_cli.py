import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.sparse as sp

from attnclust import load_model
from attnclust.cli import main


def listen():
    """To Ctrl-C, whatever the shell that runs the tests in the background told them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(*arguments, code=0, **options):
    done = subprocess.run(
        [sys.executable, "-m", "attnclust", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **options,
    )
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


def fails(*arguments, code=1):
    """The error of a command, run in this process: a new one costs a second of imports."""
    out, said = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["attnclust", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(said),
        pytest.raises(SystemExit) as caught,
    ):
        main()
    assert caught.value.code == code, said.getvalue()
    assert out.getvalue() == ""
    assert said.getvalue().startswith("attnclust: error: ")
    assert said.getvalue().count("\n") == 1
    return said.getvalue()


@pytest.fixture(scope="module")
def data(blobs):
    X, labels, _ = blobs(300, 4, 3, 0.05, dtype=np.float32)
    return X, labels


def write(path, X, labels):
    """The rows as people keep them: beside an id, a text, and a known class."""
    words = [f"row {i}, class {k}" for i, k in enumerate(labels)]
    beside = {"id": np.arange(len(X)), "text": words, "kind": [f"k{k}" for k in labels]}
    if path.suffix == ".npy":
        np.save(path, X)
    elif path.name == "sparse.npz":
        sp.save_npz(path, sp.csr_matrix(X))
    elif path.suffix == ".npz":
        np.savez(path, X=X, kind=np.array(beside["kind"]))
    elif path.suffix in (".csv", ".tsv"):
        table = pa.table(beside | {f"x{j}": X[:, j] for j in range(X.shape[1])})
        options = pa.csv.WriteOptions(delimiter="," if path.suffix == ".csv" else "\t")
        pa.csv.write_csv(table, path, options)
    else:
        table = pa.table(beside | {"embedding": list(X)})
        if path.suffix == ".parquet":
            pa.parquet.write_table(table, path)
        else:
            pa.feather.write_feather(table, str(path))
    return path


def labels_of(path):
    if path.suffix == ".npy":
        return np.load(path), None
    if path.suffix == ".npz":
        with np.load(path) as archive:
            return archive["labels"], None
    if path.suffix == ".parquet":
        table = pa.parquet.read_table(path)
    elif path.suffix == ".feather":
        table = pa.feather.read_table(path)
    else:
        mark = "," if path.suffix == ".csv" else "\t"
        table = pa.csv.read_csv(path, parse_options=pa.csv.ParseOptions(delimiter=mark))
    return table["cluster"].to_numpy(), table


@pytest.mark.parametrize(
    "name",
    ["v.npy", "v.npz", "sparse.npz", "v.csv", "v.tsv", "v.parquet", "v.feather"],
)
def test_fit_and_predict_on_every_format(tmp_path, data, name):
    X, known = data
    path = write(tmp_path / name, X, known)
    scored = ["--label-column", "kind"] if name not in ("v.npy", "sparse.npz") else []
    done = run("fit", path, "--clusters", 3, "--out", tmp_path / "out", "--json", *scored)
    summary = json.loads(done.stdout)
    assert done.stderr == ""
    assert summary == json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["rows"] == 300
    assert summary["features"] == 4
    assert np.isfinite(summary["score"])
    assert sum(c["size"] for c in summary["clusters"]) == 300
    if scored:
        assert summary["scores"] == {"ari": 1.0, "nmi": 1.0, "matched_accuracy": 1.0}
    labels, table = labels_of(tmp_path / "out" / f"labels{path.suffix}")
    if table is not None:
        assert table.column_names == ["id", "text", "kind", "cluster", "confidence"]
        assert table["text"][1].as_py() == f"row 1, class {known[1]}"
    model = tmp_path / "out" / "model.safetensors"
    fitted = load_model(model)
    rows = X
    if path.suffix in (".csv", ".tsv"):
        rows = pd.DataFrame(X, columns=fitted.feature_names_in_)
    np.testing.assert_array_equal(fitted.predict(rows), labels)
    assert fitted.score(rows) == pytest.approx(summary["score"], rel=1e-4)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(
        ["clusters.png", f"labels{path.suffix}", "model.safetensors", "summary.json"]
    )
    run("predict", model, path, "--out", tmp_path / "again", *scored)
    np.testing.assert_array_equal(labels_of(tmp_path / "again" / f"labels{path.suffix}")[0], labels)


def test_a_csv_without_a_header_and_columns_chosen(tmp_path, data):
    X, _ = data
    np.savetxt(tmp_path / "v.csv", X, delimiter=",")
    run("fit", tmp_path / "v.csv", "-k", 3, "-o", tmp_path / "out", "-q")
    table = labels_of(tmp_path / "out" / "labels.csv")[1]
    assert table.column_names == ["cluster", "confidence"]
    path = write(tmp_path / "w.csv", *data)
    chosen = ["--vectors", "x0", "--vectors", "x1", "--keep", "text", "--keep", "x3"]
    done = run("fit", path, "-k", 2, "-o", tmp_path / "out", *chosen, "--json")
    assert json.loads(done.stdout)["vectors"] == ["x0", "x1"]
    table = labels_of(tmp_path / "out" / "labels.csv")[1]
    assert table.column_names == ["text", "x3", "cluster", "confidence"]


def test_the_answer_for_people(tmp_path, data):
    path = write(tmp_path / "v.parquet", *data)
    done = run("fit", path, "-k", 3, "-o", tmp_path / "out", "--label-column", "kind")
    assert done.stderr == ""
    for part in ("cluster", "size", "k0 (100%)", "ARI 1.000", "labels.parquet", "300 rows of 4"):
        assert part in done.stdout
    assert run("fit", path, "-k", 3, "-o", tmp_path / "out", "-q").stdout == ""


@pytest.mark.skipif(os.name != "posix", reason="a pseudo-terminal is needed")
def test_progress_shows_on_a_terminal_only(tmp_path, data):
    import pty

    path = write(tmp_path / "v.npy", *data)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "attnclust", "fit", path, "-k", "3", "-o", tmp_path / "out"]
    child = subprocess.Popen(command, stderr=theirs, stdout=subprocess.PIPE)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break
        if not part:
            break
        seen += part
    assert child.communicate()[0]
    assert child.returncode == 0
    for stage in (b"reading v.npy", b"clustering 300 rows", b"writing"):
        assert stage in seen


def test_options_reach_the_estimator(tmp_path, data):
    path = write(tmp_path / "v.npy", *data)
    options = ["--metric", "cosine", "--threshold", 0.9, "--max-samples", 100, "--seed", 5]
    done = run("fit", path, "-k", 3, "-o", tmp_path / "out", "--json", *options)
    parameters = json.loads(done.stdout)["parameters"]
    assert parameters["metric"] == "cosine"
    assert parameters["threshold"] == 0.9
    assert parameters["random_state"] == 5
    assert json.loads(done.stdout)["rows_used"] == 100
    run("fit", path, "-k", 3, "-o", tmp_path / "out", "--solver", "pgd")


def test_inspect(tmp_path, data):
    run("fit", write(tmp_path / "v.npy", *data), "-k", 3, "-o", tmp_path / "out", "-q")
    model = tmp_path / "out" / "model.safetensors"
    assert "clusters        3" in run("inspect", model).stdout
    assert json.loads(run("inspect", model, "--json").stdout)["parameters"]["n_clusters"] == 3


def test_predict_finds_columns_by_name(tmp_path, data):
    X = data[0]
    frame = {f"x{j}": X[:, j] for j in range(4)}
    pa.csv.write_csv(pa.table(frame), tmp_path / "v.csv")
    other = dict(reversed(frame.items())) | {"extra": np.full(len(X), 0.5)}
    pa.csv.write_csv(pa.table(other), tmp_path / "w.csv")
    run("fit", tmp_path / "v.csv", "-k", 3, "-o", tmp_path / "out", "-q")
    model = tmp_path / "out" / "model.safetensors"
    assert list(load_model(model).feature_names_in_) == list(frame)
    run("predict", model, tmp_path / "w.csv", "-o", tmp_path / "again", "-q")
    labels, table = labels_of(tmp_path / "again" / "labels.csv")
    np.testing.assert_array_equal(labels, labels_of(tmp_path / "out" / "labels.csv")[0])
    assert table.column_names == ["extra", "cluster", "confidence"]
    pa.csv.write_csv(pa.table(frame).rename_columns(list("abcd")), tmp_path / "w.csv")
    said = fails("predict", model, tmp_path / "w.csv", "-o", tmp_path / "more")
    assert "no column 'x0'" in said


def test_standard_output_that_cannot_take_the_answer(tmp_path, data):
    path = write(tmp_path / "v.parquet", data[0], data[1])
    table = pa.parquet.read_table(path)
    kinds = pa.array(["日本"] * len(table))
    pa.parquet.write_table(table.set_column(2, "kind", kinds), path)
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii"}
    options = ["-k", 3, "-o", tmp_path / "out", "--label-column", "kind"]
    assert "\\u65e5\\u672c (100%)" in run("fit", path, *options, env=ascii_only).stdout
    if os.path.exists("/dev/full"):
        model = tmp_path / "out" / "model.safetensors"
        buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
        for environment in (buffered, buffered | {"PYTHONUNBUFFERED": "1"}):
            with open("/dev/full", "w") as full:
                done = subprocess.run(
                    [sys.executable, "-m", "attnclust", "inspect", model],
                    stdout=full,
                    stderr=subprocess.PIPE,
                    text=True,
                    env=environment,
                    check=False,
                )
            assert done.returncode == 3
            assert done.stderr.startswith("attnclust: error: ")
            assert done.stderr.count("\n") == 1


def test_help_version_and_wrong_usage(tmp_path):
    assert "Exit codes" in run("--help").stdout
    assert run("--version").stdout.startswith("attnclust 0.")
    begun = time.perf_counter()
    run("--version")
    light = "import attnclust.cli, sys; assert not {'numpy', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", light], check=True)
    assert time.perf_counter() - begun < 20
    run("fit", tmp_path / "v.npy", code=2)
    said = run("fit", "--clusters", "many", "x.npy", "--out", tmp_path, code=2).stderr
    assert "a number or auto" in said
    run("fut", code=2)


class TestBadInput:
    @pytest.fixture
    def out(self, tmp_path):
        return tmp_path / "out"

    def test_rows_that_cannot_be_used(self, tmp_path, out, data):
        X, _ = data
        bad = X.copy()
        bad[7, 2] = np.nan
        np.save(tmp_path / "v.npy", bad)
        said = fails("fit", tmp_path / "v.npy", "-k", 3, "-o", out)
        assert "v.npy" in said
        assert "NaN at row 7, column 2" in said
        assert run("fit", tmp_path / "v.npy", "-k", 3, "-o", out, code=1).stderr == said
        np.save(tmp_path / "v.npy", X)
        assert "at least 1" in fails("fit", tmp_path / "v.npy", "-k", 0, "-o", out)
        assert "more than n_samples=300" in fails("fit", tmp_path / "v.npy", "-k", 301, "-o", out)
        np.save(tmp_path / "v.npy", X[:1])
        run("fit", tmp_path / "v.npy", "-k", 1, "-o", tmp_path / "one")
        np.save(tmp_path / "v.npy", np.ones((5, 2)))
        assert "only 1 distinct row" in fails("fit", tmp_path / "v.npy", "-k", 2, "-o", out)
        for array in (np.ones(5), np.array([["a", "b"]]), np.ones((2, 2, 2)), np.ones((0, 3))):
            np.save(tmp_path / "v.npy", array)
            fails("fit", tmp_path / "v.npy", "-k", 1, "-o", out)
        (tmp_path / "v.csv").write_text("a,b\n1,2\n3,oops\n4,5\n")
        said = fails("fit", tmp_path / "v.csv", "-k", 1, "-o", out)
        assert "row 1 (counted from 0), column 'b'" in said
        assert "no such file" in fails("fit", tmp_path / "none.csv", "-k", 1, "-o", out)
        (tmp_path / "v.tsv").touch()
        assert "file is empty" in fails("fit", tmp_path / "v.tsv", "-k", 1, "-o", out)
        table = pa.table({"e": [[1.0, 2], [3.0]], "text": ["a", "b"]})
        pa.parquet.write_table(table, tmp_path / "v.parquet")
        said = fails("fit", tmp_path / "v.parquet", "-k", 1, "-o", out)
        assert "column 'e' has 1 numbers where row 0 has 2" in said
        said = fails("fit", tmp_path / "v.parquet", "--vectors", "f", "-k", 1, "-o", out)
        assert "no column 'f'" in said
        assert not out.exists()

    def test_a_failed_run_leaves_what_was_there(self, tmp_path, out, data):
        path = write(tmp_path / "v.npy", *data)
        run("fit", path, "-k", 3, "-o", out, "-q")
        before = {p.name: p.read_bytes() for p in out.iterdir()}
        fails("fit", path, "-k", 301, "-o", out)
        assert {p.name: p.read_bytes() for p in out.iterdir()} == before

    def test_predict(self, tmp_path, out, data):
        path = write(tmp_path / "v.npy", *data)
        run("fit", path, "-k", 3, "-o", out, "-q")
        model, again = out / "model.safetensors", tmp_path / "again"
        np.save(tmp_path / "w.npy", data[0][:, :3])
        assert "3 features" in fails("predict", model, tmp_path / "w.npy", "-o", again)
        assert "choose another folder" in fails("predict", model, path, "-o", out, code=3)
        model.write_bytes(model.read_bytes()[:-9])
        said = fails("predict", model, path, "-o", again)
        assert "not a model file, or a damaged one" in said
        fails("inspect", model)
        assert not again.exists()

    def test_outputs_that_cannot_be_written(self, tmp_path, data):
        path = write(tmp_path / "v.npy", *data)
        (tmp_path / "file").write_text("here")
        fails("fit", path, "-k", 3, "-o", tmp_path / "file", code=3)
        fails("fit", path, "-k", 3, "-o", tmp_path / "file" / "under", code=3)
        assert (tmp_path / "file").read_text() == "here"
        path = write(tmp_path / "labels.npy", *data)
        said = fails("fit", path, "-k", 3, "-o", tmp_path, code=3)
        assert "would replace the input" in said
        assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "labels.npy", "v.npy"]

    @pytest.mark.skipif(os.name != "posix", reason="signals as on POSIX")
    def test_interrupted(self, tmp_path, out):
        np.save(tmp_path / "v.npy", np.random.default_rng(0).random((200_000, 64)))
        child = subprocess.Popen(
            [sys.executable, "-m", "attnclust", "fit", tmp_path / "v.npy", "-k", "200", "-o", out],
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=listen,
        )
        while not out.exists() and child.poll() is None:
            time.sleep(0.05)
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        said = child.communicate(timeout=60)[1]
        assert child.returncode in (130, -signal.SIGINT)  # the latter amid an import; 130 to shells
        assert said == "attnclust: error: interrupted; nothing was written\n"
        assert not out.exists()


def test_reproduce_writes_numbers_pictures_and_a_page(tmp_path):
    out = tmp_path / "new" / "folder"
    done = run("reproduce", "c20", "15", "--quick", "--seeds", 2, "--out", out)
    assert "C20 holds: " in done.stdout
    assert {path.name for path in out.iterdir()} == {
        *(f"{claim}.{kind}" for claim in ("C15", "C20") for kind in ("parquet", "png", "svg")),
        "index.html",
    }
    again = run("reproduce", "C20", "--quick", "--seeds", 2, "--out", out, "--json")
    (row,) = json.loads(again.stdout)
    assert (row["claim"], row["verdict"]) == ("C20", "holds")
    assert {"setting", "expected", "measured", "holds"} == set(row["findings"][0])


def test_reproduce_refuses_what_it_cannot_do(tmp_path):
    assert "no claim 'C31': did you mean C" in fails("reproduce", "C31", "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()
    (tmp_path / "file").write_text("")
    said = fails("reproduce", "C20", "--out", tmp_path / "file" / "x", code=3)
    assert "cannot write there" in said


def test_reproduce_names_the_missing_extra(tmp_path, monkeypatch):
    import attnclust.console

    monkeypatch.setattr(attnclust.console, "find_spec", lambda name: None)
    said = fails("reproduce", "C20", "--out", tmp_path / "x")
    assert "pip install 'attnclust[reproduce]'" in said


def test_a_stopped_reproduction_keeps_what_is_done(tmp_path):
    run("reproduce", "C20", "--quick", "--seeds", 2, "--out", tmp_path)
    kept = {path.name for path in tmp_path.iterdir()}
    # Minutes of work, so that the signal comes in the midst of it.
    long = ["reproduce", "C01", "--seeds", "1000", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "attnclust", *long],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=listen,
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".attnclust-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT), said
    assert said.count("\n") == 1
    assert "run again to go on" in said
    assert {path.name for path in tmp_path.iterdir()} == kept


@pytest.fixture
def documents(tmp_path):
    """Sets of 1 to 3 clusters, shuffled, with text along."""
    rng = np.random.default_rng(0)
    parts = []
    for doc, k in (("a", 1), ("b", 3), ("c", 2)):
        y = np.arange(30) % k
        X = 2.0 * np.eye(6)[y] + 0.1 * rng.standard_normal((30, 6))
        parts += [(doc, int(own), x.astype(np.float32)) for own, x in zip(y, X, strict=True)]
    parts = [parts[n] for n in rng.permutation(len(parts))]
    table = pa.table(
        {
            "doc_id": [doc for doc, _, _ in parts],
            "truth": [own for _, own, _ in parts],
            "embedding": [x.tolist() for _, _, x in parts],
        }
    )
    path = tmp_path / "documents.parquet"
    pa.parquet.write_table(table, path)
    return path


def test_incontext_clusters_each_group_by_itself(documents, tmp_path):
    out = tmp_path / "out"
    options = ["--group-column", "doc_id", "--vectors", "embedding", "--out", out]
    done = run("incontext", documents, *options)
    assert "1 with 1, 1 with 2, 1 with 3" in done.stdout
    table = pa.parquet.read_table(out / "labels.parquet").to_pandas()
    for _, own in table.groupby("doc_id"):
        assert len(own.groupby(["truth", "cluster"])) == own["truth"].nunique()
    assert (table["confidence"] > 0.9).all()
    groups = pa.parquet.read_table(out / "groups.parquet").to_pandas()
    assert groups["clusters"].tolist() == [1, 3, 2]
    assert groups["rows"].tolist() == [30, 30, 30]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["groups_by_clusters"] == {"1": 1, "2": 1, "3": 1}


def test_incontext_on_an_archive_of_arrays(tmp_path):
    X = np.random.default_rng(0).standard_normal((40, 5))
    np.savez(tmp_path / "x.npz", X=X, doc=np.repeat([3, 7], 20))
    out = tmp_path / "out"
    done = run(
        "incontext", tmp_path / "x.npz", "--group-column", "doc", "-k", 2, "-o", out, "--json"
    )
    assert json.loads(done.stdout)["groups_by_clusters"] == {"2": 2}
    assert (out / "groups.csv").read_text().startswith('"doc","rows","clusters"')


def test_incontext_says_which_group_is_at_fault(documents, tmp_path):
    table = pa.parquet.read_table(documents)
    rows = table.to_pylist()
    rows[4]["doc_id"] = None
    path = tmp_path / "null.parquet"
    pa.parquet.write_table(pa.Table.from_pylist(rows), path)
    options = ["--group-column", "doc_id", "--out", tmp_path / "out"]
    assert "row 4 (counted from 0) has no 'doc_id'" in fails("incontext", path, *options)
    rows[4] = {**rows[5], "doc_id": "lonely"}
    pa.parquet.write_table(pa.Table.from_pylist(rows), path)
    said = fails("incontext", path, *options, "--clusters", 2)
    assert "group 'lonely' has 1 tokens, fewer than n_clusters=2" in said
    assert not (tmp_path / "out").exists()
    done = run("incontext", path, *options, "--clusters", 2, "--on-error", "skip")
    assert "skipped: group 'lonely' has 1 tokens" in done.stdout
    said = run("incontext", path, *options, "--clusters", "many", code=2).stderr
    assert "a number or auto" in said


@pytest.mark.parametrize("name", ["v.npy", "v.npz", "sparse.npz", "v.csv", "v.feather"])
def test_compare_writes_page_document_and_labels(tmp_path, data, name):
    X, known = data
    path, out = write(tmp_path / name, X, known), tmp_path / "out"
    scored = ["--label-column", "kind"] if name not in ("v.npy", "sparse.npz") else []
    options = ["--clusters", 3, "--starts", 2, "--out", out, "--json", *scored]
    done = run("compare", path, *options)
    document = json.loads(done.stdout)
    assert done.stderr == ""
    assert document == json.loads((out / "comparison.json").read_text())
    names = ["comparison.html", "comparison.json", f"labels{path.suffix}"]
    assert sorted(p.name for p in out.iterdir()) == names
    assert document["outputs"] == [str(out / name) for name in names]
    shown = document["agreement"]["methods"]
    assert shown[0] == document["methods"][0]["method"]
    assert ("EM" in shown) == (name != "sparse.npz")
    assert len(document["agreement"]["adjusted_rand"]) == len(shown)
    assert "k-means, 2 starts" in shown
    assert "<h1>Methods compared on" in (out / "comparison.html").read_text()
    for row in document["methods"]:
        assert row["ari"] == (1 if scored else None)
    columns = ["attention", "k_means_1_start", "k_means_2_starts", "spherical_k_means"]
    if name == "v.npy":
        assert np.load(out / "labels.npy").shape == (300, len(shown))
    elif path.suffix == ".npz":
        with np.load(out / "labels.npz") as archive:
            assert set(columns) <= set(archive.files)
    else:
        read = pa.csv.read_csv if path.suffix == ".csv" else pa.feather.read_table
        table = read(out / f"labels{path.suffix}")
        assert table.column_names[:3] == ["id", "text", "kind"]
        assert set(columns) <= set(table.column_names[3:])
        assert len(set(zip(table["attention"].to_pylist(), known, strict=True))) == 3


def test_compare_for_people_and_without_a_folder(tmp_path, data):
    path = write(tmp_path / "v.parquet", *data)
    before = sorted(tmp_path.iterdir())
    done = run("compare", path, "-k", 3, "--starts", 1, "--metric", "cosine")
    for part in ("k-means, 1 start", "agreement (ARI)", "best first: least inertia", "seconds"):
        assert part in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert sorted(tmp_path.iterdir()) == before
    assert run("compare", path, "-k", 3, "--starts", 1, "-q").stdout == ""


def test_compare_refuses_what_no_method_can_use(tmp_path, data):
    out = tmp_path / "out"
    path = write(tmp_path / "v.npy", *data)
    said = fails("compare", path, "-k", 301, "-o", out)
    assert "v.npy" in said
    assert "n_clusters=301 is more than n_samples=300" in said
    assert "at least 1" in fails("compare", path, "-k", 0, "-o", out)
    assert "no such file" in fails("compare", tmp_path / "w.npy", "-k", 3, "-o", out)
    run("compare", path, "-k", 3, "--starts", 0, "-o", out, code=2)
    run("compare", path, "-o", out, code=2)
    assert not out.exists()
    (tmp_path / "file").write_text("here")
    fails("compare", path, "-k", 3, "--starts", 1, "-o", tmp_path / "file", code=3)
    labels = write(tmp_path / "labels.npy", *data)
    assert "would replace" in fails("compare", labels, "-k", 3, "-o", tmp_path, code=3)


def test_the_report_of_a_fit(tmp_path, data):
    pytest.importorskip("plotly")
    path = write(tmp_path / "v.csv", *data)
    shown = ["--text-column", "text", "--id-column", "x3", "--label-column", "kind"]
    done = run("fit", path, "-k", 3, "-o", tmp_path / "out", "--report", *shown, "--json")
    summary = json.loads(done.stdout)
    assert done.stderr == ""
    assert summary["vectors"] == ["x0", "x1", "x2"]
    assert set(summary["seconds"]) == {"read", "fit", "report", "write"}
    assert str(tmp_path / "out" / "report.html") in summary["outputs"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "row 17, class" in page
    assert f'"{float(pa.csv.read_csv(path)["x3"][17].as_py())}"' in page
    assert "matched accuracy, known labels" in page
    labelled = labels_of(tmp_path / "out" / "labels.csv")[1]
    assert labelled.column_names == ["id", "text", "kind", "x3", "cluster", "confidence"]
    run("predict", tmp_path / "out" / "model.safetensors", path, "-o", tmp_path / "again")


def test_a_report_that_cannot_be_made(tmp_path, data, monkeypatch):
    path, out = write(tmp_path / "v.csv", *data), tmp_path / "out"
    if find_spec("plotly"):
        said = fails("fit", path, "-k", 3, "-o", out, "--report", "--text-column", "texts")
        assert "no column 'texts'; did you mean 'text'?" in said
    said = run("fit", path, "-k", 3, "-o", out, "--id-column", "id", code=2).stderr
    assert "add --report" in said
    monkeypatch.setattr("attnclust.console.find_spec", lambda name: None)
    said = fails("fit", path, "-k", 3, "-o", out, "--report")
    assert "pip install 'attnclust[report]'" in said
    assert not out.exists()
