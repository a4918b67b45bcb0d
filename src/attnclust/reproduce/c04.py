"""The regulariser makes random starts converge, as long as it is weaker than rho_max or vanishes.

For orthonormal centres of equal weight any fixed strength rho below rho_max leads from random
starts to the centres, and none above it does: there a head lowers rho r by leaving the centres'
plane. For other centres a fixed rho turns the heads away from them, and a vanishing one is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attnclust._typing import FloatArray
from attnclust.manifold import alignment, random_heads, random_orthonormal
from attnclust.plotting import COLOURS, MARKERS
from attnclust.reproduce.claims import Finding, tidy
from attnclust.reproduce.pictures import panels
from attnclust.reproduce.runs import DIM, LENGTH, best_temperature, prompts_of
from attnclust.theory import maximal_regularization
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Steps and step size for each sigma.
STEPS = {0.3: (2000, 0.1), 1.0: (2500, 0.03)}
QUICK_STEPS = {0.3: (800, 0.1), 1.0: (1200, 0.04)}
SHARES = {False: (0.0, 0.1, 0.3, 0.6, 0.8, 1.2), True: (0.0, 0.3, 1.2)}
VANISHING = {False: (0.1, 0.3, 0.6), True: (0.3,)}
COSINE, N_PROMPTS, REACHED = 0.3, 8, 0.99
SEEDS = (100, 10)
ORTHONORMAL, OTHER = "orthonormal centres", f"centres at cosine {COSINE}"
SETTING = (
    f"K = H = 2, d = {DIM}, L = {LENGTH}, {N_PROMPTS} fresh prompts per step, c half of c*(L), "
    "random starts, pairwise regulariser. rho is given in units of rho_max of orthonormal centres. "
    "2000 steps of size 0.1 at sigma = 0.3, 2500 of size 0.03 at sigma = 1 (quick: 800 and 1200). "
    f"A run succeeds if its worse head has an alignment above {REACHED}."
)


def _centroids(kind: str, seeds: int, rng: np.random.Generator) -> FloatArray:
    frame = random_orthonormal(rng, 2, DIM, (seeds,))
    if kind == OTHER:
        frame = np.array([[1, 0], [COSINE, np.sqrt(1 - COSINE**2)]]) @ frame
    return frame


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Alignment of the worse head of each run, at every strength."""
    frames = []
    for sigma, (n_steps, step_size) in (QUICK_STEPS if quick else STEPS).items():
        c = best_temperature(sigma, DIM, LENGTH, 2) / 2
        rho_max = maximal_regularization(c, sigma, DIM, LENGTH, 2)
        for kind in (ORTHONORMAL, OTHER):
            for schedule in ("fixed", "vanishing"):
                shares = (SHARES if schedule == "fixed" else VANISHING)[quick]
                centroids = _centroids(kind, seeds * len(shares), rng)
                heads = train_heads(
                    prompts_of(centroids, sigma, N_PROMPTS, rng),
                    random_heads(rng, centroids.shape),
                    temperature=c,
                    strength=rho_max * np.repeat(shares, seeds),
                    schedule=schedule,
                    step_size=step_size,
                    n_steps=n_steps,
                ).heads
                worse = alignment(heads, centroids).min(1).reshape(len(shares), seeds)
                setting = {"sigma": sigma, "centres": kind, "schedule": schedule}
                frames += [
                    tidy({"alignment": own}, **setting, rho=share)
                    for share, own in zip(shares, worse, strict=True)
                ]
    return pd.concat(frames, ignore_index=True)


def success(frame: pd.DataFrame) -> pd.DataFrame:
    """Share of the runs that reach the centres, and the median alignment, by setting."""
    by = frame.groupby(["sigma", "centres", "schedule", "rho"], sort=False)["alignment"]
    rate = by.apply(lambda own: float((own > REACHED).mean()))
    return pd.DataFrame({"rate": rate, "median": by.median()}).reset_index()


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Success rates without it, with it below and above rho_max, and vanishing."""
    findings = []
    rates = success(frame)
    for (sigma, centres), part in rates.groupby(["sigma", "centres"], sort=False):
        fixed = part[part["schedule"] == "fixed"]
        cases = [
            ("no regulariser", fixed[fixed["rho"] == 0], "below", 0.5),
            ("rho fixed below rho_max", fixed[fixed["rho"].between(0.05, 0.95)], "at least", 0.95),
            ("rho fixed above rho_max", fixed[fixed["rho"] > 1], "below", 0.05),
            ("rho vanishing", part[part["schedule"] == "vanishing"], "at least", 0.95),
        ]
        for name, chosen, side, bound in cases:
            shown = ", ".join(
                f"{rate:.0%} ({share:g} rho_max)" if share else f"{rate:.0%}"
                for share, rate in zip(chosen["rho"], chosen["rate"], strict=True)
            )
            held = chosen["rate"].min() >= bound if side == "at least" else None
            findings.append(
                Finding(
                    f"{centres}, sigma {sigma:g}, {name}",
                    f"{side} {bound:.0%} of the runs succeed",
                    shown,
                    bool(chosen["rate"].max() < bound) if held is None else bool(held),
                )
            )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Success rate over rho, and the median misalignment."""
    figure, axes = panels(2)
    rates = success(frame)
    for ax, (sigma, part) in zip(axes, rates.groupby("sigma"), strict=True):
        for place, (centres, own) in enumerate(part.groupby("centres", sort=False)):
            for schedule, line in own.groupby("schedule", sort=False):
                fixed = schedule == "fixed"
                ax.plot(
                    line["rho"],
                    line["rate"],
                    color=COLOURS[place],
                    marker=MARKERS[place] if fixed else "*",
                    markersize=5 if fixed else 11,
                    linestyle="-" if fixed else "none",
                    alpha=0.9,
                    label=f"{centres}, {schedule}",
                )
        ax.axvline(1, color="#444444", linewidth=0.8, linestyle=":")
        ax.set(xlabel="strength ρ / ρ_max", ylabel="share of runs that succeed", ylim=(-0.04, 1.3))
        ax.set_title(f"σ = {sigma:g}")
        ax.legend(frameon=False, fontsize=7, loc="upper center", ncols=2)
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    rates = success(frame).set_index(["sigma", "centres", "schedule", "rho"])["rate"]
    sigma = min(STEPS)
    return (
        f"At sigma = {sigma:g} and orthonormal centres "
        f"{rates[sigma, ORTHONORMAL, 'fixed', 0.0]:.0%} of the random starts reach the centres "
        f"without a regulariser, {rates[sigma, ORTHONORMAL, 'fixed', 0.3]:.0%} with 0.3 rho_max "
        f"and {rates[sigma, ORTHONORMAL, 'fixed', 1.2]:.0%} with 1.2 rho_max. For centres at "
        f"cosine {COSINE} a fixed 0.3 rho_max succeeds in {rates[sigma, OTHER, 'fixed', 0.3]:.0%}, "
        f"a vanishing one in {rates[sigma, OTHER, 'vanishing', 0.3]:.0%}, and none at all in "
        f"{rates[sigma, OTHER, 'fixed', 0.0]:.0%}: the risk alone tells such centres. Near rho_max "
        "the heads are held weakly, so that noisy gradients move them further."
    )
