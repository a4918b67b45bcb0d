"""The layer without parameters adapts to the prompt; trained heads do not.

Two heads trained on prompts of two fixed centres quantise new prompts of those centres: each
cluster of the outputs is tighter than it was, and no harder to tell from the other. On prompts
whose centres are drawn anew the same heads do not; the parameter-free layer quantises both alike.
Qualified: at strong noise it does neither by much, since s = 1/K + sigma^2 is then little more than
the sigma^2 that all other directions have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from attnclust._typing import FloatArray, IntArray
from attnclust.attention import in_context_attention, linear_attention
from attnclust.manifold import random_heads, random_orthonormal
from attnclust.mixture import Mixture, sample_prompts
from attnclust.reproduce.claims import Finding, number, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.reproduce.runs import LENGTH, best_temperature, prompts_of
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

K, DIM, SHOWN_LENGTH = 2, 10, 100
SIGMAS = (0.1, 0.3, 0.5, 1.0)
STEPS = {False: 1000, True: 400}
N_PROMPTS = {False: 20, True: 8}
LLOYD_STEPS = 20
OWN, NEW = "own centres", "new centres"
INPUT, TRAINED, FREE = "input", "trained heads", "no parameters"
SEEDS = (30, 8)
SETTING = (
    f"K = {K} orthonormal centres, d = {DIM}. Heads: L = {LENGTH}, 16 fresh prompts a step, c half "
    f"of c*(L), strength 0.3 falling to 0, {STEPS[False]} steps (quick: {STEPS[True]}) of size "
    "0.2, 0.05 at sigma = 1. Shown to both layers at c = 1 / (1/K + sigma^2): "
    f"{N_PROMPTS[False]} prompts a seed (quick: {N_PROMPTS[True]}) of {SHOWN_LENGTH} tokens, of "
    "the trained centres, or each of its own. "
    "Within/total: share of the outputs' variance that is within clusters. ARI: of 2-means labels."
)


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Within/total variance, ARI and risk of inputs and outputs, means over a seed's prompts."""
    frames = []
    shape = (seeds, N_PROMPTS[quick])
    for sigma in SIGMAS:
        own = random_orthonormal(rng, K, DIM, (seeds,))
        heads = train_heads(
            prompts_of(own, sigma, 16, rng),
            random_heads(rng, own.shape),
            temperature=best_temperature(sigma, DIM, LENGTH, K) / 2,
            step_size=0.2 if sigma < 1 else 0.05,
            n_steps=STEPS[quick],
        ).heads
        c = 1 / (1 / K + sigma**2)
        for centres in (OWN, NEW):
            drawn = own[:, None] if centres == OWN else random_orthonormal(rng, K, DIM, shape)
            mixture = Mixture.equal(drawn, noise_variance=sigma**2)
            X, truth = sample_prompts(mixture, shape, SHOWN_LENGTH, rng)
            outputs = {
                INPUT: X,
                TRAINED: linear_attention(X, heads[:, None], c),
                FREE: in_context_attention(X, c),
            }
            for layer, Y in outputs.items():
                found = _two_means(Y)
                pairs = zip(
                    truth.reshape(-1, SHOWN_LENGTH), found.reshape(-1, SHOWN_LENGTH), strict=True
                )
                ari = np.array([adjusted_rand_score(*pair) for pair in pairs])
                columns = {
                    "share": _within(Y, truth).mean(-1),
                    "ari": ari.reshape(shape).mean(-1),
                    "risk": ((X - Y) ** 2).sum(-1).mean((-2, -1)),
                }
                frames.append(tidy(columns, sigma=sigma, centres=centres, layer=layer))
    return pd.concat(frames, ignore_index=True)


def _means(Y: FloatArray, labels: IntArray) -> FloatArray:
    """Mean of each cluster of each prompt, at its tokens: the shape of Y."""
    member = np.eye(K)[labels]
    across = np.swapaxes(member, -1, -2)
    count = np.maximum(across.sum(-1, keepdims=True), 1)
    return np.asarray(member @ (across @ Y / count))


