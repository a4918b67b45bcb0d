import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from matplotlib.figure import Figure

from attnclust import AttentionClustering
from attnclust.plotting import MAX_POINTS, ClusterMapDisplay


def test_points_and_centres_lie_in_one_plane(blobs):
    X, _, _ = blobs(400, 6, 3, 0.05)
    model = AttentionClustering(3, random_state=0).fit(X)
    display = ClusterMapDisplay.from_estimator(model, X)
    means = np.array([display.points[display.labels == k].mean(0) for k in range(3)])
    np.testing.assert_allclose(means, display.centres, atol=1e-6)
    assert display.share == pytest.approx(1)  # three centres span one plane
    apart = np.linalg.norm(display.centres[:, None] - display.centres, axis=2)
    m = model.cluster_centers_
    np.testing.assert_allclose(apart, np.linalg.norm(m[:, None] - m, axis=2), atol=1e-9)


@pytest.mark.parametrize("k", [1, 2, 25])
def test_any_number_of_clusters_dimensions_and_rows(blobs, k):
    for dim in (1, 5):
        X, _, _ = blobs(MAX_POINTS + 100, dim, max(k, 2), 0.1)
        model = AttentionClustering(k, random_state=0, threshold=0.6).fit(X)
        axes = Figure().add_subplot()
        display = ClusterMapDisplay.from_estimator(model, X, labels=model.labels_, ax=axes)
        assert display.ax_ is axes
        assert len(display.points) == MAX_POINTS
        assert [t.get_text() for t in axes.texts if t.get_text().isdigit()] == [*map(str, range(k))]


def test_under_cosine_rows_lie_where_their_directions_do(blobs):
    X, _, _ = blobs(300, 6, 3, 0.05)
    lengths = np.exp(np.random.default_rng(0).standard_normal(len(X)))[:, None]
    model = AttentionClustering(3, metric="cosine", random_state=0).fit(X)
    near = ClusterMapDisplay.from_estimator(model, X)
    for rows in (lengths * X, pd.DataFrame(lengths * X), sp.csr_matrix(lengths * X)):
        far = ClusterMapDisplay.from_estimator(model, rows)
        np.testing.assert_allclose(near.points, far.points, atol=1e-12)
    means = np.array([near.points[near.labels == k].mean(0) for k in range(3)])
    np.testing.assert_allclose(means, near.centres, atol=0.02)
