"""Aligned or opposite centres are told apart by the lift, not by direction alone.

Of two centres on one line through the origin the layer sees one direction, so heads trained on it
cannot take a centre each. A constant coordinate appended to the tokens (the affine lift) makes any
affinely independent centres linearly independent, and the fixed point then recovers them.
Corrected: opposite centres are told apart by direction if the sign of <x, mu> is used, since one
head is enough for that; and three centres on a line are not affinely independent, so that only
refinement finds them for sure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from attnclust.estimators import AttentionClustering
from attnclust.manifold import match, random_heads
from attnclust.mixture import Mixture, bayes_labels, sample_prompts
from attnclust.plotting import COLOURS, MARKERS
from attnclust.reproduce.claims import Finding, band, tidy
from attnclust.reproduce.pictures import panels
from attnclust.reproduce.runs import LENGTH, best_temperature, prompts_of
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIM = 10
PLACES = {"aligned": (1.0, 2.0), "opposite": (1.0, -1.0), "three on a line": (1.0, 2.0, 3.0)}
SIGMAS = (0.1, 0.3)
ROWS = {False: 5000, True: 2000}
STEPS = {False: 1000, True: 400}
SEEDS = (30, 5)
SIZE, SIGN, UNLIFTED, LIFTED, REFINED, BAYES = WAYS = (
    "plain, |<x, mu>|",
    "plain, <x, mu>",
    "no lift",
    "lift",
    "lift, refined",
    "Bayes",
)
SETTING = (
    f"Centres at {', '.join(f'{name} {at}' for name, at in PLACES.items())} times a random unit "
    f"vector in d = {DIM}, equal weights, {ROWS[False]} tokens to label (quick: {ROWS[True]}). "
    f"Plain heads: H = K, L = {LENGTH}, 16 fresh prompts a step, tokens scaled to centres of root "
    f"mean square length one, {STEPS[False]} steps of size 0.1 (quick: {STEPS[True]}), strength "
    "0.3 falling to 0, c half of c*(L); signs, where used, are resolved by the truth. Lift and no "
    "lift: normalised tokens, fixed point."
)


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Adjusted Rand index of each way and of the Bayes rule."""
    frames = []
    for name, places in PLACES.items():
        unit = np.array(places)[:, None] / np.sqrt(np.mean(np.square(places)))
        for sigma in SIGMAS:
            scaled = sigma * unit[0, 0] / places[0]
            centroids = unit * random_heads(rng, (seeds, 1, DIM))
            heads = train_heads(
                prompts_of(centroids, scaled, 16, rng),
                random_heads(rng, centroids.shape),
                temperature=best_temperature(scaled, DIM, LENGTH, len(places)) / 2,
                step_size=0.1,
                n_steps=STEPS[quick],
            ).heads
            signed = match(heads, centroids)
            found = {way: np.empty(seeds) for way in WAYS}
            for seed in range(seeds):
                mixture = Mixture.equal(centroids[seed], noise_variance=scaled**2)
                (X,), (truth,) = sample_prompts(mixture, 1, ROWS[quick], rng)
                labels = {
                    SIZE: np.abs(X @ heads[seed].T).argmax(1),
                    SIGN: (X @ signed[seed].T).argmax(1),
                    BAYES: bayes_labels(mixture, X),
                }
                for way in (UNLIFTED, LIFTED, REFINED):
                    model = AttentionClustering(
                        len(places),
                        lift="none" if way == UNLIFTED else "affine",
                        refine=way == REFINED,
                        random_state=int(rng.integers(2**31)),
                    )
                    labels[way] = model.fit(X).labels_
                for way, own in labels.items():
                    found[way][seed] = adjusted_rand_score(truth, own)
            frames += [
                tidy({"ari": found[way]}, centres=name, sigma=sigma, way=way) for way in WAYS
            ]
    return pd.concat(frames, ignore_index=True)


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Nothing by direction, the Bayes rule's index by the lift."""
    findings = []
    for (name, sigma), part in frame.groupby(["centres", "sigma"], sort=False):
        ari = part.pivot(index="seed", columns="way", values="ari")
        short = ari.rsub(ari[BAYES], axis=0)
        reached = [REFINED] if name == "three on a line" else [LIFTED]
        for way in (SIZE, SIGN):
            findings.append(Finding.below(f"{name}, sigma {sigma:g}, {way}", "ARI", ari[way], 0.05))
        for way in (LIFTED, REFINED) if name == "three on a line" else (UNLIFTED, LIFTED):
            holds = short[way].median() < 0.02 if way in reached else short[way].median() > 0.1
            findings.append(
                Finding(
                    f"{name}, sigma {sigma:g}, {way}",
                    "ARI "
                    + ("within 0.02" if way in reached else "more than 0.1 short")
                    + f" of the Bayes rule's {ari[BAYES].median():.3f}",
                    band(ari[way]),
                    bool(holds),
                )
            )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Every run's index, by way, one panel per place of the centres."""
    figure, axes = panels(3, width=3.7, height=3.8)
    for ax, name in zip(axes, PLACES, strict=True):
        for step, sigma in enumerate(SIGMAS):
            part = frame[(frame["centres"] == name) & (frame["sigma"] == sigma)]
            for place, way in enumerate(WAYS):
                values = np.sort(part.loc[part["way"] == way, "ari"])
                at = place + 0.4 * (step - 0.5)
                ax.scatter(
                    values,
                    at + 0.1 * np.sin(2.4 * np.arange(len(values))),
                    s=10,
                    alpha=0.5,
                    color=COLOURS[step],
                    marker=MARKERS[step],
                    linewidths=0,
                    label=f"σ = {sigma:g}" if place == 0 else None,
                )
                ax.plot([np.median(values)] * 2, [at - 0.18, at + 0.18], color="#222222", lw=1.6)
        shown = [way.replace("mu", "μ") for way in WAYS] if ax is axes[0] else [""] * len(WAYS)
        ax.set_yticks(range(len(WAYS)), shown)
        ax.invert_yaxis()
        places = ", ".join(f"{place:g}" for place in PLACES[name])
        ax.set(title=f"{name} ({places})", xlabel="ARI", ylabel="labels by", xlim=(-0.08, 1.06))
    axes[0].legend(frameon=False, fontsize=8, loc="lower left", markerscale=1.6)
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    ari = frame.groupby(["centres", "sigma", "way"])["ari"].median()
    quiet, noisy = SIGMAS
    return (
        f"By the size of <x, mu> the ARI of two centres at sigma = {quiet:g} is "
        f"{ari['aligned', quiet, SIZE]:.2f} (aligned) and {ari['opposite', quiet, SIZE]:.2f} "
        f"(opposite); with the lift it is {ari['aligned', quiet, LIFTED]:.2f} and "
        f"{ari['opposite', quiet, LIFTED]:.2f}. The sign of <x, mu> alone gives opposite centres "
        f"{ari['opposite', quiet, SIGN]:.2f} at sigma = {quiet:g} and "
        f"{ari['opposite', noisy, SIGN]:.2f} at {noisy:g}: one head along the line tells them "
        "apart, the other only adds noise. For three centres on a line one whitened direction is "
        f"noise: the lift alone gives {ari['three on a line', quiet, LIFTED]:.2f} and "
        f"{ari['three on a line', noisy, LIFTED]:.2f}, refined "
        f"{ari['three on a line', quiet, REFINED]:.2f} and "
        f"{ari['three on a line', noisy, REFINED]:.2f}."
    )
