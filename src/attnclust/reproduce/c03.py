"""Started at random without a regulariser, heads find the centres' plane and stop anywhere in it.

The risk knows the heads through M = sum_h mu_h mu_h^T alone, and with orthonormal heads M is the
projector on their span: any rotation of them within the centres' plane has the same risk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import kstest

from attnclust.manifold import alignment, polar, random_heads, random_orthonormal
from attnclust.objective import reconstruction_risk, second_moment
from attnclust.reproduce.claims import Finding, band, number, tidy
from attnclust.reproduce.pictures import panels, strips
from attnclust.reproduce.runs import DIM, LENGTH, best_temperature, prompts_of
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = {0.1: (1000, 0.2), 0.3: (1000, 0.2), 1.0: (2000, 0.03)}
N_PROMPTS = 16
# The worse head's alignment if the rotation, at most half a right angle, is uniform.
UNIFORM = np.cos(np.linspace(0, np.pi / 4, 1001))
SEEDS = (100, 20)
SETTING = (
    f"K = H = 2, d = {DIM}, L = {LENGTH}, {N_PROMPTS} fresh prompts per step, c half of c*(L), no "
    "regulariser, random starts. 1000 steps of size 0.2; at sigma = 1, 2000 of size 0.03 (quick: "
    "half as many)."
)


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Where the heads of each run end."""
    frames = []
    for sigma, (n_steps, step_size) in STEPS.items():
        centroids = random_orthonormal(rng, 2, DIM, (seeds,))
        c = best_temperature(sigma, DIM, LENGTH, 2) / 2
        heads = train_heads(
            prompts_of(centroids, sigma, N_PROMPTS, rng),
            random_heads(rng, (seeds, 2, DIM)),
            temperature=c,
            strength=0.0,
            step_size=step_size,
            n_steps=n_steps // 2 if quick else n_steps,
        ).heads
        # The same prompts tell the risk of the heads found and of the centres.
        S = second_moment(prompts_of(centroids, sigma, 2000, rng)(0).astype(np.float64))
        found, oracle = (reconstruction_risk(S, at, c) for at in (heads, centroids))
        basis = polar(heads)  # principal angles are between orthonormal bases
        columns = {
            "span": np.linalg.svd(basis @ np.swapaxes(centroids, 1, 2), compute_uv=False).min(1),
            "alignment": alignment(heads, centroids).min(1),
            "excess": found / oracle - 1,
        }
        frames.append(tidy(columns, sigma=sigma))
    return pd.concat(frames, ignore_index=True)


def judge(frame: pd.DataFrame) -> list[Finding]:
    """The plane is found, the centres are not, and the risk does not tell."""
    findings = []
    for sigma, part in frame.groupby("sigma"):
        name = f"sigma {sigma:g}"
        found = part["alignment"]
        angle = np.arccos(np.minimum(found, 1)) / (np.pi / 4)
        chance = float(kstest(np.minimum(angle, 1), "uniform").pvalue)
        findings += [
            Finding.above(name, "least cosine of the principal angles", part["span"], 0.999),
            Finding(
                name,
                "alignment of the worse head spread over [0.70, 1] as by a uniform rotation, "
                f"{band(UNIFORM)} (Kolmogorov-Smirnov p > 0.001)",
                f"{band(found)}, in [{found.min():.2f}, {found.max():.2f}], p = {chance:.2g}",
                bool(found.min() > 0.70 and chance > 1e-3),
            ),
            Finding(
                name,
                "risk within 1% of that of the heads at the centres",
                band(part["excess"]),
                bool(part["excess"].abs().median() < 0.01),
            ),
        ]
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Alignment and span of each run."""
    figure, (left, right) = panels(2)
    names = {sigma: f"{sigma:g}" for sigma in frame["sigma"].unique()}
    strips(left, frame, "sigma", "alignment", names=names)
    left.set(xlabel="noise σ", ylabel="alignment of the worse head")
    left.axhline(np.sqrt(0.5), color="#444444", linewidth=0.8, linestyle=":")
    left.annotate("half way between two centres", (-0.4, 0.712), fontsize=8, color="#444444")
    strips(right, frame.assign(gap=1 - frame["span"]), "sigma", "gap", names=names)
    right.set(xlabel="noise σ", ylabel="1 - least cosine of the principal angles", yscale="log")
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    found = frame["alignment"]
    return (
        "Each point is a run. All find the plane of the centres (the least cosine of its principal "
        f"angles is {number(frame['span'].median())} in the median), and within it they stop where "
        f"they happen to be: alignments from {found.min():.2f} to {found.max():.2f}, in the median "
        f"{found.median():.3f}, where a uniform rotation has {np.median(UNIFORM):.3f}. The risk of "
        "the heads found differs from that of the centres by "
        f"{frame['excess'].abs().median():.1e} of it in the median: it does not tell them apart."
    )
