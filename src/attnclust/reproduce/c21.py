"""The layer without parameters quantises each prompt in its own context.

Each prompt has its own orthonormal centres, drawn at random, and nothing is trained. At the scale c
that keeps the centres' length, c s = 1 with s = 1/K + sigma^2, the variance of the outputs within a
cluster tends to sigma^2 [K (c s)^2 + (d - K)(c sigma^2)^2] as L grows, below the inputs' d sigma^2.
Reconstruction risk is no judge here: its minimum is reached by nearly copying the input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attnclust.attention import in_context_attention
from attnclust.manifold import random_orthonormal
from attnclust.mixture import Mixture, sample_prompts
from attnclust.quantization import output_moments
from attnclust.reproduce.claims import Finding, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.reproduce.runs import best_temperature
from attnclust.theory import optimal_temperature, population_risk

if TYPE_CHECKING:
    from matplotlib.figure import Figure

K = 2
DIMS, SIGMAS, LENGTHS = (5, 20), (0.1, 0.3, 1.0), (10, 30, 100, 300, 1000)
QUICK_LENGTHS = (10, 100, 1000)
N_PROMPTS = {False: 40, True: 10}
SEEDS = (50, 30)
SETTING = (
    f"K = {K} orthonormal centres drawn anew for every prompt, d = {' and '.join(map(str, DIMS))}, "
    f"c = 1 / (1/K + sigma^2), {N_PROMPTS[False]} prompts a seed (quick: {N_PROMPTS[True]}), one "
    "token of each. Variance is about the cluster's mean output at that L, summed over coordinates."
)


def _scale(sigma: float) -> float:
    return 1 / (1 / K + sigma**2)


def _oracle(dim: int, sigma: float) -> Mixture:
    return Mixture.equal(np.eye(dim)[:K], noise_variance=sigma**2)


def _variance(dim: int, sigma: float, length: float) -> float:
    """Closed form: trace of the output's covariance, which does not depend on the rotation."""
    _, covariance = output_moments(_oracle(dim, sigma), np.eye(dim), _scale(sigma), length)
    return float(np.trace(covariance[0]))


def _limit(dim: int, sigma: float) -> float:
    c, s = _scale(sigma), 1 / K + sigma**2
    return sigma**2 * (K * (c * s) ** 2 + (dim - K) * (c * sigma**2) ** 2)


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Variance of the outputs within clusters, per seed, over that of the inputs."""
    frames = []
    for dim in DIMS:
        for sigma in SIGMAS:
            for length in QUICK_LENGTHS if quick else LENGTHS:
                shape = (seeds, N_PROMPTS[quick])
                spread = np.empty(shape)
                for seed in range(seeds):
                    centroids = random_orthonormal(rng, K, dim, shape[1:])
                    mixture = Mixture.equal(centroids, noise_variance=sigma**2)
                    tokens, labels = sample_prompts(mixture, shape[1], length, rng)
                    output = in_context_attention(tokens, _scale(sigma))[:, 0]
                    means, _ = output_moments(mixture, np.eye(dim), _scale(sigma), length)
                    own = np.take_along_axis(means, labels[:, :1, None], 1)[:, 0]
                    spread[seed] = ((output - own) ** 2).sum(-1)
                columns = {"variance": spread.mean(1)}
                frames.append(tidy(columns, dim=dim, sigma=sigma, length=length))
    return pd.concat(frames, ignore_index=True)


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Closed form against samples, the limit, and where the clusters do shrink."""
    settings = [(dim, sigma) for dim in DIMS for sigma in SIGMAS]
    by = frame.groupby(["dim", "sigma", "length"])["variance"]
    off = np.abs(by.mean() - [_variance(*at) for at in by.mean().index])
    off /= by.std() / np.sqrt(by.size())
    limits = np.array([_limit(*at) for at in settings])
    gap = float(np.abs([_variance(*at, np.inf) for at in settings] / limits - 1).max())
    findings = [
        Finding(
            f"all d and sigma, L = {frame['length'].min()} to {frame['length'].max()}",
            "closed form and Monte Carlo within 4 standard errors",
            f"at most {off.max():.2f} at {len(off)} points",
            bool(off.max() <= 4),
        ),
        Finding(
            "all d and sigma, L -> infinity",
            "sigma^2 [K (cs)^2 + (d-K)(c sigma^2)^2] to 1e-12",
            f"off by {gap:.1g} at most",
            gap < 1e-12,
        ),
    ]
    ratio = by.median().div([dim * sigma**2 for dim, sigma, _ in by.median().index])
    for length in (frame["length"].min(), frame["length"].max()):
        for dim in DIMS:
            shown = [ratio[dim, sigma, length] for sigma in SIGMAS]
            findings.append(
                Finding(
                    f"d = {dim}, L = {length}, sigma = {', '.join(f'{s:g}' for s in SIGMAS)}",
                    "variance within clusters smaller than the input's at each sigma",
                    "ratios " + ", ".join(f"{one:.2f}" for one in shown),
                    max(shown) < 1,
                )
            )
    mixture = _oracle(5, 1.0)
    copied = population_risk(
        mixture, np.eye(5), optimal_temperature(mixture, np.eye(5), np.inf), np.inf
    )
    heads = population_risk(mixture, np.eye(5)[:K], best_temperature(1.0, 5, np.inf, K), np.inf)
    findings.append(
        Finding(
            "risk R at its best scale, sigma = 1, d = 5, L -> infinity",
            "lower than that of the oracle heads: R rewards copying",
            f"{copied:.2f} against {heads:.2f}",
            bool(copied < heads),
        )
    )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Variance out over in, against the length of the prompt."""
    figure, axes = panels(len(DIMS))
    for ax, dim in zip(axes, DIMS, strict=True):
        part = frame[frame["dim"] == dim]
        part = part.assign(ratio=part["variance"] / (dim * part["sigma"] ** 2))
        bands(ax, part, "length", "ratio", "sigma", names={s: f"σ = {s:g}" for s in SIGMAS})
        lengths = np.geomspace(part["length"].min(), part["length"].max(), 60)
        for sigma in SIGMAS:
            curve = [_variance(dim, sigma, length) / (dim * sigma**2) for length in lengths]
            ax.plot(lengths, curve, color="#444444", linewidth=0.8, linestyle=":")
        ax.axhline(1, color="#444444", linewidth=0.8)
        ax.set(xscale="log", yscale="log", title=f"d = {dim}", xlabel="length L")
        ax.set_ylabel("variance within clusters, out / in")
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    part = frame[frame["dim"] == DIMS[0]]
    ratio = part["variance"] / (DIMS[0] * part["sigma"] ** 2)
    longest, shortest = part["length"].max(), part["length"].min()

    def at(sigma: float, length: int) -> str:
        chosen = (part["sigma"] == sigma) & (part["length"] == length)
        return f"{ratio[chosen].median():.2f}"

    return (
        f"Dotted lines are the closed form. In d = {DIMS[0]} at L = {longest} the clusters shrink "
        f"to {at(0.3, longest)} of their variance at sigma = 0.3, towards K/d = {K / DIMS[0]:g}, "
        "which is the noise within the centres' plane that stays. In short prompts the second "
        f"moment itself is noisy: at L = {shortest} the ratio is {at(0.1, shortest)} at sigma = "
        f"0.1 and {at(1.0, shortest)} at sigma = 1."
    )
