import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics import adjusted_rand_score as ari

from attnclust import AttentionClustering, load_model, save_model
from attnclust.gaps import isolated, neighbours
from attnclust.moments import Spectrum, spectrum
from attnclust.refinement import Clusters, Geometry, em, expectation
from attnclust.selection import noise_edge
from attnclust.settling import _halves, _merges, join, overgrow, penalty, settle
from attnclust.tokens import Tokens


def mixture(k, d, sigma, n, seed=0, ratio=1):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((k, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    weights = np.where(np.arange(k) % 2, float(ratio), 1.0)
    y = rng.choice(k, n, p=weights / weights.sum())
    return centres[y] + sigma * rng.standard_normal((n, d)), y, centres


def chosen(X, **parameters):
    return AttentionClustering("auto", random_state=0, **parameters).fit(X)


def geometry(tokens):
    return Geometry(tokens.mean_square(), 1e-12)


class TestEdge:
    @pytest.mark.parametrize(("n", "d"), [(400, 20), (200, 200), (60, 300)])
    def test_noise_stays_below_it_and_comes_near(self, n, d):
        top, edges = [], []
        for seed in range(60):
            X = 3 * np.random.default_rng(seed).standard_normal((n, d))
            seen = spectrum(Tokens(X), d, np.random.default_rng(0))
            noise, edge = noise_edge(seen, n)
            assert noise == pytest.approx(9, rel=0.1)
            top.append(seen.values[0])
            edges.append(edge)
        assert (np.array(top) < edges).mean() > 0.98
        assert np.median(np.array(top) / edges) > 0.85

    def test_noise_level_is_read_below_the_signal(self):
        values = np.append([50.0, 40, 30], np.ones(97))
        seen = Spectrum(np.zeros(100), values, np.eye(100), values.sum())
        assert noise_edge(seen, 10_000)[0] == 1.0


class TestSettling:
    def test_price_is_above_what_splitting_noise_gains(self):
        for d in (1, 5, 40):
            gains = []
            for seed in range(40):
                tokens = Tokens(np.random.default_rng(seed).standard_normal((300, d)))
                one = Clusters(tokens.mean()[None], np.ones(1), 1.0)
                one, _ = em(tokens, one, geometry(tokens), n_steps=1)
                two, _ = settle(tokens, one, geometry(tokens), 2)
                before = expectation(tokens, one, geometry(tokens)).log_likelihood
                assert len(two.weights) == 1
                offset = np.eye(d)[0] * np.sqrt(one.noise_variance)
                start = Clusters(
                    np.stack([one.centroids[0] - offset, one.centroids[0] + offset]),
                    np.full(2, 0.5),
                    one.noise_variance,
                )
                _, path = em(tokens, start, geometry(tokens), n_steps=30)
                gains.append(300 * (path[-1].log_likelihood - before))
            assert max(gains) < penalty(d)
            assert max(gains) > penalty(d) / 12

    def test_gain_of_halves_is_that_of_hard_labels(self):
        X, _, _ = mixture(2, 5, 0.05, 600)
        X -= X.mean(0)
        tokens = Tokens(X)
        noise = (X**2).mean()
        gain, offsets = _halves(tokens, Clusters(np.zeros((1, 5)), np.ones(1), noise), 600)
        sides = X @ offsets[1, 0] > 0
        inertia = sum(((X[s] - X[s].mean(0)) ** 2).sum() for s in (sides, ~sides))
        share = sides.mean()
        entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
        expected = 600 * (2.5 * np.log((X**2).sum() / inertia) - entropy)
        assert gain[0] == pytest.approx(expected)
        np.testing.assert_allclose(offsets[0], -offsets[1])
        np.testing.assert_allclose(2 * offsets[1, 0], X[sides].mean(0) - X[~sides].mean(0))

    def test_merges_put_clusters_at_their_weighted_mean(self):
        two = Clusters(np.array([[0.0, 0], [3, 0], [0, 90]]), np.array([0.2, 0.1, 0.7]), 1.0)
        tokens = Tokens(np.zeros((10, 2)))
        found = next(_merges(tokens, two, 10, penalty(2), 3))
        np.testing.assert_allclose(found.centroids, [[1, 0], [0, 90]])
        np.testing.assert_allclose(found.weights, [0.3, 0.7])
        assert join(two, np.zeros(3, dtype=int)).centroids.shape == (1, 2)

    def test_settles_from_too_few_and_too_many(self):
        X, _, _ = mixture(6, 20, 0.15, 1500)
        tokens = Tokens(X - X.mean(0))
        g = geometry(tokens)
        one = Clusters(np.zeros((1, 20)), np.ones(1), g.mean_square / 20)
        rng = np.random.default_rng(0)
        many = Clusters(tokens.X[rng.choice(1500, 25)], np.full(25, 1 / 25), 0.03)
        for start in (one, many):
            found, criterion = settle(tokens, start, g, 50)
            assert len(found.weights) == 6
            again = 1500 * expectation(tokens, found, g).log_likelihood - 6 * penalty(20)
            assert criterion == pytest.approx(again)

    def test_overgrown_clusters_outnumber_a_grid(self):
        grid = np.stack(np.meshgrid(np.arange(6), np.arange(6)), -1).reshape(-1, 2)
        rng = np.random.default_rng(0)
        tokens = Tokens(8.0 * grid[rng.integers(0, 36, 2000)] + rng.standard_normal((2000, 2)))
        assert 36 <= len(overgrow(tokens, geometry(tokens), 200).weights) <= 128


class TestGaps:
    def test_neighbours_are_those_without_a_third_centre_between(self):
        C = np.random.default_rng(0).standard_normal((12, 2))
        rows = Tokens(np.repeat(C, 4, axis=0))
        found = neighbours(rows, Clusters(C, np.full(12, 1 / 12), 0.01))
        gap = cdist(C, C, "sqeuclidean")
        for a in range(12):
            for b in range(a + 1, 12):
                others = np.delete(np.arange(12), [a, b])
                inside = ((C[others] - (C[a] + C[b]) / 2) ** 2).sum(1) < gap[a, b] / 4
                paired = ((found.i == a) & (found.j == b)).any()
                assert paired == (not inside.any())

    def test_gap_and_no_gap(self):
        rng = np.random.default_rng(0)
        one = rng.standard_normal((2000, 3))
        halves = Clusters(np.array([[-0.8, 0, 0], [0.8, 0, 0]]), np.full(2, 0.5), 0.8)
        found = neighbours(Tokens(one), halves)
        assert not found.apart.any()
        assert found.filled.all()
        two = one + np.where(rng.random(2000) < 0.5, -2.3, 2.3)[:, None] * np.eye(3)[0]
        found = neighbours(
            Tokens(two), Clusters(np.array([[-2.3, 0, 0], [2.3, 0, 0]]), np.full(2, 0.5), 1.0)
        )
        assert found.apart.all()
        assert not found.filled.any()
        assert found.modes().tolist() == [0, 1]

    def test_few_rows_belong_to_the_nearest_of_more(self):
        C = np.array([[0.0], [40], [44]])
        rng = np.random.default_rng(0)
        X = np.repeat(C, [200, 200, 5], axis=0) + rng.standard_normal((405, 1)) * 0.1
        found = neighbours(Tokens(X), Clusters(C, np.array([200, 200, 5]) / 405, 0.01))
        assert found.modes().tolist() == [0, 1, 2]
        assert found.modes(30).tolist() == [0, 1, 1]

    def test_isolated_rows_are_those_without_neighbours(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((500, 4))
        X[:3] = 60 * np.eye(4)[:3]
        X[3:10] += 100
        found = isolated(Tokens(X), Clusters(np.zeros((1, 4)), np.ones(1), 1.0))
        assert np.flatnonzero(found).tolist() == [0, 1, 2]


class TestChoice:
    @pytest.mark.parametrize("ratio", [1, 4])
    @pytest.mark.parametrize(
        ("k", "d", "sigma"), [(2, 16, 0.2), (5, 16, 0.2), (10, 64, 0.15), (20, 64, 0.12)]
    )
    def test_mixtures(self, k, d, sigma, ratio):
        for seed in range(3):
            X, y, _ = mixture(k, d, sigma, 2000, seed, ratio)
            model = chosen(X.astype(np.float32))
            assert model.selection_.n_clusters == len(model.weights_) == k
            assert ari(y, model.labels_) > 0.9

    @pytest.mark.parametrize("n", [200, 2000])
    def test_nothing_to_find(self, n):
        rng, tails = np.random.default_rng(0), np.random.default_rng(1)
        ball = rng.standard_normal((n, 5))
        clouds = {
            "noise": rng.standard_normal((n, 16)),
            "cube": rng.random((n, 2)),
            "interval": rng.random((n, 1)),
            "sphere": ball / np.linalg.norm(ball, axis=1, keepdims=True),
            "line": rng.random((n, 1)) + 0.01 * rng.standard_normal((n, 10)),
            "scales": rng.standard_normal((n, 6)) * [1e-3, 1, 1, 1, 10, 1e4],
            "tails": tails.standard_t(3, (n, 16)),
            "all alike": np.ones((n, 3)),
        }
        for name, X in clouds.items():
            found = chosen(X).selection_
            assert (name, found.n_clusters) == (name, 1)
            assert "no cluster structure found" in found.reason

    def test_clusters_that_fill_all_directions(self):
        rng = np.random.default_rng(0)
        square = 10.0 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
        X = square[rng.integers(0, 4, 1000)] + rng.standard_normal((1000, 2))
        assert chosen(X).selection_.n_clusters == 4
        pair = np.append(rng.normal(0, 1, 300), rng.normal(10, 1, 300))[:, None]
        assert chosen(pair).selection_.n_clusters == 2

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda X, r: np.hstack([X, X]),
            lambda X, r: np.vstack([X, 10 * r.standard_normal((20, 16))]),
            lambda X, r: np.vstack([X, 100 * r.standard_cauchy((20, 16))]),
            lambda X, r: 8 * X + 0.5 * r.standard_t(3, X.shape),
        ],
    )
    def test_bad_input(self, spoil):
        X, y, _ = mixture(5, 16, 0.1, 1980)
        model = chosen(spoil(X, np.random.default_rng(1)))
        assert model.selection_.n_clusters == 5
        assert ari(y, model.labels_[:1980]) > 0.95

    def test_few_rows(self):
        for n in (1, 2, 3, 5, 12):
            X, _, _ = mixture(3, 100, 0.05, n)
            assert 1 <= len(chosen(X).weights_) <= max(1, n // 3)
        X, y, _ = mixture(3, 100, 0.05, 20)
        assert ari(y, chosen(X).labels_) == 1

    def test_cosine_sparse_float32_and_gradient_training(self):
        X, y, _ = mixture(4, 16, 0.1, 800)
        for rows, parameters in (
            (X * np.random.default_rng(0).uniform(1, 9, (800, 1)), {"metric": "cosine"}),
            (sp.csr_matrix(X), {}),
            (X.astype(np.float32), {}),
            (X, {"solver": "pgd", "n_steps": 1000, "normalize": True}),
        ):
            model = chosen(rows, **parameters)
            assert len(model.weights_) == 4
            assert ari(y, model.labels_) > (0.95 if model.solver == "fixed_point" else 0.6)

    def test_units_and_offset_do_not_matter(self):
        X, _, _ = mixture(4, 16, 0.15, 1000)
        one, two = chosen(X).selection_, chosen(1e6 * X + 1e7).selection_
        assert one.n_clusters == two.n_clusters == 4
        np.testing.assert_allclose(two.eigenvalues, 1e12 * one.eigenvalues, rtol=1e-6)
        assert two.edge == pytest.approx(1e12 * one.edge)

    def test_evidence(self):
        X, _, _ = mixture(5, 20, 0.15, 2000)
        selection = chosen(X).selection_
        table = selection.to_frame()
        assert table.index.tolist() == [1, 4, 5, 6]
        assert table["criterion"].idxmax() == 5
        assert table["stability"][5] > 0.99 > table["stability"][6]
        assert table["redundant"][5] == 0 < table["redundant"][6]
        assert table["eigenvalue"][5] > 1 > table["eigenvalue"][6]
        assert table["held_out"][4] > table["held_out"][5]
        assert table["held_out"][5] == pytest.approx(0.15**2, rel=0.03)
        covariance = np.cov(X.T, bias=True)
        np.testing.assert_allclose(selection.eigenvalues, np.linalg.eigvalsh(covariance)[::-1])

    def test_a_given_number_has_no_selection(self):
        assert AttentionClustering(2).fit(np.eye(4)).selection_ is None

    def test_repeats_and_survives_the_file(self, tmp_path):
        X, _, _ = mixture(5, 16, 0.2, 700)
        one, two = chosen(X), chosen(X)
        np.testing.assert_array_equal(one.cluster_centers_, two.cluster_centers_)
        save_model(one, tmp_path / "m.safetensors")
        back = load_model(tmp_path / "m.safetensors")
        np.testing.assert_array_equal(back.predict(X), one.labels_)
        assert back.selection_.candidates == one.selection_.candidates
        assert back.selection_.reason == one.selection_.reason

    def test_rows_of_no_weight_do_not_count(self):
        X, _, _ = mixture(3, 10, 0.1, 900)
        w = np.append(np.ones(900), np.zeros(50))
        spoilt = np.vstack([X, 1e3 * np.ones((50, 10))])
        model = AttentionClustering("auto", random_state=0).fit(spoilt, sample_weight=w)
        assert len(model.weights_) == 3
