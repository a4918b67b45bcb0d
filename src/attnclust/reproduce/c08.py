"""Random centres are nearly as good as orthogonal ones.

Two unit centres drawn at random in d = 10 are found by plain training about as orthogonal ones
are, and exactly once the tokens are normalised. Corrected: plain training stops short, and by how
much follows from the centres' own cosine k: the risk R is a parabola in the cosine g of two heads
placed evenly in the centres' plane, and with c at half of the best scale its vertex is about
k / (1 + 2 sigma^2) for small k, and less than that for large. Normalised tokens reach the centres
when the noise part is removed; gradient training on raw normalised tokens only at small noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attnclust._typing import FloatArray
from attnclust.estimators import AttentionClustering
from attnclust.manifold import alignment, random_heads, random_orthonormal
from attnclust.mixture import Mixture, sample_prompts
from attnclust.objective import reconstruction_risk, second_moment
from attnclust.plotting import COLOURS
from attnclust.reproduce.claims import Finding, band, number, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.reproduce.runs import LENGTH, best_temperature, prompts_of
from attnclust.theory import population_risk
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIM, COSINE = 10, 0.3
# Steps and step size.
STEPS = {0.1: (1500, 0.1), 0.3: (1500, 0.1), 1.0: (3000, 0.03)}
QUICK_STEPS = {0.1: (600, 0.2), 0.3: (600, 0.2), 1.0: (1200, 0.05)}
ROWS = {False: 100_000, True: 40_000}
RISK_PROMPTS = 10_000
# Heads of which the parabola R(g) is known: both at an axis of the centres' plane, or one at each.
CORNERS = ([0, 0], [0, 1], [1, 1])
SEEDS = (30, 5)
PLAIN, DENOISED, RAW = "plain", "normalised, denoised", "normalised, raw"
SETTING = (
    f"K = H = 2, d = {DIM}, random unit centres (cosine {COSINE} for gradient training on "
    f"normalised tokens, which are scaled by 1/sqrt(2)); L = {LENGTH}, 16 prompts a step, c half "
    "of c*(L) of orthonormal centres, strength 0.3 falling to 0, 1500 to 3000 steps (quick: 600 to "
    "1200), twice as many on normalised tokens. The fixed point, not refined, sees "
    f"{ROWS[False]:,} tokens (quick: {ROWS[True]:,})."
)


def _plain(
    seeds: int, sigma: float, steps: tuple[int, float], rng: np.random.Generator
) -> dict[str, FloatArray]:
    centroids = random_heads(rng, (seeds, 2, DIM))
    c = best_temperature(sigma, DIM, LENGTH, 2) / 2
    heads = train_heads(
        prompts_of(centroids, sigma, 16, rng),
        random_heads(rng, centroids.shape),
        temperature=c,
        n_steps=steps[0],
        step_size=steps[1],
    ).heads
    return {
        "cosine": cosine(centroids),
        "alignment": alignment(heads, centroids).min(-1),
        "heads": cosine(heads),
        "vertex": least_risk_cosine(centroids, sigma, c),
    }


def _denoised(seeds: int, sigma: float, n: int, rng: np.random.Generator) -> dict[str, FloatArray]:
    centroids = random_heads(rng, (seeds, 2, DIM))
    found = np.empty(seeds)
    for seed, own in enumerate(centroids):
        mixture = Mixture.equal(own, noise_variance=sigma**2)
        X = sample_prompts(mixture, 1, n, rng, np.float32)[0][0]
        state = int(rng.integers(2**31))
        model = AttentionClustering(
            2, lift="none", refine=False, max_samples=n, random_state=state
        ).fit(X)
        found[seed] = alignment(model.cluster_centers_, own).min()
    return {"cosine": cosine(centroids), "alignment": found}


def _raw(
    seeds: int, sigma: float, steps: tuple[int, float], rng: np.random.Generator
) -> dict[str, FloatArray]:
    frame = random_orthonormal(rng, 2, DIM, (seeds,))
    mixing = np.array([[1, 0], [COSINE, np.sqrt(1 - COSINE**2)]])
    centroids = mixing @ frame
    # Coordinates in the centres' plane are all that whitening keeps of a token.
    _, lengths, axes = np.linalg.svd(centroids, full_matrices=False)
    plane = centroids @ np.swapaxes(axes, 1, 2)
    # Eigenpairs of S - sigma^2 I; W / sqrt(2), for centres of unit length in z.
    root = lengths[:, :, None] / np.sqrt(2)
    whitening = (np.eye(2) / root / np.sqrt(2)).astype(np.float32)[:, None]
    noise = sigma**2 / (2 * root[..., 0] ** 2)
    c = best_temperature(float(np.sqrt(noise.mean())), 2, LENGTH, 2) / 2
    draw = prompts_of(plane, sigma, 16, rng)
    heads = train_heads(
        lambda step: draw(step) @ whitening,
        random_heads(rng, (seeds, 2, 2)),
        temperature=c,
        n_steps=2 * steps[0],
        step_size=steps[1],
    ).heads
    # The same parabola in z, where the noise is not isotropic, so from prompts: all runs are alike.
    shown = prompts_of(plane[:1], sigma, RISK_PROMPTS, rng)(0)[0] @ whitening[0]
    S = second_moment(shown.astype(np.float64))
    risks = (reconstruction_risk(S, np.eye(2)[at], c) for at in CORNERS)
    return {
        "cosine": cosine(centroids),
        "alignment": alignment(heads @ (axes * root), centroids).min(-1),
        "heads": np.sum(heads[:, 0] * heads[:, 1], -1) * _side(heads),
        "vertex": np.full(seeds, _vertex(*risks)),
    }


def cosine(pair: FloatArray) -> FloatArray:
    """|cos| of the two unit vectors of each run: (R, 2, d) to (R)."""
    return np.asarray(np.abs((pair[:, 0] * pair[:, 1]).sum(-1)))


def _side(heads: FloatArray) -> FloatArray:
    """The sign that turns both heads to the same side of the first axis."""
    return np.asarray(np.sign(heads[:, 0, 0] * heads[:, 1, 0]))


def least_risk_cosine(centroids: FloatArray, sigma: float, temperature: float) -> FloatArray:
    """Cosine g of the two heads of least population risk, for unit centres (R, 2, d)."""
    axes = np.linalg.svd(centroids, full_matrices=False)[2]
    mixture = Mixture.equal(centroids, noise_variance=sigma**2)
    return _vertex(*(population_risk(mixture, axes[:, at], temperature, LENGTH) for at in CORNERS))


def _vertex(same: FloatArray, both: FloatArray, other: FloatArray) -> FloatArray:
    """Where R is least in g: M = (1 + g) e_0 e_0^T + (1 - g) e_1 e_1^T, known at g = 1, 0, -1."""
    return np.asarray(np.clip((other - same) / (2 * (same + other - 2 * both)), -1, 1))


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Alignment of the worse head of each run, three ways."""
    frames = []
    for sigma, steps in (QUICK_STEPS if quick else STEPS).items():
        frames += [
            tidy(_plain(seeds, sigma, steps, rng), way=PLAIN, sigma=sigma),
            tidy(_denoised(seeds, sigma, ROWS[quick], rng), way=DENOISED, sigma=sigma),
            tidy(_raw(seeds, sigma, steps, rng), way=RAW, sigma=sigma),
        ]
    return pd.concat(frames, ignore_index=True)


