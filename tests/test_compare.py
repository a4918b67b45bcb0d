import json
import warnings
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, silhouette_score

from attnclust.compare import compare
from attnclust.compare import comparison as comparison_module
from attnclust.compare.methods import SPECTRAL_ROWS, Method, attempt, methods
from attnclust.compare.page import save_comparison
from attnclust.compare.quality import class_fits, distances, inertia, silhouette
from attnclust.compare.report import describe, write_columns
from attnclust.compare.spherical import spherical_kmeans
from attnclust.compare.table import COLUMNS, best_cell, cell
from attnclust.files import Vectors
from attnclust.tokens import Tokens, scale_to_unit

ALL = {"attention", "k-means, 1 start", "k-means, 10 starts", "spherical k-means", "EM", "spectral"}


def by_name(found):
    return {row.method: row for row in found.rows}


@pytest.fixture(scope="module")
def apart():
    """Clusters so far apart, by place and by direction, that every method finds them."""
    rng = np.random.default_rng(0)
    y = np.arange(160) % 4
    return 10 * np.eye(4)[y] + rng.standard_normal((160, 4)), y


@pytest.fixture(scope="module")
def easy(apart):
    return compare(apart[0], 4, known=apart[1], random_state=0)


def test_all_methods_agree_where_clusters_are_far_apart(easy):
    rows = by_name(easy)
    assert set(rows) == ALL
    assert all(row.ari == row.nmi == row.matched_accuracy == 1 for row in easy.rows)
    assert all(row.relative_inertia == pytest.approx(1) for row in easy.rows)
    assert all(
        (row.clusters, row.empty, row.smallest, row.largest) == (4, 0, 40, 40) for row in easy.rows
    )
    np.testing.assert_allclose(easy.agreement, np.ones((6, 6)))


def test_attention_finds_thirty_centres_that_one_start_of_k_means_does_not(blobs):
    X, y, _ = blobs(3000, 64, 30, 0.15)
    found = compare(X, 30, known=y, n_starts=2, random_state=0)
    rows = by_name(found)
    assert rows["attention"].ari > 0.99
    assert rows["attention"].relative_inertia == 1
    assert rows["k-means, 1 start"].relative_inertia > 1.01
    assert found.rows[0].method == "attention"
    assert rows["spectral"].seconds is None
    assert "left out: 3,000 rows are more than" in rows["spectral"].note
    assert found.rows[-1].method == "spectral"
    assert "spectral" not in found.labels


def test_the_table_is_what_the_labels_say(apart, blobs):
    X, y, _ = blobs(400, 6, 5, 0.3, seed=3)
    found = compare(X, 5, known=y, n_starts=3, random_state=1)
    m = len(found.labels)
    assert found.agreement.shape == (m, m)
    np.testing.assert_array_equal(found.agreement, found.agreement.T)
    np.testing.assert_array_equal(np.diag(found.agreement), 1)
    names = list(found.labels)
    assert names == [row.method for row in found.rows]
    for i, j in [(0, 1), (2, 4), (5, 3)]:
        expected = adjusted_rand_score(found.labels[names[i]], found.labels[names[j]])
        assert found.agreement[i, j] == pytest.approx(expected)
    inertias = {}
    for row in found.rows:
        labels = found.labels[row.method]
        sizes = np.bincount(labels)
        assert (row.smallest, row.largest) == (sizes.min(), sizes.max())
        assert row.ari == pytest.approx(adjusted_rand_score(y, labels))
        assert row.silhouette == pytest.approx(silhouette_score(X, labels))
        inertias[row.method] = sum(
            ((X[labels == k] - X[labels == k].mean(0)) ** 2).sum() for k in range(5)
        )
    least = min(inertias.values())
    for row in found.rows:
        assert row.relative_inertia == pytest.approx(inertias[row.method] / least)
    frame = pd.DataFrame(found.rows)
    assert frame["ari"].round(4).is_monotonic_decreasing
    assert list(frame["method"]) == names


