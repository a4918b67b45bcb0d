"""One run on sets that are no mixture with random centres, beside k-means and other peers.

    python benchmarks/real.py            # 10 seeds, the tables in real.md
    python benchmarks/real.py --quick    # 2 seeds, no slow peers

Cells are "ARI, inertia, seconds": medians over the seeds, the inertia of the labels over the median
of KMeans(n_init=10); the centroid index (centres of classes that are no cluster's nearest, or the
other way round, whichever are more) is the largest of all seeds. All methods see the same array,
one after the other, in one process. Peers other than k-means run on 3 seeds, spectral clustering on
at most 2,000 rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import numpy as np
from sets import generated, real_rows, suite
from sklearn.cluster import KMeans, SpectralClustering, kmeans_plusplus
from sklearn.metrics import adjusted_rand_score, pairwise_distances_argmin_min
from sklearn.mixture import GaussianMixture

from attnclust import AttentionClustering
from attnclust.compare.spherical import spherical_kmeans
from attnclust.fitting import History
from attnclust.refinement import Clusters

SPECTRAL_ROWS = 2_000
SLOW_SEEDS = 3
SLOW_SIZE = 1e7  # rows x features x clusters beyond which mixtures of others are left out
PEERS = {
    "attnclust": lambda X, k, seed: AttentionClustering(k, random_state=seed).fit(X).labels_,
    "KMeans(10)": lambda X, k, seed: KMeans(k, n_init=10, random_state=seed).fit(X).labels_,
    "KMeans(1)": lambda X, k, seed: KMeans(k, n_init=1, random_state=seed).fit(X).labels_,
    "KMeans(100)": lambda X, k, seed: KMeans(k, n_init=100, random_state=seed).fit(X).labels_,
    "spherical k-means": lambda X, k, seed: spherical_kmeans(X, k, seed)[0],
    "mixture, diagonal": lambda X, k, seed: GaussianMixture(
        k, covariance_type="diag", random_state=seed
    ).fit_predict(X),
    "mixture, spherical": lambda X, k, seed: GaussianMixture(
        k, covariance_type="spherical", random_state=seed
    ).fit_predict(X),
    "spectral": lambda X, k, seed: (
        SpectralClustering(k, affinity="nearest_neighbors", random_state=seed).fit(X).labels_
    ),
}
FAST = ("attnclust", "KMeans(10)", "KMeans(1)")
STARTS = ("heads or splits", "k-means++")
REFINEMENTS = ("none", "attention", "attention with moves")
ABLATED = ("s2", "a2", "d31", "statlog", "digits", "intents", "banking77", "stackoverflow")


def means(X, labels):
    """Means of the labelled rows."""
    _, place = np.unique(labels, return_inverse=True)
    sums = np.zeros((place.max() + 1, X.shape[1]))
    np.add.at(sums, place, X)
    return sums / np.bincount(place)[:, None], place


def inertia(X, labels):
    """Squared distances of the rows to the mean of their label."""
    centres, place = means(X, labels)
    return float(((X - centres[place]) ** 2).sum())


def centroid_index(X, known, labels):
    """Orphans among the centres of classes and clusters (Fränti, Rezaei and Zhao 2014)."""
    a, b = means(X, known)[0], means(X, labels)[0]
    gap = ((a[:, None] - b) ** 2).sum(2)
    return max(len(b) - len(set(gap.argmin(1))), len(a) - len(set(gap.argmin(0))))


def bayes(X, y):
    """Labels of the nearest class mean: the Bayes rule where classes are round and alike."""
    return ((X[:, None] - means(X, y)[0]) ** 2).sum(2).argmin(1)


def all_sets():
    """Suite, name, rows, labels."""
    for name, X, y in suite("sipu"):
        if name != "aggregation":  # not round
            yield "More clusters than features", name, X, y
    for name, X, y in generated():
        yield "More clusters than features", name, X, y
    for name, X, y in real_rows():
        yield "Real vectors", name, X, y
    for name, X, y in suite("uci"):
        yield "Real vectors", name, X, y
    for name, X, y in suite("g2mg"):
        yield "Two Gaussians", name, X, y


def runs_of(method, X, y, seeds):
    """ARI, inertia, centroid index and seconds of each seed."""
    k = len(np.unique(y))
    rows = []
    for seed in range(seeds):
        begun = time.perf_counter()
        labels = method(X, k, seed)
        seconds = time.perf_counter() - begun
        ari = adjusted_rand_score(y, labels)
        rows.append((ari, inertia(X, labels), centroid_index(X, y, labels), seconds))
    return np.array(rows)


def asked(name, X, k, kind, quick):
    """Whether a method runs on a set."""
    if name in FAST:
        return True
    if quick or kind == "Two Gaussians":
        return False
    if name == "KMeans(100)":
        return kind == "More clusters than features" and len(X) < 20_000
    if name == "spectral":
        return len(X) <= SPECTRAL_ROWS
    if name == "spherical k-means":
        return kind == "Real vectors"
    return X.size * k <= SLOW_SIZE


def row(kind, name, X, y, seeds, quick):
    """A line of the table, and the medians behind it."""
    k = len(np.unique(y))
    found = {}
    for peer, method in PEERS.items():
        if asked(peer, X, k, kind, quick):
            runs = runs_of(method, X, y, seeds if peer in FAST else min(seeds, SLOW_SEEDS))
            found[peer] = *np.median(runs[:, :2], axis=0), runs[:, 2].max(), np.median(runs[:, 3])
    least = found["KMeans(10)"][1]
    cells = [f"{name} ({len(X)}, {X.shape[1]}, {k})"]
    if kind == "Two Gaussians":
        cells.append(f"{adjusted_rand_score(y, bayes(X, y)):.4f}")
    for peer in PEERS:
        if peer not in found:
            cells.append("")
            continue
        ari, total, index, seconds = found[peer]
        text = f"{ari:.4f}, {total / least:.4f}, {seconds:.3f}"
        cells.append(text + (f", CI {index:.0f}" if kind.startswith("More") else ""))
    if kind == "Two Gaussians":  # no other peer ran
        cells = cells[: 2 + len(FAST)]
    return f"| {' | '.join(cells)} |"


def ablation(X, y, start, refinement, seeds):
    """Medians of ARI, inertia and seconds for one start and one refinement."""

    def from_plusplus(tokens, _seen, _geometry, n_clusters, rng, **_options):
        rows = tokens.part(slice(None)).dense()
        centres, _ = kmeans_plusplus(rows, n_clusters, random_state=int(rng.integers(2**31)))
        noise = float(pairwise_distances_argmin_min(rows, centres, metric="sqeuclidean")[1].mean())
        noise /= tokens.dim
        equal = np.full(n_clusters, 1 / n_clusters)
        return Clusters(centres.astype(float), equal, noise), History("k-means++")

    with ExitStack() as stack:
        if start == "k-means++":
            stack.enter_context(patch("attnclust.estimators.find_start", from_plusplus))
        if refinement == "attention":
            stack.enter_context(patch("attnclust.moves.MAX_ROUNDS", 0))
            stack.enter_context(patch("attnclust.fitting.HARD_ROUNDS", 0))

        def fit(X, k, seed):
            return (
                AttentionClustering(k, refine=refinement != "none", random_state=seed)
                .fit(X)
                .labels_
            )

        return np.median(runs_of(fit, X, y, seeds), axis=0)[[0, 1, 3]]


def main() -> None:
    warnings.simplefilter("ignore")  # peers that have not converged say so by their scores
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="2 seeds, no slow peers")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    arguments = parser.parse_args()
    seeds = 2 if arguments.quick else arguments.seeds
    lines = [
        f"# One run on real and benchmark sets, {seeds} seeds",
        "",
        "`python benchmarks/real.py`.",
    ]
    lines += [" ".join(__doc__.split("\n\n")[2].split()), ""]
    AttentionClustering(2).fit(np.random.default_rng(0).random((500, 4)))
    kept, last = {}, ""
    for kind, name, X, y in all_sets():
        if kind != last:
            peers = [p for p in PEERS if kind != "Two Gaussians" or p in FAST]
            rule = ["nearest class mean"] * (kind == "Two Gaussians")
            heads = ["set (n, d, K)", *rule, *peers]
            lines += ["", f"## {kind}", "", f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
            last = kind
        lines.append(row(kind, name, X, y, seeds, arguments.quick))
        print(lines[-1], flush=True)
        if name in ABLATED:
            kept[name] = X, y
    lines += [
        "",
        "## What each part contributes",
        "",
        "Start and refinement; cells as above. Attention is soft where the mixture fits and hard",
        "where it does not.",
        "",
        f"| start, refinement | {' | '.join(kept)} |",
        "| --- " * (len(kept) + 1) + "|",
    ]
    least = {
        n: np.median(runs_of(PEERS["KMeans(10)"], X, y, 2)[:, 1]) for n, (X, y) in kept.items()
    }
    for start in STARTS:
        for refinement in REFINEMENTS:
            if start == "k-means++" and refinement == "none":
                continue
            cells = [f"{start}, {refinement}"]
            for name, (X, y) in kept.items():
                ari, total, seconds = ablation(X, y, start, refinement, min(seeds, SLOW_SEEDS))
                cells.append(f"{ari:.4f}, {total / least[name]:.4f}, {seconds:.3f}")
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
