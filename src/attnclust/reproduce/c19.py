"""Redundant heads tell the number of clusters where it divides the number of heads.

Train more heads than there may be clusters and count groups of aligned heads. With a weak
regulariser the risk spreads H heads evenly over the centres' span, and they form K groups only
where K divides H (C17). With a strong one and a small scale the surplus heads leave the span
instead, and the heads that still see more than noise are counted. Beside both the eigenvalue
rule: eigenvalues of the sample's second moment above the edge of pure noise. None of the three is
told K; all know sigma.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import connected_components

from attnclust._typing import FloatArray
from attnclust.manifold import random_heads, random_orthonormal
from attnclust.mixture import Mixture, sample_prompts
from attnclust.plotting import COLOURS
from attnclust.reproduce.claims import Finding, tidy
from attnclust.reproduce.pictures import panels
from attnclust.reproduce.runs import LENGTH, prompts_of
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIM, N_PROMPTS, N_TOKENS, ALIGNED = 8, 16, 2000, 0.9
# Strength of the regulariser, and the scale times the largest eigenvalue of the second moment.
WAYS = {"weak": (0.03, 0.25), "strong": (0.3, 0.1)}
COUNTS = {False: (2, 3, 4), True: (2, 3)}
SURPLUS = (0, 1, 2)
SIGMAS = {False: (0.1, 0.3, 0.5), True: (0.1, 0.5)}
STEPS = {False: (1000, 0.15), True: (280, 0.35)}
SEEDS = (12, 5)
SETTING = (
    f"d = {DIM}, L = {LENGTH}, {N_PROMPTS} fresh prompts per step, pairwise regulariser, "
    + ", ".join(
        f"{name}: rho {rho}, c {c} over the largest eigenvalue" for name, (rho, c) in WAYS.items()
    )
    + f"; {STEPS[False][0]} steps of size {STEPS[False][1]} (quick: {STEPS[True][0]} of "
    f"{STEPS[True][1]}). Heads with |cos| above {ALIGNED} are one group; heads whose mean square "
    f"score is below the noise edge are not counted. Moments from {N_TOKENS:,} tokens."
)


def count_heads(heads: FloatArray, S: FloatArray, edge: float) -> int:
    """Groups of aligned heads among those with mu^T S mu above the edge."""
    live = heads[((heads @ S) * heads).sum(1) > edge]
    if len(live) == 0:
        return 0
    return int(connected_components(np.abs(live @ live.T) > ALIGNED)[0])


def noise_edge(sigma: float, n: int, dim: int) -> float:
    """Edge of the eigenvalues of noise (Marchenko and Pastur), with a margin of order n^(-2/3)."""
    root = np.sqrt(n) + np.sqrt(dim)
    fluctuation = root * (1 / np.sqrt(n) + 1 / np.sqrt(dim)) ** (1 / 3)
    # Two standard units of Tracy and Widom's law pass one time in a hundred (Johnstone 2001).
    return float(sigma**2 * (root**2 + 2 * fluctuation) / n)


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Clusters counted by heads, either way, and by eigenvalues."""
    frames = []
    n_steps, step_size = STEPS[quick]
    for k in COUNTS[quick]:
        for sigma in SIGMAS[quick]:
            edge = noise_edge(sigma, N_TOKENS, DIM)
            for surplus in SURPLUS:
                centroids = random_orthonormal(rng, k, DIM, (seeds,))
                mixture = Mixture.equal(centroids, noise_variance=sigma**2)
                X = sample_prompts(mixture, seeds, N_TOKENS, rng)[0]
                S = np.swapaxes(X, 1, 2) @ X / N_TOKENS
                values = np.linalg.eigvalsh(S)
                columns = {"eigenvalues": (values > edge).sum(1)}
                for way, (strength, scale) in WAYS.items():
                    heads = train_heads(
                        prompts_of(centroids, sigma, N_PROMPTS, rng),
                        random_heads(rng, (seeds, k + surplus, DIM)),
                        temperature=scale / values[:, -1],
                        strength=strength,
                        schedule="fixed",
                        step_size=step_size,
                        n_steps=n_steps,
                    ).heads
                    counts = [count_heads(*one, edge) for one in zip(heads, S, strict=True)]
                    columns[way] = np.array(counts)
                frames.append(tidy(columns, clusters=k, surplus=surplus, sigma=sigma))
    return pd.concat(frames, ignore_index=True)


