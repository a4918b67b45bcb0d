"""Two heads, trained without labels, find the two centres.

Trained on unlabelled prompts of a mixture of two orthonormal centres by Riemannian gradient descent
with a regulariser, from random starts, the two linear heads align with the two centres, up to sign
and order; with the scale c below c*(L), a strength rho well below rho_max will do, fixed or
vanishing (near rho_max heads may end elsewhere, C04).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attnclust.manifold import random_heads, random_orthonormal
from attnclust.reproduce.claims import Finding, band, number, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.reproduce.runs import DIM, LENGTH, best_temperature, prompts_of
from attnclust.theory import maximal_regularization
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STRENGTH = 0.3
N_PROMPTS = 16
# Steps and step size; sampled gradients move the heads about, so noise asks for smaller steps.
STEPS = {0.0: (1000, 0.2), 0.1: (1000, 0.2), 0.3: (1000, 0.2), 1.0: (2000, 0.03)}
QUICK_STEPS = {0.0: (400, 0.2), 0.1: (500, 0.2), 0.3: (500, 0.2), 1.0: (1000, 0.05)}
SEEDS = (100, 10)
SETTING = (
    f"K = H = 2, d = {DIM}, L = {LENGTH}, {N_PROMPTS} fresh prompts per step, c half of c*(L), "
    f"pairwise regulariser of strength {STRENGTH}, fixed or falling to 0. "
    "1000 steps of size 0.2; at sigma = 1, 2000 of size 0.03 (quick: 400 to 1000)."
)


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Alignment of the worse of the two heads of each run, along training."""
    frames = []
    for sigma, (n_steps, step_size) in (QUICK_STEPS if quick else STEPS).items():
        for schedule in ("vanishing", "fixed"):
            centroids = random_orthonormal(rng, 2, DIM, (seeds,))
            history = train_heads(
                prompts_of(centroids, sigma, N_PROMPTS, rng),
                random_heads(rng, (seeds, 2, DIM)),
                temperature=best_temperature(sigma, DIM, LENGTH, 2) / 2,
                strength=STRENGTH,
                schedule=schedule,
                step_size=step_size,
                n_steps=n_steps,
                record=n_steps // 20,
            ).history
            worse = history.alignment(centroids).min(-1)
            frames += [
                tidy({"alignment": now}, sigma=sigma, schedule=schedule, step=step + 1)
                for step, now in zip(history.steps, worse, strict=True)
            ]
    return pd.concat(frames, ignore_index=True)


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Median above 0.999, and 95 of 100 runs above 0.99, at the end of each setting."""
    findings = []
    for (sigma, schedule), part in final(frame).groupby(["sigma", "schedule"], sort=False):
        share = float((part["alignment"] > 0.99).mean())
        rho_max = maximal_regularization(
            best_temperature(sigma, DIM, LENGTH, 2) / 2, sigma, DIM, LENGTH, 2
        )
        findings.append(
            Finding(
                f"sigma {sigma:g}, rho {schedule} (rho_max {number(rho_max)})",
                "alignment of the worse head above 0.999 in the median, above 0.99 in 95%",
                f"{band(part['alignment'])}; {share:.0%}",
                bool(part["alignment"].median() > 0.999 and share >= 0.95),
            )
        )
    return findings


def final(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the last step of each setting."""
    return frame[frame["step"] == frame.groupby("sigma")["step"].transform("max")]


def draw(frame: pd.DataFrame) -> Figure:
    """Misalignment along training, one panel per schedule."""
    figure, axes = panels(2)
    for ax, schedule in zip(axes, ("vanishing", "fixed"), strict=True):
        part = frame[frame["schedule"] == schedule].assign(gap=1 - frame["alignment"])
        bands(ax, part, "step", "gap", "sigma")
        ax.set(yscale="log", title=f"rho {schedule}", ylabel="1 - alignment of the worse head")
        ax.set_ylim(1e-8, 1)
        ax.axhline(1e-3, color="#444444", linewidth=0.8, linestyle=":")
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    last = final(frame).groupby("sigma")["alignment"].median()
    return (
        "Every run starts at random heads and ends at the centres: the median alignment of the "
        f"worse head is {number(last.min())} at the noisiest setting and {number(last.max())} "
        "without noise. Whether the regulariser vanishes or stays makes no difference here, since "
        "it is weaker than rho_max throughout. What is left at the end is the noise of the sampled "
        "gradients, and shrinks with the step."
    )
