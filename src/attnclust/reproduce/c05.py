"""How near the invariant manifold a start must be: the basin, measured.

The theory starts on the manifold, and its authors leave open how far from it training still reaches
the centres. Starts lie at a geodesic distance from it, in a random direction normal to it. Without
a regulariser success falls with that distance, as the heads keep their rotation within the centres'
plane; with one, starts at every distance succeed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attnclust.manifold import alignment, random_orthonormal
from attnclust.reproduce.claims import Finding, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.reproduce.runs import DIM, LENGTH, best_temperature, prompts_of
from attnclust.starts import leave_manifold, manifold_heads
from attnclust.theory import maximal_regularization
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIGMA, STRENGTH, LEAST = 0.3, 0.5, 0.1
N_PROMPTS, STEP_SIZE, REACHED = 16, 0.2, 0.99
DISTANCES = {False: (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.2, 1.6), True: (0.0, 0.1, 0.4, 1.2)}
N_STEPS = {False: 700, True: 500}
SEEDS = (100, 20)
WITHOUT, WITH = "no regulariser", f"rho = {STRENGTH:g} falling to 0"
SETTING = (
    f"K = H = 2, d = {DIM}, sigma = {SIGMA}, L = {LENGTH}, {N_PROMPTS} fresh prompts per step, c "
    f"half of c*(L), {N_STEPS[False]} steps of size {STEP_SIZE} (quick: {N_STEPS[True]}). The "
    f"point on the manifold has |alpha| of at least {LEAST}. A run succeeds if its worse head has "
    f"an alignment above {REACHED}."
)


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Alignment of the worse head of each run, by distance of its start."""
    distances = DISTANCES[quick]
    frames = []
    for way, strength in ((WITHOUT, 0.0), (WITH, STRENGTH)):
        centroids = random_orthonormal(rng, 2, DIM, (len(distances), seeds))
        near = manifold_heads(rng, centroids, LEAST)
        start = np.array(
            [
                leave_manifold(rng, on, own, distance)
                for on, own, distance in zip(near, centroids, distances, strict=True)
            ]
        )
        flat = centroids.reshape(-1, 2, DIM)
        heads = train_heads(
            prompts_of(flat, SIGMA, N_PROMPTS, rng),
            start.reshape(flat.shape),
            temperature=best_temperature(SIGMA, DIM, LENGTH, 2) / 2,
            strength=strength,
            step_size=STEP_SIZE,
            n_steps=N_STEPS[quick],
        ).heads
        worse = alignment(heads, flat).min(1).reshape(len(distances), seeds)
        frames += [
            tidy({"alignment": own}, way=way, distance=distance)
            for distance, own in zip(distances, worse, strict=True)
        ]
    return pd.concat(frames, ignore_index=True)


def success(frame: pd.DataFrame) -> pd.Series:
    """Share of the runs that reach the centres."""
    reached = frame["alignment"] > REACHED
    return reached.groupby([frame["way"], frame["distance"]]).mean()


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Success rate over distance, with and without the regulariser."""
    rates = success(frame)
    findings = []
    for way, bound in ((WITH, 0.95), (WITHOUT, 0.5)):
        shown = ", ".join(f"{rate:.0%} at {at:g}" for at, rate in rates[way].items())
        if way == WITH:
            held = bool(rates[way].min() >= bound)
            findings.append(
                Finding(way, f"at least {bound:.0%} succeed at every distance", shown, held)
            )
            continue
        farthest, nearest = rates[way].index.max(), rates[way].index.min()
        findings += [
            Finding(
                f"{way}, distance {nearest:g}",
                "at least 95% succeed: sampled prompts leave the manifold, but not far",
                f"{rates[way][nearest]:.0%}",
                bool(rates[way][nearest] >= 0.95),
            ),
            Finding(
                f"{way}, distance {farthest:g}",
                f"below {bound:.0%} succeed",
                shown,
                bool(rates[way][farthest] < bound),
            ),
        ]
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Success rate and alignment over distance."""
    figure, (left, right) = panels(2)
    rates = success(frame).rename("rate").reset_index()
    names = {WITHOUT: WITHOUT, WITH: WITH.replace("rho", "ρ")}
    bands(left, rates, "distance", "rate", "way", names=names, order=[WITHOUT, WITH])
    left.set(xlabel="distance of the start, radians", ylabel="share of runs that succeed")
    left.set_ylim(0, 1.25)
    bands(right, frame, "distance", "alignment", "way", names=names, order=[WITHOUT, WITH])
    right.set(xlabel="distance of the start, radians", ylabel="alignment of the worse head")
    right.set_ylim(0.65, 1.1)
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    rates = success(frame)
    c = best_temperature(SIGMA, DIM, LENGTH, 2) / 2
    rho_max = maximal_regularization(c, SIGMA, DIM, LENGTH, 2)
    sure, half = (rates[WITHOUT][rates[WITHOUT] >= at].index.max() for at in (0.95, 0.5))
    return (
        f"Without the regulariser at least 95% of the runs succeed up to a distance of {sure:g}, "
        f"at least half up to {half:g}, and {rates[WITHOUT].iloc[-1]:.0%} at "
        f"{rates[WITHOUT].index[-1]:g}: the plane is found, and the rotation within it that the "
        "start had is kept. With the regulariser the least share over all distances is "
        f"{rates[WITH].min():.0%}; its strength is {STRENGTH / rho_max:.2g} of rho_max."
    )
