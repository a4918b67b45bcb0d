"""ARI against the rows that heads and refinement look at: what `max_samples="auto"` rests on.

python benchmarks/sample.py > benchmarks/sample.md
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import speed
from sklearn.metrics import adjusted_rand_score

from attnclust import AttentionClustering

SIZES = (2_000, 5_000, 10_000, 20_000, 30_000, 60_000)
SEEDS = 2


def main():
    print("# Rows to look at\n\n`python benchmarks/sample.py`: least ARI of", end=" ")
    print(f"{SEEDS} seeds, and median seconds of the processor; workloads of `speed.py`.\n")
    print("| workload, rows looked at | " + " | ".join(f"{m:,}" for m in SIZES), "|")
    print("| --- " * (len(SIZES) + 1) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for name, (n, d, k) in speed.WORKLOADS.items():
            bayes = speed.make(Path(folder), name)
            X, y = (np.load(f"{folder}/{name}{end}.npy") for end in ("", "-y"))
            cells = []
            for size in SIZES:
                scores, spent = [], []
                for seed in range(SEEDS):
                    model = AttentionClustering(k, max_samples=size, random_state=seed)
                    start = time.process_time()
                    labels = model.fit(X).labels_
                    spent.append(time.process_time() - start)
                    scores.append(adjusted_rand_score(y, labels))
                cells.append(f"{min(scores):.4f}, {np.median(spent):.2f}")
            told = f"{name}: n = {n:,}, d = {d}, K = {k}, Bayes {bayes:.4f}"
            print(f"| {told} | " + " | ".join(cells), "|", flush=True)
            Path(folder, f"{name}.npy").unlink()


if __name__ == "__main__":
    main()
