from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.sparse as sp

from attnclust.files import InputError, _from_lists, read_vectors, write_labels

X = np.arange(12, dtype=np.float32).reshape(4, 3) / 8
NAMES = ["n", "s", "e", "w"]


@pytest.fixture
def lists():
    return pa.table({"id": [7, 8, 9, 10], "text": NAMES, "embedding": list(X)})


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.float32()),
        pa.large_list(pa.float64()),
        pa.list_(pa.float32(), 3),
        pa.list_(pa.float16()),
    ],
    ids=str,
)
@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_a_list_column_beside_others(tmp_path, lists, kind, suffix):
    values = [row.astype(np.float16) for row in X] if kind.value_type == pa.float16() else list(X)
    table = lists.set_column(2, "embedding", pa.array(values, type=kind))
    table = pa.concat_tables([table[:1], table[1:]])  # more than one chunk
    path = tmp_path / f"v{suffix}"
    if suffix == ".parquet":
        pa.parquet.write_table(table, path)
    else:
        pa.feather.write_feather(table, str(path))
    for vectors in ((), ["embedding"]):
        found = read_vectors(path, vectors, "text")
        np.testing.assert_array_equal(found.X, X)
        assert found.names == ["embedding"]
        assert found.carried.column_names == ["id", "text"]
        assert list(found.known) == NAMES
    assert read_vectors(path, keep=["text"]).carried.column_names == ["text"]


@pytest.mark.parametrize(("suffix", "mark"), [(".csv", ","), (".tsv", "\t")])
def test_text_with_and_without_a_header(tmp_path, suffix, mark):
    path = tmp_path / f"v{suffix}"
    body = "\n".join(mark.join(map(str, row)) for row in X.tolist())
    path.write_text(body)
    np.testing.assert_array_equal(read_vectors(path).X, X)
    path.write_text(mark.join("abc") + "\n" + body + "\n")
    found = read_vectors(path)
    np.testing.assert_array_equal(found.X, X)
    assert found.names == ["a", "b", "c"]
    np.testing.assert_array_equal(read_vectors(path, ["c", "a"]).X, X[:, [2, 0]])
    assert read_vectors(path, ["c"]).carried.column_names == ["a", "b"]


def test_identifiers_labels_and_kept_columns_are_no_coordinates(tmp_path):
    path = tmp_path / "v.csv"
    path.write_text("id,user_id,a,b,year,class\n1,4,0.5,2,1999,1\n2,5,0.25,3,2001,0\n")
    found = read_vectors(path, label_column="class", keep=["year", "id"])
    assert found.names == ["a", "b"]
    assert found.carried.column_names == ["year", "id"]
    assert list(found.known) == [1, 0]
    assert read_vectors(path, ["id", "a"]).names == ["id", "a"]


@pytest.mark.parametrize(
    ("content", "names", "rows"),
    [
        ("a,b\n1,2\n", ["a", "b"], [[1, 2]]),
        ("1,2\n3,4\n", ["f0", "f1"], [[1, 2], [3, 4]]),
        ("1e-3,-2\n3,4\n", ["f0", "f1"], [[0.001, -2], [3, 4]]),
        (",0,1\n0,1.5,2\n1,3.5,4\n", ["0", "1"], [[1.5, 2], [3.5, 4]]),  # DataFrame.to_csv
        ("0,1\n1.5,2\n", ["0", "1"], [[1.5, 2]]),  # the same without the index
        ("0,1\n1,2\n", ["f0", "f1"], [[0, 1], [1, 2]]),
        ("0,1\n", ["f0", "f1"], [[0, 1]]),
    ],
)
def test_what_counts_as_a_header(tmp_path, content, names, rows):
    (tmp_path / "v.csv").write_text(content)
    found = read_vectors(tmp_path / "v.csv")
    assert found.names == names
    assert found.named == (names[0] != "f0")
    np.testing.assert_array_equal(found.X, rows)


