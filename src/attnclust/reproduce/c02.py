"""Started on the invariant manifold, gradient descent needs no regulariser.

On the manifold mu_h = alpha_h m_h + v_h, with v_h off the centres' plane and v_0 orthogonal to v_1.
For orthonormal centres of any weights the population gradient never leaves it, at any sigma and L;
with c below c_tilt and equal weights each head goes to sign(alpha_h) m_h, and alpha_h = 0 is a
saddle. Sampled prompts leave it, unequal weights make it unstable to rounding, and above c_tilt
the heads stop short of the centres.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attnclust._typing import FloatArray
from attnclust.manifold import random_orthonormal, retract, tangent
from attnclust.mixture import Mixture
from attnclust.reproduce.claims import Finding, band, number, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.reproduce.runs import DIM, LENGTH, best_temperature, prompts_of
from attnclust.starts import manifold_heads
from attnclust.theory import population_gradient
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIGMAS = (0.0, 0.1, 0.3, 1.0)
WEIGHTS = np.array([0.6, 0.4])
LEAST = 1e-3
N_STEPS, N_PROMPTS = {False: 3000, True: 1000}, 16
SEEDS = (30, 6)
FLOW, SADDLE, HOT = "population", "population, alpha_0 = 0", "population, c = c*(inf)"
UNEQUAL, SAMPLED = f"population, weights {WEIGHTS[0]:g} and {WEIGHTS[1]:g}", "sampled prompts"
SETTING = (
    f"K = H = 2, d = {DIM}, L = {LENGTH}, no regulariser, starts uniform on the manifold with "
    f"|alpha| at least {LEAST:g}, {N_STEPS[False]} steps of size 0.2 (quick: {N_STEPS[True]}; 0.1 "
    f"at sigma = 1) along the population gradient in double precision, or along that of "
    f"{N_PROMPTS} prompts a step. c half of c*(L) but where it says c*(inf), at sigma = 0."
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
    for way in (FLOW, SADDLE, HOT, UNEQUAL, SAMPLED):
        n_steps = 1000 if way == SADDLE else N_STEPS[quick]
        for sigma in SIGMAS if way in (FLOW, SAMPLED) else (0.0,) if way == HOT else (0.3,):
            centroids = random_orthonormal(rng, 2, DIM, (seeds,))
            start = manifold_heads(rng, centroids, LEAST)
            if way == SADDLE:
                off = start[:, 0] - (start[:, :1] * centroids[:, :1]).sum(-1) * centroids[:, 0]
                start[:, 0] = off / np.linalg.norm(off, axis=-1, keepdims=True)
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
        if way in (FLOW, SADDLE, HOT, UNEQUAL):
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
            early = part[part["step"] == 50]["first"]
            findings.append(
                Finding(
                    f"{name}, 50 steps",
                    "alignment of head 0 stays below 1e-8",
                    f"at most {early.max():.1e} ({end['first'].max():.1e} at the end)",
                    bool(early.max() < 1e-8),
                )
            )
        elif way == HOT:
            found = end["alignment"]
            findings.append(
                Finding(
                    name,
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
    shown = frame[(frame["sigma"] == 0.3) & (frame["way"] != SADDLE)]
    names = {way: way for way in shown["way"].unique()}
    floor = shown.assign(residual=shown["residual"].clip(lower=1e-18))
    bands(left, floor, "step", "residual", "way", names=names)
    left.set(yscale="log", xlabel="step", ylabel="distance from the manifold", title="σ = 0.3")
    left.axhline(1e-8, color="#444444", linewidth=0.8, linestyle=":")
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
    return (
        f"Along the population gradient the constraints stay within {farthest[FLOW]:.0e}, and "
        f"sampled prompts leave them by up to {number(farthest[SAMPLED])}. With unequal weights "
        f"rounding grows to {farthest[UNEQUAL]:.0e}: the manifold is still invariant there, but no "
        "longer attracts. A head with no part of its centre to begin with gains none until "
        "rounding has given it one. Without noise sampled prompts differ only in their weights, "
        "and stay."
    )