def _within(Y: FloatArray, labels: IntArray) -> FloatArray:
    """Share of the variance of each prompt's outputs that is within clusters."""
    centred = Y - Y.mean(-2, keepdims=True)
    own = ((Y - _means(Y, labels)) ** 2).sum((-2, -1))
    return np.asarray(own / (centred**2).sum((-2, -1)))


def _two_means(Y: FloatArray) -> IntArray:
    """Lloyd steps of all prompts at once, started at the sides of their first principal axis."""
    Y = Y - Y.mean(-2, keepdims=True)
    axis = np.linalg.eigh(np.swapaxes(Y, -1, -2) @ Y)[1][..., -1:]
    side = (Y @ axis)[..., 0] > 0
    for _ in range(LLOYD_STEPS):
        weight = np.stack([side, ~side], -2).astype(Y.dtype)
        means = weight @ Y / np.maximum(weight.sum(-1, keepdims=True), 1)
        gap, middle = means[..., :1, :] - means[..., 1:, :], means.mean(-2, keepdims=True)
        side = ((Y - middle) * gap).sum(-1) > 0
    return np.asarray(side, dtype=np.intp)


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Which layer quantises which prompts: variance within clusters, and labels kept."""
    middle = frame.groupby(["sigma", "centres", "layer"])[["share", "ari", "risk"]].median()
    findings = []
    for sigma in SIGMAS:
        for layer in (TRAINED, FREE):
            for centres in (OWN, NEW):
                out, given = (
                    middle.loc[(sigma, centres, layer)],
                    middle.loc[(sigma, centres, INPUT)],
                )
                tight, kept = out["share"] / given["share"], out["ari"] / given["ari"]
                quantises = bool(tight < 0.9 < kept)
                fails = layer == TRAINED and centres == NEW
                findings.append(
                    Finding(
                        f"sigma {sigma:g}, {layer}, {centres}",
                        f"{'not ' if fails else ''}both: within/total below 0.9 of the inputs', "
                        "ARI above 0.9 of theirs",
                        f"{out['share']:.3f} against {given['share']:.3f}; ARI {out['ari']:.2f} "
                        f"against {given['ari']:.2f}",
                        quantises != fails,
                    )
                )
        own, new = (middle.loc[(sigma, centres, TRAINED), "risk"] for centres in (OWN, NEW))
        findings.append(
            Finding(
                f"sigma {sigma:g}, {TRAINED}, risk R",
                "higher on new centres than on their own",
                f"{number(new)} against {number(own)}",
                bool(new > own),
            )
        )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Variance within clusters on both kinds of prompts; ARI on new ones."""
    figure, axes = panels(3, width=3.7)
    views = (("share", OWN), ("share", NEW), ("ari", NEW))
    for ax, (column, centres) in zip(axes, views, strict=True):
        part = frame[frame["centres"] == centres]
        bands(
            ax, part, "sigma", column, "layer", names={way: way for way in (INPUT, TRAINED, FREE)}
        )
        ax.set(title=centres, xlabel="noise σ", ylim=(-0.04, 1.04))
        ax.set_ylabel("within / total variance" if column == "share" else "ARI of 2-means labels")
    for ax in axes[1:]:
        ax.legend(handles=[], frameon=False)
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    middle = frame.groupby(["sigma", "centres", "layer"])[["share", "ari"]].median()

    def at(centres: str, layer: str, column: str = "share", sigma: float = 0.3) -> str:
        return f"{middle.loc[(sigma, centres, layer), column]:.2f}"

    return (
        f"At sigma = 0.3, {at(OWN, INPUT)} of the variance of the tokens is within clusters. Of "
        f"the outputs it is {at(OWN, TRAINED)} for trained heads on their own centres, but "
        f"{at(NEW, TRAINED)} on new ones, whose plane the heads see at a slant: the ARI falls "
        f"from {at(NEW, INPUT, 'ari')} to {at(NEW, TRAINED, 'ari')}. The layer without parameters "
        f"has {at(OWN, FREE)} and {at(NEW, FREE)}, and an ARI of {at(NEW, FREE, 'ari')} on new "
        f"centres. At sigma = 1 it changes little: {at(NEW, FREE, sigma=1.0)} of the variance is "
        f"within clusters, of the inputs' {at(NEW, INPUT, sigma=1.0)}."
    )