RULES = (*WAYS, "eigenvalues")


def right(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with whether each rule is right in place of its count."""
    return frame.assign(
        **{rule: (frame[rule] == frame["clusters"]).astype(float) for rule in RULES}
    )


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Each rule right in 90% of the runs of every K and sigma, by surplus; and why."""
    findings = []
    told = right(frame)
    sigmas = ", ".join(f"{sigma:g}" for sigma in frame["sigma"].unique())
    quiet = told[told["sigma"] < told["sigma"].max()]
    for way in WAYS:
        for surplus, part in told.groupby("surplus"):
            findings.append(_accurate(f"{way} regulariser, H = K + {surplus}", part, way))
    findings.append(_accurate("strong regulariser, any H, largest sigma left out", quiet, "strong"))
    divides = (frame["clusters"] + frame["surplus"]) % frame["clusters"] == 0
    agree = (told["weak"] == divides).groupby([frame["clusters"], frame["surplus"]]).mean()
    findings.append(
        Finding(
            f"weak regulariser, sigma {sigmas}",
            "right where K divides H and wrong elsewhere, in at least 90% of the runs of each",
            f"at least {agree.min():.0%}",
            bool(agree.min() >= 0.9),
        )
    )
    findings.append(_accurate("eigenvalue rule", told, "eigenvalues"))
    return findings


def _accurate(name: str, told: pd.DataFrame, rule: str) -> Finding:
    sigmas = ", ".join(f"{sigma:g}" for sigma in told["sigma"].unique())
    rates = told.groupby(["clusters", "sigma"])[rule].mean()
    measured = "; ".join(
        f"K = {k}: " + ", ".join(f"{rate:.0%}" for rate in part)
        for k, part in rates.groupby(level=0)
    )
    expected = "right in at least 90% of the runs of every K and sigma"
    return Finding(f"{name}, sigma {sigmas}", expected, measured, bool(rates.min() >= 0.9))


def draw(frame: pd.DataFrame) -> Figure:
    """Share of runs with the right K, by K and H, a panel for each noise level."""
    told = right(frame)
    sigmas = frame["sigma"].unique()
    figure, axes = panels(len(sigmas), width=3.7, height=4.0)
    names = {"weak": "heads, weak ρ", "strong": "heads, strong ρ", "eigenvalues": "eigenvalues"}
    for ax, sigma in zip(axes, sigmas, strict=True):
        rates = told[told["sigma"] == sigma].groupby(["clusters", "surplus"])[list(RULES)].mean()
        for place, rule in enumerate(RULES):
            at = np.arange(len(rates)) + 0.27 * (place - 1)
            ax.bar(at, rates[rule].clip(lower=0.01), 0.25, color=COLOURS[place], label=names[rule])
        ax.set_xticks(range(len(rates)), [f"{k}, {k + more}" for k, more in rates.index])
        ax.tick_params(axis="x", rotation=60)
        ax.set(xlabel="clusters K, heads H", ylim=(0, 1.05), title=f"σ = {sigma:g}")
    axes[0].set_ylabel("share of runs with the right K")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    told = right(frame)
    spare = told[told["surplus"] > 0]
    divides = (spare["clusters"] + spare["surplus"]) % spare["clusters"] == 0
    loud = spare["sigma"] == spare["sigma"].max()
    return (
        "With spare heads, counting groups under a weak regulariser is right in "
        f"{spare.loc[divides, 'weak'].mean():.0%} of the runs where K divides H and in "
        f"{spare.loc[~divides, 'weak'].mean():.0%} of the others. Under a strong one the count is "
        f"right in {spare.loc[~loud, 'strong'].mean():.0%} of the runs below sigma = "
        f"{spare['sigma'].max():g} and in {spare.loc[loud, 'strong'].mean():.0%} there; the "
        f"eigenvalue rule, at no training, in {told['eigenvalues'].mean():.0%} of all runs."
    )
