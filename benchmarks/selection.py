"""How many clusters: the choice against the truth, beside BIC and the silhouette.

    python benchmarks/selection.py > benchmarks/selection.md     # some hours on one core
    python benchmarks/selection.py --draws 2 --large 1           # quick

1. What a split of one Gaussian cluster gains in likelihood: what the price per cluster rests on.
2. The grid: random unit centres, noise at which the Bayes rule scores the ARI of the column, rows
   float32; weights equal or every other cluster four times the rest.
3. No structure, and bad input.
4. Labelled data in ../shared/data, where it is there.

Peers choose among K - 2 to K + 2 and 1, 2, 4, 8, ..., 64, in the first draws at n = 2,000 only.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.mixture import GaussianMixture

from attnclust import AttentionClustering
from attnclust.moves import grow
from attnclust.refinement import Geometry, em, expectation
from attnclust.settling import penalty
from attnclust.tokens import Tokens

DATA = Path(__file__).parents[1].parent / "shared" / "data"
SHAPES = [(2, 16), (2, 64), (2, 384), (5, 16), (5, 64), (5, 384), (10, 64), (10, 384)]
SHAPES += [(20, 64), (20, 384), (50, 384)]
TARGETS = (0.95, 0.995)


def draw(k, d, sigma, n, weights, seed):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((k, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    y = rng.choice(k, n, p=weights)
    return centres[y] + sigma * rng.standard_normal((n, d)), y, centres


def noise_for(k, d, weights, target, seed):
    """Largest sigma at which the Bayes rule scores the target, by bisection on 5,000 rows."""
    low, high = 0.01, 1.5
    for _ in range(12):
        sigma = (low + high) / 2
        X, y, centres = draw(k, d, sigma, 5000, weights, seed)
        bayes = ((X @ centres.T - 0.5) / sigma**2 + np.log(weights)).argmax(1)
        low, high = (sigma, high) if adjusted_rand_score(y, bayes) > target else (low, sigma)
    return low


def timed(function, *arguments):
    start = time.perf_counter()
    found = function(*arguments)
    return found, time.perf_counter() - start


def choose(X):
    return len(AttentionClustering("auto", random_state=0).fit(X).weights_)


def candidates(k):
    return sorted({1, 2, 4, 8, 16, 32, 64} | set(range(max(k - 2, 1), k + 3)))


def by_bic(X, k):
    """K of the spherical Gaussian mixture of least BIC."""
    scores = {
        c: GaussianMixture(c, covariance_type="spherical", random_state=0).fit(X).bic(X)
        for c in candidates(k)
    }
    return min(scores, key=scores.get)


def by_silhouette(X, k):
    """K of the k-means of largest silhouette, on at most 2,000 rows."""
    scores = {}
    for c in set(candidates(k)) - {1}:
        labels = KMeans(c, n_init=1, random_state=0).fit_predict(X)
        scores[c] = silhouette_score(X, labels, sample_size=min(2000, len(X)), random_state=0)
    return max(scores, key=scores.get)


def split_gain(X):
    tokens = Tokens(X - X.mean(0))
    geometry = Geometry(tokens.mean_square(), 1e-12)
    one = expectation(tokens, grow(tokens, geometry, 1), geometry).log_likelihood
    _, path = em(tokens, grow(tokens, geometry, 2), geometry, n_steps=30)
    return len(X) * (path[-1].log_likelihood - one)


def null(draws):
    say(
        "## What splitting one Gaussian cluster gains",
        f"\nNats over d + 1, of {draws} draws; the price is `penalty(d)`.\n",
        "| d | n | median | 99% | price |\n| --- | --- | --- | --- | --- |",
    )
    for d in (1, 2, 4, 16, 64, 384):
        for n in (20, 100, 400, 2000, 10_000):
            if n * d <= 2000 * 384:
                rng = np.random.default_rng(0)
                gains = [split_gain(rng.standard_normal((n, d))) for _ in range(draws)]
                half, most = np.quantile(gains, [0.5, 0.99]) / (d + 1)
                say(f"| {d} | {n} | {half:.2f} | {most:.2f} | {penalty(d) / (d + 1):.2f} |")


def grid(draws, large, peers):
    say(
        "\n## The grid",
        f"\nRight choices of K; n = 2,000: {draws} draws, n = 20,000: {large}; peers: the first "
        f"{peers} at n = 2,000. Median seconds.\n",
        "| K | d | n | weights | Bayes ARI | right | wrong ones | seconds | BIC right, seconds "
        "| silhouette right, seconds |\n" + "| --- " * 10 + "|",
    )
    for n, times, tried in ((2000, draws, peers), (20_000, large, 0)):
        for k, d in SHAPES:
            for ratio in (1, 4):
                for target in TARGETS:
                    weights = np.where(np.arange(k) % 2, float(ratio), 1.0)
                    weights /= weights.sum()
                    got, spent, others = [], [], [[], []]
                    for seed in range(times):
                        sigma = noise_for(k, d, weights, target, seed)
                        X = draw(k, d, sigma, n, weights, seed)[0].astype(np.float32)
                        for kept, value in zip((got, spent), timed(choose, X), strict=True):
                            kept.append(value)
                        if seed < tried:
                            for kept, rule in zip(others, (by_bic, by_silhouette), strict=True):
                                kept.append(timed(rule, X, k))
                    told = " | ".join(
                        f"{sum(c == k for c, _ in found)}/{len(found)}, "
                        f"{np.median([s for _, s in found]):.1f}"
                        if found
                        else "-"
                        for found in others
                    )
                    wrong = ", ".join(map(str, sorted(c for c in got if c != k))) or "-"
                    say(
                        f"| {k} | {d} | {n} | {ratio}:1 | {target} | {sum(c == k for c in got)}"
                        f"/{times} | {wrong} | {np.median(spent):.2f} | {told} |"
                    )


def nothing(draws):
    say(
        "\n## Nothing to find",
        f"\nK = 1 in so many of {draws} draws.\n",
        "| rows | n | K = 1 |\n| --- | --- | --- |",
    )
    kinds = {
        **{
            f"Gaussian, d = {d}": (lambda r, n, d=d: r.standard_normal((n, d))) for d in (2, 16, 64)
        },
        **{f"uniform cube, d = {d}": (lambda r, n, d=d: r.random((n, d))) for d in (1, 2, 3, 10)},
        "sphere, d = 5": lambda r, n: unit(r.standard_normal((n, 5))),
        "line in d = 10": lambda r, n: r.random((n, 1)) + 0.01 * r.standard_normal((n, 10)),
        "column scales .001 to 10,000": lambda r, n: (
            r.standard_normal((n, 6)) * [1e-3, 1, 1, 1, 10, 1e4]
        ),
        "t, 3 degrees, d = 16": lambda r, n: r.standard_t(3, (n, 16)),
    }
    for name, rows in kinds.items():
        for n in (300, 2000):
            ones = sum(choose(rows(np.random.default_rng(s), n)) == 1 for s in range(draws))
            say(f"| {name} | {n} | {ones}/{draws} |")


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def spoilt(draws):
    say(
        "\n## Bad input",
        "\nFive clusters of unit centres in d = 16, sigma .1, n = 2,000, spoilt; K found in "
        f"{draws} draws.\n",
        "| what | K |\n| --- | --- |",
    )
    weights = np.full(5, 0.2)

    def outliers(X, r):
        X[:20] += 10 * r.standard_normal((20, 16))
        return X

    kinds = {
        "as it is": lambda X, _r: X,
        "each column twice": lambda X, _r: np.hstack([X, X]),
        "a column of noise 1,000 times as wide": lambda X, r: np.hstack(
            [X, 1e3 * r.standard_normal((len(X), 1))]
        ),
        "the same, columns standardised": lambda X, r: np.hstack(
            [(X - X.mean(0)) / X.std(0), r.standard_normal((len(X), 1))]
        ),
        "noise t of 3 degrees over it": lambda X, r: (
            6 * (X - 0.1 * r.standard_normal(X.shape)) + 0.5 * r.standard_t(3, X.shape)
        ),
        "1% gross outliers": outliers,
        "30 rows": lambda X, _r: X[:30],
        "12 rows, n < d": lambda X, _r: X[:12],
        "first column alone, d = 1": lambda X, _r: X[:, :1],
    }
    for name, spoil in kinds.items():
        found = []
        for seed in range(draws):
            X = draw(5, 16, 0.1, 2000, weights, seed)[0]
            found.append(choose(spoil(X, np.random.default_rng(seed))))
        say(f"| {name} | {', '.join(map(str, found))} |")


def real():
    if not DATA.exists():
        say("\nLabelled data: skipped, there is no ../shared/data.")
        return
    say(
        "\n## Labelled data",
        "\n| set | n, d | classes | K | ARI | seconds | reason |\n| --- | --- | --- | --- | --- | "
        "--- | --- |",
    )
    sets = {p.stem: p for p in sorted([*DATA.glob("*.npz"), *DATA.glob("*/*.npz")])}
    known = {"digits": load_digits(return_X_y=True), "iris": load_iris(return_X_y=True)}
    for name, path in sets.items():
        data = np.load(path, allow_pickle=True)
        X = data["X"].astype(np.float32 if data["X"].dtype == np.float16 else np.float64)
        known[name] = X, data["y0"] if "y0" in data else data["y"]
    for name, (X, y) in known.items():
        model, seconds = timed(AttentionClustering("auto", random_state=0).fit, X)
        score = adjusted_rand_score(y, model.labels_)
        say(
            f"| {name} | {X.shape[0]}, {X.shape[1]} | {len(np.unique(y))} | {len(model.weights_)} "
            f"| {score:.3f} | {seconds:.1f} | {model.selection_.reason} |"
        )


def say(*lines):
    print(*lines, sep="\n", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--large", type=int, default=10)
    parser.add_argument("--peers", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    say("# How many clusters\n\n`python benchmarks/selection.py`; one core.\n")
    null(options.draws)
    nothing(options.draws)
    spoilt(min(options.draws, 5))
    real()
    grid(options.draws, options.large, options.peers)
