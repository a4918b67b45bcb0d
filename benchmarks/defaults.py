"""The measurement behind each default: ARI and seconds of the alternatives.

    python benchmarks/defaults.py            # 5 seeds, the table in defaults.md
    python benchmarks/defaults.py --seeds 1  # quick

Cells are "median ARI (worst) seconds". Within a column every variant sees the same arrays.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import numpy as np
from accuracy import MIXTURES, draw
from sets import real_rows
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from attnclust import AttentionClustering
from attnclust.compare.spherical import spherical_kmeans

# Name, parameters, constants of modules to change.
VARIANTS = [
    ("default", {}, {}),
    ("heads alone (refine=False)", {"refine": False}, {}),
    ("heads alone, fourth moment", {"refine": False, "order": 4}, {}),
    ("heads alone, no lift", {"refine": False, "lift": "none"}, {}),
    ("fourth moment", {"order": 4}, {}),
    ("no lift", {"lift": "none"}, {}),
    ("no moves", {}, {"moves.MAX_ROUNDS": 0}),
    ("moves tried from a promise of 1x", {}, {"moves.WORTH": 1.0}),
    ("moves tried from a promise of 0.25x", {}, {"moves.WORTH": 0.25}),
    ("1 step to judge a move", {}, {"moves.INNER_STEPS": 1}),
    ("6 steps to judge a move", {}, {"moves.INNER_STEPS": 6}),
    ("moves when attention is at rest", {}, {"fitting.BEFORE_MOVES": 1}),
    ("rows on the right of products", {}, {"tokens.WIDE": 10**9}),
    ("tol=1e-3", {"tol": 1e-3}, {}),
    ("tol=1e-5", {"tol": 1e-5}, {}),
    ("max_samples=3,000", {"max_samples": 3_000}, {}),
    ("max_samples=10,000", {"max_samples": 10_000}, {}),
    ("max_samples=100,000", {"max_samples": 100_000}, {}),
    ("cosine", {"metric": "cosine"}, {}),
]


def columns(seeds):
    for mixture in MIXTURES:
        name = ", ".join(map(str, mixture[:4]))
        yield name, mixture[0], [draw(*mixture, seed)[:2] for seed in range(seeds)]
    for name, X, y in real_rows():
        yield name, len(np.unique(y)), [(X, y)] * seeds


def fit(k, seed, parameters, constants, X):
    with ExitStack() as stack:
        for name, value in constants.items():
            stack.enter_context(patch(f"attnclust.{name}", value))
        start = time.perf_counter()
        labels = AttentionClustering(k, random_state=seed, **parameters).fit(X).labels_
        return labels, time.perf_counter() - start


def cell(runs):
    scores, seconds = np.array(runs).T
    return f"{np.median(scores):.4f} ({scores.min():.4f}) {np.median(seconds):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    arguments = parser.parse_args()
    names = [v[0] for v in VARIANTS] + ["KMeans(1)", "KMeans(10)", "spherical k-means (1)"]
    rows: dict[str, list[str]] = {name: [] for name in names}
    heads = []
    for name, k, arrays in columns(arguments.seeds):
        heads.append(name)
        for variant, parameters, constants in VARIANTS:
            runs = []
            for seed, (X, y) in enumerate(arrays):
                labels, seconds = fit(k, seed, parameters, constants, X)
                runs.append((adjusted_rand_score(y, labels), seconds))
            rows[variant].append(cell(runs))
        peers = {
            "KMeans(1)": lambda X, seed, k=k: KMeans(k, n_init=1, random_state=seed).fit_predict(X),
            "KMeans(10)": lambda X, seed, k=k: KMeans(k, n_init=10, random_state=seed).fit_predict(
                X
            ),
            "spherical k-means (1)": lambda X, seed, k=k: spherical_kmeans(X, k, seed)[0],
        }
        for peer, labels_of in peers.items():
            runs = []
            for seed, (X, y) in enumerate(arrays):
                start = time.perf_counter()
                labels = labels_of(X, seed)
                runs.append((adjusted_rand_score(y, labels), time.perf_counter() - start))
            rows[peer].append(cell(runs))
        print(name, *(f"\n    {n}: {r[-1]}" for n, r in rows.items()), flush=True)
    lines = [
        f"# What each default is chosen from, {arguments.seeds} seeds",
        "",
        "`python benchmarks/defaults.py`. Cells: median ARI (worst) seconds. Columns named by",
        "K, d, sigma and n are mixtures with random unit centres, the others real rows.",
        "",
        f"| | {' | '.join(heads)} |",
        f"|{' --- |' * (len(heads) + 1)}",
        *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()),
    ]
    arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
