"""In high dimension random centres are nearly orthogonal, and training finds them better.

The cosine of two random unit vectors has E|cos| = Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2)), about
sqrt(2 / (pi d)), so what plain training falls short by for want of orthogonality (C08) goes away
as d grows. Qualified: at a fixed noise per coordinate the sampled gradients leave a misalignment
of their own, which grows with d; and nearly parallel centres, common in low dimension, also need
more steps than these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import gammaln

from attnclust.manifold import alignment, random_heads
from attnclust.plotting import COLOURS
from attnclust.reproduce.c08 import cosine, least_risk_cosine
from attnclust.reproduce.claims import Finding, number, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.reproduce.runs import LENGTH, best_temperature, prompts_of
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIMS, QUICK_DIMS = (2, 4, 8, 16, 64, 256), (2, 16, 128)
PER_COORDINATE, PER_TOKEN = "sigma = 0.1", "sigma = 0.3 / sqrt(d)"
N_PROMPTS, PAIRS = 8, 300
STEPS = {False: 700, True: 300}
SEEDS = (20, 8)
SETTING = (
    f"K = H = 2 random unit centres, d = {DIMS[0]} to {DIMS[-1]} (quick: {QUICK_DIMS[-1]}), "
    f"{PER_COORDINATE} or {PER_TOKEN}, L = {LENGTH}, {N_PROMPTS} prompts a step, c half of c*(L) "
    f"of orthonormal centres, strength 0.3 falling to 0, {STEPS[False]} steps of size 0.2 (quick: "
    f"{STEPS[True]}). Cosines: and least risk: {PAIRS} more pairs a seed."
)


def _expected(dim: int) -> float:
    """E|cos| of two uniform unit vectors."""
    return float(np.exp(gammaln(dim / 2) - gammaln((dim + 1) / 2)) / np.sqrt(np.pi))


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Cosine of the centres; alignment of the worse head, trained and at the risk's minimum."""
    frames = []
    for noise in (PER_COORDINATE, PER_TOKEN):
        for dim in QUICK_DIMS if quick else DIMS:
            sigma = 0.1 if noise == PER_COORDINATE else 0.3 / np.sqrt(dim)
            temperature = best_temperature(sigma, dim, LENGTH, 2) / 2
            centroids = random_heads(rng, (seeds, 2, dim))
            heads = train_heads(
                prompts_of(centroids, sigma, N_PROMPTS, rng),
                random_heads(rng, centroids.shape),
                temperature=temperature,
                step_size=0.2,
                n_steps=STEPS[quick],
            ).heads
            mean, minimum = np.empty(seeds), np.empty(seeds)
            for seed in range(seeds):
                pairs = random_heads(rng, (PAIRS, 2, dim))
                mean[seed] = cosine(pairs).mean()
                best = least_risk_cosine(pairs, sigma, temperature)
                turn = (np.arccos(cosine(pairs)) - np.arccos(best)) / 2
                minimum[seed] = np.median(np.cos(turn))
            columns = {
                "mean_cosine": mean,
                "cosine": cosine(centroids),
                "trained": alignment(heads, centroids).min(-1),
                "minimum": minimum,
            }
            frames.append(tidy(columns, noise=noise, dim=dim))
    return pd.concat(frames, ignore_index=True)


