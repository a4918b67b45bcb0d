"""The layer denoises over an interval of scales, not at one.

With the heads at K orthonormal centres of equal weight, the reconstruction risk is below d sigma^2,
that of predicting each token by its own centre, for every lambda = c / K in an interval. At
sigma = 1, K = 2 and L -> infinity it is (1 -+ sqrt(2/3)) / 3 with the minimum at 1/3, around the
authors' "about 0.3 to 0.4"; shorter prompts have a lower and narrower one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attnclust.mixture import Mixture, sample_prompts
from attnclust.objective import reconstruction_risk, second_moment
from attnclust.plotting import COLOURS
from attnclust.reproduce.claims import Finding, tidy
from attnclust.reproduce.pictures import panels
from attnclust.reproduce.runs import DIM, best_temperature
from attnclust.theory import population_risk, variance_reduction_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIGMA, K = 1.0, 2
LENGTHS = (5, 10, 30, 100, 1000)
LAMBDAS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
N_TOKENS = {False: 200_000, True: 20_000}
SEEDS = (100, 50)
ORACLE = np.eye(DIM)[:K]
MIXTURE = Mixture.equal(ORACLE, noise_variance=SIGMA**2)
SETTING = (
    f"K = H = {K} orthonormal centres as heads, d = {DIM}, sigma = {SIGMA:g}; each seed draws "
    f"{N_TOKENS[False]:,} tokens (quick: {N_TOKENS[True]:,}) in prompts of L, on which the layer "
    "is run at each lambda."
)


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Mean risk of each seed's prompts, at each length and scale."""
    frames = []
    for length in LENGTHS:
        n_prompts = N_TOKENS[quick] // length
        risks = np.empty((seeds, len(LAMBDAS)))
        for seed in range(seeds):
            S = second_moment(sample_prompts(MIXTURE, n_prompts, length, rng)[0])
            for place, scale in enumerate(LAMBDAS):
                risks[seed, place] = reconstruction_risk(S, ORACLE, K * scale)
        frames += [
            tidy({"risk": risks[:, place]}, length=length, scale=scale)
            for place, scale in enumerate(LAMBDAS)
        ]
    return pd.concat(frames, ignore_index=True)


def _interval(length: float) -> tuple[float, float]:
    found = variance_reduction_interval(SIGMA, DIM, length, K)
    return found if found is not None else (np.nan, np.nan)


def judge(frame: pd.DataFrame) -> list[Finding]:
    """The limit to nine digits, and every sampled risk within four standard errors."""
    low, high = _interval(np.inf)
    ends = (1 - np.sqrt(2 / 3)) / 3, (1 + np.sqrt(2 / 3)) / 3
    best = best_temperature(SIGMA, DIM, np.inf, K) / K
    findings = [
        Finding(
            "L -> infinity",
            f"interval ({ends[0]:.6f}, {ends[1]:.6f}) to 1e-9",
            f"({low:.6f}, {high:.6f}), off by {max(abs(low - ends[0]), abs(high - ends[1])):.1g}",
            bool(max(abs(low - ends[0]), abs(high - ends[1])) < 1e-9),
        ),
        Finding(
            "L -> infinity",
            "minimum at 1/3 to 1e-9",
            f"{best:.6f}, off by {abs(best - 1 / 3):.1g}",
            bool(abs(best - 1 / 3) < 1e-9),
        ),
    ]
    for length in (*frame["length"].unique(), np.inf):
        low, high = _interval(length)
        findings.append(
            Finding(
                f"L = {length:g}" if length < np.inf else "L -> infinity",
                'contains the authors\' "about 0.3 to 0.4"',
                f"({low:.3f}, {high:.3f}), minimum at "
                f"{best_temperature(SIGMA, DIM, length, K) / K:.3f}",
                bool(low < 0.3 and high > 0.4),
            )
        )
    by = frame.groupby(["length", "scale"])["risk"]
    risk = [population_risk(MIXTURE, ORACLE, K * scale, at) for at, scale in by.mean().index]
    off = np.abs(by.mean() - risk) / (by.std() / np.sqrt(by.size()))
    findings.append(
        Finding(
            f"all L, lambda from {min(LAMBDAS)} to {max(LAMBDAS)}",
            "closed form and Monte Carlo within 4 standard errors",
            f"at most {off.max():.2f} at {len(off)} points",
            bool(off.max() <= 4),
        )
    )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Risk over lambda: formula as lines, samples as points."""
    figure, (ax,) = panels(1, width=7.2, height=4.2)
    scales = np.linspace(0, 0.7, 200)
    lengths = [int(length) for length in frame["length"].unique()]
    for colour, length in zip(COLOURS, [*lengths, np.inf], strict=False):
        risk = [population_risk(MIXTURE, ORACLE, K * scale, length) for scale in scales]
        name = "L → ∞" if np.isinf(length) else f"L = {length}"
        ax.plot(scales, risk, color=colour, linewidth=1.5, label=name)
        sampled = frame[frame["length"] == length].groupby("scale")["risk"].mean()
        ax.scatter(sampled.index, sampled, s=16, color=colour, zorder=3)
    floor = DIM * SIGMA**2
    ax.axhline(floor, color="#444444", linewidth=0.8, linestyle=":")
    ax.annotate("the token's own centre, d σ²", (0.12, floor), va="bottom", fontsize=8)
    ax.axvspan(0.3, 0.4, color="#000000", alpha=0.06, linewidth=0)
    ax.annotate("0.3 to 0.4", (0.35, 2.55), ha="center", fontsize=8, color="#444444")
    ax.set(xlabel="λ = c / K", ylabel="reconstruction risk R", ylim=(2.5, 8), xlim=(0, 0.7))
    ax.legend(frameon=False, fontsize=8, loc="upper center", ncols=3)
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    shortest = int(frame["length"].min())
    low, high = _interval(shortest)
    return (
        "Lines are the closed form, points are sampled prompts; below the dotted line the layer "
        "reconstructs better than each token's own centre would, since it keeps part of the noise "
        "within the centres' plane and so repeats it. "
        f"The interval moves with the length of the prompt: at L = {shortest} it is ({low:.3f}, "
        f"{high:.3f}), and 0.4 is {'inside' if low < 0.4 < high else 'outside'}."
    )
