import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attnclust import AttentionClustering
from attnclust.datasets import ChangedError, open_dataset
from attnclust.files import InputError, read_vectors


@pytest.fixture(scope="module")
def data(blobs):
    X, labels, _ = blobs(3000, 6, 3, 0.1, dtype=np.float32)
    return X, labels


def table(X, labels=None, start=0):
    columns = {"id": np.arange(start, start + len(X)), "embedding": list(X)}
    if labels is not None:
        columns["kind"] = [f"k{k}" for k in labels]
    return pa.table(columns)


@pytest.fixture
def folder(data, tmp_path):
    X, labels = data
    out = tmp_path / "rows"
    (out / "deeper").mkdir(parents=True)
    for place, name in enumerate(("a.parquet", "b.parquet", "deeper/c.parquet")):
        part = slice(1000 * place, 1000 * (place + 1))
        pq.write_table(table(X[part], labels[part], part.start), out / name, row_group_size=300)
    (out / "_metadata.parquet").write_text("no table")
    return out


def rows(dataset):
    return np.concatenate([batch.X for batch in dataset.source.batches()])


def spoil(path, group):
    """Overwrite the pages of a row group, and leave the footer as it was."""
    chunk = pq.ParquetFile(path).metadata.row_group(group).column(1)
    with path.open("r+b") as file:
        file.seek(chunk.data_page_offset)
        file.write(b"\xff" * 64)


