"""Softmax heads, in place of linear ones, find the clusters.

Softmax heads average the tokens by softmax_j[(<x, m_j> - |m_j|^2 / 2) / t + log w_j], which is the
EM step of a spherical mixture. They need what linear heads do not. A start: from random tokens,
with the temperature t learnt, they stop at the nearest optimum, on raw keys and on normalised ones.
Or a temperature: above the leading eigenvalue of the tokens' covariance all heads fall together,
and just below it fewer optima are left to stop at. Linear heads supply start and temperature.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from attnclust._typing import FloatArray, IntArray
from attnclust.attention import softmax_attention
from attnclust.estimators import AttentionClustering
from attnclust.manifold import random_heads
from attnclust.mixture import bayes_labels, sample_prompts
from attnclust.moments import spectrum
from attnclust.normalization import normalize
from attnclust.reproduce.c23 import QUICK, SETTINGS, dots, losses, mixture_of
from attnclust.reproduce.claims import Finding, band, number, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_TOKENS = {False: 5000, True: 1500}
MAX_STEPS = 200
SEEDS = (10, 4)
METHODS = (
    "softmax, from linear heads",
    "softmax, from random tokens",
    "softmax, from random tokens, t held",
    "softmax, from random tokens, normalised keys",
    "linear heads alone",
)
# Share of the leading eigenvalue at which t is held.
SHARE = 0.6
# Other held temperatures, in units of sigma^2, and where they are tried.
SCALES = (1 / 16, 1 / 4, 1.0, 2.0, 4.0, 8.0, 16.0)
SWEPT = QUICK[0]
SETTING = (
    f"{N_TOKENS[False]} tokens per seed (quick: {N_TOKENS[True]}), random unit centres. Linear "
    "heads: the fixed point on normalised keys, unrefined. Softmax steps until no centre moves by "
    f"0.001 of the root of t, at most {MAX_STEPS}. Weights and t learnt, t from the noise "
    "variance that came with the linear heads, or from the variance of all tokens; or weights "
    f"equal and t held at {SHARE} of the leading eigenvalue (and, at {SWEPT}, at {SCALES[0]:g} to "
    f"{SCALES[-1]:g} sigma^2)."
)


def softmax_steps(
    tokens: FloatArray,
    centroids: FloatArray,
    noise: FloatArray,
    weights: FloatArray,
    *,
    learn: bool = True,
    max_steps: int = MAX_STEPS,
) -> tuple[FloatArray, IntArray, IntArray]:
    """Softmax attention from K centres of each run until they stand still.

    Returns centres (R, K, d), labels (R, n) and the steps (R,) until the run stood still.
    """
    square = (tokens**2).sum(-1).mean(-1)
    steps = np.zeros(len(tokens), dtype=int)
    for step in range(1, max_steps + 1):
        attention = softmax_attention(tokens, centroids, np.log(weights), noise)
        counts = np.maximum(attention.sum(-2), 1e-12)
        moved = np.swapaxes(attention, -1, -2) @ tokens / counts[..., None]
        far = np.abs(moved - centroids).max((-2, -1)) > 1e-3 * np.sqrt(noise)
        centroids = moved
        if learn:
            weights = counts / counts.sum(-1, keepdims=True)
            noise = (square - (weights * (centroids**2).sum(-1)).sum(-1)) / tokens.shape[-1]
        steps[far] = step
        if not far.any():
            break
    labels = softmax_attention(tokens, centroids, np.log(weights), noise).argmax(-1)
    return centroids, labels, steps


def em_difference(X: FloatArray, centroids: FloatArray, noise: float, weights: FloatArray) -> float:
    """Largest difference of centres after a softmax step and after scikit-learn's EM step."""
    model = GaussianMixture(
        len(weights),
        covariance_type="spherical",
        weights_init=weights,
        means_init=centroids,
        precisions_init=np.full(len(weights), 1 / noise),
        max_iter=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # one step is all that is wanted
        model.fit(X)
    start = (one[None] for one in (X, centroids, np.array(noise), weights))
    moved, _, _ = softmax_steps(*start, max_steps=1)
    return float(np.abs(moved[0] - model.means_).max())


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """ARI, steps and seconds of each way, and of held temperatures in one setting."""
    frames = []
    for setting in QUICK if quick else SETTINGS:
        k, d, sigma, _ = SETTINGS[setting]
        truth = mixture_of(setting, random_heads(rng, (seeds, 1, k, d)))
        prompts, assignments = sample_prompts(truth, (seeds, 1), N_TOKENS[quick], rng)
        X, known = prompts[:, 0], assignments[:, 0]
        leading = np.array([np.linalg.eigvalsh(np.cov(one.T))[-1] for one in X])

        begun = time.perf_counter()
        linear = [
            AttentionClustering(k, refine=False, random_state=int(rng.integers(2**31))).fit(one)
            for one in X
        ]
        of_heads = (time.perf_counter() - begun) / seeds
        begun = time.perf_counter()
        z = np.array(
            [normalize(spectrum(one, k, rng), k).project(one) for one in map(Tokens, X)],
        )
        of_keys = (time.perf_counter() - begun) / seeds

        heads, weights, noise = (
            np.array([getattr(one, name) for one in linear])
            for name in ("cluster_centers_", "weights_", "noise_variance_")
        )
        even = np.full((seeds, k), 1 / k)
        picks = np.array([rng.choice(X.shape[1], k, replace=False) for _ in range(seeds)])
        start, z_start = (np.take_along_axis(one, picks[..., None], 1) for one in (X, z))
        shared = {
            "bayes": _scores(known, bayes_labels(truth, prompts)[:, 0]),
            "critical": leading / sigma**2,
            "difference": np.array(
                [em_difference(*run) for run in zip(X, heads, noise, weights, strict=True)]
            ),
        }
        learnt = [
            (METHODS[0], X, heads, noise, weights, of_heads),
            (METHODS[1], X, start, X.var(1).mean(-1), even, 0.0),
            (METHODS[3], z, z_start, z.var(1).mean(-1), even, of_keys),
        ]
        held = [(METHODS[2], start, 0.0, SHARE * leading)]
        if setting == SWEPT:
            held += [
                (method, first, scale, np.full(seeds, scale * sigma**2))
                for scale in SCALES
                for method, first in ((METHODS[0], heads), (METHODS[1], start))
            ]
        for method, keys, first, t, w, before, scale, learn in [
            *((*run, 0.0, True) for run in learnt),
            *((method, X, first, t, even, 0.0, scale, False) for method, first, scale, t in held),
        ]:
            begun = time.perf_counter()
            centres, labels, steps = softmax_steps(keys, first, t, w, learn=learn)
            # All runs advance until the last stands still.
            each = (time.perf_counter() - begun) / seeds * (steps + 1) / (steps.max() + 1)
            columns = {
                "ari": _scores(known, labels),
                "spread": np.sqrt(centres.var(-2).sum(-1) / keys.var(-2).sum(-1)),
                "steps": steps,
                "seconds": before + each,
            }
            frames.append(tidy(columns | shared, setting=setting, method=method, scale=scale))
        columns = {
            "ari": _scores(known, np.array([one.labels_ for one in linear])),
            "spread": np.sqrt(heads.var(-2).sum(-1) / X.var(-2).sum(-1)),
            "steps": np.zeros(seeds, dtype=int),
            "seconds": np.full(seeds, of_heads),
        }
        frames.append(tidy(columns | shared, setting=setting, method=METHODS[4], scale=0.0))
    return pd.concat(frames, ignore_index=True)


def _scores(known: IntArray, labels: IntArray) -> FloatArray:
    return np.array([adjusted_rand_score(*pair) for pair in zip(known, labels, strict=True)])


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Softmax heads in each setting, by start and temperature; what they need, over all."""
    worst = float(frame["difference"].max())
    findings = [
        Finding(
            "all settings",
            "a softmax step moves the centres where scikit-learn's EM step does, to 1e-9",
            f"at most {worst:.1g} apart",
            worst < 1e-9,
        )
    ]
    table = losses(frame[frame["scale"] == 0])
    for (setting, method), part in table.groupby(["setting", "method"], sort=False):
        if method in METHODS[:3]:
            findings.append(_near(f"{setting}: {method}", part))
    by_run = table.pivot(index=["setting", "seed"], columns="method", values=["lost", "steps"])
    lost, steps = by_run["lost"], by_run["steps"]
    findings += [
        Finding.above(
            f"all settings: {METHODS[1]}",
            "ARI on normalised keys, less that on raw ones,",
            lost[METHODS[1]] - lost[METHODS[3]],
            0,
        ),
        Finding.below(
            "all settings",
            "steps from linear heads, over those from random tokens, with t learnt",
            steps[METHODS[0]] / np.maximum(steps[METHODS[1]], 1),
            1,
        ),
    ]
    sweep = losses(frame[frame["scale"] > 0])
    cold = sweep[sweep["scale"] <= 1]
    for method in METHODS[:2]:
        findings.append(
            _near(f"{SWEPT}: {method}, t held at most at sigma^2", cold[cold["method"] == method])
        )
    hot = sweep[sweep["scale"] == SCALES[-1]]
    findings.append(
        Finding(
            f"{SWEPT}: t held at {SCALES[-1]:g} sigma^2",
            "above the leading eigenvalue heads fall together: spread below 0.01 of the tokens'",
            f"leading eigenvalue {band(hot['critical'])} sigma^2, spread {band(hot['spread'])}",
            bool(hot["critical"].max() < SCALES[-1] and hot["spread"].median() < 0.01),
        )
    )
    return findings


def _near(setting: str, part: pd.DataFrame) -> Finding:
    return Finding(
        setting,
        f"ARI within 0.01 of the Bayes rule's {number(part['bayes'].median())} in the median",
        band(part["ari"]),
        bool(part["lost"].median() <= 0.01),
    )


def draw(frame: pd.DataFrame) -> Figure:
    """What is lost to the Bayes rule, steps, and what held temperatures do."""
    figure, axes = panels(3, width=3.5, height=5.2)
    table, sweep = frame[frame["scale"] == 0], frame[frame["scale"] > 0]
    dots(axes[0], losses(table), "lost", list(METHODS), True)
    dots(axes[1], table, "steps", list(METHODS), False)
    bands(axes[2], sweep, "scale", "ari", "method", order=METHODS[:2])
    axes[2].axvline(sweep["critical"].median(), color="#444444", linewidth=0.8, linestyle=":")
    axes[0].set_xlabel("Bayes rule's ARI less the run's")
    axes[1].set_xlabel("softmax steps")
    axes[2].set(xlabel="t held, in units of σ²\n(dotted: the leading eigenvalue)", ylabel="ARI")
    axes[2].set_xscale("log")
    axes[2].set_title(SWEPT, fontsize=9)
    axes[2].legend().remove()
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3, fontsize=8)
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    table = losses(frame[frame["scale"] == 0])
    middle = table.groupby(["method", "setting"])["lost"].median()
    near = [f"{(middle[m] <= 0.01).sum()} of {len(middle[m])} settings" for m in METHODS]
    steps, seconds = (table.groupby("method")[name].median() for name in ("steps", "seconds"))
    sweep = frame[frame["scale"] > 0]
    best = sweep[sweep["method"] == METHODS[1]].groupby("scale")["ari"].median()
    spent = ", ".join(
        f"{steps[m]:.0f} steps and {1000 * seconds[m]:.0f} ms" for m in (METHODS[:2] + METHODS[3:4])
    )
    return (
        "With t learnt, softmax heads come within 0.01 of the Bayes rule's ARI in "
        f"{near[0]} from linear heads (which alone do in {near[4]}), in {near[1]} from random "
        f"tokens, in {near[3]} from random tokens on normalised keys, where the noise is not "
        f"round; in the median these take {spent}, the start included. "
        f"With t held at {SHARE} of the leading eigenvalue random "
        f"tokens do in {near[2]}; at {SWEPT} they do best at t = {best.idxmax():g} sigma^2 (ARI "
        f"{number(best.max())}), against {number(best.iloc[0])} at the coldest and "
        f"{number(best.iloc[-1])} at the hottest."
    )
