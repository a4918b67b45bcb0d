"""Many prompts at once on a GPU, against the same functions on the CPU; prints one table.

python benchmarks/gpu.py   # needs PyTorch, and says so where there is no CUDA device
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch

from attnclust.attention import quantise
from attnclust.incontext import cluster_prompts

SHAPES = [(10_000, 128, 16, 4), (2_000, 512, 64, 8), (300, 20, 768, 3)]  # B, L, d, K


def seconds(work, times=5):
    work()
    taken = []
    for _ in range(times):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("no CUDA device here: nothing to measure")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    print("| B, L, d, K | step | CPU, s | GPU, s | CPU / GPU | largest difference |")
    print("| --- | --- | --- | --- | --- | --- |")
    for batch, length, dim, k in SHAPES:
        generator = torch.Generator().manual_seed(0)
        centres = torch.randn(batch, k, dim, generator=generator)
        centres /= centres.norm(dim=-1, keepdim=True)
        labels = torch.randint(k, (batch, length, 1), generator=generator)
        tokens = torch.take_along_dim(centres, labels, 1)
        tokens = tokens + 0.1 * torch.randn(tokens.shape, generator=generator)
        near = tokens.cuda()

        def quantised(x):
            return quantise(x, torch.ones_like(x[..., 0]))

        def clustered(x, k=k):
            present = torch.ones_like(x[..., 0])
            return cluster_prompts(x, present, k, np.random.default_rng(0)).weights

        for name, step in (("quantise", quantised), ("cluster_prompts", clustered)):
            cpu = seconds(lambda step=step, x=tokens: step(x))
            gpu = seconds(lambda step=step, x=near: step(x))
            off = float((step(tokens) - step(near).cpu()).abs().max())
            print(
                f"| {batch}, {length}, {dim}, {k} | {name} | {cpu:.3f} | {gpu:.4f} "
                f"| {cpu / gpu:.0f}x | {off:.1e} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
