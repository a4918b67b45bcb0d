import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import softmax

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from matplotlib.figure import Figure

from attnclust import AttentionClustering
from attnclust.plotting import (
    MAX_POINTS,
    ClusterMapDisplay,
    ConfusionDisplay,
    ConvergenceDisplay,
    HeadSimilarityDisplay,
    QuantizationDisplay,
    ReliabilityDisplay,
    SpectrumDisplay,
)
from attnclust.plotting.planes import decision_lines, find_plane, plane_of_centres
from attnclust.plotting.style import apart
from attnclust.refinement import Clusters
from attnclust.tokens import Tokens

PLANES = ("centres", "heads", "normalised")


def fitted(X, k, **options):
    return AttentionClustering(k, random_state=0, **options).fit(X)


def drawn(display):
    """Lay the picture out, as saving it does; warnings are errors."""
    display.figure_.draw_without_rendering()
    return display


def test_points_and_centres_lie_in_one_plane(blobs):
    X, _, _ = blobs(400, 6, 3, 0.05)
    model = fitted(X, 3)
    display = ClusterMapDisplay.from_estimator(model, X)
    means = np.array([display.points[display.labels == k].mean(0) for k in range(3)])
    np.testing.assert_allclose(means, display.centres, atol=1e-6)
    assert display.share == pytest.approx(1)  # three centres span one plane
    between = np.linalg.norm(display.centres[:, None] - display.centres, axis=2)
    m = model.cluster_centers_
    np.testing.assert_allclose(between, np.linalg.norm(m[:, None] - m, axis=2), atol=1e-9)


def test_the_plane_of_two_heads_has_their_scores_for_coordinates(blobs):
    X, _, _ = blobs(300, 8, 4, 0.2)
    model = fitted(X, 4)
    display = ClusterMapDisplay.from_estimator(model, X, plane="heads", heads=(3, 1))
    np.testing.assert_allclose(display.points, model.transform(X)[:, [3, 1]], atol=1e-12)
    np.testing.assert_allclose(
        display.centres, model.transform(model.cluster_centers_)[:, [3, 1]], atol=1e-12
    )
    assert display.names == ("alignment with head 3", "alignment with head 1")


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_the_line_of_two_heads_holds_for_every_row(blobs, metric):
    X, _, _ = blobs(500, 6, 4, 0.5, weights=[0.55, 0.15, 0.15, 0.15])
    model = fitted(X, 4, metric=metric)
    display = ClusterMapDisplay.from_estimator(model, X, plane="heads", heads=(0, 2))
    logits = display.points @ display.logits[:, :2].T + display.logits[:, 2]
    two = np.log(model.predict_proba(X)[:, [0, 2]])
    np.testing.assert_allclose(
        logits[:, 0] - logits[:, 1], two[:, 0] - two[:, 1], rtol=1e-8, atol=1e-8
    )


def test_normalised_centres_are_orthonormal_but_for_their_weights(blobs):
    X, _, _ = blobs(MAX_POINTS, 12, 3, 0.1, weights=[0.6, 0.3, 0.1])
    model = fitted(X, 3)
    display = ClusterMapDisplay.from_estimator(model, X, plane="normalised")
    lifted = np.column_stack([display.centres, np.ones(3)]) * np.sqrt(model.weights_)[:, None]
    np.testing.assert_allclose(lifted @ lifted.T, np.eye(3), atol=0.01)


@pytest.mark.parametrize("plane", ["centres", "normalised"])
@pytest.mark.parametrize("dim", [2, 7])
def test_regions_are_what_is_predicted_on_the_plane(blobs, plane, dim):
    X, _, _ = blobs(800, dim, 6, 0.15, weights=[0.4, 0.2, 0.1, 0.1, 0.1, 0.1])
    model = fitted(X, 6)
    display = ClusterMapDisplay.from_estimator(model, X, plane=plane)
    found, _, _ = find_plane(model, model._tokens(X), plane, (0, 1))
    p = np.random.default_rng(0).uniform(-2, 2, (2000, 2))
    places = found.origin + p @ np.linalg.pinv(found.axes).T
    np.testing.assert_allclose((places - found.origin) @ found.axes.T, p, atol=1e-9)
    logits = p @ display.logits[:, :2].T + display.logits[:, 2]
    np.testing.assert_allclose(softmax(logits, axis=1), model.predict_proba(places), atol=1e-9)

    segments, pairs = decision_lines(display.logits, 3.0)
    assert len(segments) >= 5
    middle, along = segments.mean(1), segments[:, 1] - segments[:, 0]
    aside = 1e-5 * np.column_stack([-along[:, 1], along[:, 0]])
    aside /= np.linalg.norm(along, axis=1, keepdims=True)
    both = [
        model.predict(found.origin + (middle + side * aside) @ np.linalg.pinv(found.axes).T)
        for side in (-1, 1)
    ]
    np.testing.assert_array_equal(np.sort(both, axis=0).T, np.sort(pairs))
    assert ("rows off it" in display.note) == (dim > 2)


