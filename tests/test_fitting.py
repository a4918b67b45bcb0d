from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans

from attnclust.fitting import History, center, find_start, refine, train_start
from attnclust.moments import spectrum
from attnclust.refinement import Geometry, assign
from attnclust.tokens import Tokens


def framed(X, k):
    tokens = Tokens(X)
    tokens, seen = center(tokens, spectrum(tokens, min(k, X.shape[1]), np.random.default_rng(0)))
    return tokens, seen, Geometry(tokens.mean_square(), 1e-12)


def start(X, k, **options):
    tokens, seen, geometry = framed(X, k)
    found = find_start(tokens, seen, geometry, k, np.random.default_rng(0), **options)
    return tokens, geometry, *found


def test_the_centred_frame_has_the_spectrum_of_its_rows(blobs):
    X, _, _ = blobs(300, 6, 3, 0.3)
    tokens, seen, _ = framed(40 * X + 7, 6)
    again = spectrum(tokens, 6, np.random.default_rng(0))
    np.testing.assert_allclose(seen.values, again.values)
    np.testing.assert_allclose(again.mean, 0, atol=1e-12)
    assert seen.trace == pytest.approx(again.trace)
    assert 0.25 < seen.trace / 6 < 4  # a unit near the spread


@pytest.mark.parametrize(
    ("k", "name"), [(1, "mean"), (3, "heads"), (6, "heads"), (7, "splits"), (12, "splits")]
)
def test_heads_where_features_carry_them_and_splits_elsewhere(blobs, k, name):
    X, _, _ = blobs(2000, 6, max(k, 2), 0.1)
    _, _, clusters, history = start(X, k)
    assert history.start == name
    assert len(clusters.weights) == k


def test_splits_where_the_rows_span_fewer_directions_than_heads(blobs):
    plane, _, _ = blobs(2000, 2, 5, 0.1)
    X = plane @ np.linalg.qr(np.random.default_rng(0).standard_normal((8, 2)))[0].T
    assert start(X, 5)[3].start == "splits"


def test_heads_start_at_the_centres(blobs):
    X, _, centres = blobs(50_000, 12, 5, 0.2)
    # The fourth moment is the noisier one.
    for options, error in (({}, 0.1), ({"lift": False}, 0.1), ({"order": 4}, 0.4)):
        tokens, _, clusters, _ = start(X, 5, **options)
        found = clusters.centroids * tokens.unit + tokens.shift
        gap = np.linalg.norm(found[:, None] - centres, axis=2).min(0)
        assert gap.max() < error, options


@pytest.mark.parametrize("k", [3, 40])
def test_refinement_never_loses_likelihood(blobs, k):
    X, _, _ = blobs(1500, 2, 9, 0.4)
    tokens, geometry, clusters, history = start(X, k)
    _, history, n_iter = refine(tokens, tokens, clusters, geometry, history, max_iter=50, tol=1e-5)
    assert (np.diff(history.log_likelihood) > -1e-9).all()
    assert n_iter >= 2
    assert history.reason


def test_where_soft_centres_swallow_each_other_hard_attention_keeps_them_apart():
    X = np.random.default_rng(0).standard_normal((3000, 2))
    tokens, geometry, clusters, history = start(X, 40)
    clusters, history, _ = refine(
        tokens, tokens, clusters, geometry, history, max_iter=100, tol=1e-4
    )
    assert (history.start, history.attention) == ("splits", "hard")
    assert (np.diff(history.log_likelihood) > -1e-9).all()
    labels = assign(tokens, clusters)
    assert len(np.unique(labels)) == 40
    inertia = sum(((X[labels == k] - X[labels == k].mean(0)) ** 2).sum() for k in range(40))
    assert inertia < 1.03 * KMeans(40, n_init=10, random_state=0).fit(X).inertia_


def refined(X, k, attention):
    tokens, geometry, clusters, history = start(X, k)
    return tokens, *refine(
        tokens,
        tokens,
        clusters,
        geometry,
        history,
        attention=attention,
        max_iter=100,
        tol=1e-5,
    )


@pytest.mark.parametrize(
    ("stretch", "want"), [([1, 1, 1], "soft"), ([2, 1, 1], "hard"), ([3, 1, 1], "hard")]
)
def test_attention_is_soft_where_the_mixture_fits_and_hard_where_it_does_not(blobs, stretch, want):
    X, labels, _ = blobs(3000, 3, 3, 0.2, weights=[0.6, 0.3, 0.1])
    means = np.array([X[labels == k].mean(0) for k in range(3)])
    X = 3 * means[labels] + (X - means[labels]) * stretch
    _, clusters, history, _ = refined(X, 3, "auto")
    assert history.attention == want
    assert (history.dispersion < 1.25) == (want == "soft")
    np.testing.assert_allclose(np.sort(clusters.weights), [0.1, 0.3, 0.6], atol=0.03)
    for choice in ("soft", "hard"):
        assert refined(X, 3, choice)[2].attention == choice


def test_hard_attention_ends_where_k_means_stands_still(blobs):
    ratios = []
    for seed in range(6):
        X = np.random.default_rng(seed).standard_t(3, (1500, 4))
        tokens, clusters, _, _ = refined(X, 8, "auto")
        centres = clusters.centroids * tokens.unit + tokens.shift
        means = KMeans(8, n_init=1, init=centres, tol=0).fit(X)
        assert ((X - centres[means.labels_]) ** 2).sum() < 1.001 * means.inertia_
        ratios.append(means.inertia_ / KMeans(8, n_init=10, random_state=0).fit(X).inertia_)
    assert np.median(ratios) < 1.001
    assert max(ratios) < 1.03


def test_sparse_rows_are_not_made_dense_for_training(blobs, monkeypatch):
    X, _, _ = blobs(100, 6, 2)
    tokens, seen, geometry = framed(X, 2)
    options = {
        "lift": True,
        "regularizer": "pairwise",
        "strength": 0.3,
        "temperature": None,
        "prompt_length": 30,
        "n_steps": 5,
    }
    tokens = replace(tokens, X=sp.csr_matrix(X))
    monkeypatch.setattr("attnclust.fitting.DENSE_LIMIT", 5)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="set normalize=True"):
        train_start(tokens, seen, geometry, 2, rng, normalized=False, **options)
    clusters, history, layer = train_start(
        tokens, seen, geometry, 2, rng, normalized=True, **options
    )
    assert layer is None
    assert history == replace(
        History("trained heads"),
        **{name: getattr(history, name) for name in ("conditioning", "head_steps", "reason")},
    )
    assert np.isfinite(clusters.centroids).all()
