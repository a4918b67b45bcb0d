"""With more heads than clusters the surplus heads align with others.

Two clusters and three heads, at low noise: as published, one centre is found exactly, the other
partly, and surplus heads align with each other. The first two hold where the regulariser vanishes,
and follow from the risk: below c*(L) it wants M to be a multiple of the projector, and three heads
in a plane make one at angles of 60 degrees, so that heads do not align but share the plane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from attnclust._typing import FloatArray
from attnclust.manifold import alignment, random_heads, random_orthonormal
from attnclust.reproduce.claims import Finding, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.reproduce.runs import DIM, LENGTH, best_temperature, prompts_of
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

K, N_HEADS, N_PROMPTS = 2, 3, 16
SIGMAS = {False: (0.05, 0.1, 0.2, 0.3, 0.5, 1.0), True: (0.1, 0.3)}
LOW = 0.3
N_STEPS = {False: 2000, True: 600}
SEEDS = (40, 8)
# Regulariser, its strength and schedule, and the scale in units of c*(L) of two heads.
WAYS: dict[str, tuple[str, float, Literal["fixed", "vanishing"], float]] = {
    "pairwise 0.3 falling to 0": ("pairwise", 0.3, "vanishing", 0.5),
    "pairwise 0.3": ("pairwise", 0.3, "fixed", 0.5),
    "product 3, c a quarter": ("product", 3.0, "fixed", 0.25),
}
SETTING = (
    f"K = {K}, H = {N_HEADS}, d = {DIM}, L = {LENGTH}, {N_PROMPTS} fresh prompts per step, c half "
    f"of c*(L) of two heads unless said, {N_STEPS[False]} steps of size 0.1 (quick: "
    f"{N_STEPS[True]}; 0.03 at sigma = 1)."
)


def cosines(heads: FloatArray, centroids: FloatArray) -> dict[str, FloatArray]:
    """Better and worse found centre, and the largest |cos| of two heads, of each run."""
    found = np.sort(alignment(heads, centroids), axis=1)
    gram = np.abs(heads @ np.swapaxes(heads, 1, 2))
    pair = (gram - np.eye(heads.shape[1])).max((1, 2))
    return {"better": found[:, -1], "worse": found[:, 0], "pair": pair}


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Cosines of heads with centres and with each other, at the end."""
    frames = []
    for sigma in SIGMAS[quick]:
        for way, (regularizer, strength, schedule, scale) in WAYS.items():
            centroids = random_orthonormal(rng, K, DIM, (seeds,))
            heads = train_heads(
                prompts_of(centroids, sigma, N_PROMPTS, rng),
                random_heads(rng, (seeds, N_HEADS, DIM)),
                temperature=scale * best_temperature(sigma, DIM, LENGTH, K),
                regularizer=regularizer,
                strength=strength,
                schedule=schedule,
                step_size=0.03 if sigma == 1 else 0.1,
                n_steps=N_STEPS[quick],
            ).heads
            frames.append(tidy(cosines(heads, centroids), rho=way, sigma=sigma))
    return pd.concat(frames, ignore_index=True)


EXPECTED = {
    "better": ("one centre found exactly: alignment above 0.97", 0.97, 1.01),
    "worse": ("the other partly: alignment between 0.7 and 0.97", 0.7, 0.97),
    "pair": ("two heads align: |cos| above 0.9", 0.9, 1.01),
}


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Each part of the claim at low noise, by regulariser."""
    findings = []
    low = frame[frame["sigma"] <= LOW]
    for way, part in low.groupby("rho", sort=False):
        middle = part.groupby("sigma")[list(EXPECTED)].median()
        sigmas = ", ".join(f"{sigma:g}" for sigma in middle.index)
        for what, (expected, above, below) in EXPECTED.items():
            findings.append(
                Finding(
                    f"{way}, sigma {sigmas}",
                    expected,
                    ", ".join(f"{value:.3f}" for value in middle[what]),
                    bool(middle[what].between(above, below).all()),
                )
            )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """The three cosines over sigma, a panel for each schedule."""
    figure, axes = panels(len(WAYS), width=4.0)
    names = {"better": "better centre", "worse": "worse centre", "pair": "closest two heads"}
    for ax, (way, part) in zip(axes, frame.groupby("rho", sort=False), strict=True):
        long = part.melt(
            id_vars="sigma", value_vars=list(names), var_name="what", value_name="cosine"
        )
        bands(ax, long, "sigma", "cosine", "what", names=names)
        ax.set(xlabel="noise σ", ylabel="|cosine|", ylim=(0, 1.35), title=way, xscale="log")
        ax.legend(frameon=False, fontsize=8, loc="upper center", ncols=2)
        ax.set_xticks(part["sigma"].unique(), [f"{s:g}" for s in part["sigma"].unique()])
        ax.minorticks_off()
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    low = frame[frame["sigma"] <= LOW].groupby("rho")[["better", "worse", "pair"]].median()
    told = "; ".join(
        f"{way}: {row['better']:.3f}, {row['worse']:.3f}, {row['pair']:.2f}"
        for way, row in low.iterrows()
    )
    return (
        "Median cosines, up to sigma = 0.3, of the better found centre, of the worse found one, "
        f"and of the two heads that are closest: {told}. Heads at 60 degrees have a cosine of one "
        "half; a regulariser that stays pushes the surplus head out of the plane, or, as a product "
        "with a small scale, both spare heads towards one centre."
    )