def test_lines_are_all_the_places_where_the_label_changes():
    rng = np.random.default_rng(0)
    logits = np.vstack([rng.standard_normal((12, 3)), [0, 0, -np.inf]])
    segments, _ = decision_lines(logits, 50.0)
    p = rng.uniform(-1, 1, (300, 2, 2))
    own = (p @ logits[:, :2].T + logits[:, 2]).argmax(2)
    a, b = segments[:, 0], segments[:, 1]

    def side(start, end, point):
        u, v = end - start, point - start
        return np.sign(u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0])

    start, end = p[:, None, 0], p[:, None, 1]
    crossed = (side(a, b, start) != side(a, b, end)) & (side(start, end, a) != side(start, end, b))
    np.testing.assert_array_equal(crossed.any(1), own[:, 0] != own[:, 1])
    assert 50 < crossed.any(1).sum() < 300


def test_cosine_has_lines_only_where_they_hold_for_all_rows(blobs):
    X, _, _ = blobs(400, 6, 5, 0.1)
    assert ClusterMapDisplay.from_estimator(fitted(X, 5, metric="cosine"), X).logits is None
    model = fitted(X, 3, metric="cosine")
    display = ClusterMapDisplay.from_estimator(model, X)
    logits = display.points @ display.logits[:, :2].T + display.logits[:, 2]
    np.testing.assert_allclose(softmax(logits, axis=1), model.predict_proba(X), atol=1e-8)


@pytest.mark.parametrize("k", [1, 2, 30])
@pytest.mark.parametrize("dim", [1, 2, 40])
def test_any_number_of_clusters_dimensions_and_rows(blobs, k, dim):
    X, _, _ = blobs(MAX_POINTS + 100, dim, max(k, 2), 0.1)
    model = fitted(X, k, threshold=0.6)
    for plane in PLANES if k > 1 else ("centres", "normalised"):
        axes = Figure(layout="constrained").add_subplot()
        display = ClusterMapDisplay.from_estimator(
            model, X, labels=model.labels_, ax=axes, plane=plane
        )
        assert drawn(display).ax_ is axes
        assert len(display.points) == MAX_POINTS
        assert np.isfinite(display.points).all()
        numbers = [t.get_text() for t in axes.texts if t.get_text().isdigit()]
        assert numbers == [*map(str, range(k))]
        drawn(QuantizationDisplay.from_estimator(model, X, plane=plane))
    drawn(SpectrumDisplay.from_estimator(model, X))
    drawn(HeadSimilarityDisplay.from_estimator(model))
    drawn(ConvergenceDisplay.from_estimator(model))


def test_where_centres_span_less_than_a_plane_the_rows_choose(blobs):
    X, _, _ = blobs(4000, 8, 2, 0.05)
    X[:, 3] += np.random.default_rng(0).standard_normal(len(X)) * 0.15  # the noise's widest
    model = fitted(X, 2)
    found, _, _ = find_plane(model, model._tokens(X), "centres", (0, 1))
    np.testing.assert_allclose(found.axes @ found.axes.T, np.eye(2), atol=1e-12)
    gap = model.cluster_centers_[1] - model.cluster_centers_[0]
    assert abs(found.axes[0] @ gap) == pytest.approx(np.linalg.norm(gap))
    rest = np.eye(8) - np.outer(gap, gap) / (gap @ gap)
    widest = np.linalg.eigh(rest @ np.cov(X.T) @ rest)[1][:, -1]
    assert abs(found.axes[1] @ widest) == pytest.approx(1, abs=0.01)


def test_under_cosine_rows_lie_where_their_directions_do(blobs):
    X, _, _ = blobs(300, 6, 3, 0.05)
    lengths = np.exp(np.random.default_rng(0).standard_normal(len(X)))[:, None]
    model = fitted(X, 3, metric="cosine")
    for plane in PLANES:
        near = ClusterMapDisplay.from_estimator(model, X, plane=plane)
        for rows in (lengths * X, sp.csr_matrix(lengths * X)):
            far = ClusterMapDisplay.from_estimator(model, rows, plane=plane)
            signs = np.sign((near.points * far.points).sum(0))
            np.testing.assert_allclose(near.points, signs * far.points, atol=1e-6)
    means = np.array([near.points[near.labels == k].mean(0) for k in range(3)])
    np.testing.assert_allclose(means, near.centres, atol=0.04)


