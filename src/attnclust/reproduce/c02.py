"""Started on the invariant manifold, gradient descent needs no regulariser.

On the manifold mu_h = alpha_h m_h + v_h, with v_h off the centres' plane and v_0 orthogonal to v_1.
For orthonormal centres of any weights the population gradient never leaves it, at any sigma and L;
with c below c_tilt and equal weights each head goes to sign(alpha_h) m_h, and alpha_h = 0 is a
saddle. Sampled prompts with noise leave it, unequal weights make it unstable to rounding, and above
c_tilt the heads stop short of the centres.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attnclust._typing import FloatArray
from attnclust.manifold import normalize, random_orthonormal, retract, tangent
from attnclust.mixture import Mixture
from attnclust.reproduce.claims import Finding, band, number, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.reproduce.runs import DIM, LENGTH, best_temperature, prompts_of
from attnclust.starts import manifold_heads
from attnclust.theory import population_gradient, tilt_temperature
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIGMAS = (0.0, 0.1, 0.3, 1.0)
WEIGHTS = np.array([0.7, 0.3])
LEAST = 1e-3
N_STEPS, SADDLE_STEPS, N_PROMPTS = {False: 3000, True: 1000}, 600, 16
EARLY = 300  # steps after which the growth of rounding is told
SEEDS = (30, 6)
FLOW, HOT = "population", "population, c = c*(inf)"
SADDLE, ROUNDED = "population, alpha_0 = 0 exactly", "population, alpha_0 = 0 to rounding"
UNEQUAL, SAMPLED = f"population, weights {WEIGHTS[0]:g} and {WEIGHTS[1]:g}", "sampled prompts"
SETTING = (
    f"K = H = 2, d = {DIM}, L = {LENGTH}, no regulariser, starts uniform on the manifold with "
    f"|alpha| at least {LEAST:g}, {N_STEPS[False]} steps of size 0.2 (quick: {N_STEPS[True]}; 0.1 "
    f"at sigma = 1) along the population gradient in double precision ({SADDLE_STEPS} steps where "
    f"alpha_0 = 0), or half as many along that of {N_PROMPTS} prompts a step. c half of c*(L) but "
    "where it says c*(inf), at sigma = 0."
)


def residual(heads: FloatArray, centroids: FloatArray) -> FloatArray:
    """Largest of |<mu_0, m_1>|, |<mu_1, m_0>| and |<v_0, v_1>|, which vanish on the manifold."""
    cross = heads @ np.swapaxes(centroids, -1, -2)
    v = heads - cross @ centroids
    pair = np.abs((v[..., 0, :] * v[..., 1, :]).sum(-1))
    sideways = np.maximum(np.abs(cross[..., 0, 1]), np.abs(cross[..., 1, 0]))
    return np.asarray(np.maximum(pair, sideways))


def _flow(
    mixture: Mixture, heads: FloatArray, c: float, step_size: float, n_steps: int
) -> list[tuple[int, FloatArray]]:
    """Descent on the population risk, recorded twenty times."""
    records = []
    for step in range(n_steps + 1):
        if step % (n_steps // 20) == 0:
            records.append((step, heads))
        gradient = tangent(heads, population_gradient(mixture, heads, c, LENGTH))
        heads = retract(heads, -step_size * gradient)
    return records


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Distance from the manifold and alignment of the worse head, along descent."""
    frames = []
    for way in (FLOW, SADDLE, ROUNDED, HOT, UNEQUAL, SAMPLED):
        n_steps = SADDLE_STEPS if way in (SADDLE, ROUNDED) else N_STEPS[quick]
        for sigma in SIGMAS if way in (FLOW, SAMPLED) else (0.0,) if way == HOT else (0.3,):
            centroids = random_orthonormal(rng, 2, DIM, (seeds,))
            if way == SADDLE:  # only along the axes are products with the centres exactly zero
                centroids = np.broadcast_to(np.eye(DIM)[:2], centroids.shape)
            start = manifold_heads(rng, centroids, LEAST)
            if way in (SADDLE, ROUNDED):
                start[:, 0] -= (start[:, 0] * centroids[:, 0]).sum(-1, keepdims=True) * centroids[
                    :, 0
                ]
                start[:, 0] = normalize(start[:, 0])
            c = best_temperature(sigma, DIM, LENGTH, 2) / 2
            step_size = 0.1 if sigma == 1 else 0.2
            if way == SAMPLED:
                history = train_heads(
                    prompts_of(centroids, sigma, N_PROMPTS, rng),
                    start,
                    temperature=c,
                    strength=0.0,
                    step_size=step_size,
                    n_steps=n_steps // 2,
                    record=n_steps // 20,
                ).history
                records = list(zip(history.steps.tolist(), history.heads, strict=True))
            else:
                weights = WEIGHTS if way == UNEQUAL else np.full(2, 0.5)
                c = best_temperature(sigma, DIM, np.inf, 2) if way == HOT else c
                mixture = Mixture(centroids, weights, sigma**2)
                records = _flow(mixture, start, c, step_size, n_steps)
            for step, heads in records:
                cosine = np.abs((heads * centroids).sum(-1))
                columns = {
                    "residual": residual(heads, centroids),
                    "first": cosine[:, 0],
                    "alignment": cosine.min(1),
                }
                frames.append(tidy(columns, way=way, sigma=sigma, step=step))
    return pd.concat(frames, ignore_index=True)