def test_without_known_labels_the_least_inertia_comes_first(blobs):
    X, y, _ = blobs(400, 6, 5, 0.3, seed=3)
    found = compare(X, 5, random_state=0)
    inertias = [row.relative_inertia for row in found.rows]
    assert inertias == sorted(inertias)
    assert "ARI" not in found.order
    assert found.rows[0].ari is None
    part = [int(k) if k else None for k in y]
    scored = compare(X, 5, known=part, random_state=0)
    assert "ARI" in scored.order
    mine = by_name(scored)["attention"]
    assert mine.ari == pytest.approx(
        adjusted_rand_score(y[y > 0], scored.labels["attention"][y > 0])
    )
    missing = compare(X, 5, known=np.where(y > 0, y, np.nan), random_state=0)
    assert by_name(missing)["attention"].ari == mine.ari


def test_the_same_seed_gives_the_same_labels(blobs):
    X, _, _ = blobs(200, 6, 5, 0.4)
    one, two = (compare(X, 5, random_state=7) for _ in range(2))
    for name, labels in one.labels.items():
        np.testing.assert_array_equal(labels, two.labels[name])


def test_cosine_sees_no_lengths(apart):
    X, y = apart
    lengths = np.exp(np.random.default_rng(1).standard_normal(len(X)))[:, None]
    found = compare(X * lengths, 4, known=y, metric="cosine", random_state=0)
    plain = compare(X, 4, known=y, metric="cosine", random_state=0)
    assert all(row.ari == 1 for row in found.rows)
    a, b = by_name(found), by_name(plain)
    for name in ALL:
        assert a[name].silhouette == pytest.approx(b[name].silhouette)


def test_sparse_rows_stay_sparse_and_em_says_that_it_takes_none(apart):
    X, y = apart
    X = np.where(X > 3, X, 0.0)
    dense = by_name(compare(X, 4, known=y, random_state=0))
    for metric in ("euclidean", "cosine"):
        found = compare(sp.csr_matrix(X), 4, known=y, metric=metric, random_state=0)
        rows = by_name(found)
        assert rows["EM"].clusters is None
        assert "takes no sparse rows" in rows["EM"].note
        assert {row.ari for row in found.rows if row.method != "EM"} == {1.0}
    rows = by_name(compare(sp.csr_matrix(X), 4, random_state=0))
    assert rows["attention"].silhouette == pytest.approx(dense["attention"].silhouette)


def test_a_method_that_fails_says_why_and_stops_no_other():
    X = np.repeat(np.eye(3), 5, axis=0)
    found = compare(X, 4, random_state=0)
    rows = by_name(found)
    assert "only 3 distinct rows" in rows["attention"].note
    assert found.rows[-1].method == "attention"
    assert rows["attention"].relative_inertia is rows["attention"].seconds is None
    assert "(3) found smaller than n_clusters (4)" in rows["k-means, 1 start"].note
    assert (rows["k-means, 1 start"].clusters, rows["k-means, 1 start"].empty) == (3, 1)
    assert np.isfinite([row.relative_inertia for row in found.rows[:-1]]).all()


def test_warnings_become_notes_and_failures_of_every_kind_too():
    def warn(X, n_clusters, seed):
        for _ in range(2):
            warnings.warn(
                "Not there yet. Raise max_iter, please.", ConvergenceWarning, stacklevel=1
            )
        return np.zeros(len(X), int)

    def overflow(X, n_clusters, seed):
        raise FloatingPointError

    X = np.ones((3, 2))
    done = attempt(Method("m", "", warn), X, 1, 0)
    assert done.notes == ["Not there yet"]
    assert done.seconds >= 0
    assert attempt(Method("m", "", overflow), X, 1, 0).notes == ["failed: FloatingPointError"]