@pytest.mark.parametrize("missing", ["", "nan", "NA", "null"])
def test_a_first_row_with_a_gap_is_no_header(tmp_path, missing):
    (tmp_path / "v.csv").write_text(f"1.5,{missing}\n2,3\n")
    with pytest.raises(InputError, match=r"row 0 .*, column 'f1' is empty"):
        read_vectors(tmp_path / "v.csv")


def test_columns_are_found_by_the_names_a_model_knows(tmp_path, lists):
    path = tmp_path / "v.csv"
    path.write_text("c,extra,a\n1,2,3\n")
    found = read_vectors(path, features=["a", "c"])
    np.testing.assert_array_equal(found.X, [[3, 1]])
    assert found.carried.column_names == ["extra"]
    assert read_vectors(path, ["extra"], features=["a", "c"]).names == ["extra"]
    with pytest.raises(InputError, match="no column 'b'"):
        read_vectors(path, features=["a", "b"])
    path.write_text("1,2\n3,4\n")
    np.testing.assert_array_equal(read_vectors(path, features=["a", "c"]).X, [[1, 2], [3, 4]])
    pa.parquet.write_table(lists, tmp_path / "v.parquet")
    assert read_vectors(tmp_path / "v.parquet", features=list("abc")).names == ["embedding"]


def test_lists_of_words_are_no_vectors(tmp_path, lists):
    path = tmp_path / "v.parquet"
    pa.parquet.write_table(lists.append_column("tags", pa.array([["a", "b"]] * 4)), path)
    found = read_vectors(path)
    assert found.names == ["embedding"]
    assert found.carried.column_names == ["id", "text", "tags"]


def test_one_chunk_of_lists_is_not_copied(lists):
    column = lists["embedding"]
    X = _from_lists(Path("v.parquet"), "embedding", column)
    assert np.shares_memory(X, column.chunk(0).flatten().to_numpy())


def test_the_index_that_pandas_stores_is_no_coordinate(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("abc"), index=[3, 1, 2, 0])
    frame.to_parquet(tmp_path / "v.parquet")
    found = read_vectors(tmp_path / "v.parquet")
    assert found.names == ["a", "b", "c"]
    assert found.carried.column_names == ["__index_level_0__"]


def test_arrays(tmp_path):
    np.save(tmp_path / "v.npy", X)
    np.testing.assert_array_equal(read_vectors(tmp_path / "v.npy").X, X)
    for arrays in ({"X": X, "other": X}, {"rows": X, "y": np.arange(4)}):
        np.savez(tmp_path / "v.npz", **arrays)
        np.testing.assert_array_equal(read_vectors(tmp_path / "v.npz").X, X)
    found = read_vectors(tmp_path / "v.npz", ["rows"], "y")
    np.testing.assert_array_equal(found.known, np.arange(4))
    sp.save_npz(tmp_path / "v.npz", sp.csc_matrix(X))
    found = read_vectors(tmp_path / "v.npz")
    assert sp.issparse(found.X)
    np.testing.assert_array_equal(found.X.toarray(), X)