def judge(frame: pd.DataFrame) -> list[Finding]:
    """The manifold is kept where it should be, and where the heads end."""
    findings = []
    for (way, sigma), part in frame.groupby(["way", "sigma"], sort=False):
        name = f"{way}, sigma {sigma:g}"
        farthest = part.groupby("seed")["residual"].max()
        end = part[part["step"] == part["step"].max()]
        if way in (FLOW, HOT):
            findings.append(
                Finding(
                    name,
                    "constraints kept within 1e-8",
                    f"at most {farthest.max():.1e}",
                    bool(farthest.max() < 1e-8),
                )
            )
        if way == FLOW:
            findings.append(Finding.above(name, "alignment at the end", end["alignment"], 0.999))
        elif way == SADDLE:
            most = part["first"].max()
            findings.append(
                Finding(
                    name,
                    "alignment of head 0 stays below 1e-8",
                    f"at most {most:.1e}",
                    bool(most < 1e-8),
                )
            )
        elif way == ROUNDED:
            first = "alignment of head 0 at the end, from rounding alone,"
            findings.append(Finding.above(name, first, end["first"], 0.999))
        elif way == UNEQUAL:
            largest = part.groupby("step")["residual"].max()
            early = largest[largest.index <= EARLY].max()
            grown = largest.iloc[-1] / largest[largest.index <= EARLY].iloc[-1]
            findings += [
                Finding(
                    f"{name}, up to step {EARLY}",
                    "constraints kept within 1e-8",
                    f"at most {early:.1e}",
                    bool(early < 1e-8),
                ),
                Finding(
                    f"{name}, from step {EARLY} on",
                    "unstable: the largest residual grows more than tenfold",
                    f"{grown:.1e} fold, to {largest.iloc[-1]:.1e} in {largest.index[-1]} steps",
                    bool(grown > 10),
                ),
            ]
        elif way == HOT:
            found = end["alignment"]
            findings.append(
                Finding(
                    f"{name} (c {number(best_temperature(sigma, DIM, np.inf, 2))}, c_tilt "
                    f"{number(tilt_temperature(sigma, DIM, LENGTH, 2))})",
                    "ends at alignment 0.969, short of the centres",
                    band(found),
                    bool(abs(found.median() - 0.969) < 5e-4),
                )
            )
        elif way == SAMPLED:
            findings.append(
                Finding(
                    name,
                    "constraints left by more than 1e-3" if sigma else "kept to single precision",
                    band(farthest),
                    bool(farthest.median() > 1e-3) if sigma else bool(farthest.max() < 1e-5),
                )
            )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Distance from the manifold and misalignment, along descent."""
    figure, (left, right) = panels(2)
    shown = frame[(frame["sigma"] == 0.3) & frame["way"].isin([FLOW, UNEQUAL, SAMPLED])]
    largest = shown.groupby(["way", "step"], sort=False)["residual"].max().reset_index()
    names = {way: way for way in largest["way"].unique()}
    bands(left, largest, "step", "residual", "way", names=names)
    left.set(yscale="log", xlabel="step", ylabel="largest residual of the constraints")
    left.set(title="σ = 0.3", ylim=(1e-17, 1e3))
    left.axhline(1e-8, color="#444444", linewidth=0.8, linestyle=":")
    left.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1, 0.14))
    flow = frame[frame["way"] == FLOW]
    flow = flow.assign(gap=(1 - flow["alignment"]).clip(lower=1e-16))
    names = {sigma: f"σ = {sigma:g}" for sigma in SIGMAS}
    bands(right, flow, "step", "gap", "sigma", names=names)
    right.set(yscale="log", xlabel="step", ylabel="1 - alignment of the worse head")
    right.set_title("population gradient, c below c_tilt")
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    farthest = frame.groupby("way")["residual"].max()
    rounded = frame[(frame["way"] == ROUNDED) & (frame["step"] == SADDLE_STEPS)]["first"]
    return (
        f"Along the population gradient the constraints stay within {farthest[FLOW]:.0e}, while "
        f"sampled prompts leave them by up to {number(farthest[SAMPLED])}; without noise these "
        "differ in their weights alone, and stay. With unequal weights the manifold is invariant "
        f"but no longer attracts, and rounding grows to {farthest[UNEQUAL]:.0e}. A head exactly "
        f"orthogonal to its centre stays so; of those that are so to rounding "
        f"{(rounded > 0.999).mean():.0%} find it, and the rest move too little for the last digit."
    )
