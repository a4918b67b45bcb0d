"""Many prompts at once against a loop of k-means: ARI and seconds.

    python benchmarks/incontext.py   # the table in incontext.md

Every prompt has its own random unit centres, equal weights, float32. The loop of k-means is timed
on the first 100 prompts and scaled up; ARI is the mean over the first 300 prompts (100 for k-means,
whose runs take longer).
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from attnclust import InContextClustering

#           B       L    d    K  sigma
SHAPES = [(1_000, 200, 32, 4, 0.15), (10_000, 128, 16, 4, 0.15), (300, 20, 768, 3, 0.03)]


def draw(batch, length, dim, k, sigma):
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((batch, k, dim))
    centres /= np.linalg.norm(centres, axis=2, keepdims=True)
    labels = rng.integers(0, k, (batch, length))
    tokens = np.take_along_axis(centres, labels[..., None], 1)
    tokens = tokens + sigma * rng.standard_normal(tokens.shape)
    bayes = (tokens @ centres.swapaxes(1, 2) - 0.5 * (centres**2).sum(2)[:, None]).argmax(2)
    return tokens.astype(np.float32), labels, bayes


def mean_ari(labels, found):
    return np.mean([adjusted_rand_score(y, p) for y, p in zip(labels, found, strict=False)])


def main() -> None:
    lines = [
        "# Many prompts at once",
        "",
        "`python benchmarks/incontext.py`. Seconds are the median of three runs.",
        "",
        "| B, L, d, K, sigma | Bayes | attnclust | KMeans(1) | KMeans(10) | seconds "
        "| KMeans(1) loop / attnclust | KMeans(10) loop / attnclust |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for shape in SHAPES:
        batch, k = shape[0], shape[3]
        tokens, labels, bayes = draw(*shape)
        taken = []
        for _ in range(3):
            start = time.perf_counter()
            found = InContextClustering(k, random_state=0).fit_predict(tokens)
            taken.append(time.perf_counter() - start)
        ours = np.median(taken)
        scores, ratios = [], []
        for n_init in (1, 10):
            start = time.perf_counter()
            means = [
                KMeans(k, n_init=n_init, random_state=0).fit_predict(prompt)
                for prompt in tokens[:100]
            ]
            ratios.append((time.perf_counter() - start) / 100 * batch / ours)
            scores.append(mean_ari(labels, means))
        lines.append(
            f"| {', '.join(map(str, shape))} | {mean_ari(labels[:300], bayes):.4f} "
            f"| {mean_ari(labels[:300], found):.4f} | {scores[0]:.4f} | {scores[1]:.4f} "
            f"| {ours:.2f} | {ratios[0]:.0f}x | {ratios[1]:.0f}x |"
        )
        print(lines[-1], flush=True)
    Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
