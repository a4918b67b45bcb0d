import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.sparse as sp

from attnclust.files import InputError, read_vectors, write_labels

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
        self.check(tmp_path / "v.doc", "unknown kind of file '.doc'; known are .npy")
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

    def test_objects_are_not_unpickled(self, tmp_path):
        np.save(tmp_path / "v.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
        self.check(tmp_path / "v.npy", "cannot be read")

    def test_rows(self, tmp_path, lists):
        for values, message in [
            (
                [[1.0, 2], [1], [1, 2], [1, 2]],
                "row 1, column 'embedding' has 1 numbers where",
            ),
            ([[1.0, 2], None, [1, 2], [1, 2]], "row 1, column 'embedding' is empty"),
            ([[1.0, 2], [1, 2], [1, None], [1, 2]], "row 2, .* has no number at position 1"),
            ([["a"]] * 4, "holds lists of string, not of numbers"),
            ([[]] * 4, "holds lists of null|holds empty lists"),
        ]:
            table = lists.set_column(2, "embedding", pa.array(values))
            pa.parquet.write_table(table, tmp_path / "v.parquet")
            self.check(tmp_path / "v.parquet", message)

    def test_cells(self, tmp_path):
        self.check(self.text(tmp_path, "a,b\n1,2\n3,\n"), "row 1, column 'b' is empty")
        self.check(self.text(tmp_path, "a,b\n1,2\n3,x\n5,6\n"), "row 1, column 'b' holds 'x', not")
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
        self.check(tmp_path / "v.npz", "expected one label for each", label_column="y")
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
