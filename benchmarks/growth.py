"""Seconds of fit and labels as rows, features and clusters grow.

    python benchmarks/growth.py > benchmarks/growth.md

Rows as in `speed.py`: random unit centres, float32, spherical noise. Medians of three fits after a
warm-up. The slope is that of log seconds against log n, by least squares.
"""

from __future__ import annotations

import time

import numpy as np
from speed import STEP, unit_centres

from attnclust import AttentionClustering

ROWS, FEATURES, CLUSTERS = 100_000, 64, 10
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
GROWING = {"d": (16, 32, 64, 128, 256, 512, 1024), "K": (5, 10, 20, 40, 60)}
FITS, SIGMA = 3, 0.15


def rows(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    centres = unit_centres(k, d, rng)
    X = np.empty((n, d), np.float32)
    for start in range(0, n, STEP):
        part = X[start : start + STEP]
        part[:] = SIGMA * rng.standard_normal(part.shape, dtype=np.float32)
        part += centres[rng.integers(0, k, len(part))]
    return X


def seconds(n, d, k):
    X = rows(n, d, k)
    spent = []
    for seed in range(FITS + 1):
        start = time.perf_counter()
        AttentionClustering(k, random_state=seed).fit(X)
        spent.append(time.perf_counter() - start)
    return float(np.median(spent[1:]))


def table(name, values, spent):
    print(f"| {name} | " + " | ".join(f"{value:,}" for value in values), "|")
    print("| --- " * (len(values) + 1) + "|")
    print("| seconds | " + " | ".join(f"{s:.3f}" for s in spent), "|\n", flush=True)


def main():
    print("# How cost grows\n\n`python benchmarks/growth.py`: medians of three fits with labels.\n")
    spent = [seconds(n, FEATURES, CLUSTERS) for n in SIZES]
    print(f"d = {FEATURES}, K = {CLUSTERS}; rows:\n")
    table("n", SIZES, spent)
    for least in (SIZES[0], ROWS, SIZES[-2]):
        large = np.array(SIZES) >= least
        slope = np.polyfit(np.log(SIZES)[large], np.log(spent)[large], 1)[0]
        print(f"From {least:,} rows on log seconds rise by {slope:.2f} log n.")
    base = {"d": FEATURES, "K": CLUSTERS}
    for name, values in GROWING.items():
        fixed = " and ".join(f"{key} = {value}" for key, value in base.items() if key != name)
        print(f"\nn = {ROWS:,} and {fixed}:\n")
        spent = [
            seconds(ROWS, **{key.lower(): value for key, value in {**base, name: v}.items()})
            for v in values
        ]
        table(name, values, spent)


if __name__ == "__main__":
    main()
