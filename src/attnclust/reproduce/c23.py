"""Attention and EM both aggregate tokens by soft scores: likelihood in EM, direction in attention.

A linear head gathers sum_i <x_i, mu> x_i, EM gathers sum_i p(j | x_i) x_i. At the centres both
return the centres if these are orthonormal; the linear one does not if they are not, which is what
normalised keys are for. Heads found there, and refined by softmax attention, are to reach the Bayes
rule in one run, where EM, k-means and spherical k-means depend on their start.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from attnclust._typing import FloatArray, IntArray
from attnclust.estimators import AttentionClustering
from attnclust.manifold import normalize, random_heads, random_orthonormal
from attnclust.mixture import Mixture, bayes_labels, posterior, sample_prompts
from attnclust.plotting import COLOURS, MARKERS
from attnclust.reproduce.claims import Finding, band, number
from attnclust.reproduce.pictures import panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_TOKENS = 5000
# K, d, sigma, and how many times the first half of the clusters outweighs the rest.
SETTINGS = {
    f"K {k}, d {d}, σ {sigma:g}, {weights}": (k, d, sigma, ratio)
    for k, d, sigma, ratio, weights in (
        (10, 32, 0.1, 1, "equal"),
        (10, 32, 0.2, 1, "equal"),
        (10, 32, 0.3, 1, "equal"),
        (10, 12, 0.1, 1, "equal"),
        (10, 128, 0.2, 1, "equal"),
        (3, 32, 0.2, 1, "equal"),
        (25, 32, 0.1, 1, "equal"),
        (10, 32, 0.2, 4, "4:1"),
    )
}
QUICK = ("K 10, d 32, σ 0.2, equal", "K 10, d 12, σ 0.1, equal", "K 10, d 32, σ 0.2, 4:1")
N_STARTS = {False: 4, True: 3}
SEEDS = (10, 4)
SETTING = (
    f"One data set of {N_TOKENS} tokens per seed (quick: 2000), random unit centres, "
    f"{N_STARTS[False]} starts of every method on each (quick: {N_STARTS[True]} starts, "
    f"{len(QUICK)} of the {len(SETTINGS)} settings). EM: GaussianMixture, spherical, n_init = 1; "
    "k-means: KMeans, n_init = 1; spherical k-means: Lloyd steps on unit rows; one core."
)


def spherical_kmeans(X: FloatArray, n_clusters: int, seed: int) -> IntArray:
    """Labels by cosine; each centre the direction of its rows' mean (Dhillon and Modha 2001)."""
    X = normalize(X)
    centres, _ = kmeans_plusplus(X, n_clusters, random_state=seed)
    labels = np.full(len(X), -1)
    for _ in range(300):
        previous, labels = labels, (X @ centres.T).argmax(1)
        if (labels == previous).all():
            break
        sums = np.eye(n_clusters)[labels].T @ X
        held = sums.any(axis=1)
        centres[held] = normalize(sums[held])
    return labels


METHODS: dict[str, Callable[[FloatArray, int, int], IntArray]] = {
    "attention": lambda X, k, seed: AttentionClustering(k, random_state=seed).fit(X).labels_,
    "EM": lambda X, k, seed: GaussianMixture(
        k, covariance_type="spherical", random_state=seed
    ).fit_predict(X),
    "k-means": lambda X, k, seed: KMeans(k, n_init=1, random_state=seed).fit(X).labels_,
    "spherical k-means": spherical_kmeans,
}


def mixture_of(setting: str, centroids: FloatArray) -> Mixture:
    """The mixture of a setting around given centres."""
    k, _, sigma, ratio = SETTINGS[setting]
    weights = np.where(np.arange(k) < k // 2, ratio, 1.0)
    return Mixture(centroids, weights / weights.sum(), sigma**2)


def aggregates(mixture: Mixture, X: FloatArray) -> dict[str, float]:
    """Mean cosine of the centres and what either score gathers at them."""
    scores = {"direction": X @ mixture.centroids.T, "likelihood": posterior(mixture, X)}
    return {
        kind: float((normalize(u.T @ X) * mixture.centroids).sum(1).mean())
        for kind, u in scores.items()
    }


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """ARI and seconds of each run, with the Bayes rule's ARI and the aggregates beside it."""
    rows = []
    n_tokens = 2000 if quick else N_TOKENS
    AttentionClustering(2, random_state=0).fit(np.eye(4))  # whatever first calls cost
    for setting in QUICK if quick else SETTINGS:
        k, d, _, _ = SETTINGS[setting]
        for seed in range(seeds):
            square = aggregates(
                *_draw(setting, random_orthonormal(rng, k, d), n_tokens, rng)[:2]
            )
            mixture, X, known = _draw(setting, random_heads(rng, (k, d)), n_tokens, rng)
            bayes = adjusted_rand_score(known, bayes_labels(mixture, X))
            told = {f"{kind}_random": value for kind, value in aggregates(mixture, X).items()}
            told |= {f"{kind}_orthonormal": value for kind, value in square.items()}
            for method, fit in METHODS.items():
                for start in range(N_STARTS[quick]):
                    state = int(rng.integers(2**31))
                    begun = time.perf_counter()
                    labels = fit(X, k, state)
                    seconds = time.perf_counter() - begun
                    ari = adjusted_rand_score(known, labels)
                    row = {"setting": setting, "seed": seed, "method": method, "start": start}
                    rows.append(row | {"ari": ari, "bayes": bayes, "seconds": seconds} | told)
    return pd.DataFrame(rows)


def _draw(
    setting: str, centroids: FloatArray, n_tokens: int, rng: np.random.Generator
) -> tuple[Mixture, FloatArray, IntArray]:
    mixture = mixture_of(setting, centroids)
    X, known = sample_prompts(mixture, 1, n_tokens, rng)
    return mixture, X[0], known[0]