def test_rows_at_the_edges(monkeypatch):
    rng = np.random.default_rng(0)
    one = compare(rng.standard_normal((1, 3)), 1, n_starts=1, random_state=0)
    assert {row.clusters for row in one.rows} == {None, 1}
    assert one.rows[0].silhouette is None
    full = compare(rng.standard_normal((6, 3)), 6, n_starts=1, random_state=0)
    assert {row.relative_inertia for row in full.rows} >= {1.0, None}
    assert "more rows than clusters" in by_name(full)["spectral"].note
    for scale in (1e140, 1e-140):
        far = compare(scale * np.eye(3)[np.arange(30) % 3], 3, n_starts=1, random_state=0)
        figures = [row.relative_inertia for row in far.rows if row.clusters]
        assert np.isfinite(figures).all()
    monkeypatch.setattr(comparison_module, "methods", lambda *_: [methods("euclidean", 1)[0]])
    with pytest.raises(
        ValueError, match="no method could cluster the rows: attention failed: X has"
    ):
        compare(np.ones((4, 2)), 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_clusters": 161}, "n_clusters=161 is more than n_samples=160: ask for fewer"),
        ({"n_clusters": 0}, "n_clusters must be an integer of at least 1"),
        ({"n_starts": 0}, "n_starts must be an integer of at least 1"),
        ({"metric": "l1"}, "metric must be one of 'euclidean', 'cosine'"),
        ({"known": [0, 1]}, "known has 2 labels, expected one for each of the 160 rows"),
        ({"known": [None] * 160}, "known has no label for any row"),
        ({"X": np.full((160, 2), np.nan)}, "NaN at row 0, column 0"),
    ],
)
def test_what_no_method_can_use_is_refused_first(apart, change, said):
    ran = []

    @contextmanager
    def running(name):
        ran.append(name)
        yield

    with pytest.raises(ValueError, match=said):
        compare(**({"X": apart[0], "n_clusters": 4, "running": running} | change))
    assert ran == []


def test_what_runs_is_named(apart):
    ran = []

    @contextmanager
    def running(name):
        ran.append(name)
        yield

    compare(apart[0], 4, random_state=0, running=running)
    assert ran == [f"running {m.name}" for m in methods("euclidean", 10)] + ["scoring"]


def test_the_silhouette_looks_at_so_many_rows_and_inertia_at_all():
    X = np.random.default_rng(0).standard_normal((2500, 3)).astype(np.float32) + 50
    rows, between = distances(Tokens(X), np.random.default_rng(0))
    assert len(set(rows)) == len(rows) == 2000
    assert between.shape == (2000, 2000)
    assert silhouette(between, np.zeros(2000, int)) is None
    model = KMeans(4, n_init=1, random_state=0).fit(X.astype(np.float64))
    expected = model.inertia_
    tokens = Tokens(X, unit=32.0)
    assert inertia(tokens, model.labels_, 6) * 32**2 == pytest.approx(expected, rel=1e-4)
    sparse = Tokens(sp.csr_matrix(X.astype(np.float64)), unit=32.0)
    assert inertia(sparse, model.labels_, 6) * 32**2 == pytest.approx(expected, rel=1e-4)


class TestSphericalKMeans:
    def test_rows_of_any_length_fall_to_the_centre_of_largest_cosine(self, apart):
        X, y = apart
        lengths = np.exp(np.random.default_rng(1).standard_normal(len(X)))[:, None]
        labels, centres = spherical_kmeans(X * lengths, 4, 0)
        assert adjusted_rand_score(y, labels) == 1
        np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1)
        np.testing.assert_array_equal((scale_to_unit(X) @ centres.T).argmax(1), labels)
        for k in range(4):
            mean = scale_to_unit(X)[labels == k].sum(0)
            np.testing.assert_allclose(centres[k], mean / np.linalg.norm(mean))

    def test_sparse_rows_give_what_dense_ones_do(self, apart):
        X = np.where(apart[0] > 0, apart[0], 0.0)
        dense, sparse = (spherical_kmeans(f(X), 4, 0) for f in (np.asarray, sp.csr_matrix))
        np.testing.assert_array_equal(dense[0], sparse[0])
        np.testing.assert_allclose(dense[1], sparse[1])

    def test_rows_of_zeros_and_an_early_end(self):
        X = np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32)
        X[0] = 0
        with pytest.warns(ConvergenceWarning, match="still moved after 1 rounds"):
            labels, centres = spherical_kmeans(X, 5, 0, max_iter=1)
        assert np.isfinite(centres).all()
        assert centres.dtype == np.float32
        assert (labels >= 0).all()


