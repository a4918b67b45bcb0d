import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score as ari

from attnclust import AttentionClustering, load_model, save_model
from attnclust.features import choose_bandwidth, kernel_heads
from attnclust.refinement import assign
from attnclust.tokens import Tokens


def linked_rings(n=600, seed=0):
    """Two rings in space, each through the other."""
    turn = np.random.default_rng(seed).uniform(0, 2 * np.pi, n)
    first = np.column_stack([np.cos(turn), np.sin(turn), 0 * turn])
    second = np.column_stack([1 + np.cos(turn), 0 * turn, np.sin(turn)])
    y = np.arange(n) % 2
    noise = 0.05 * np.random.default_rng(seed + 1).standard_normal((n, 3))
    return np.where(y[:, None], first, second) + noise, y


SHAPES = {
    "moons": lambda seed: make_moons(600, noise=0.06, random_state=seed),
    "rings": lambda seed: make_circles(600, noise=0.04, factor=0.5, random_state=seed),
    "linked rings": lambda seed: linked_rings(seed=seed),
}


@pytest.mark.parametrize("name", SHAPES)
def test_clusters_of_any_shape_that_gaps_part(name):
    for seed in range(3):
        X, y = SHAPES[name](seed)
        model = AttentionClustering(2, lift="nystrom", random_state=seed).fit(X)
        assert ari(y, model.labels_) == 1
        assert model.history_.quality[-1] == pytest.approx(1, abs=0.01)
        assert ari(y, AttentionClustering(2, random_state=seed).fit_predict(X)) < 0.6
        np.testing.assert_array_equal(model.labels_, model.predict(X))
        np.testing.assert_array_equal(model.labels_, model.transform(X).argmax(1))
        fresh, known = SHAPES[name](seed + 10)
        assert ari(known, model.predict(fresh)) == 1


def test_with_all_rows_as_landmarks_the_heads_span_the_eigenvectors_of_spectral_clustering():
    X, _ = make_moons(200, noise=0.05, random_state=0)
    features, _ = kernel_heads(Tokens(X), 2, np.random.default_rng(0), "nystrom")
    kernel = np.exp(-((X[:, None] - X) ** 2).sum(2) / (2 * features.bandwidth**2))
    root = np.sqrt(kernel.sum(1))
    axes = np.linalg.eigh(kernel / root[:, None] / root)[1][:, -2:] / root[:, None]
    want = axes / np.linalg.norm(axes, axis=1, keepdims=True)
    got = features.coordinates(Tokens(X))
    np.testing.assert_allclose(got @ got.T, want @ want.T, atol=1e-3)


def test_random_features_approximate_their_kernel():
    X = np.random.default_rng(0).standard_normal((50, 3))
    features, _ = kernel_heads(Tokens(X), 4, np.random.default_rng(0), "fourier")
    phi = features.waves(Tokens(X))
    kernel = np.exp(-((X[:, None] - X) ** 2).sum(2) / (2 * features.bandwidth**2))
    assert np.abs(phi @ phi.T - kernel).max() < 5 / np.sqrt(300)


def test_more_round_clusters_than_features_from_heads_alone():
    grid = 4.0 * np.stack(np.meshgrid(range(4), range(4)), -1).reshape(-1, 2)
    y = np.repeat(np.arange(16), 100)
    X = grid[y] + 0.5 * np.random.default_rng(0).standard_normal((1600, 2))
    for lift in ("fourier", "nystrom"):
        tokens = Tokens(X)
        features, _ = kernel_heads(tokens, 16, np.random.default_rng(0), lift)
        assert ari(y, assign(*features.state(tokens))) > 0.99, lift
    model = AttentionClustering(16, lift="fourier", random_state=0).fit(X)
    assert model.history_.start == "kernel heads"
    assert model.feature_map_ is None
    assert ari(y, model.labels_) > 0.999