def judge(frame: pd.DataFrame) -> list[Finding]:
    """The level that each way reaches, and what explains the shortfall."""
    findings = []
    for (way, sigma), part in frame.groupby(["way", "sigma"], sort=False):
        found = part["alignment"]
        name = f"{way}, sigma {sigma:g}"
        if way == PLAIN:
            findings.append(Finding.above(name, "alignment of the worse head", found, 0.985))
        elif way == DENOISED or sigma < 1:
            name += f", cosine {COSINE}" if way == RAW else ""
            findings.append(Finding.above(name, "alignment of the worse head", found, 0.999))
        else:
            name += f", cosine {COSINE}"
            findings.append(Finding.below(name, "alignment of the worse head", found, 0.999))
        if way != DENOISED:
            off = np.abs(part["heads"] - part["vertex"])
            findings.append(
                Finding(
                    f"{name}: cosine of the two heads",
                    f"at the risk's vertex ({number(part['vertex'].median())}) within 0.03",
                    f"{band(part['heads'])}; off by {band(off)}",
                    bool(off.median() < 0.03),
                )
            )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Cosine of the heads against that of the centres; misalignment of each way."""
    figure, axes = panels(2)
    ax = axes[0]
    plain = frame[frame["way"] == PLAIN]
    for colour, (sigma, part) in zip(COLOURS, plain.groupby("sigma"), strict=False):
        part = part.sort_values("cosine")
        ax.scatter(part["cosine"], part["heads"], s=14, color=colour, label=f"σ = {sigma:g}")
        ax.plot(part["cosine"], part["vertex"], color=colour, linewidth=1.2)
    ax.plot([0, 1], [0, 1], color="#444444", linewidth=0.8, linestyle=":", label="the centres' own")
    ax.set(xlabel="|cosine| of the centres", ylabel="|cosine| of the heads")
    ax.set(title="plain training, and the risk's vertex (lines)")
    ax.set_xlim(0, 1.05 * plain["cosine"].max())
    ax.set_ylim(0, 1.05 * plain["cosine"].max())
    ax.legend(frameon=False, fontsize=8, loc="upper left")
    ax = axes[1]
    names = {
        PLAIN: "plain training, random centres",
        DENOISED: "normalised, noise part removed: fixed point",
        RAW: f"normalised, not removed: training, cosine {COSINE}",
    }
    bands(ax, frame.assign(gap=1 - frame["alignment"]), "sigma", "gap", "way", names=names)
    ax.set(xscale="log", yscale="log", xlabel="noise σ", ylabel="1 - alignment of the worse head")
    ax.set_xticks(list(STEPS), [f"{sigma:g}" for sigma in STEPS])
    ax.minorticks_off()
    ax.set_ylim(top=30 * ax.get_ylim()[1])
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    middle = frame.groupby(["way", "sigma"])["alignment"].median()
    noisy, quiet = max(STEPS), min(STEPS)
    return (
        f"Plain training ends at {number(middle[PLAIN, quiet])} at sigma = {quiet:g} and "
        f"{number(middle[PLAIN, noisy])} at {noisy:g}: R makes the heads more nearly orthogonal "
        "than the centres, the more so the noisier the tokens. Normalised tokens with the noise "
        f"part removed give {number(middle[DENOISED, noisy])} at sigma = {noisy:g}, what is left "
        "being the error of the sample. Gradient training on raw normalised tokens gives "
        f"{number(middle[RAW, quiet])} and {number(middle[RAW, noisy])}, since whitening stretches "
        "the noise unevenly, and the heads follow it."
    )
