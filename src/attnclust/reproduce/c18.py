"""At higher noise the surplus heads lose the centres.

Two clusters and H = 2, 3, 4 heads: alignment of the two centres with their best heads, over the
noise. With H = K the centres are found at any noise; each head beyond them costs alignment, the
more so the noisier the tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attnclust.manifold import alignment, random_heads, random_orthonormal
from attnclust.reproduce.claims import Finding, band, number, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.reproduce.runs import DIM, LENGTH, best_temperature, prompts_of
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

K, N_PROMPTS, STRENGTH = 2, 16, 0.3
COUNTS = (2, 3, 4)
SIGMAS = {False: (0.05, 0.1, 0.3, 0.5, 0.7, 1.0), True: (0.1, 0.5, 1.0)}
# Steps and step size up to sigma = 0.5, and beyond.
STEPS = {False: ((1500, 0.1), (2500, 0.03)), True: ((500, 0.1), (900, 0.05))}
SEEDS = (30, 6)
SETTING = (
    f"K = {K}, d = {DIM}, L = {LENGTH}, {N_PROMPTS} fresh prompts per step, pairwise regulariser "
    f"of strength {STRENGTH} falling to 0, c half of c*(L) of two heads for every H, 1500 steps of "
    "size 0.1 up to sigma = 0.5 and 2500 of 0.03 beyond (quick: 500 and 900 of 0.05)."
)


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Alignment of the two centres with their best heads, at the end."""
    frames = []
    for n_heads in COUNTS:
        for sigma in SIGMAS[quick]:
            n_steps, step_size = STEPS[quick][sigma > 0.5]
            centroids = random_orthonormal(rng, K, DIM, (seeds,))
            heads = train_heads(
                prompts_of(centroids, sigma, N_PROMPTS, rng),
                random_heads(rng, (seeds, n_heads, DIM)),
                temperature=best_temperature(sigma, DIM, LENGTH, K) / 2,
                strength=STRENGTH,
                step_size=step_size,
                n_steps=n_steps,
            ).heads
            found = alignment(heads, centroids)
            inside = np.linalg.norm(heads @ np.swapaxes(centroids, 1, 2), axis=-1)
            columns = {"alignment": found.mean(1), "inside": inside.min(1)}
            frames.append(tidy(columns, heads=n_heads, sigma=sigma))
    return pd.concat(frames, ignore_index=True)


def judge(frame: pd.DataFrame) -> list[Finding]:
    """With H = K the centres are kept; with more heads alignment falls with the noise."""
    findings = []
    least, most = frame["sigma"].min(), frame["sigma"].max()
    for n_heads, part in frame.groupby("heads"):
        middle = part.groupby("sigma")["alignment"].median()
        noisy = part.loc[part["sigma"] == most, "alignment"]
        if n_heads == K:
            name = f"H = {n_heads}, sigma {least:g} to {most:g}"
            findings.append(
                Finding(
                    name,
                    "mean alignment above 0.99 at every sigma",
                    f"at least {number(middle.min())}",
                    bool(middle.min() > 0.99),
                )
            )
            continue
        findings.append(
            Finding(
                f"H = {n_heads}, sigma {most:g} against {least:g}",
                "alignment lower by more than 0.02",
                f"{band(noisy)} against {number(middle.iloc[0])}",
                bool(middle.iloc[0] - middle.iloc[-1] > 0.02),
            )
        )
        findings.append(
            Finding(
                f"H = {n_heads}, sigma {most:g}",
                "the centres are lost: mean alignment below 0.9",
                band(noisy),
                bool(noisy.median() < 0.9),
            )
        )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Alignment, and how far the least head is inside the plane, over sigma."""
    figure, (left, right) = panels(2)
    names = {count: f"H = {count}" for count in COUNTS}
    bands(left, frame, "sigma", "alignment", "heads", names=names)
    left.set(xlabel="noise σ", ylabel="mean alignment of the two centres")
    left.legend(frameon=False, fontsize=8, loc="lower left")
    bands(right, frame, "sigma", "inside", "heads", names=names)
    right.set(xlabel="noise σ", ylabel="least length of a head within the centres' plane")
    right.legend(frameon=False, fontsize=8, loc="lower left")
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    most = frame["sigma"].max()
    noisy = frame[frame["sigma"] == most].groupby("heads")[["alignment", "inside"]].median()
    told = ", ".join(f"{row['alignment']:.3f} with {h} heads" for h, row in noisy.iterrows())
    return (
        f"At sigma = {most:g} the median of the mean alignment is {told}. The scale that is right "
        "for two heads is too large for more of them, and where noise is strong a head lowers the "
        "risk by leaving the centres' plane: the least length of a head within it is "
        f"{noisy['inside'].min():.2f} there."
    )
