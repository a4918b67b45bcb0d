"""Labels follow from the heads after training, with an error known in closed form.

A token belongs to the head with the largest <x, mu_h>, once signs and order are resolved. For two
clusters and unit heads the sum of the two class errors is Phi(m_1 . kappa / sigma) +
Phi(-m_0 . kappa / sigma), kappa = (mu_0 - mu_1) / |mu_0 - mu_1|; with equal weights the
misclassification rate is half of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attnclust.manifold import match, normalize, random_heads, random_orthonormal
from attnclust.mixture import Mixture, sample_prompts
from attnclust.plotting import COLOURS, MARKERS
from attnclust.reproduce.claims import Finding, tidy
from attnclust.reproduce.pictures import panels
from attnclust.reproduce.runs import DIM
from attnclust.theory import clustering_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIGMAS = (0.1, 0.2, 0.5, 1.0, 2.0)
N_TOKENS = {False: 200_000, True: 20_000}
TILT = 0.3
SEEDS = (20, 10)
SETTING = (
    f"K = H = 2, d = {DIM}, orthonormal or random unit centres; heads at the centres, or each "
    f"{TILT} off in a random direction, of random sign and order; {N_TOKENS[False]:,} tokens a "
    f"seed (quick: {N_TOKENS[True]:,})."
)


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Sum of the two class errors: the formula's, and of sampled tokens with a standard error."""
    n = N_TOKENS[quick]
    frames = []
    for centres in ("orthonormal", "random"):
        for tilt in (0.0, TILT):
            for sigma in SIGMAS:
                formula, sampled = np.empty((2, seeds))
                if centres == "orthonormal":
                    truth = random_orthonormal(rng, 2, DIM, (seeds,))
                else:
                    truth = random_heads(rng, (seeds, 2, DIM))
                for seed, centroids in enumerate(truth):
                    mixture = Mixture.equal(centroids, noise_variance=sigma**2)
                    heads = normalize(centroids + tilt * random_heads(rng, (2, DIM)))
                    heads = heads[rng.permutation(2)] * rng.choice([-1.0, 1.0], (2, 1))
                    formula[seed] = clustering_error(mixture, heads)
                    X, labels = sample_prompts(mixture, 1, n, rng)
                    found = (X[0] @ match(heads, centroids).T).argmax(1)
                    wrong = [(found != labels[0])[labels[0] == j] for j in range(2)]
                    sampled[seed] = sum(side.mean() for side in wrong)
                # The spread that the formula's errors have at most, since rare ones show none, and
                # no less than one token.
                most = np.sqrt(2 * formula * (1 - formula / 2) / n)
                error = np.hypot(most, 2 / n)
                columns = {"formula": formula, "sampled": sampled, "error": error}
                frames.append(tidy(columns, centres=centres, tilt=tilt, sigma=sigma))
    return pd.concat(frames, ignore_index=True)


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Every seed within four standard errors."""
    findings = []
    for (centres, tilt), part in frame.groupby(["centres", "tilt"], sort=False):
        off = np.abs(part["sampled"] - part["formula"]) / part["error"]
        heads = "at the centres" if tilt == 0 else f"{tilt:g} off them"
        findings.append(
            Finding(
                f"{centres} centres, heads {heads}, sigma {min(SIGMAS):g} to {max(SIGMAS):g}",
                "formula and Monte Carlo within 4 standard errors",
                f"at most {off.max():.2f} in {len(off)} runs",
                bool(off.max() <= 4),
            )
        )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Sampled error against the formula's, and the error over sigma."""
    figure, (left, right) = panels(2)
    for place, (centres, part) in enumerate(frame.groupby("centres", sort=False)):
        left.scatter(
            part["formula"],
            part["sampled"],
            s=12,
            color=COLOURS[place],
            marker=MARKERS[place],
            alpha=0.6,
            linewidths=0,
            label=f"{centres} centres",
        )
    left.plot([0, 1], [0, 1], color="#444444", linewidth=0.8, linestyle=":")
    left.set(xlabel="formula", ylabel="sampled tokens", title="sum of the two class errors")
    left.legend(frameon=False, fontsize=8)
    for place, ((centres, tilt), part) in enumerate(frame.groupby(["centres", "tilt"], sort=False)):
        median = part.groupby("sigma")["formula"].median()
        right.plot(
            median.index,
            median,
            color=COLOURS[place],
            marker=MARKERS[place],
            markersize=4.5,
            label=f"{centres}, heads {'at the centres' if tilt == 0 else f'{tilt:g} off'}",
        )
    right.set(xlabel="σ", ylabel="sum of the class errors, median", xscale="log")
    right.legend(frameon=False, fontsize=8)
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    at = frame[frame["centres"] == "orthonormal"].groupby(["tilt", "sigma"])["formula"].median()
    return (
        "Sampled errors lie on the formula's diagonal, for heads at the centres and off them. "
        f"With orthonormal centres and sigma = 0.5 the sum of the class errors is "
        f"{at[0.0, 0.5]:.3f} with the heads at the centres and {at[TILT, 0.5]:.3f} with each "
        f"{TILT} off: labels ask for much less than exact heads."
    )
