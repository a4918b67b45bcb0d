"""Seconds of fit and labels as rows, features and clusters grow.

    python benchmarks/growth.py > benchmarks/growth.md    # 10,000 to 10,000,000 rows
    python benchmarks/growth.py --most 1000000

Rows as in `speed.py`: random unit centres, float32, spherical noise. Medians of three fits after a
warm-up. The slope is that of log seconds against log n, by least squares.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from attnclust import AttentionClustering

ROWS, FEATURES, CLUSTERS = 100_000, 64, 10
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
GROWING = {"d": (16, 32, 64, 128, 256, 512, 1024), "K": (5, 10, 20, 40, 60)}
STEP, FITS, SIGMA = 65_536, 3, 0.15


def rows(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((k, d)).astype(np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=SIZES[-1])
    sizes = [n for n in SIZES if n <= parser.parse_args().most]
    print("# How cost grows\n\n`python benchmarks/growth.py`: medians of three fits with labels.\n")
    spent = [seconds(n, FEATURES, CLUSTERS) for n in sizes]
    print(f"d = {FEATURES}, K = {CLUSTERS}; rows:\n")
    table("n", sizes, spent)
    large = [(n, s) for n, s in zip(sizes, spent, strict=True) if n >= ROWS]
    for name, pairs in (("all", list(zip(sizes, spent, strict=True))), ("n >= 100,000", large)):
        slope = np.polyfit(*np.log(np.array(pairs)).T, 1)[0]
        print(f"Slope of log seconds against log n, {name}: {slope:.2f}.", end=" ")
    base = {"d": FEATURES, "K": CLUSTERS}
    for name, values in GROWING.items():
        fixed = " and ".join(f"{key} = {value}" for key, value in base.items() if key != name)
        print(f"\n\nn = {ROWS:,} and {fixed}:\n")
        spent = [
            seconds(ROWS, **{key.lower(): value for key, value in {**base, name: v}.items()})
            for v in values
        ]
        table(name, values, spent)


if __name__ == "__main__":
    main()