def test_data_frames_sparse_and_single_precision_rows_give_the_same_picture(blobs):
    X, _, _ = blobs(300, 5, 4, 0.2, dtype=np.float32)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(5)])
    plain, named = fitted(X, 4), fitted(frame, 4)
    for plane in PLANES:
        one = ClusterMapDisplay.from_estimator(plain, X, plane=plane)
        other = ClusterMapDisplay.from_estimator(named, frame, plane=plane)
        np.testing.assert_array_equal(one.points, other.points)
        thin = ClusterMapDisplay.from_estimator(plain, sp.csr_matrix(X), plane=plane)
        signs = np.sign((one.points * thin.points).sum(0))
        np.testing.assert_allclose(one.points, signs * thin.points, atol=2e-5)
    out = QuantizationDisplay.from_estimator(named, frame)
    np.testing.assert_array_equal(out.points, QuantizationDisplay.from_estimator(plain, X).points)
    drawn(ConfusionDisplay.from_estimator(named, frame, plain.labels_))
    drawn(ReliabilityDisplay.from_estimator(named, frame, plain.labels_))


@pytest.mark.parametrize("make", [np.ndarray.tolist, sp.coo_matrix, sp.csc_array])
def test_other_forms_of_rows_are_drawn_at_random_too(blobs, make):
    X, _, _ = blobs(MAX_POINTS + 10, 3, 3)
    model = fitted(X, 3)
    expected = ClusterMapDisplay.from_estimator(model, X).points
    np.testing.assert_allclose(
        ClusterMapDisplay.from_estimator(model, make(X)).points, expected, atol=1e-9
    )


def test_rows_that_are_all_one_have_pictures():
    X = np.ones((4, 3))
    model = fitted(X, 1)
    for plane in ("centres", "normalised"):
        drawn(ClusterMapDisplay.from_estimator(model, X, plane=plane))
    drawn(SpectrumDisplay.from_estimator(model, X))


def test_another_plane_or_head_is_refused(blobs):
    X, _, _ = blobs(100, 4, 3)
    model = fitted(X, 3)
    with pytest.raises(ValueError, match="plane must be one of"):
        ClusterMapDisplay.from_estimator(model, X, plane="tsne")
    for heads in ((0, 0), (0, 3), (-1, 1)):
        with pytest.raises(ValueError, match="two different ones of 0 to 2"):
            QuantizationDisplay.from_estimator(model, X, plane="heads", heads=heads)


def test_numbers_are_pushed_apart_and_lone_ones_stay():
    places = np.array([[0.0, 0.0], [0.0, 0.0], [0.3, 0.1], [9.0, 9.0]])
    moved = apart(places, 1.0)
    between = np.linalg.norm(moved[:, None] - moved, axis=2)[np.triu_indices(4, 1)]
    assert between.min() > 0.95
    np.testing.assert_array_equal(moved[3], places[3])


def test_outputs_are_the_attended_rows(blobs):
    X, _, _ = blobs(200, 5, 3, 0.4)
    model = fitted(X, 3)
    display = drawn(QuantizationDisplay.from_estimator(model, X, plane="heads", heads=(2, 0)))
    T = model.predict_proba(X) @ model.cluster_centers_
    np.testing.assert_allclose(display.outputs, T @ model.heads_[[2, 0]].T, atol=1e-12)
    np.testing.assert_array_equal(display.labels, model.predict(X))


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_spectrum_is_that_of_the_rows_and_noise_stays_below_the_edge(blobs, metric):
    X, _, _ = blobs(3000, 20, 5, 0.1)
    display = drawn(SpectrumDisplay.from_estimator(fitted(X, 5, metric=metric), X))
    rows = X / np.linalg.norm(X, axis=1, keepdims=True) if metric == "cosine" else X
    expected = np.linalg.eigvalsh(np.cov(rows.T, bias=True))[::-1]
    np.testing.assert_allclose(display.eigenvalues, expected, atol=1e-12)
    if metric == "euclidean":
        np.testing.assert_array_equal(display.eigenvalues > display.edge, np.arange(20) < 4)


def test_zero_eigenvalues_are_left_out_of_the_log_scale():
    axes = drawn(SpectrumDisplay(np.array([2.0, 1.0, 0.0]), 1.5, 2).plot()).ax_
    places = np.vstack([part.get_offsets() for part in axes.collections])
    np.testing.assert_array_equal(places, [[1, 2], [2, 1]])
    assert axes.get_yscale() == "log"