@pytest.mark.parametrize("bytes_", [100, 5000, 2**25])
def test_a_folder_is_its_files_one_after_the_other(data, folder, bytes_):
    X, labels = data
    dataset = open_dataset(folder, label_column="kind", batch_bytes=bytes_)
    np.testing.assert_array_equal(rows(dataset), X)
    assert (dataset.n_rows, dataset.dim, dataset.nbytes) == (3000, 6, 3000 * 6 * 4)
    assert [part.n_rows for part in dataset.parts] == [300, 300, 300, 100] * 3
    assert dataset.schema.names == ["id", "kind"]
    beside = [b.aside for part in dataset.parts for b in part.read(True)]
    assert pa.concat_tables(beside)["id"].to_pylist() == list(range(3000))
    assert pa.concat_tables(beside)["kind"].to_pylist() == [f"k{k}" for k in labels]
    largest = max(len(batch.X) for batch in dataset.source.batches())
    assert largest <= max(1, bytes_ // 24)


def test_numeric_columns_are_chosen_as_in_memory(data, tmp_path):
    X, _ = data
    path = tmp_path / "x.parquet"
    columns = {f"x{j}": X[:, j] for j in range(6)}
    pq.write_table(pa.table({"id": np.arange(len(X)), "note": ["a"] * len(X)} | columns), path)
    dataset, whole = open_dataset(path), read_vectors(path)
    np.testing.assert_array_equal(rows(dataset), whole.X)
    assert dataset.names == whole.names
    assert dataset.named
    assert dataset.schema.names == ["id", "note"]
    some = open_dataset(path, ("x3", "x1"), keep=("note",))
    np.testing.assert_array_equal(rows(some), X[:, [3, 1]])
    assert some.schema.names == ["note"]


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays(data, tmp_path, order):
    X, _ = data
    path = tmp_path / "X.npy"
    np.save(path, np.asarray(X, order=order))
    dataset = open_dataset(path, batch_bytes=1000)
    np.testing.assert_array_equal(rows(dataset), X)
    assert len(list(dataset.source.batches())) == -(-3000 // (1000 // 24))


def test_fit_takes_paths(data, folder, tmp_path):
    X, _ = data
    np.save(tmp_path / "X.npy", X)
    found = [
        AttentionClustering(3, max_samples=800, random_state=0).fit(source)
        for source in (folder, str(folder), tmp_path / "X.npy", np.split(X, 5))
    ]
    for one in found[1:]:
        np.testing.assert_allclose(one.cluster_centers_, found[0].cluster_centers_, atol=1e-6)
    labels = np.concatenate(list(found[0].predict_batches(folder)))
    np.testing.assert_array_equal(labels, found[0].predict(X))


class TestFaults:
    def said(self, dataset):
        with pytest.raises(InputError) as caught:
            rows(dataset)
        return str(caught.value)

    def test_a_bad_row_group_is_named(self, folder):
        spoil(folder / "b.parquet", 2)
        dataset = open_dataset(folder)
        assert f"{folder / 'b.parquet'}, row group 2: cannot be read" in self.said(dataset)
        good = [p for p in dataset.parts if not p.where.endswith("b.parquet, row group 2")]
        assert sum(len(b.X) for part in good for b in part.read(True)) == 2700

    def test_a_truncated_file_is_named(self, folder):
        whole = (folder / "b.parquet").read_bytes()
        (folder / "b.parquet").write_bytes(whole[: len(whole) // 2])
        dataset = open_dataset(folder)
        assert f"{folder / 'b.parquet'}: cannot be read as .parquet" in self.said(dataset)
        with pytest.raises(InputError, match=r"b\.parquet: cannot be read as \.parquet"):
            open_dataset(folder / "b.parquet")
        (folder / "a.parquet").write_bytes(b"PAR1")
        assert open_dataset(folder).dim == 6

    def test_a_truncated_array_is_named(self, data, tmp_path):
        path = tmp_path / "X.npy"
        np.save(path, data[0])
        dataset = open_dataset(path)
        path.write_bytes(path.read_bytes()[:-100])
        assert "X.npy: was changed" in self.said(dataset)
        with pytest.raises(InputError, match=r"X\.npy: cannot be read as \.npy"):
            open_dataset(path)

    def test_a_file_that_changes_under_the_run(self, data, folder):
        dataset = open_dataset(folder)
        batches = dataset.source.batches()
        next(batches)
        pq.write_table(table(data[0][:900]), folder / "c.parquet")  # a new one is none of ours
        pq.write_table(table(data[0][:900], data[1][:900]), folder / "b.parquet")
        with pytest.raises(ChangedError, match=r"b\.parquet: was changed while it was being read"):
            list(batches)
        (folder / "a.parquet").unlink()
        with pytest.raises(ChangedError, match=r"a\.parquet: was changed"):
            rows(dataset)

    def test_files_of_another_kind(self, data, folder):
        X, labels = data
        pq.write_table(table(X[:10, :4], labels[:10]), folder / "d.parquet")
        assert "d.parquet, row group 0, rows from 0: vectors of 4 numbers" in self.said(
            open_dataset(folder)
        )
        pq.write_table(table(X[:10].astype(float), labels[:10]), folder / "d.parquet")
        assert "d.parquet: column 'embedding' is of list<" in self.said(open_dataset(folder))
        pq.write_table(pa.table({"x": [1.0]}), folder / "d.parquet")
        assert "d.parquet: no column 'embedding'" in self.said(open_dataset(folder))

    def test_missing_numbers_are_named(self, data, folder):
        X, _ = data
        holes = [None if i == 5 else row for i, row in enumerate(X[:10])]
        pq.write_table(
            pa.table(
                {
                    "id": np.arange(10),
                    "embedding": pa.array(holes, pa.list_(pa.float32())),
                    "kind": ["a"] * 10,
                }
            ),
            folder / "d.parquet",
        )
        assert "d.parquet, row group 0, rows from 0: row 5" in self.said(open_dataset(folder))

    def test_a_changed_byte_is_read_or_an_error_of_ours(self, folder):
        path = folder / "a.parquet"
        raw, rng, said = path.read_bytes(), np.random.default_rng(0), 0
        for place in rng.integers(len(raw), size=150):
            path.write_bytes(raw[:place] + rng.bytes(1) + raw[place + 1 :])
            try:
                rows(open_dataset(path))
            except InputError:
                said += 1
        assert said

    @pytest.mark.parametrize(
        ("make", "said"),
        [
            (lambda p: p.mkdir(), "a folder without .parquet files"),
            (lambda p: None, "no such file"),
            (lambda p: p.write_text("a,b"), "only .npy and .parquet files"),
        ],
    )
    def test_what_is_no_dataset(self, tmp_path, make, said):
        make(tmp_path / "x.csv")
        with pytest.raises(InputError, match=said):
            open_dataset(tmp_path / "x.csv")

    def test_no_rows_at_all(self, data, tmp_path):
        path = tmp_path / "x.parquet"
        pq.write_table(table(data[0])[:0], path)
        with pytest.raises(InputError, match="the table has no rows"):
            open_dataset(path)

    def test_arrays_that_are_no_vectors(self, tmp_path):
        path = tmp_path / "X.npy"
        np.save(path, np.zeros(3))
        with pytest.raises(InputError, match=r"has shape \(3,\)"):
            open_dataset(path)
        np.save(path, np.array([["a"]]))
        with pytest.raises(InputError, match="vectors are made of real numbers"):
            open_dataset(path)
        np.save(path, np.zeros((3, 2)))
        with pytest.raises(InputError, match="has no columns"):
            open_dataset(path, ("a",))
