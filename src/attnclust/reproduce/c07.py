"""One product regulariser does almost as well as the pairwise ones, and costs as much.

r = E[prod_h u_h^2] stands for the sum over K (K - 1) / 2 pairs of heads. Both are computed from the
scores u in time linear in K, so that there is little to save; the product of K squares is small
where any one of them is, and breaks the tie more slowly, the more so the less noise and the more
heads there are.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attnclust.manifold import random_heads, random_orthonormal
from attnclust.objective import REGULARIZERS
from attnclust.reproduce.claims import Finding, band, number, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.reproduce.runs import LENGTH, best_temperature, prompts_of
from attnclust.theory import maximal_regularization
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIM, N_PROMPTS, STEP_SIZE, SHARE = 8, 16, 0.1, 0.3
COUNTS = {False: (3, 4, 5), True: (3, 4)}
SIGMAS = {False: (0.1, 0.3, 0.6), True: (0.3,)}
N_STEPS = {False: 2500, True: 700}
# A head gains from the product in proportion to sigma^(2 K - 2): rho beyond this would be absurd.
MOST = 30.0
SEEDS = (20, 6)
SETTING = (
    f"H = K, d = {DIM}, L = {LENGTH}, {N_PROMPTS} fresh prompts per step, c half of c*(L), the "
    f"same starts for both, rho falling to 0 from {SHARE} rho_max of either regulariser, at most "
    f"{MOST:g}, {N_STEPS[False]} steps of size {STEP_SIZE} (quick: {N_STEPS[True]}). Seconds are "
    "of the regulariser's value and gradient, of both in turn, on the tokens of one step of all "
    "runs."
)


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Alignment of the worst head along training, and seconds of the regulariser."""
    frames = []
    n_steps = N_STEPS[quick]
    for k in COUNTS[quick]:
        for sigma in SIGMAS[quick]:
            centroids = random_orthonormal(rng, k, DIM, (seeds,))
            start = random_heads(rng, centroids.shape)
            c = best_temperature(sigma, DIM, LENGTH, k) / 2
            draw_prompts = prompts_of(centroids, sigma, N_PROMPTS, rng)
            rows = draw_prompts(0).reshape(seeds, -1, DIM)
            seconds = _seconds(rows, start.astype(np.float32))
            for name in ("pairwise", "product"):
                rho_max = maximal_regularization(c, sigma, DIM, LENGTH, k, name)
                history = train_heads(
                    draw_prompts,
                    start,
                    temperature=c,
                    regularizer=name,
                    strength=min(SHARE * rho_max, MOST),
                    step_size=STEP_SIZE / 3 if sigma > 0.3 else STEP_SIZE,
                    n_steps=n_steps,
                    record=n_steps // 10,
                ).history
                worst = history.alignment(centroids).min(-1)
                setting = {"clusters": k, "sigma": sigma, "regularizer": name}
                frames += [
                    tidy({"alignment": own, "seconds": seconds[name]}, **setting, step=step + 1)
                    for step, own in zip(history.steps, worst, strict=True)
                ]
    return pd.concat(frames, ignore_index=True)


def _seconds(rows: np.ndarray, heads: np.ndarray) -> dict[str, np.ndarray]:
    """Seconds of value and gradient, each as often as there are runs, in turn."""
    u = rows @ np.swapaxes(heads, 1, 2)
    taken: dict[str, list[float]] = {"pairwise": [], "product": []}
    for _ in range(len(rows)):
        for name, own in taken.items():
            begun = time.perf_counter()
            REGULARIZERS[name].value(u)
            REGULARIZERS[name].gradient(u, rows)
            own.append(time.perf_counter() - begun)
    return {name: np.array(own) for name, own in taken.items()}


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Gap of the product to the pairwise regulariser, and the ratio of their costs."""
    findings = []
    end = frame[frame["step"] == frame["step"].max()]
    for (k, sigma), part in end.groupby(["clusters", "sigma"]):
        found = {name: own["alignment"] for name, own in part.groupby("regularizer")}
        gap = found["pairwise"].median() - found["product"].median()
        findings.append(
            Finding(
                f"K = {k}, sigma {sigma:g}",
                "alignment of the worst head with the product at most 0.005 below pairwise's",
                f"product {band(found['product'])}, pairwise {number(found['pairwise'].median())}",
                bool(gap <= 0.005),
            )
        )
    for k, part in end.groupby("clusters"):
        taken = part.groupby("regularizer")["seconds"].median()
        ratio = float(taken["product"] / taken["pairwise"])
        findings.append(
            Finding(
                f"K = {k}, all sigma: seconds of the regulariser",
                "the product costs at most half of the pairwise ones",
                f"ratio {ratio:.2f}",
                ratio <= 0.5,
            )
        )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Misalignment along training, a panel for each number of clusters."""
    counts = [int(k) for k in frame["clusters"].unique()]
    figure, axes = panels(len(counts), width=4.2)
    shown = frame[(frame["sigma"] == 0.3)].assign(gap=1 - frame["alignment"])
    for ax, k in zip(axes, counts, strict=True):
        names = {"pairwise": f"{k * (k - 1) // 2} pairwise", "product": "one product"}
        bands(ax, shown[shown["clusters"] == k], "step", "gap", "regularizer", names=names)
        ax.set(yscale="log", xlabel="step", title=f"K = {k}, σ = 0.3", ylim=(1e-5, 2))
        ax.set_ylabel("1 - alignment of the worst head")
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    end = frame[frame["step"] == frame["step"].max()]
    middle = end.groupby(["regularizer", "clusters", "sigma"])["alignment"].median()
    gap = middle["pairwise"] - middle["product"]
    taken = end.groupby("regularizer")["seconds"].median()
    k, sigma = gap.idxmax()
    return (
        f"The product is behind by {gap.median():.4f} in the median over the settings, and by "
        f"{gap.max():.3f} at most, at K = {k} and sigma = {sigma:g}: its pull on a token that one "
        "head ignores is nil, so that noise has to help it. It takes "
        f"{taken['product'] / taken['pairwise']:.2f} times the seconds of the pairwise ones, whose "
        "sum over pairs is one of squares."
    )