class TestBadInput:
    def check(self, path, message, **arguments):
        with pytest.raises(InputError, match=message) as caught:
            read_vectors(path, **arguments)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)

    def text(self, tmp_path, content):
        path = tmp_path / "v.csv"
        path.write_text(content)
        return path

    def test_files(self, tmp_path):
        self.check(tmp_path / "v.doc", "unknown kind of file '.doc'; use .npy")
        self.check(tmp_path / "v.csv", "no such file")
        (tmp_path / "folder.csv").mkdir()
        self.check(tmp_path / "folder.csv", "not a file")
        for suffix in (".csv", ".npy", ".npz", ".parquet", ".feather"):
            path = tmp_path / f"v{suffix}"
            path.write_bytes(b"")
            self.check(path, "the file is empty")
            if suffix != ".csv":
                path.write_bytes(b"garbage" * 10)
                self.check(path, "cannot be read as")

    def test_truncated_files(self, tmp_path, lists):
        pa.parquet.write_table(lists, tmp_path / "v.parquet")
        np.save(tmp_path / "v.npy", X)
        np.savez(tmp_path / "v.npz", X=X)
        for path in list(tmp_path.iterdir()):
            path.write_bytes(path.read_bytes()[:-20])
            self.check(path, "cannot be read as")

    @pytest.mark.parametrize("name", ["v.npy", "dense.npz", "sparse.npz", "v.parquet", "v.feather"])
    def test_damaged_files(self, tmp_path, lists, name):
        """Parsers raise what they like; a changed byte is read, or an error of ours."""
        path = tmp_path / name
        if name == "v.npy":
            np.save(path, X)
        elif name == "dense.npz":
            np.savez_compressed(path, X=np.tile(X, (50, 1)))
        elif name == "sparse.npz":
            sp.save_npz(path, sp.csr_matrix(np.tile(X, (50, 1))))
        else:
            write = pa.parquet.write_table if name == "v.parquet" else pa.feather.write_feather
            write(lists, str(path))
        raw = path.read_bytes()
        rng = np.random.default_rng(0)
        said = []
        for place in rng.integers(len(raw), size=150):
            path.write_bytes(raw[:place] + rng.bytes(1) + raw[place + 1 :])
            try:
                read_vectors(path)
            except InputError as error:
                said.append(str(error))
        assert said
        assert all(str(path) in message for message in said)

    def test_a_sparse_matrix_that_points_outside_itself(self, tmp_path):
        parts = {
            "format": "csr",
            "shape": (2, 3),
            "data": [1.0],
            "indices": [7],
            "indptr": [0, 1, 1],
        }
        np.savez(tmp_path / "v.npz", **parts)
        self.check(tmp_path / "v.npz", "cannot be read as .npz")

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            (np.array([["1", "2"]]), "holds <U1"),
            (np.ones((2, 2), complex), "holds complex128"),
            (np.zeros((2, 2), "M8[s]"), "holds datetime64"),
            (np.ones(5), r"has shape \(5,\)"),
            (np.ones((2, 2, 2)), r"has shape \(2, 2, 2\)"),
            (np.ones((0, 3)), r"has shape \(0, 3\)"),
        ],
    )
    def test_arrays_that_hold_no_vectors(self, tmp_path, array, message):
        np.save(tmp_path / "v.npy", array)
        self.check(tmp_path / "v.npy", message)
        np.savez(tmp_path / "v.npz", X=array)
        self.check(tmp_path / "v.npz", message)

    def test_labels(self, tmp_path):
        path = self.text(tmp_path, "a,k\n1,\n2,x\n3,\n")
        assert list(read_vectors(path, label_column="k").known) == [None, "x", None]
        self.check(self.text(tmp_path, "a,k\n1,\n2,\n"), "'k' has no value", label_column="k")
        np.savez(tmp_path / "v.npz", X=X, y=np.full(4, np.nan))
        self.check(tmp_path / "v.npz", "'y' has no value", label_column="y")

    def test_objects_are_not_unpickled(self, tmp_path):
        np.save(tmp_path / "v.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
        self.check(tmp_path / "v.npy", "cannot be read")

    def test_rows(self, tmp_path, lists):
        for values, message in [
            (
                [[1.0, 2], [1], [1, 2], [1, 2]],
                r"row 1 \(counted from 0\), column 'embedding' has 1 numbers where",
            ),
            (
                [[1.0, 2], None, [1, 2], [1, 2]],
                r"row 1 \(counted from 0\), column 'embedding' is empty",
            ),
            (
                [[1.0, 2], [1, 2], [1, None], [1, 2]],
                r"row 2 \(counted from 0\), .* has no number at position 1",
            ),
            ([["a"]] * 4, "holds lists of string, not of numbers"),
            ([[]] * 4, "holds lists of null|holds empty lists"),
        ]:
            table = lists.set_column(2, "embedding", pa.array(values))
            pa.parquet.write_table(table, tmp_path / "v.parquet")
            self.check(tmp_path / "v.parquet", message)

    def test_cells(self, tmp_path):
        self.check(
            self.text(tmp_path, "a,b\n1,2\n3,\n"), r"row 1 \(counted from 0\), column 'b' is empty"
        )
        self.check(
            self.text(tmp_path, "a,b\n1,2\n3,x\n5,6\n"),
            r"row 1 \(counted from 0\), column 'b' holds 'x', not",
        )
        self.check(self.text(tmp_path, "a,b\n1,2\n3,inf\n"), "row 1 .* 'b' holds infinity")
        pa.parquet.write_table(pa.table({"a": [1.0, np.nan]}), tmp_path / "v.parquet")
        self.check(tmp_path / "v.parquet", "row 1 .*, column 'a' holds NaN")
        self.check(self.text(tmp_path, "a,b\nu,v\nw,x\n"), "no list-typed and no numeric column")
        self.check(self.text(tmp_path, "a,b\n1,2\n3\n"), "cannot be read as .csv")
        self.check(self.text(tmp_path, "a,b\n"), "the table has no rows")
        self.check(self.text(tmp_path, "a,a\n1,2\n"), "two columns are named 'a'")

    def test_columns(self, tmp_path, lists):
        path = tmp_path / "v.parquet"
        pa.parquet.write_table(lists.append_column("second", lists["embedding"]), path)
        self.check(path, "say which column holds the vectors: embedding, second")
        self.check(path, "did you mean 'embedding'", vectors=["embeding"])
        self.check(path, "there are id, text, embedding, second", label_column="zzz")
        self.check(path, "no column 'nix'", keep=["nix"])
        self.check(path, "column 'text' holds string", vectors=["text"])
        np.savez(tmp_path / "v.npz", a=X, b=X)
        self.check(tmp_path / "v.npz", "say which array holds the vectors by --vectors: a, b")
        self.check(tmp_path / "v.npz", "no array 'X'", vectors=["X"])
        np.savez(tmp_path / "v.npz", a=X, y=np.arange(3))
        self.check(tmp_path / "v.npz", "expected one value for each", label_column="y")
        np.save(tmp_path / "v.npy", X)
        self.check(tmp_path / "v.npy", "has no columns", label_column="y")


class TestLabels:
    labels, confidence = np.array([0, 1, 1, -1]), np.array([0.9, 0.8, 0.7, 0.4])

    @pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".feather"])
    def test_tables_carry_their_columns(self, tmp_path, suffix):
        carried = pa.table({"text": ['a "quoted", word', "b", None, "d"], "cluster": [5, 6, 7, 8]})
        path = write_labels(tmp_path, suffix, self.labels, self.confidence, carried)
        assert path.name == f"labels{suffix}"
        if suffix in (".csv", ".tsv"):
            mark = "," if suffix == ".csv" else "\t"
            options = pa.csv.ParseOptions(delimiter=mark)
            back = pa.csv.read_csv(path, parse_options=options)
        else:
            read = pa.parquet.read_table if suffix == ".parquet" else pa.feather.read_table
            back = read(path)
        assert back.column_names == ["text", "cluster", "cluster_", "confidence"]
        assert back["text"][0].as_py() == 'a "quoted", word'
        assert back["cluster_"].to_pylist() == self.labels.tolist()

    def test_arrays(self, tmp_path):
        write_labels(tmp_path, ".npy", self.labels, self.confidence, None)
        np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), self.labels)
        write_labels(tmp_path, ".npz", self.labels, self.confidence, None)
        with np.load(tmp_path / "labels.npz") as back:
            np.testing.assert_array_equal(back["confidence"], self.confidence)
