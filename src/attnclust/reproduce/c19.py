"""Redundant heads tell the number of clusters.

Train more heads than there may be clusters and count them: heads that align with each other are
one, heads that leave the tokens' directions are none. Beside it the eigenvalue rule: eigenvalues of
the sample's second moment above the edge of pure noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import connected_components

from attnclust._typing import FloatArray, IntArray
from attnclust.manifold import random_heads, random_orthonormal
from attnclust.mixture import Mixture, sample_prompts
from attnclust.reproduce.claims import Finding, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.reproduce.runs import LENGTH, best_temperature, prompts_of
from attnclust.theory import maximal_regularization
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIM, N_PROMPTS, ALIGNED, HELD = 8, 16, 0.9, 0.5
SHARE, MOST = 0.5, 30.0
COUNTS = {False: (2, 3, 4), True: (2, 3)}
SURPLUS = (0, 1, 2)
SIGMAS = {False: (0.1, 0.3, 0.5), True: (0.1, 0.5)}
N_STEPS = {False: 1500, True: 500}
N_TOKENS = 2000
SEEDS = (20, 6)
SETTING = (
    f"d = {DIM}, L = {LENGTH}, {N_PROMPTS} fresh prompts per step, c a quarter of c*(L) of K "
    f"heads, product regulariser of {SHARE} rho_max of K heads, at most {MOST:g}, {N_STEPS[False]} "
    f"steps of size 0.1 (quick: {N_STEPS[True]}). Heads are one group where |cos| is above "
    f"{ALIGNED}; a head with less than {HELD} of its length within the top H eigenvectors that "
    f"pass the noise edge counts for none. Eigenvalue rule on {N_TOKENS:,} tokens, sigma known."
)


def count_heads(heads: FloatArray, plane: FloatArray) -> int:
    """Groups of aligned heads among those that lie in the plane (rows: an orthonormal basis)."""
    held = heads[np.linalg.norm(heads @ plane.T, axis=1) > HELD]
    if len(held) == 0:
        return 0
    return int(connected_components(np.abs(held @ held.T) > ALIGNED)[0])


def noise_edge(sigma: float, n: int, dim: int) -> float:
    """Edge of the eigenvalues of noise (Marchenko and Pastur), with a margin of order n^(-2/3)."""
    root = np.sqrt(n) + np.sqrt(dim)
    fluctuation = root * (1 / np.sqrt(n) + 1 / np.sqrt(dim)) ** (1 / 3)
    # Two standard units of Tracy and Widom's law pass one time in a hundred (Johnstone 2001).
    return float(sigma**2 * (root**2 + 2 * fluctuation) / n)


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Clusters counted by heads and by eigenvalues."""
    frames = []
    for k in COUNTS[quick]:
        for surplus in SURPLUS:
            for sigma in SIGMAS[quick]:
                centroids = random_orthonormal(rng, k, DIM, (seeds,))
                c = best_temperature(sigma, DIM, LENGTH, k) / 4
                rho_max = maximal_regularization(c, sigma, DIM, LENGTH, k, "product")
                heads = train_heads(
                    prompts_of(centroids, sigma, N_PROMPTS, rng),
                    random_heads(rng, (seeds, k + surplus, DIM)),
                    temperature=c,
                    regularizer="product",
                    strength=min(SHARE * rho_max, MOST),
                    schedule="fixed",
                    step_size=0.1,
                    n_steps=N_STEPS[quick],
                ).heads
                columns = _count(heads, centroids, sigma, rng)
                frames.append(tidy(columns, clusters=k, surplus=surplus, sigma=sigma))
    return pd.concat(frames, ignore_index=True)


def _count(
    heads: FloatArray, centroids: FloatArray, sigma: float, rng: np.random.Generator
) -> dict[str, IntArray]:
    by_heads, by_eigenvalues = np.zeros((2, len(heads)), dtype=int)
    for seed, own in enumerate(centroids):
        mixture = Mixture.equal(own, noise_variance=sigma**2)
        X = sample_prompts(mixture, 1, N_TOKENS, rng)[0][0]
        values, axes = np.linalg.eigh(X.T @ X / N_TOKENS)
        above = values > noise_edge(sigma, N_TOKENS, DIM)
        by_eigenvalues[seed] = above.sum()
        by_heads[seed] = count_heads(heads[seed], axes[:, above].T)
    return {"heads": by_heads, "eigenvalues": by_eigenvalues}


def accuracy(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with whether either rule is right."""
    return frame.assign(
        heads_right=(frame["heads"] == frame["clusters"]).astype(float),
        eigenvalues_right=(frame["eigenvalues"] == frame["clusters"]).astype(float),
    )


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Either rule right in 90% of the runs, by surplus and noise."""
    findings = []
    told = accuracy(frame)
    clusters = ", ".join(str(k) for k in frame["clusters"].unique())
    for (surplus, sigma), part in told.groupby(["surplus", "sigma"]):
        rates = part.groupby("clusters")["heads_right"].mean()
        findings.append(
            Finding(
                f"H = K + {surplus}, sigma {sigma:g}, K = {clusters}: heads",
                "right in at least 90% of the runs at each K",
                ", ".join(f"{rate:.0%}" for rate in rates),
                bool(rates.min() >= 0.9),
            )
        )
    rates = told.groupby("sigma")["eigenvalues_right"].mean()
    findings.append(
        Finding(
            f"eigenvalue rule, sigma {', '.join(f'{sigma:g}' for sigma in rates.index)}",
            "right in at least 90% of the runs",
            ", ".join(f"{rate:.0%}" for rate in rates),
            bool(rates.min() >= 0.9),
        )
    )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Accuracy of heads by surplus, and of the eigenvalue rule, over sigma."""
    figure, (ax,) = panels(1, width=6.5, height=3.8)
    told = accuracy(frame)
    rates = told.groupby(["surplus", "sigma"])["heads_right"].mean().reset_index()
    names = {surplus: f"heads, H = K + {surplus}" for surplus in SURPLUS}
    bands(ax, rates, "sigma", "heads_right", "surplus", names=names)
    rule = told.groupby("sigma")["eigenvalues_right"].mean()
    ax.plot(rule.index, rule, color="#444444", linestyle=":", label="eigenvalue rule")
    ax.set(xlabel="noise σ", ylabel="share of runs with the right K", ylim=(-0.05, 1.3))
    ax.legend(frameon=False, fontsize=8, loc="upper center", ncols=2)
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    told = accuracy(frame)
    rates = told.groupby("surplus")["heads_right"].mean()
    shown = ", ".join(f"{rate:.0%} with {surplus} spare" for surplus, rate in rates.items())
    return (
        f"Counting heads is right in so many runs: {shown}; the eigenvalue rule, which is told "
        f"sigma, in {told['eigenvalues_right'].mean():.0%}. Spare heads align with others only in "
        "part, since the risk spreads them over the centres' plane (C17), so that the count of "
        "groups depends on the threshold; the eigenvalues do not."
    )