def test_alike_heads_stand_side_by_side():
    heads = np.array([[1, 0, 0], [0, 1, 0], [0.9, 0.1, 0], [0, 0.9, 0.1], [0, 0, 1.0]])
    heads /= np.linalg.norm(heads, axis=1, keepdims=True)
    display = drawn(HeadSimilarityDisplay(heads @ heads.T).plot())
    place = np.argsort(display.order)
    assert abs(place[0] - place[2]) == abs(place[1] - place[3]) == 1
    shown = display.ax_.images[0].get_array()
    np.testing.assert_allclose(shown[place[0], place[2]], heads[0] @ heads[2])
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == [*map(str, display.order)]
    assert len(display.ax_.texts) == 25


def test_convergence_shows_what_the_history_says(intents):
    model = fitted(intents[0], 15, metric="cosine")
    display = drawn(ConvergenceDisplay.from_estimator(model))
    path = np.array(model.history_.log_likelihood)
    np.testing.assert_array_equal(display.ax_.lines[0].get_ydata(), path - path[0])
    moves = display.figure_.axes[1]
    assert sorted(bar.get_height() for bar in moves.patches) == sorted(
        n for n, _ in model.history_.moves
    )
    kept = sum(kept for _, kept in model.history_.moves)
    told = [text.get_text() for text in moves.get_legend().get_texts()]
    counts = {"kept": kept, "not kept": len(model.history_.moves) - kept}
    assert told == [f"{count} {name}" for name, count in counts.items() if count]
    assert model.history_.reason in display.ax_.get_title()


def test_convergence_without_refinement_says_so(blobs):
    X, _, _ = blobs(200, 4, 2)
    with pytest.raises(ValueError, match="was not refined"):
        ConvergenceDisplay.from_estimator(fitted(X, 2, refine=False))


def test_reliability_of_calibrated_posteriors_lies_in_the_band():
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet(np.ones(4), 5000)
    known = (posterior.cumsum(1) < rng.random((5000, 1))).sum(1)
    display = drawn(ReliabilityDisplay.from_probabilities(posterior, known, n_bins=8))
    best = np.sort(posterior.max(1)).reshape(8, -1)
    np.testing.assert_allclose(display.confidence, best.mean(1))
    error = np.sqrt(display.confidence * (1 - display.confidence) / display.counts)
    assert (np.abs(display.accuracy - display.confidence) < 3 * error).all()
    line = display.ax_.lines[1]
    np.testing.assert_array_equal(line.get_xdata(), display.confidence)
    np.testing.assert_array_equal(line.get_ydata(), display.accuracy)


@pytest.mark.parametrize(("n_classes", "n_clusters"), [(6, 6), (4, 7), (7, 4), (1, 1), (77, 77)])
def test_confusion_is_the_contingency_table_best_matched(n_classes, n_clusters):
    rng = np.random.default_rng(0)
    row = rng.integers(0, n_classes, 3000)
    labels = np.where(rng.random(3000) < 0.6, (3 * row + 1) % n_clusters, -1)
    labels = np.where(rng.random(3000) < 0.2, rng.integers(0, n_clusters, 3000), labels)
    known = np.array([f"class {v:02}" for v in row])
    display = drawn(ConfusionDisplay.from_labels(known, labels))
    table = pd.crosstab(known, labels).rename(columns={-1: "none"})
    table.columns = table.columns.map(str)
    expected = table.loc[display.classes, display.clusters]
    np.testing.assert_array_equal(display.table, expected)
    assert display.table.sum() == 3000
    assert display.clusters[-1] == "none"
    m = display.n_matched
    assert m == min(n_classes, n_clusters)
    block = display.table[:, : len(display.clusters) - 1]
    for i in range(m):  # no exchange of two columns brings more to the diagonal
        for j in range(m):
            assert block[i, i] + block[j, j] >= block[i, j] + block[j, i]
    assert display.classes[:m] == sorted(display.classes[:m])
    numbers = [text.get_text() for text in display.ax_.texts]
    shown = [str(v) for v in display.table.ravel() if v]
    assert numbers == (shown if max(n_classes, n_clusters) < 20 else [])
    assert len(display.ax_.get_yticks()) <= 40


def test_confusion_leaves_out_unknown_rows_and_refuses_none_known():
    found = ConfusionDisplay.from_labels(["a", None, "b"], [0, 0, 1])
    np.testing.assert_array_equal(found.table, np.eye(2))
    with pytest.raises(ValueError, match="none has a known class"):
        ConfusionDisplay.from_labels([None, None], [0, 1])
    with pytest.raises(ValueError, match="3 known classes and 2 labels"):
        ConfusionDisplay.from_labels([1, 2, 3], [0, 1])


