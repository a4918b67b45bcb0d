"""At higher noise the surplus heads lose the centres, unless the scale falls with their number.

Two clusters and H = 2, 3, 4 heads. With the scale c that is right for two heads, surplus heads
leave the centres' plane as noise grows. Theory says when: heads that share a plane of fewer
dimensions are stable in it only up to a scale c_tilt(H), which falls with noise. A scale K / H
times as large stays below it, and then the heads stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.linalg import eigh

from attnclust._typing import FloatArray
from attnclust.manifold import alignment, random_heads, random_orthonormal
from attnclust.mixture import Mixture
from attnclust.plotting import COLOURS, MARKERS
from attnclust.reproduce.claims import Finding, band, number, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.reproduce.runs import DIM, LENGTH, best_temperature, prompts_of
from attnclust.theory import population_risk
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

K, N_PROMPTS, STRENGTH = 2, 16, 0.3
# Number of heads, and the scale in units of c*(L) of two.
WAYS = {
    "H = 2, c = c*/2": (2, 1 / 2),
    "H = 3, c = c*/2": (3, 1 / 2),
    "H = 4, c = c*/2": (4, 1 / 2),
    "H = 3, c = c*/3": (3, 1 / 3),
    "H = 4, c = c*/4": (4, 1 / 4),
}
SIGMAS = {False: (0.1, 0.3, 0.5, 0.7, 1.0), True: (0.1, 0.5, 1.0)}
# Steps and step size up to sigma = 0.5, and beyond.
STEPS = {False: ((1500, 0.1), (2500, 0.03)), True: ((400, 0.15), (700, 0.08))}
SEEDS = (20, 5)
SETTING = (
    f"K = {K}, d = {DIM}, L = {LENGTH}, {N_PROMPTS} fresh prompts per step, pairwise regulariser "
    f"of strength {STRENGTH} falling to 0, c in units of c*(L) of two heads, 1500 steps of size "
    "0.1 up to sigma = 0.5 and 2500 of 0.03 beyond (quick: 400 of 0.15 and 700 of 0.08)."
)


def surplus_tilt(n_heads: int, sigma: float) -> float:
    """c_tilt(H): the scale above which heads that make a multiple of the projector leave the plane.

    Tilts t_h of the heads cost t^T (c^2 A - 2c B) t; the bound is where its least eigenvalue is 0.
    """
    mixture = Mixture.equal(np.eye(DIM)[:K], noise_variance=sigma**2)
    pairs = n_heads % K == 0
    angles = np.pi * (np.arange(n_heads) % K / K if pairs else np.arange(n_heads) / n_heads)
    heads = np.cos(angles)[:, None] * np.eye(DIM)[0] + np.sin(angles)[:, None] * np.eye(DIM)[1]
    small = 1e-3

    def curvature(sign: int) -> FloatArray:
        """Of R at c = 1 or -1 along t_g + t_h less that along t_g - t_h, a quarter of it."""
        units = np.eye(n_heads)
        along = np.stack([units[:, None] + units, units[:, None] - units])[..., None] * small
        tilted = np.cos(along) * heads + np.sin(along) * np.eye(DIM)[-1]
        plus, minus = population_risk(mixture, tilted, sign, LENGTH)
        return np.asarray((plus - minus) / (2 * small**2))

    up, down = curvature(1), curvature(-1)
    return float(1 / eigh(-(up + down) / 2, (up - down) / 2, eigvals_only=True)[-1])


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Alignment of the two centres with their best heads, at the end."""
    frames = []
    for way, (n_heads, scale) in WAYS.items():
        for sigma in SIGMAS[quick]:
            n_steps, step_size = STEPS[quick][sigma > 0.5]
            centroids = random_orthonormal(rng, K, DIM, (seeds,))
            c = scale * best_temperature(sigma, DIM, LENGTH, K)
            heads = train_heads(
                prompts_of(centroids, sigma, N_PROMPTS, rng),
                random_heads(rng, (seeds, n_heads, DIM)),
                temperature=c,
                strength=STRENGTH,
                step_size=step_size,
                n_steps=n_steps,
            ).heads
            inside = np.linalg.norm(heads @ np.swapaxes(centroids, 1, 2), axis=-1)
            columns = {"alignment": alignment(heads, centroids).mean(1), "inside": inside.min(1)}
            ratio = c / surplus_tilt(n_heads, sigma)
            frames.append(tidy(columns, way=way, heads=n_heads, sigma=sigma, ratio=ratio))
    return pd.concat(frames, ignore_index=True)


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Centres kept with H = K, lost or not with more heads; and whether theory says which."""
    findings = []
    least, most = frame["sigma"].min(), frame["sigma"].max()
    for way, part in frame.groupby("way", sort=False):
        middle = part.groupby("sigma")["alignment"].median()
        noisy = part.loc[part["sigma"] == most, "alignment"]
        if part["heads"].iloc[0] == K:
            findings.append(
                Finding(
                    f"{way}, sigma {least:g} to {most:g}",
                    "centres kept: mean alignment above 0.99 at every sigma",
                    f"at least {number(middle.min())}",
                    bool(middle.min() > 0.99),
                )
            )
            continue
        findings.append(
            Finding(
                f"{way}, sigma {most:g} against {least:g}",
                "centres lost: mean alignment lower by more than 0.03",
                f"{band(noisy)} against {number(middle.iloc[0])}",
                bool(middle.iloc[0] - middle.iloc[-1] > 0.03),
            )
        )
    inside = frame.groupby(["way", "sigma"])[["ratio", "inside"]].median()
    below = inside.loc[inside["ratio"] < 0.95, "inside"]
    above = inside.loc[inside["ratio"] > 1.05, "inside"]
    findings.append(
        Finding(
            f"{len(below)} settings with c below 0.95 c_tilt(H)",
            "least length of a head within the centres' plane above 0.95 in each",
            f"at least {number(below.min())}",
            bool(below.min() > 0.95),
        )
    )
    findings.append(
        Finding(
            f"{len(above)} settings with c above 1.05 c_tilt(H)",
            "that length below 0.95 in each",
            f"at most {number(above.max())}",
            bool(above.max() < 0.95),
        )
    )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Alignment over sigma, and the least length within the plane over c / c_tilt(H)."""
    figure, (left, right) = panels(2)
    bands(left, frame, "sigma", "alignment", "way", names={way: way for way in WAYS})
    left.set(xlabel="noise σ", ylabel="mean alignment of the two centres")
    left.legend(frameon=False, fontsize=8, loc="lower left")
    for place, way in enumerate(WAYS):
        at = frame[frame["way"] == way].groupby("sigma")[["ratio", "inside"]].median()
        right.scatter(at["ratio"], at["inside"], color=COLOURS[place], marker=MARKERS[place], s=26)
    right.axvline(1, color="#444444", linewidth=0.8, linestyle=":")
    right.set(xlabel="scale over its bound, c / c_tilt(H)", ylabel="least head's length in plane")
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    most = frame["sigma"].max()
    noisy = (
        frame[frame["sigma"] == most].groupby("way", sort=False)[["alignment", "ratio"]].median()
    )
    told = ", ".join(
        f"{row['alignment']:.3f} at {row['ratio']:.2f} c_tilt(H) ({way})"
        for way, row in noisy.iterrows()
    )
    return (
        f"Median of the mean alignment at sigma = {most:g}, and the scale: {told}. Above "
        "c_tilt(H), which falls with noise once there are more heads than clusters, a head lowers "
        "the risk by leaving the centres' plane. Three heads that stay in it stand at 60 degrees, "
        f"hence at a mean alignment of {np.cos(np.pi / 12):.3f} at most (C17)."
    )
