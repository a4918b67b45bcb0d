import numpy as np
import pytest

from attnclust.moves import (
    best_cuts,
    grow,
    leading_directions,
    look,
    merge_costs,
    part_anew,
    propose,
    split_and_merge,
)
from attnclust.refinement import Clusters, Geometry, assign, em
from attnclust.tokens import Tokens


def inertia(X, labels):
    return sum(((X[labels == k] - X[labels == k].mean(0)) ** 2).sum() for k in np.unique(labels))


def geometry(tokens, hard=False):
    return Geometry(tokens.mean_square(), 1e-12, hard=hard)


def badly_placed(X, labels):
    """Cluster 0 shared by two centres, clusters 1 and 2 held by one."""
    k = labels.max() + 1
    m = np.array([X[labels == j].mean(0) for j in range(k)])
    m[0] += 0.05
    m[1] = (m[1] + m[2]) / 2
    m[2] = m[0] - 0.1
    tokens = Tokens(X)
    return em(tokens, Clusters(m, np.full(k, 1 / k), 0.05), geometry(tokens), n_steps=10)


@pytest.mark.parametrize("dim", [5, 12])
def test_leading_directions_are_the_eigenvectors_within_each_cluster(blobs, dim):
    rng = np.random.default_rng(0)
    X, labels, _ = blobs(600, dim, 3)
    X += rng.standard_normal((600, 1)) * np.eye(dim)[labels]
    w = rng.integers(1, 4, 600).astype(float)
    means = np.array([np.average(X[labels == k], axis=0, weights=w[labels == k]) for k in range(3)])
    variances, directions = leading_directions(Tokens(X, w), means, labels, n_steps=30)
    for k in range(3):
        values, axes = np.linalg.eigh(np.cov(X[labels == k].T, aweights=w[labels == k], bias=True))
        assert variances[k] == pytest.approx(values[-1], rel=1e-6)
        assert abs(directions[k] @ axes[:, -1]) == pytest.approx(1, rel=1e-6)


def test_directions_of_large_clusters_come_from_evenly_spaced_rows():
    """Rows sorted by a second structure: reading the first ones only would miss it."""
    X = np.zeros((20_000, 2))
    X[10_000:, 1] = 5.0
    X += 0.1 * np.random.default_rng(0).standard_normal(X.shape)
    variances, _ = leading_directions(Tokens(X), X.mean(0)[None], np.zeros(20_000, int))
    assert variances[0] == pytest.approx(6.25, rel=0.1)


def test_a_cluster_of_one_row_or_none_has_no_variance():
    X = np.array([[0.0, 0], [5, 5], [6, 5]])
    variances, directions = leading_directions(Tokens(X), X, np.array([0, 1, 1]))
    assert variances[0] == variances[2] == 0
    assert np.isfinite(directions).all()


@pytest.mark.parametrize("hard", [False, True])
def test_the_cheapest_merge_and_the_dearest_split_are_proposed(blobs, hard):
    X, labels, _ = blobs(600, 8, 5, 0.05)
    clusters, _ = badly_placed(X, labels)
    tokens = Tokens(X)
    splits = look(tokens, clusters, geometry(tokens, hard), clusters.noise_variance)
    moved, made = propose(clusters, splits, 1)
    assert len(made) == 1
    assert inertia(X, assign(tokens, moved)) < 0.6 * inertia(X, assign(tokens, clusters))
    assert moved.weights.sum() == pytest.approx(1)
    assert made[0] not in propose(clusters, splits, 1, failed=set(made))[1]


def test_the_best_cut_is_the_best_of_all_cuts():
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((60, 3)) ** 3, 1)  # skewed, with ties
    w = rng.integers(1, 4, 60).astype(float)
    labels = rng.integers(0, 3, 60)
    labels[labels == 1] = 0
    directions = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    means = np.array([np.average(X, axis=0, weights=w)] * 3)
    gain, places, side = best_cuts(Tokens(X, w), means, labels, directions)
    for k in (0, 2):
        own = labels == k
        p, v = (X[own] - means[k]) @ directions[k], w[own]

        def within(part, p=p, v=v):
            return sum(
                (v[m] * (p[m] - np.average(p[m], weights=v[m])) ** 2).sum()
                for m in (part, ~part)
                if m.any()
            )

        whole = within(np.ones(len(p), bool))
        best = min(within(p <= t) for t in p)
        assert gain[k] * w.sum() == pytest.approx(whole - best)
        assert within(side[own] == 0) == pytest.approx(best)
        for part in (0, 1):
            m = side[own] == part
            assert places[part, k] == pytest.approx(np.average(p[m], weights=v[m]))
    assert gain[1] == 0
    assert best_cuts(Tokens(np.ones((4, 2))), np.ones((1, 2)), np.zeros(4, int), np.eye(2)[:1])[
        0
    ] == [0]


def test_a_price_for_labels_cuts_off_few_far_rows_and_no_whole_cluster():
    rng = np.random.default_rng(0)
    line, centre, axis = np.zeros(1000, int), np.zeros((1, 2)), np.array([[1.0, 0]])
    X = rng.standard_normal((1000, 2))
    whole = best_cuts(Tokens(X), centre, line, axis, price=1.0)
    assert whole[0][0] < 0
    X[:5, 0] += 30
    gain, places, side = best_cuts(Tokens(X), centre, line, axis, price=1.0)
    np.testing.assert_array_equal(np.flatnonzero(side), range(5))
    np.testing.assert_allclose(places[:, 0], [X[5:, 0].mean(), X[:5, 0].mean()])
    share = np.array([995, 5]) / 1000
    entropy = -(share * np.log(share)).sum()
    between = share.prod() * (places[1, 0] - places[0, 0]) ** 2
    assert gain[0] == pytest.approx(between - 2 * entropy)


