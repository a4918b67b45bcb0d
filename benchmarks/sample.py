"""ARI against the rows looked at: what `max_samples="auto"` and `BLUR` rest on.

python benchmarks/sample.py > benchmarks/sample.md
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np
import speed
from sklearn.metrics import adjusted_rand_score

from attnclust import AttentionClustering, estimators

SIZES = (2_000, 5_000, 10_000, 20_000, 30_000, 60_000)
BLURS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
SEEDS = 2


def main():
    names = [f"{m:,}" for m in SIZES]
    fits = [({"max_samples": m}, estimators.BLUR) for m in SIZES]
    table("Rows that heads and refinement look at", "rows", names, fits)
    names = [f"{blur:g}" for blur in BLURS]
    table("Blur of the directions", "blur", names, [({}, blur) for blur in BLURS])


def table(title, what, names, fits):
    print(f"# {title}\n\n`python benchmarks/sample.py`: least ARI of {SEEDS} seeds, and", end=" ")
    print("median seconds of the processor; workloads of `speed.py`.\n")
    print(f"| workload, {what} | " + " | ".join(names), "|")
    print("| --- " * (len(names) + 1) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for name, (n, d, k) in speed.WORKLOADS.items():
            bayes = speed.make(Path(folder), name)
            X, y = (np.load(f"{folder}/{name}{end}.npy") for end in ("", "-y"))
            cells = [cell(X, y, k, *fit) for fit in fits]
            told = f"{name}: n = {n:,}, d = {d}, K = {k}, Bayes {bayes:.4f}"
            print(f"| {told} | " + " | ".join(cells), "|", flush=True)
            Path(folder, f"{name}.npy").unlink()
    print()


def cell(X, y, k, parameters, blur):
    scores, spent = [], []
    for seed in range(SEEDS):
        model = AttentionClustering(k, random_state=seed, **parameters)
        start = time.process_time()
        with patch("attnclust.estimators.BLUR", blur):
            labels = model.fit(X).labels_
        spent.append(time.process_time() - start)
        scores.append(adjusted_rand_score(y, labels))
    return f"{min(scores):.4f}, {np.median(spent):.2f}"


if __name__ == "__main__":
    main()