def test_a_class_is_met_by_the_cluster_that_fits_best():
    known = ["a", "a", "a", "b", "b", None, "c"]
    labels = np.array([0, 0, 1, 1, 1, 0, 2])
    number, largest = class_fits(known, {"m": labels}, 2)
    assert number == 3
    assert [c["class"] for c in largest] == ["a", "b"]
    assert [c["rows"] for c in largest] == [3, 2]
    assert [c["fits"]["m"] for c in largest] == pytest.approx([4 / 5, 4 / 5])


def test_figures_read_the_same_everywhere():
    by_key = {column.key: column for column in COLUMNS}
    rows = [
        {"seconds": s, "empty": e, "clusters": 3, "smallest": 1, "largest": 2000}
        for s, e in ((0.25, 0), (0.0123, 2))
    ]
    assert best_cell(rows, by_key["seconds"]) == "0.012"
    assert best_cell(rows, by_key["clusters"]) is None
    assert cell(rows[1], by_key["clusters"]) == "3 (2 empty)"
    assert cell(rows[1], by_key["sizes"]) == "1 to 2,000"
    assert cell({"relative_inertia": 1.2e30}, by_key["relative_inertia"]) == "1.2e+30"
    assert cell({"ari": None}, by_key["ari"]) == "–"


class Text(HTMLParser):
    """Tags and text of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self.attributes = set(), "", []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data):
        self.text += data


def test_the_page_shows_what_is_hostile_as_text(apart, tmp_path):
    X, y = apart
    names = ["<script>alert(1)</script>", 'a" onclick="b', "&amp;", "\u202eback"]
    known = np.array([f"</td><img src=x onerror=alert({k})>" for k in y], dtype=object)
    rows = Vectors(X, names, known, None, True)
    found = compare(X, 4, known=known, n_starts=1, random_state=0)
    document = describe(Path("<i>.csv"), rows, found, "<b>kind</b>", 0)
    save_comparison(tmp_path / "c.html", document)
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    read = Text(page)
    assert not read.tags & {"script", "img", "b", "i", "link"}
    assert not {"onclick", "onerror", "src", "href"} & set(read.attributes)
    for told in (*names, *known, "<b>kind</b>", "<i>.csv"):
        assert told in read.text
    assert "\u202eback</bdi>" in page
    assert "http:" not in page
    assert "https:" not in page
    for name in found.labels:
        assert name in read.text


def test_a_page_without_known_classes_and_with_a_file_name_that_is_no_text(apart, tmp_path):
    X, _ = apart
    found = compare(X, 4, n_starts=1, metric="cosine", random_state=0)
    document = describe(Path("v\udcff.npy"), Vectors(X, [], None, None), found, None, 0)
    save_comparison(tmp_path / "c.html", document)
    text = Text((tmp_path / "c.html").read_text(encoding="utf-8")).text
    assert "v\\udcff.npy" in text
    assert "Known classes" not in text
    assert "ARI" not in text
    assert "unit length" in text
    assert json.loads(json.dumps(document)) == document


def test_columns_of_labels_take_no_name_that_is_there(easy, tmp_path):
    carried = pa.table({"attention": ["x"] * 160, "em": range(160)})
    write_columns(tmp_path, ".parquet", easy, carried)
    table = pa.parquet.read_table(tmp_path / "labels.parquet")
    assert table.column_names[:2] == ["attention", "em"]
    assert {"attention_", "em_", "k_means_1_start", "spectral"} <= set(table.column_names)
    np.testing.assert_array_equal(table["attention_"], easy.labels["attention"])
    write_columns(tmp_path, ".npy", easy, None)
    np.testing.assert_array_equal(
        np.load(tmp_path / "labels.npy"), np.column_stack(list(easy.labels.values()))
    )
    write_columns(tmp_path, ".npz", easy, None)
    with np.load(tmp_path / "labels.npz") as archive:
        np.testing.assert_array_equal(archive["em"], easy.labels["EM"])


def test_spectral_is_left_out_just_above_its_most_rows():
    spectral = methods("euclidean", 1)[-1]
    assert spectral.refuses(np.empty((SPECTRAL_ROWS, 1)), 2) == ""
    assert "left out" in spectral.refuses(np.empty((SPECTRAL_ROWS + 1, 1)), 2)