def test_displays_draw_on_the_axes_given(blobs):
    X, y, _ = blobs(200, 4, 3)
    model = fitted(X, 3)
    figure = Figure(figsize=(20, 10), layout="constrained")
    axes = iter(figure.subplots(2, 4).ravel())
    for make in (
        lambda ax: ClusterMapDisplay.from_estimator(model, X, ax=ax),
        lambda ax: QuantizationDisplay.from_estimator(model, X, ax=ax),
        lambda ax: SpectrumDisplay.from_estimator(model, X, ax=ax),
        lambda ax: HeadSimilarityDisplay.from_estimator(model, ax=ax),
        lambda ax: ConvergenceDisplay.from_estimator(model, ax=ax),
        lambda ax: ReliabilityDisplay.from_estimator(model, X, y, ax=ax),
        lambda ax: ConfusionDisplay.from_estimator(model, X, y, ax=ax),
    ):
        ax = next(axes)
        display = make(ax)
        assert display.ax_ is ax
        assert display.figure_ is figure
        assert ax.has_data()
    figure.draw_without_rendering()


def test_moves_have_a_place_without_a_grid():
    figure = Figure()
    display = ConvergenceDisplay([0.0, 1.0], [(1, True)]).plot(ax=figure.add_axes((0, 0, 1, 1)))
    assert len(display.ax_.child_axes) == 1


def test_no_state_is_kept_and_matplotlib_is_loaded_only_to_draw():
    code = """
import sys
import numpy as np
from attnclust import AttentionClustering
from attnclust.plotting import COLOURS, ClusterMapDisplay, ConvergenceDisplay
assert "matplotlib" not in sys.modules
X = np.random.default_rng(0).standard_normal((50, 3))
model = AttentionClustering(3, random_state=0).fit(X)
ClusterMapDisplay.from_estimator(model, X)
ConvergenceDisplay.from_estimator(model)
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def plane_through(centres, weights, X):
    """Rows and centres in the plane of the centres, and the share that it shows."""
    clusters = Clusters(np.asarray(centres, dtype=float), weights, 1.0)
    plane = plane_of_centres(Tokens(X), clusters)
    return plane.points(Tokens(X)), plane.points(Tokens(clusters.centroids)), plane.share(clusters)


def test_the_plane_keeps_the_distances_of_three_centres():
    rng = np.random.default_rng(0)
    centres, X = rng.standard_normal((3, 6)), rng.standard_normal((20, 6))
    weights = np.array([0.5, 0.3, 0.2])
    points, places, share = plane_through(centres, weights, X)
    assert share == pytest.approx(1)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert np.linalg.norm(places[a] - places[b]) == pytest.approx(
            np.linalg.norm(centres[a] - centres[b])
        )
    basis = np.linalg.qr((centres[1:] - centres[0]).T)[0]
    expected = np.linalg.norm((X - weights @ centres) @ basis, axis=1)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), expected)
    np.testing.assert_allclose(weights @ places, 0, atol=1e-12)


@pytest.mark.parametrize("n_clusters", [1, 2])
def test_the_rows_widest_direction_completes_the_plane_of_few_centres(n_clusters):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 5)) * [0.1, 0.1, 3, 0.1, 2]
    centres = 4.0 * np.eye(5)[:n_clusters]
    if n_clusters == 2:
        X += centres[rng.integers(0, 2, 2000)]
    points, _, share = plane_through(centres, np.full(n_clusters, 1 / n_clusters), X)
    X -= X.mean(0)
    points -= points.mean(0)
    # Every row's coordinates in the expected directions are linear in the map's.
    wanted = X[:, [0, 2]] if n_clusters == 2 else X[:, [2, 4]]
    if n_clusters == 2:
        wanted[:, 0] -= X[:, 1]
    linear = points @ np.linalg.lstsq(points, wanted, rcond=None)[0]
    assert ((wanted - linear) ** 2).sum() < 0.01 * (wanted**2).sum()
    assert share == pytest.approx(1)


def test_the_plane_of_one_feature_and_of_equal_rows():
    assert plane_through(np.ones((1, 1)), np.ones(1), np.ones((3, 1)))[0].shape == (3, 2)
    points, _, _ = plane_through(np.ones((1, 4)), np.ones(1), np.ones((3, 4)))
    np.testing.assert_allclose(points, 0, atol=1e-12)
