"""This library and its peers on the same arrays, each run in its own process, in one session.

    python benchmarks/speed.py > benchmarks/speed.md    # peers once, attnclust three times
    python benchmarks/speed.py --only W1 --rounds 1 --methods "attnclust;KMeans, one start"

Rows are float32: K random unit centres, spherical noise at which the nearest true centre is right
for 97 in 100. Time is that of fit and labels of all rows after a warm-up on few rows, in units of
one assignment pass (X @ C^T with argmax, tile by tile) timed just before and after in the same
process. Memory is the peak resident set above that before the fit. Peers run in the first round
only, since some take minutes. "predict alone" labels all rows by centres of the few rows of the
warm-up: only its time and memory tell.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import adjusted_rand_score

#             n          d    K
WORKLOADS = {
    "W1": (100_000, 32, 10),
    "W2": (1_000_000, 64, 10),
    "W3": (200_000, 384, 50),
    "W4": (1_000_000, 128, 100),
}
TILE = 2**20
STEP = 65_536
FITTED = {}


def unit_centres(k, d, rng):
    centres = rng.standard_normal((k, d)).astype(np.float32)
    return centres / np.linalg.norm(centres, axis=1, keepdims=True)


def make(folder, name, seed=0):
    """Rows, labels and the ARI of the Bayes rule, on disk."""
    n, d, k = WORKLOADS[name]
    rng = np.random.default_rng(seed)
    centres = unit_centres(k, d, rng)
    owner, noise = rng.integers(0, k, 20_000), rng.standard_normal((20_000, d), dtype=np.float32)
    low, high = 0.0, 3.0
    for _ in range(30):
        sigma = np.float32((low + high) / 2)
        right = ((centres[owner] + sigma * noise) @ centres.T).argmax(1) == owner
        low, high = (sigma, high) if right.mean() > 0.97 else (low, sigma)
    y = rng.integers(0, k, n)
    X = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float32, (n, d))
    nearest = np.empty(n, dtype=np.intp)
    for start in range(0, n, STEP):
        own = y[start : start + STEP]
        rows = centres[own] + sigma * rng.standard_normal((len(own), d), dtype=np.float32)
        X[start : start + STEP] = rows
        nearest[start : start + STEP] = (rows @ centres.T).argmax(1)
    np.save(folder / f"{name}-y.npy", y)
    return adjusted_rand_score(y, nearest)


def attnclust(X, k, seed):
    from attnclust import AttentionClustering

    return AttentionClustering(k, random_state=seed).fit(X).labels_


def predict(X, k, seed):
    """Labels alone, by the model that the warm-up on few rows has fitted."""
    from attnclust import AttentionClustering

    if seed not in FITTED:
        FITTED[seed] = AttentionClustering(k, random_state=seed).fit(X)
    return FITTED[seed].predict(X)


def kmeans(X, k, seed):
    from sklearn.cluster import KMeans

    return KMeans(k, n_init=1, random_state=seed).fit(X).labels_


def mini_batch(X, k, seed):
    from sklearn.cluster import MiniBatchKMeans

    return MiniBatchKMeans(k, n_init=1, random_state=seed).fit(X).labels_


def gaussian_mixture(X, k, seed):
    from sklearn.mixture import GaussianMixture

    return GaussianMixture(k, covariance_type="spherical", random_state=seed).fit_predict(X)


def faiss(X, k, seed, **more):
    from faiss import Kmeans

    model = Kmeans(X.shape[1], k, seed=seed + 1, **more)
    model.train(X)
    return model.index.search(X, 1)[1][:, 0]


def faiss_full(X, k, seed):
    return faiss(X, k, seed, max_points_per_centroid=len(X))


def superkmeans(X, k, seed, **more):
    from superkmeans import SuperKMeans

    model = SuperKMeans(n_clusters=k, dimensionality=X.shape[1], seed=seed, **more)
    return model.assign(X, model.train(X))


def superkmeans_full(X, k, seed):
    return superkmeans(X, k, seed, hierarchical=False, sampling_fraction=1.0, iters=25)


def fastkmeans(X, k, seed):
    from fastkmeans import FastKMeans

    return FastKMeans(X.shape[1], k, niter=25, gpu=False, seed=seed).fit_predict(X)


#           name                      function          module that it needs
METHODS = {
    "attnclust": (attnclust, "attnclust"),
    "attnclust, predict alone": (predict, "attnclust"),
    "KMeans, one start": (kmeans, "sklearn"),
    "MiniBatchKMeans": (mini_batch, "sklearn"),
    "GaussianMixture, spherical": (gaussian_mixture, "sklearn"),
    "faiss, its sample": (faiss, "faiss"),
    "faiss, all rows": (faiss_full, "faiss"),
    "superkmeans": (superkmeans, "superkmeans"),
    "superkmeans, all rows": (superkmeans_full, "superkmeans"),
    "fastkmeans": (fastkmeans, "fastkmeans"),
}


def tiles(X, k):
    step = max(1024, TILE // max(k, X.shape[1]))
    return [X[start : start + step] for start in range(0, len(X), step)]


def floors(X, k):
    """Seconds of one read, one assignment pass and one X^T X."""
    C = X[np.random.default_rng(0).choice(len(X), k, replace=False)]
    parts = tiles(X, k)

    def assign():
        for part in parts:
            (part @ C.T).argmax(1)

    jobs = {"read": X.sum, "assign": assign, "gram": lambda: X.T @ X}
    return {name: seconds(job) for name, job in jobs.items()}


def seconds(job):
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def resident(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(key)) * 1024


def child(folder, workload, method, seed):
    """One run, as JSON on standard output."""
    _, _, k = WORKLOADS[workload]
    X, y = np.load(folder / f"{workload}.npy"), np.load(folder / f"{workload}-y.npy")
    function = METHODS[method][0]
    function(np.ascontiguousarray(X[: max(2048, 40 * k)]), k, seed)
    before = floors(X, k)
    Path("/proc/self/clear_refs").write_text("5")
    base = resident("VmRSS")
    start = time.perf_counter()
    labels = function(X, k, seed)
    spent = time.perf_counter() - start
    peak = resident("VmHWM") - base
    after = floors(X, k)
    found = {name: (before[name] + after[name]) / 2 for name in before}
    score = adjusted_rand_score(y, labels)
    print(json.dumps({"seconds": spent, "ari": score, "peak": peak, **found}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(WORKLOADS))
    parser.add_argument("--methods", default="all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--child", nargs=4)
    options = parser.parse_args()
    if options.child:
        folder, workload, method, seed = options.child
        child(Path(folder), workload, method, int(seed))
        return
    names = list(METHODS) if options.methods == "all" else options.methods.split(";")
    missing = [m for m in names if importlib.util.find_spec(METHODS[m][1]) is None]
    print("# Speed beside the peers\n\n`python benchmarks/speed.py`. One run of each,", end=" ")
    print(f"medians of {options.rounds} of attnclust; time in assignment passes of the process.\n")
    for name in missing:
        print(f"{name}: left out, {METHODS[name][1]} is not installed.\n")
    with tempfile.TemporaryDirectory() as folder:
        for workload in options.only.split(","):
            n, d, k = WORKLOADS[workload]
            bayes = make(Path(folder), workload)
            runs = {name: [] for name in names if name not in missing}
            for seed in range(options.rounds):
                for name, found in runs.items():
                    if seed == 0 or name.startswith("attnclust"):
                        found += run(folder, workload, name, seed, options.timeout)
            print(f"## {workload}: n = {n:,}, d = {d}, K = {k}; Bayes ARI {bayes:.3f}\n")
            print(
                "| method | passes | ARI | worst ARI | seconds | peak memory, MB |\n"
                + "| --- " * 6,
                "|",
            )
            for name, found in runs.items():
                print(f"| {name} | {told(found)} |", flush=True)
            every = [r for found in runs.values() for r in found]
            floor = {key: np.median([r[key] for r in every]) for key in ("read", "assign", "gram")}
            print(
                f"\nFloors, seconds: one read {floor['read']:.3f}, assignment pass "
                f"{floor['assign']:.3f}, X^T X {floor['gram']:.3f}.\n",
                flush=True,
            )
            (Path(folder) / f"{workload}.npy").unlink()


def run(folder, workload, name, seed, timeout):
    command = [sys.executable, __file__, "--child", folder, workload, name, str(seed)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        print(f"{workload}, {name}: more than {timeout:g} s", file=sys.stderr)
        return []
    if done.returncode:
        print(f"{workload}, {name}: {done.stderr.splitlines()[-1]}", file=sys.stderr)
        return []
    return [json.loads(done.stdout.splitlines()[-1])]


def told(found):
    if not found:
        return "- | - | - | - | -"
    ari, spent, peak = (np.array([r[key] for r in found]) for key in ("ari", "seconds", "peak"))
    passes = np.median([r["seconds"] / r["assign"] for r in found])
    return (
        f"{passes:.1f} | {np.median(ari):.3f} | {ari.min():.3f} | {np.median(spent):.2f} | "
        f"{np.median(peak) / 2**20:.0f}"
    )


if __name__ == "__main__":
    main()
