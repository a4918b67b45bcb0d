"""The layer's output is an approximate quantisation of its input.

Two round clouds go in, two flattened ones come out. Not always: with two orthonormal heads in d = 2
and long prompts the output is just c (1/K + sigma^2) x, and nothing is flattened. What is flattened
is the noise off the heads' plane, and within it the direction in which centres that are not
orthogonal differ least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attnclust._typing import FloatArray
from attnclust.attention import linear_attention
from attnclust.mixture import Mixture, sample_prompts
from attnclust.plotting import COLOURS
from attnclust.quantization import output_moments
from attnclust.reproduce.claims import Finding, number, tidy
from attnclust.reproduce.pictures import panels
from attnclust.theory import optimal_temperature

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIGMA, LENGTH = 0.3, 1000
N_PROMPTS = {False: 400, True: 60}
SEEDS = (10, 10)
# Centres, and the two directions in which a setting is looked at (rows).
PLACES = {
    "orthonormal, d = 2": (np.eye(2), np.eye(2)),
    "orthonormal, d = 3": (np.eye(3)[:2], np.eye(3)[[0, 2]]),
    "60 degrees, d = 2": (
        np.array([[np.cos(np.pi / 6), 0.5], [np.cos(np.pi / 6), -0.5]]),
        np.eye(2),
    ),
}
TITLES = {
    "orthonormal, d = 2": "orthonormal centres, d = 2:\nnothing is flattened",
    "orthonormal, d = 3": "orthonormal centres, d = 3:\nthe noise off their plane is gone",
    "60 degrees, d = 2": "centres at 60°, d = 2:\nwhere they differ least, noise is gone",
}
SETTING = (
    f"Heads at the two centres, sigma = {SIGMA}, L = {LENGTH}, c = c*(L); each seed has "
    f"{N_PROMPTS[False]} prompts (quick: {N_PROMPTS[True]}), of each of which one token is kept, "
    "so that they are independent. In d = 3 the plane of one centre and the direction off the "
    "heads' plane is shown."
)


def _layer(place: str) -> tuple[Mixture, float, FloatArray]:
    """Mixture, scale and directions of a setting."""
    centroids, directions = PLACES[place]
    mixture = Mixture.equal(centroids, noise_variance=SIGMA**2)
    return mixture, float(optimal_temperature(mixture, centroids, LENGTH)), directions


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Tokens and what the layer makes of them, in two directions."""
    frames = []
    for place in PLACES:
        mixture, c, directions = _layer(place)
        for seed in range(seeds):
            tokens, labels = sample_prompts(mixture, N_PROMPTS[quick], LENGTH, rng)
            output = linear_attention(tokens, mixture.centroids, c)
            into, out = (one[:, 0] @ directions.T for one in (tokens, output))
            columns = {
                "cluster": labels[:, 0],
                **{f"in_{axis}": into[:, axis] for axis in range(2)},
                **{f"out_{axis}": out[:, axis] for axis in range(2)},
            }
            frames.append(tidy(columns, place=place).assign(seed=seed))
    return pd.concat(frames, ignore_index=True)


def _gains(frame: pd.DataFrame, place: str) -> FloatArray:
    """Standard deviation out over in, within clusters, in both directions: shape (seeds, 2)."""
    part = frame[frame["place"] == place]
    columns = [f"{side}_{axis}" for side in ("in", "out") for axis in range(2)]
    own = part.groupby(["seed", "cluster"])[columns].var().groupby("seed").mean()
    root = np.sqrt(own.to_numpy())
    return np.asarray(root[:, 2:] / root[:, :2])


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Output covariance against the formula, and whether the narrower direction is flattened."""
    findings = []
    for place in PLACES:
        mixture, c, directions = _layer(place)
        means, covariance = output_moments(mixture, mixture.centroids, c, LENGTH)
        part = frame[frame["place"] == place]
        labels = part["cluster"].to_numpy()
        centred = part[["out_0", "out_1"]].to_numpy() - (means @ directions.T)[labels]
        products = centred[:, :, None] * centred[:, None, :]
        expected = (directions @ covariance @ directions.T)[labels]
        error = (products - expected).std(0, ddof=1) / np.sqrt(len(part))
        worst = float((np.abs((products - expected).mean(0)) / error).max())
        findings.append(
            Finding(
                place,
                "output covariance given the cluster within 4 standard errors of the formula",
                f"at most {worst:.2f}",
                worst <= 4,
            )
        )
        gains = np.median(_gains(frame, place), axis=0)
        ratio = float(gains.min() / gains.max())
        findings.append(
            Finding(
                place,
                "flattened: the lesser gain is below half of the greater",
                f"gains {number(gains[0])} and {number(gains[1])}",
                ratio < 0.5,
            )
        )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Tokens pale, outputs dark, in the two directions of each setting."""
    figure, axes = panels(3, width=3.6, height=3.9)
    for ax, place in zip(axes, PLACES, strict=True):
        part = frame[frame["place"] == place].head(1200)
        for cluster in (0, 1):
            own, colour = part[part["cluster"] == cluster], COLOURS[3 * cluster]
            ax.scatter(own["in_0"], own["in_1"], s=7, color=colour, alpha=0.16, linewidths=0)
            ax.scatter(own["out_0"], own["out_1"], s=7, color=colour, alpha=0.9, linewidths=0)
        ax.set_title(TITLES[place], fontsize=10)
        ax.set_aspect("equal", "datalim")
    axes[0].set(xlabel="first centre", ylabel="second centre")
    axes[1].set(xlabel="first centre", ylabel="off the heads' plane")
    axes[2].set(xlabel="sum of the centres", ylabel="difference of the centres")
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    flat, off, close = (np.median(_gains(frame, place), axis=0) for place in PLACES)
    return (
        "Pale tokens go in, dark ones come out. With orthonormal centres in the plane both "
        f"directions keep their noise (gains {flat[0]:.2f} and {flat[1]:.2f}); off the plane it is "
        f"removed but for what the prompt's own second moment leaks ({off[1]:.2f} against "
        f"{off[0]:.2f} along a centre); centres at 60 degrees are flattened along their difference "
        f"({close[1]:.2f} against {close[0]:.2f}), and the two clouds draw nearer as well."
    )
