"""Riemannian descent, plain Euclidean SGD and Adam behave alike.

Off the sphere nothing keeps a head at unit length: with c at half of c*(L) Euclidean heads grow to
about the square root of two, which makes up for the scale, and their directions align with the
centres as those on the sphere do. Adam does the same in steps of its own size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import pandas as pd

from attnclust.manifold import random_heads, random_orthonormal
from attnclust.reproduce.claims import Finding, band, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.reproduce.runs import DIM, LENGTH, best_temperature, prompts_of
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Descent = Literal["riemannian", "euclidean", "adam"]
STRENGTH, N_PROMPTS = 0.3, 16
STEP_SIZE: dict[str, float] = {"riemannian": 0.1, "euclidean": 0.1, "adam": 0.005}
N_STEPS = {False: 2000, True: 1000}
SIGMAS = {False: (0.1, 0.3, 1.0), True: (0.1, 0.3)}
SEEDS = (50, 10)
SETTING = (
    f"K = H = 2, d = {DIM}, L = {LENGTH}, {N_PROMPTS} fresh prompts per step, c half of c*(L), "
    f"pairwise regulariser of strength {STRENGTH} falling to 0, the same random starts on the "
    f"sphere, {N_STEPS[False]} steps (quick: {N_STEPS[True]}) of size {STEP_SIZE['riemannian']}, "
    f"Adam's {STEP_SIZE['adam']}; at sigma = 1 half of that."
)


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Alignment of the worse head and mean length of the heads, along training."""
    frames = []
    for sigma in SIGMAS[quick]:
        centroids = random_orthonormal(rng, 2, DIM, (seeds,))
        start = random_heads(rng, (seeds, 2, DIM))
        for descent in get_args(Descent):
            history = train_heads(
                prompts_of(centroids, sigma, N_PROMPTS, rng),
                start,
                temperature=best_temperature(sigma, DIM, LENGTH, 2) / 2,
                strength=STRENGTH,
                step_size=STEP_SIZE[descent] / (2 if sigma == 1 else 1),
                n_steps=N_STEPS[quick],
                descent=descent,
                record=N_STEPS[quick] // 20,
            ).history
            worse = history.alignment(centroids).min(-1)
            length = np.linalg.norm(history.heads, axis=-1).mean(-1)
            frames += [
                tidy(
                    {"alignment": worse[place], "length": length[place]},
                    sigma=sigma,
                    descent=descent,
                    step=step + 1,
                )
                for place, step in enumerate(history.steps)
            ]
    return pd.concat(frames, ignore_index=True)


def judge(frame: pd.DataFrame) -> list[Finding]:
    """All three end aligned, and Euclidean heads at the length that makes up for the scale."""
    findings = []
    end = frame[frame["step"] == frame["step"].max()]
    for (sigma, descent), part in end.groupby(["sigma", "descent"], sort=False):
        name = f"{descent}, sigma {sigma:g}"
        findings.append(
            Finding.above(name, "alignment of the worse head", part["alignment"], 0.999)
        )
    for descent, part in end[end["descent"] != "riemannian"].groupby("descent", sort=False):
        off = part["length"] / np.sqrt(2) - 1
        findings.append(
            Finding(
                f"{descent}, every sigma: mean length of the heads",
                "within 5% of the square root of 2",
                band(part["length"]),
                bool(off.abs().median() < 0.05),
            )
        )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Misalignment and length along training, at one sigma."""
    figure, (left, right) = panels(2)
    shown = frame[frame["sigma"] == 0.3]
    names = {"riemannian": "Riemannian", "euclidean": "Euclidean SGD", "adam": "Adam"}
    gap = shown.assign(gap=1 - shown["alignment"])
    bands(left, gap, "step", "gap", "descent", names=names)
    left.set(yscale="log", xlabel="step", ylabel="1 - alignment of the worse head")
    left.set_title("σ = 0.3")
    bands(right, shown, "step", "length", "descent", names=names)
    right.axhline(np.sqrt(2), color="#444444", linewidth=0.8, linestyle=":")
    right.set(xlabel="step", ylabel="mean length of the heads", title="dotted: √2")
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    end = frame[frame["step"] == frame["step"].max()]
    shown = end.groupby("descent", sort=False)[["alignment", "length"]].median()
    worst = end.groupby(["descent", "sigma"])["alignment"].median().groupby("descent").min()
    told = ", ".join(
        f"{descent} {worst[descent]:.4f} (length {row['length']:.2f})"
        for descent, row in shown.iterrows()
    )
    return (
        f"Median alignment of the worse head at the worst sigma, and length of the heads: {told}. "
        "Longer heads are a larger scale: off the sphere training chooses c*(L) by itself, and "
        "there, at little noise, next to nothing holds a head in the centres' plane, so the last "
        "of the way takes long. Adam's steps do not shrink with the gradient, and keep its heads "
        "moving."
    )
