"""Many prompts at once against a loop of k-means: ARI and seconds; layers stacked.

    python benchmarks/incontext.py   # the tables in incontext.md

Every prompt has its own random unit centres, equal weights, float32. The loop of k-means is timed
on the first 100 prompts and scaled up; ARI is the mean over the first 300 prompts (100 for k-means,
whose runs take longer). The floor is one batched X^T X over the same array (X X^T where L < d).
"""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from attnclust import InContextAttention, InContextClustering

#           B       L    d    K  sigma
SHAPES = [
    (1_000, 200, 32, 4, 0.15),
    (10_000, 128, 16, 4, 0.15),
    (300, 20, 768, 3, 0.03),
    (300, 768, 20, 3, 0.15),
]


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


def seconds(work, times=3):
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        result = work()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken)), result


def clusters():
    yield (
        "| B, L, d, K, sigma | Bayes | attnclust | K chosen: ARI, right K | KMeans(1) | KMeans(10) "
        "| seconds | K chosen: seconds | over the floor | peak memory / X "
        "| KMeans(1) loop / attnclust | KMeans(10) loop / attnclust |"
    )
    yield "| " + "--- | " * 12
    for shape in SHAPES:
        batch, length, dim, k, _ = shape
        tokens, labels, bayes = draw(*shape)
        ours, found = seconds(lambda: InContextClustering(k, random_state=0).fit_predict(tokens))
        model = InContextClustering(random_state=0)
        auto, chosen = seconds(lambda: model.fit_predict(tokens), 1)
        across = np.swapaxes(tokens, 1, 2)
        gram = (tokens, across) if length < dim else (across, tokens)
        floor, _ = seconds(lambda: gram[0] @ gram[1])
        tracemalloc.start()
        InContextClustering(k, random_state=0).fit(tokens)
        peak = tracemalloc.get_traced_memory()[1] / tokens.nbytes
        tracemalloc.stop()
        scores, ratios = [], []
        for n_init in (1, 10):
            taken, means = seconds(
                lambda n_init=n_init: [
                    KMeans(k, n_init=n_init, random_state=0).fit_predict(prompt)
                    for prompt in tokens[:100]
                ],
                1,
            )
            ratios.append(taken / 100 * batch / ours)
            scores.append(mean_ari(labels, means))
        right = (model.n_clusters_ == k).mean()
        yield (
            f"| {', '.join(map(str, shape))} | {mean_ari(labels[:300], bayes):.4f} "
            f"| {mean_ari(labels[:300], found):.4f} "
            f"| {mean_ari(labels[:300], chosen):.4f}, {right:.1%} "
            f"| {scores[0]:.4f} | {scores[1]:.4f} | {ours:.2f} | {auto:.2f} | {ours / floor:.0f}x "
            f"| {peak:.2f} | {ratios[0]:.0f}x | {ratios[1]:.0f}x |"
        )


def layers():
    yield "| layers | within / total variance | weakest centre's length | fixed c: length |"
    yield "| --- | --- | --- | --- |"
    batch, length, dim, k, sigma = 200, 200, 32, 4, 0.15
    rng = np.random.default_rng(0)
    labels = rng.integers(0, k, (batch, length))
    tokens = np.eye(dim)[labels] + sigma * rng.standard_normal((batch, length, dim))
    for n_layers in (0, 1, 2, 4, 8):
        auto, fixed = (
            InContextAttention(n_layers, temperature=c).fit_transform(tokens)
            if n_layers
            else tokens
            for c in ("auto", 1 / (1 / k + sigma**2) / 2)
        )
        within, total, lengths = [], [], []
        for out, y in zip(auto, labels, strict=True):
            means = np.array([out[y == j].mean(0) for j in range(k)])
            within.append(((out - means[y]) ** 2).sum())
            total.append(((out - out.mean(0)) ** 2).sum())
            lengths.append(np.linalg.norm(means, axis=1).min())
        yield (
            f"| {n_layers} | {sum(within) / sum(total):.4f} | {np.median(lengths):.2f} "
            f"| {np.linalg.norm(fixed, axis=2).mean():.3g} |"
        )


def main() -> None:
    lines = [
        "# Many prompts at once",
        "",
        "`python benchmarks/incontext.py`. Seconds are the median of three runs, peak memory what "
        "the fit allocates beside X: working arrays of batches of 2^18 numbers, one for each "
        "thread, and the results.",
        "",
        *_shown(clusters()),
        "",
        "# Layers stacked",
        "",
        "Orthonormal centres, B = 200, L = 200, d = 32, K = 4, sigma = 0.15. Each layer has its "
        "own scale, which keeps the length of the signal as a whole; the stronger of unequal "
        "directions grows at the cost of the weaker, so a few layers sharpen and many forget. With "
        "one scale for all layers, half of the right one here, tokens vanish.",
        "",
        *_shown(layers()),
    ]
    Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n")


def _shown(lines):
    for line in lines:
        print(line, flush=True)
        yield line


if __name__ == "__main__":
    main()
