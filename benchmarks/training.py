"""What advancing all seeds as one array program gains over a loop of runs; writes training.md.

Both draw as many prompts and take as many steps; batched and looped turns alternate, and the ratio
is the median over the turns. "Drawing" is the share of the batched time that goes into prompts.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from attnclust.manifold import random_heads, random_orthonormal
from attnclust.reproduce.runs import LENGTH, best_temperature, prompts_of
from attnclust.training import train_heads

N_RUNS, N_STEPS, TURNS = 100, 20, 5
SETTINGS = [  # K, d, prompts per step
    (2, 5, 4),
    (2, 5, 16),
    (2, 5, 64),
    (5, 8, 16),
    (3, 64, 16),
]


def seconds(work) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main() -> None:
    rng = np.random.default_rng(0)
    lines = [
        f"# {N_RUNS} training runs as one array program, against a loop",
        "",
        f"`python benchmarks/training.py`: L = {LENGTH}, {N_STEPS} steps, median of {TURNS} turns.",
        "",
        "| K, d, prompts per step | loop, s | batched, s | loop / batched | drawing prompts |",
        "| --- | --- | --- | --- | --- |",
    ]
    for k, dim, n_prompts in SETTINGS:
        centroids = random_orthonormal(rng, k, dim, (N_RUNS,))
        start = random_heads(rng, (N_RUNS, k, dim))
        c = best_temperature(0.3, dim, LENGTH, k) / 2
        together = prompts_of(centroids, 0.3, n_prompts, rng)
        alone = [prompts_of(one[None], 0.3, n_prompts, rng) for one in centroids]

        def batched(together=together, start=start, c=c):
            train_heads(together, start, temperature=c, n_steps=N_STEPS)

        def loop(alone=alone, start=start, c=c):
            for prompts, heads in zip(alone, start, strict=True):
                train_heads(prompts, heads[None], temperature=c, n_steps=N_STEPS)

        def drawing(together=together):
            for step in range(N_STEPS):
                together(step)

        turns = np.array([[seconds(f) for f in (loop, batched, drawing)] for _ in range(TURNS)])
        looped, batch, drawn = np.median(turns, axis=0)
        ratio = np.median(turns[:, 0] / turns[:, 1])
        lines.append(
            f"| {k}, {dim}, {n_prompts} | {looped:.2f} | {batch:.2f} | {ratio:.1f} | "
            f"{drawn / batch:.0%} |"
        )
        print(lines[-1], flush=True)
    lines += [
        "",
        "What a loop pays is Python's overhead per step; it tells where prompts are few and small. "
        "Where they are not, both spend their time in drawing and multiplying tokens.",
    ]
    Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