def test_the_bandwidth_is_where_the_landmarks_fall_apart():
    X, y = make_circles(300, noise=0.02, factor=0.3, random_state=0)
    gaps = ((X[:, None] - X) ** 2).sum(2)
    rng = np.random.default_rng(0)
    bandwidth = choose_bandwidth(gaps, 2, rng)
    nearest = np.sqrt(np.partition(gaps, 7, axis=1)[:, 7])
    apart = np.sqrt(gaps[np.ix_(y == 0, y == 1)].min())
    assert np.median(nearest) / 4 < bandwidth < apart
    assert choose_bandwidth(100 * gaps, 2, rng) == pytest.approx(10 * bandwidth)
    assert np.isfinite(choose_bandwidth(np.zeros((5, 5)), 2, rng))


def test_a_far_row_is_no_cluster():
    for seed in range(3):
        X, y = make_moons(600, noise=0.06, random_state=seed)
        X = np.vstack([X, [[4.0, 4.0]]])
        labels = AttentionClustering(2, lift="nystrom", random_state=seed).fit_predict(X)
        assert ari(y, labels[:-1]) == 1


def test_weights_cosine_and_units():
    X, y = linked_rings()
    w = np.random.default_rng(0).integers(1, 3, len(X))
    model = AttentionClustering(2, lift="nystrom", random_state=0).fit(X, sample_weight=w)
    assert ari(y, model.labels_) == 1
    assert model.weights_[model.labels_[y == 1][0]] == pytest.approx(w[y == 1].sum() / w.sum())
    for rows in (1e6 * X, X / 1e6, X + 1e4, (X + 1e3).astype(np.float32)):
        same = AttentionClustering(2, lift="nystrom", random_state=0).fit(rows)
        assert ari(y, same.labels_) == 1
        assert same.transform(rows).dtype == rows.dtype
    arcs = np.array([[1.0, 0], [1, 0.1], [0, 1], [0.1, 1]]).repeat(20, 0)
    arcs *= np.random.default_rng(0).uniform(0.5, 2, (80, 1))
    around = AttentionClustering(2, lift="nystrom", metric="cosine", random_state=0).fit(arcs)
    assert ari(np.arange(80) // 40, around.labels_) == 1


@pytest.mark.parametrize("parameters", [{"lift": "nystrom"}, {"lift": "fourier", "refine": False}])
def test_what_an_unrefined_kernel_lift_offers(tmp_path, parameters):
    X, _ = linked_rings()
    model = AttentionClustering(2, random_state=0, **parameters).fit(X)
    posterior = model.predict_proba(X)
    np.testing.assert_allclose(posterior.sum(1), 1)
    np.testing.assert_array_equal(posterior.argmax(1), model.labels_)
    np.testing.assert_allclose(model.attend(X), posterior @ model.cluster_centers_)
    for k in range(2):
        np.testing.assert_allclose(model.cluster_centers_[k], X[model.labels_ == k].mean(0))
    assert model.score(X) > model.score(X + 1)
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert again.lift_ == model.lift_
    assert "bandwidth of" in model.lift_


def test_lift_found_is_told(blobs):
    X, _, _ = blobs(300, 6, 3)
    for k, parameters, said in (
        (3, {}, "affine: never worse"),
        (3, {"lift": "none"}, "none: as asked"),
        (9, {}, "splits instead"),
        (1, {}, "one cluster"),
    ):
        assert said in AttentionClustering(k, random_state=0, **parameters).fit(X).lift_


def test_what_kernel_lifts_refuse(blobs):
    X, _, _ = blobs(30, 3, 2)
    with pytest.raises(ValueError, match="sparse rows are not supported"):
        AttentionClustering(2, lift="nystrom").fit(sp.csr_matrix(X))
    with pytest.raises(ValueError, match="sees only"):
        AttentionClustering(3, lift="nystrom").fit(np.repeat([[0.0], [1e-9], [1.0]], 20, axis=0))


def test_clusters_that_touch_are_where_it_ends():
    """Shapes that run into each other: no kernel tells them apart, nor spectral clustering."""
    X, y = make_moons(600, noise=0.25, random_state=0)
    ours = ari(y, AttentionClustering(2, lift="nystrom", random_state=0).fit_predict(X))
    theirs = ari(y, SpectralClustering(2, affinity="nearest_neighbors").fit_predict(X))
    assert ours < 0.8
    assert theirs < 0.8