def judge(frame: pd.DataFrame) -> list[Finding]:
    """The cosine's formula and slope; alignment over d."""
    dims = sorted(frame["dim"].unique())
    by = frame.groupby("dim")["mean_cosine"]
    off = np.abs(by.mean() - [_expected(dim) for dim in dims]) / (by.std() / np.sqrt(by.size()))
    slope = float(np.polyfit(np.log(dims), np.log(by.mean()), 1)[0])
    findings = [
        Finding(
            f"mean |cosine|, d = {dims[0]} to {dims[-1]}",
            "Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2)) within 4 standard errors",
            f"at most {off.max():.2f} at {len(dims)} dimensions",
            bool(off.max() <= 4),
        ),
        Finding(
            "slope of log mean |cosine| in log d",
            "-1/2 within 0.05",
            f"{slope:.3f}",
            abs(slope + 0.5) < 0.05,
        ),
    ]
    for noise in (PER_TOKEN, PER_COORDINATE):
        part = frame[frame["noise"] == noise]
        middle = part.groupby("dim")[["minimum", "trained"]].median()
        ideal, trained = middle["minimum"], middle["trained"]
        listed = f"d = {', '.join(map(str, dims))}"
        findings += [
            Finding(
                f"{noise}, heads of least risk, {listed}",
                "median alignment rises with every d",
                ", ".join(map(number, ideal)),
                bool((np.diff(ideal) > 0).all()),
            ),
            Finding(
                f"{noise}, trained, {listed}",
                "median alignment of the worse head above 0.999 at the largest d, "
                "and below it at the smallest",
                ", ".join(map(number, trained)),
                bool(trained.iloc[-1] > 0.999 > trained.iloc[0]),
            ),
            Finding(
                f"{noise}, trained",
                "median alignment best at the largest d",
                f"best at d = {trained.idxmax()}",
                bool(trained.idxmax() == dims[-1]),
            ),
        ]
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Cosine of the centres and misalignment against d."""
    figure, axes = panels(3, width=3.7)
    dims = np.unique(frame["dim"])
    ticks = dims[:: 2 if len(dims) > 4 else 1]
    smooth = np.geomspace(dims[0], dims[-1], 60)
    for ax in axes:
        ax.set(xscale="log", yscale="log")
    bands(axes[0], frame, "dim", "cosine")
    axes[0].plot(
        dims,
        frame.groupby("dim")["mean_cosine"].mean(),
        "D",
        color=COLOURS[3],
        ms=5,
        label="mean of many pairs",
    )
    curve = [_expected(dim) for dim in smooth]
    axes[0].plot(smooth, curve, ":", color="#444444", label="formula")
    axes[0].set(title="centres", ylabel="|cosine| of the two centres")
    axes[0].legend(frameon=False, fontsize=8)
    for ax, noise in zip(axes[1:], (PER_TOKEN, PER_COORDINATE), strict=True):
        part = frame[frame["noise"] == noise]
        part = part.melt(["dim", "seed"], ["trained", "minimum"], "heads", "found")
        # Rounding shows as no misalignment, which a logarithm cannot.
        part = part.assign(gap=np.maximum(1 - part["found"], 1e-15))
        bands(
            ax,
            part,
            "dim",
            "gap",
            "heads",
            names={"trained": "trained", "minimum": "heads of least risk"},
        )
        ax.set(title=noise.replace("sigma", "σ").replace("sqrt(d)", "√d"))
        ax.set_ylabel("1 - alignment of the worse head")
        ax.set_ylim(top=30)
    for ax in axes:
        ax.set_xlabel("dimension d")
        ax.set_xticks(ticks, [str(dim) for dim in ticks])
        ax.minorticks_off()
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    low, high = frame["dim"].min(), frame["dim"].max()
    middle = frame.groupby(["noise", "dim"])[["trained", "minimum"]].median()
    mean = frame.groupby("dim")["mean_cosine"].mean()
    fixed, ideal = middle.loc[(PER_COORDINATE, high)]
    scaled = middle.loc[PER_TOKEN]
    return (
        f"The mean |cosine| falls from {mean[low]:.3f} at d = {low} to {mean[high]:.3f} at "
        f"d = {high}. With the noise of a whole token held fixed, the median alignment of the "
        f"worse head goes from {number(scaled['trained'][low])} to "
        f"{number(scaled['trained'][high])}, that of the heads of least risk from "
        f"{number(scaled['minimum'][low])} to {number(scaled['minimum'][high])}. With sigma = 0.1 "
        f"per coordinate it ends at {number(fixed)}, where the heads of least risk have "
        f"{number(ideal)}: the difference is due to sampled gradients, which have more dimensions "
        "to push the heads into, not to the centres' cosine."
    )
