"""The regulariser makes random starts converge, as long as it is weaker than rho_max or vanishes.

For orthonormal centres of equal weight a fixed strength rho below rho_max keeps the centres stable,
and none above it does: there a head lowers rho r by leaving the centres' plane. A weak one leads
there from nearly all random starts; from about half of rho_max on some runs end at another stable
point, one head off the plane and the other half way between the centres. For other centres a fixed
rho turns the heads away from them, and only a vanishing one does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attnclust._typing import FloatArray
from attnclust.manifold import alignment, polar, random_heads, random_orthonormal
from attnclust.plotting import COLOURS, MARKERS
from attnclust.reproduce.claims import Finding, number, tidy
from attnclust.reproduce.pictures import panels
from attnclust.reproduce.runs import DIM, LENGTH, best_temperature, prompts_of
from attnclust.theory import maximal_regularization
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Steps and step size for each sigma.
STEPS = {0.3: (900, 0.12), 1.0: (1400, 0.05)}
QUICK_STEPS = {0.3: (700, 0.12), 1.0: (1000, 0.05)}
NEAR = 0.7  # of rho_max
SHARES = {False: (0.0, 0.1, 0.3, NEAR, 1.2), True: (0.0, 0.3, NEAR, 1.2)}
VANISHING = {False: (0.1, 0.3), True: (0.3,)}
COSINE, N_PROMPTS, REACHED = 0.3, 8, 0.99
SEEDS = (100, 8)
ORTHONORMAL, OTHER = "orthonormal centres", f"centres at cosine {COSINE}"
SETTING = (
    f"K = H = 2, d = {DIM}, L = {LENGTH}, {N_PROMPTS} fresh prompts per step, c half of c*(L), "
    "random starts, pairwise regulariser. rho is given in units of rho_max of orthonormal centres. "
    "900 steps of size 0.12 at sigma = 0.3, 1400 of 0.05 at sigma = 1 (quick: 700 and 1000). "
    f"A run succeeds if its worse head has an alignment above {REACHED}."
)


def _centroids(kind: str, seeds: int, rng: np.random.Generator) -> FloatArray:
    frame = random_orthonormal(rng, 2, DIM, (seeds,))
    if kind == OTHER:
        frame = np.array([[1, 0], [COSINE, np.sqrt(1 - COSINE**2)]]) @ frame
    return frame


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Alignment of the worse head, and the least part of a head in the plane, of each run."""
    frames = []
    for sigma, (n_steps, step_size) in (QUICK_STEPS if quick else STEPS).items():
        c = best_temperature(sigma, DIM, LENGTH, 2) / 2
        rho_max = maximal_regularization(c, sigma, DIM, LENGTH, 2)
        for kind in (ORTHONORMAL, OTHER):
            for schedule in ("fixed", "vanishing"):
                shares = (SHARES if schedule == "fixed" else VANISHING)[quick]
                if kind == OTHER:  # fails at weaker ones already
                    shares = tuple(share for share in shares if share != NEAR)
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
                basis = polar(centroids)
                inside = np.linalg.norm(heads @ np.swapaxes(basis, 1, 2), axis=-1).min(1)
                columns = {"alignment": alignment(heads, centroids).min(1), "inside": inside}
                parts = [slice(i * seeds, (i + 1) * seeds) for i in range(len(shares))]
                setting = {"sigma": sigma, "centres": kind, "schedule": schedule}
                frames += [
                    tidy({name: own[part] for name, own in columns.items()}, **setting, rho=share)
                    for share, part in zip(shares, parts, strict=True)
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
        falling = part[part["schedule"] == "vanishing"]
        cases = [
            ("no regulariser", fixed[fixed["rho"] == 0], "below", 0.5),
            ("rho fixed, weak", fixed[fixed["rho"].between(0.05, 0.5)], "at least", 0.95),
            ("rho fixed, near rho_max", fixed[fixed["rho"] == NEAR], "at least", 0.95),
            ("rho fixed above rho_max", fixed[fixed["rho"] > 1], "below", 0.05),
            ("rho vanishing, weak", falling[falling["rho"] < 0.2], "at least", 0.95),
            ("rho vanishing", falling[falling["rho"] > 0.2], "at least", 0.95),
        ]
        for name, chosen, side, bound in cases:
            if chosen.empty:
                continue
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
    """Success rate over rho, one panel per sigma."""
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
                    markersize=5 if fixed else 11 - 4 * place,
                    linestyle="-" if fixed else ":",
                    label=f"{centres}, ρ {schedule}",
                )
        ax.axvline(1, color="#444444", linewidth=0.8, linestyle=":")
        ax.set(xlabel="strength ρ / ρ_max", ylabel="share of runs that succeed", ylim=(-0.04, 1.04))
        ax.set_title(f"σ = {sigma:g}")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    rate = dict(success(frame).set_index(["sigma", "centres", "schedule", "rho"])["rate"])
    sigma = min(STEPS)
    fixed = [f"{rate[sigma, ORTHONORMAL, 'fixed', rho]:.0%}" for rho in (0.0, 0.3, NEAR, 1.2)]
    near = frame[(frame["schedule"] == "fixed") & (frame["rho"] == NEAR)]
    near = near[near["centres"] == ORTHONORMAL]
    off = near["inside"] < 0.5
    other = [
        f"{rate[sigma, OTHER, schedule, rho]:.0%}"
        for schedule, rho in (("fixed", 0.3), ("vanishing", 0.3), ("fixed", 0.0))
    ]
    return (
        f"At sigma = {sigma:g} and orthonormal centres {fixed[0]} of the random starts reach the "
        f"centres without a regulariser, {fixed[1]} with 0.3 rho_max, {fixed[2]} with {NEAR} and "
        f"{fixed[3]} with 1.2. At {NEAR}, over both sigma, {off.mean():.0%} of the runs end "
        "with a head off the plane, and the rest at an alignment of "
        f"{number(near['alignment'][~off].median())} in the median. For centres at cosine "
        f"{COSINE} a fixed 0.3 rho_max succeeds in {other[0]}, a vanishing one in {other[1]}, and "
        f"none at all in {other[2]}: there the risk is not blind to rotations, and at this c it is "
        "least near the centres."
    )
