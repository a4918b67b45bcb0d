"""One product regulariser does almost as well as the pairwise ones.

r = E[prod_h u_h^2] in place of the sum over K (K - 1) / 2 pairs of heads breaks the tie as well.
But the product of K squares is small where any one of them is: it needs a larger rho, the more so
the more heads and the less noise there are, and lags with the rho of the pairwise ones. Nor is one
term cheaper than many: both are computed from the scores u in time linear in K.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attnclust._typing import FloatArray
from attnclust.manifold import random_heads, random_orthonormal
from attnclust.objective import REGULARIZERS
from attnclust.reproduce.claims import Finding, band, number, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.reproduce.runs import LENGTH, best_temperature, prompts_of
from attnclust.theory import maximal_regularization
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIM, N_PROMPTS, STEP_SIZE, SHARE = 8, 16, 0.1, 0.4
COUNTS = {False: (3, 4, 5), True: (3, 4)}
SIGMAS = {False: (0.1, 0.3, 0.6), True: (0.3,)}
N_STEPS = {False: 2000, True: 800}
# The product's rho_max grows as sigma^(2 - 2 K); steps of a larger rho overshoot.
MOST = 1e4
SEEDS = (12, 6)
PAIRWISE, SAME, OWN = "pairwise", "product, same rho", "product, own rho"
SETTING = (
    f"H = K, d = {DIM}, L = {LENGTH}, {N_PROMPTS} fresh prompts per step, c half of c*(L), the "
    f"same starts for all, {N_STEPS[False]} steps of size {STEP_SIZE} (quick: {N_STEPS[True]}), "
    f"rho falling to 0 from {SHARE} rho_max of pairwise; for the product from that rho too, and "
    f"from {SHARE} of its own rho_max, at most {MOST:,.0f}. Seconds are medians, of the "
    "regulariser's value and gradient and of a whole step on the same tokens, by turns."
)


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Alignment of the worst head at the end, and seconds of regulariser and step."""
    frames = []
    for k in COUNTS[quick]:
        for sigma in SIGMAS[quick]:
            centroids = random_orthonormal(rng, k, DIM, (seeds,))
            start = random_heads(rng, centroids.shape)
            c = best_temperature(sigma, DIM, LENGTH, k) / 2
            tokens_of = prompts_of(centroids, sigma, N_PROMPTS, rng)
            seconds = _seconds(tokens_of(0), start, c)
            weak, strong = (
                SHARE * maximal_regularization(c, sigma, DIM, LENGTH, k, name)
                for name in ("pairwise", "product")
            )
            for way, name, rho in (
                (PAIRWISE, "pairwise", weak),
                (SAME, "product", weak),
                (OWN, "product", min(strong, MOST)),
            ):
                history = train_heads(
                    tokens_of,
                    start,
                    temperature=c,
                    regularizer=name,
                    strength=rho,
                    step_size=STEP_SIZE,
                    n_steps=N_STEPS[quick],
                    record=N_STEPS[quick],
                ).history
                columns = {"alignment": history.alignment(centroids).min(-1)[-1], **seconds[name]}
                frames.append(tidy(columns, clusters=k, sigma=sigma, way=way, rho=rho))
    return pd.concat(frames, ignore_index=True)


def _seconds(tokens: FloatArray, heads: FloatArray, c: float) -> dict[str, dict[str, FloatArray]]:
    """Seconds of value and gradient, and of a step, as often as there are runs, by turns."""
    rows = tokens.reshape(len(tokens), -1, DIM)
    u = rows @ np.swapaxes(heads, 1, 2).astype(np.float32)
    taken = {name: np.empty((2, len(tokens))) for name in ("pairwise", "product")}
    for turn in range(len(tokens)):
        for name, own in taken.items():
            begun = time.perf_counter()
            REGULARIZERS[name].value(u)
            REGULARIZERS[name].gradient(u, rows)
            between = time.perf_counter()
            train_heads(
                lambda _step: tokens, heads, temperature=c, regularizer=name, n_steps=5, record=5
            )
            own[:, turn] = between - begun, (time.perf_counter() - between) / 5
    return {name: {"seconds": own[0], "step_seconds": own[1]} for name, own in taken.items()}


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Gap of the product to the pairwise regulariser, and the ratio of their costs."""
    expected = "alignment of the worst head with the product at most 0.005 below pairwise's"
    findings = []
    for (k, sigma), part in frame.groupby(["clusters", "sigma"]):
        found = {way: own["alignment"] for way, own in part.groupby("way")}
        findings += [
            Finding(
                f"K = {k}, sigma {sigma:g}, {way} ({number(own['rho'].iloc[0])})",
                expected,
                f"{band(own['alignment'])}; pairwise {band(found[PAIRWISE])}",
                bool(found[PAIRWISE].median() - own["alignment"].median() <= 0.005),
            )
            for way, own in part[part["way"] != PAIRWISE].groupby("way", sort=False)
        ]
    for k, part in frame.groupby("clusters"):
        ratio = _ratios(part)
        findings.append(
            Finding(
                f"K = {k}, every sigma: seconds of the product over those of pairwise",
                f"at most half, as one term for {k * (k - 1) // 2} promises",
                f"{ratio['seconds']:.2f} alone, {ratio['step_seconds']:.2f} for a whole step",
                bool(ratio["seconds"] <= 0.5),
            )
        )
    return findings


def _ratios(frame: pd.DataFrame) -> pd.Series:
    """Median seconds with the product over those with the pairwise regulariser."""
    taken = frame.groupby("way")[["seconds", "step_seconds"]].median()
    return taken.loc[OWN] / taken.loc[PAIRWISE]


def draw(frame: pd.DataFrame) -> Figure:
    """Misalignment over the number of clusters, a panel for each sigma."""
    sigmas = list(frame["sigma"].unique())
    figure, axes = panels(len(sigmas), width=4.2 if len(sigmas) > 1 else 6)
    gap = frame.assign(gap=1 - frame["alignment"])
    names = {
        PAIRWISE: "K(K - 1)/2 pairwise",
        SAME: "one product, ρ of pairwise",
        OWN: "one product, ρ of its own",
    }
    for ax, sigma in zip(axes, sigmas, strict=True):
        bands(ax, gap[gap["sigma"] == sigma], "clusters", "gap", "way", names=names)
        ax.set(yscale="log", xlabel="clusters K", title=f"σ = {sigma:g}", ylim=(2e-6, 8))
        ax.set(xticks=frame["clusters"].unique(), ylabel="1 - alignment of the worst head")
        ax.legend(frameon=False, fontsize=7, loc="upper left", ncols=1)
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    middle = frame.groupby(["way", "clusters", "sigma"])["alignment"].median()
    same, own = (middle[PAIRWISE] - middle[way] for way in (SAME, OWN))
    k, sigma = own.idxmax()
    rho = frame.groupby("way")["rho"]
    ratio = _ratios(frame)
    return (
        f"With the rho of the pairwise regulariser the product ends up to {same.max():.3f} behind "
        f"it. With a rho of its own, {number(rho.min()[OWN])} to {number(rho.max()[OWN])} where "
        f"pairwise takes {number(rho.min()[PAIRWISE])} to {number(rho.max()[PAIRWISE])}, it is "
        f"{own.max():.4f} behind at most, at K = {k} and sigma = {sigma:g}: its pull on a token "
        "that one head ignores is nil, so that noise has to help it. It takes "
        f"{ratio['seconds']:.2f} times the seconds of the pairwise one, whose sum over pairs comes "
        "from one sum of squares."
    )