def test_merging_costs_what_the_inertia_rises(blobs):
    X, labels, _ = blobs(300, 4, 4, 0.3)
    means = np.array([X[labels == k].mean(0) for k in range(4)])
    i, j, cost = merge_costs(Clusters(means, np.bincount(labels) / 300, 0.1))
    assert (np.diff(cost) >= 0).all()
    for a, b, c in zip(i, j, cost, strict=True):
        joined = np.where(labels == b, a, labels)
        assert 300 * c == pytest.approx(inertia(X, joined) - inertia(X, labels))


def test_a_pair_is_parted_anew_where_hard_attention_stands_still_in_a_worse_cut():
    """Two columns of two cells each: cut between the rows, though the columns lie further apart."""
    cells = np.array([[0.0, 0], [0, 1], [1.6, 0], [1.6, 1]])
    X = np.vstack([cells.repeat(20, 0), [[50.0, 0]] * 20])
    X += 0.01 * np.random.default_rng(0).standard_normal(X.shape)
    tokens = Tokens(X)
    stuck = np.array([[0.8, 0], [0.8, 1], [50, 0]])
    shape = geometry(tokens, hard=True)
    clusters, path = em(tokens, Clusters(stuck, np.full(3, 1 / 3), 0.1), shape, n_steps=20)
    np.testing.assert_allclose(clusters.centroids, stuck, atol=0.02)
    parted, seen = part_anew(tokens, clusters, shape)
    assert seen.log_likelihood > path[-1].log_likelihood
    assert inertia(X, assign(tokens, parted)) < 0.5 * inertia(X, assign(tokens, clusters))
    again, same = part_anew(tokens, parted, shape)
    assert same.log_likelihood == pytest.approx(seen.log_likelihood)
    np.testing.assert_array_equal(again.centroids, parted.centroids)


def test_nothing_is_proposed_where_nothing_asks_for_it(blobs):
    X, _, centres = blobs(2000, 8, 5, 0.1)
    clusters, _ = em(
        Tokens(X), Clusters(centres, np.full(5, 0.2), 0.01), geometry(Tokens(X)), n_steps=5
    )
    splits = look(Tokens(X), clusters, geometry(Tokens(X)), clusters.noise_variance)
    assert propose(clusters, splits, 2)[1] == []


def test_moves_repair_a_bad_start_and_the_likelihood_only_rises(blobs):
    for seed in range(5):
        X, labels, _ = blobs(800, 8, 6, 0.08, seed=seed)
        clusters, path = badly_placed(X, labels)
        tokens = Tokens(X)
        found, seen, moves = split_and_merge(tokens, clusters, path[-1], geometry(tokens))
        bad = inertia(X, assign(tokens, clusters)) > 1.01 * inertia(X, labels)
        assert any(m.kept for m in moves) == bad
        assert (np.diff([s.log_likelihood for s in seen]) > 0).all()
        assert inertia(X, assign(tokens, found)) <= 1.001 * inertia(X, labels)


@pytest.mark.parametrize("k", [1, 2, 3, 7, 12])
def test_growing_gives_as_many_clusters_as_asked(blobs, k):
    X, _, _ = blobs(500, 2, 7, 0.1)
    tokens = Tokens(X)
    grown = grow(tokens, geometry(tokens), k)
    assert grown.centroids.shape == (k, 2)
    assert grown.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("hard", [False, True])
def test_growing_stays_on_the_sphere(hard):
    X = np.random.default_rng(0).standard_normal((1000, 3))
    tokens = Tokens(X / np.linalg.norm(X, axis=1, keepdims=True))
    grown = grow(tokens, Geometry(1.0, 1e-12, on_sphere=True, hard=hard), 20)
    np.testing.assert_allclose(np.linalg.norm(grown.centroids, axis=1), 1)
    labels = assign(tokens, grown)
    assert len(np.unique(labels)) == 20
    centres = np.array([tokens.X[labels == k].mean(0) for k in range(20)])
    assert inertia(tokens.X, labels) < 0.15 * len(X)
    np.testing.assert_allclose((centres * grown.centroids).sum(1), 1, atol=0.1)


def test_growing_stops_where_rows_do_not_differ():
    X = np.repeat(np.eye(3), 4, axis=0)
    tokens = Tokens(X)
    three = grow(tokens, geometry(tokens), 3)
    np.testing.assert_allclose(np.sort(three.centroids.argmax(1)), [0, 1, 2])
    assert len(grow(tokens, geometry(tokens), 12).weights) < 12


def test_weights_reach_the_moves(blobs):
    X, labels, _ = blobs(300, 8, 6, 0.08)
    w = np.random.default_rng(0).integers(1, 4, 300)
    clusters, _ = badly_placed(X, labels)
    fits = []
    for tokens in (Tokens(X, w.astype(float)), Tokens(np.repeat(X, w, 0)), Tokens(X, 3.7 * w)):
        seen = em(tokens, clusters, geometry(tokens), n_steps=3)
        fits.append(split_and_merge(tokens, seen[0], seen[1][-1], geometry(tokens)))
    for found, _, moves in fits[1:]:
        assert moves == fits[0][2]
        np.testing.assert_allclose(found.centroids, fits[0][0].centroids, atol=1e-9)
