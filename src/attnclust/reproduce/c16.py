"""Fewer heads than clusters do as spectral methods of the same rank.

H < K heads are to span the top H eigenvectors of S, so that k-means on their scores groups tokens
as k-means on the leading eigenvectors does, and with a regulariser each head is to be one of the
heaviest centres. But the risk at unit heads shares their number out among the eigenvalues, more of
M to the lesser: where eigenvalues are near each other, the span leans towards those left out, and
heads lean from single centres.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.metrics import adjusted_rand_score

from attnclust._typing import FloatArray
from attnclust.manifold import alignment, polar, random_heads, random_orthonormal
from attnclust.mixture import Mixture, sample_prompts
from attnclust.reproduce.claims import Finding, band, number, tidy
from attnclust.reproduce.pictures import bands, panels
from attnclust.reproduce.runs import LENGTH, prompts_of
from attnclust.theory import optimal_temperature
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

K, DIM, SIGMA, N_PROMPTS, STRENGTH = 6, 10, 0.15, 16, 1.0
WEIGHTS = np.array([0.30, 0.24, 0.18, 0.13, 0.09, 0.06])
HEADS = {False: (2, 3, 4, 5), True: (2, 4)}
STEPS = {False: (3000, 0.2), True: (1000, 0.4)}
N_TOKENS = {False: 1500, True: 600}
SEEDS = (20, 5)
NONE, VANISHING = "none", f"{STRENGTH:g} falling to 0"
SETTING = (
    f"K = {K} orthonormal centres of weights {', '.join(f'{w:g}' for w in WEIGHTS)}, so that the "
    f"eigenvectors of S are told apart, d = {DIM}, sigma = {SIGMA}, L = {LENGTH}, {N_PROMPTS} "
    f"fresh prompts per step, c half of the best for the top eigenvectors, {STEPS[False][0]} steps "
    f"of size {STEPS[False][1]} (quick: {STEPS[True][0]} of {STEPS[True][1]}). ARI on "
    f"{N_TOKENS[False]:,} tokens (quick: {N_TOKENS[True]}), k-means with 5 starts on scores on a "
    "basis. Spectral clustering: scikit-learn's, with as many components, on a Gaussian kernel."
)


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Span and ARI of trained heads, and ARI of spectral methods of the same rank."""
    frames = []
    n_steps, step_size = STEPS[quick]
    for n_heads in HEADS[quick]:
        centroids = random_orthonormal(rng, K, DIM, (seeds,))
        order = np.argsort(-WEIGHTS)[:n_heads]
        top = centroids[:, order]  # eigenvectors of S: the heaviest centres
        first = Mixture(centroids[0], WEIGHTS, SIGMA**2)
        c = float(optimal_temperature(first, top[0], LENGTH)) / 2
        start = random_heads(rng, (seeds, n_heads, DIM))
        scores: dict[str, FloatArray] = {}
        told: dict[str, dict[str, FloatArray]] = {}
        for way, strength in ((NONE, 0.0), (VANISHING, STRENGTH)):
            heads = train_heads(
                prompts_of(centroids, SIGMA, N_PROMPTS, rng, weights=WEIGHTS),
                start,
                temperature=c,
                strength=strength,
                step_size=step_size,
                n_steps=n_steps,
            ).heads
            scores[way] = polar(heads)  # an orthonormal basis: k-means measures distances
            cosines = scores[way] @ np.swapaxes(top, 1, 2)
            span = np.linalg.svd(cosines, compute_uv=False).min(1)
            told[way] = {"span": span, "alignment": alignment(heads, top).min(1)}
        ari = _agreement(centroids, scores, n_heads, N_TOKENS[quick], rng)
        for way in scores:
            columns = {**told[way], "ari": ari[way]}
            columns |= {"eigenvectors": ari["eigenvectors"], "spectral": ari["spectral"]}
            frames.append(tidy(columns, heads=n_heads, rho=way))
    return pd.concat(frames, ignore_index=True)


def _agreement(
    centroids: FloatArray,
    scores: dict[str, FloatArray],
    n_heads: int,
    n_tokens: int,
    rng: np.random.Generator,
) -> dict[str, FloatArray]:
    """ARI of k-means on the scores of each way, on those of eigenvectors, and of a library's."""
    found: dict[str, FloatArray] = {
        way: np.empty(len(centroids)) for way in (*scores, "eigenvectors", "spectral")
    }
    for seed, own in enumerate(centroids):
        X, known = sample_prompts(Mixture(own, WEIGHTS, SIGMA**2), 1, n_tokens, rng)
        _, axes = np.linalg.eigh(X[0].T @ X[0])
        state = int(rng.integers(2**31))
        heads = {way: one[seed] for way, one in scores.items()} | {"eigenvectors": axes.T[::-1]}
        for way, one in heads.items():
            model = KMeans(K, n_init=5, random_state=state)
            labels = model.fit_predict(X[0] @ one[:n_heads].T)
            found[way][seed] = adjusted_rand_score(known[0], labels)
        spectral = SpectralClustering(K, n_components=n_heads, gamma=2.0, random_state=state)
        found["spectral"][seed] = adjusted_rand_score(known[0], spectral.fit_predict(X[0]))
    return found


def judge(frame: pd.DataFrame) -> list[Finding]:
    """The span is that of the top eigenvectors, and the clustering that of their scores."""
    findings = []
    for (n_heads, way), part in frame.groupby(["heads", "rho"], sort=False):
        name = f"H = {n_heads}, rho {way}"
        if way == VANISHING:
            found = part["alignment"]
            findings.append(
                Finding.above(name, f"alignment with the {n_heads} heaviest centres", found, 0.99)
            )
        else:
            what = "least cosine with the top eigenvectors' span"
            findings.append(Finding.above(name, what, part["span"], 0.99))
            gap = part["ari"] - part["eigenvectors"]
            findings.append(
                Finding(
                    f"{name}: ARI",
                    f"within 0.02 of the eigenvectors' {number(part['eigenvectors'].median())}",
                    f"{band(part['ari'])}; spectral clustering {band(part['spectral'])}",
                    bool(abs(gap.median()) <= 0.02),
                )
            )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Span and ARI over the number of heads."""
    figure, (left, right) = panels(2)
    names = {way: f"ρ {way}" if way != NONE else "no regulariser" for way in frame["rho"].unique()}
    bands(left, frame.assign(gap=1 - frame["span"]), "heads", "gap", "rho", names=names)
    left.set(yscale="log", xlabel="heads H", xticks=frame["heads"].unique())
    left.set_ylabel("1 - least cosine with their span")
    trained = frame[frame["rho"] == NONE]
    long = trained.melt(
        id_vars="heads",
        value_vars=["ari", "eigenvectors", "spectral"],
        var_name="way",
        value_name="score",
    )
    told = {
        "ari": "trained heads",
        "eigenvectors": "top eigenvectors of S",
        "spectral": "spectral clustering",
    }
    bands(right, long, "heads", "score", "way", names=told)
    right.set(xlabel="heads H, components", ylabel="ARI", xticks=frame["heads"].unique())
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    span = frame.groupby("rho")["span"].median()
    trained = frame[frame["rho"] == NONE]
    turned = frame.loc[frame["rho"] == VANISHING, "alignment"]
    gap = (trained["ari"] - trained["eigenvectors"]).groupby(trained["heads"]).median()
    spectral = trained.groupby("heads")["spectral"].median()
    few = int(frame["heads"].min())
    return (
        f"Heads without a regulariser span the top eigenvectors (least cosine {number(span[NONE])} "
        f"in the median), and k-means on their scores differs from k-means on the eigenvectors' by "
        f"{gap.abs().max():.3f} of ARI at most. With a regulariser they span it as well "
        f"({number(span[VANISHING])}), the worst of them at an alignment of "
        f"{turned.median():.3f} with a centre of its own. "
        f"What {few} directions cannot show is lost to both; spectral clustering on a Gaussian "
        f"kernel reaches {spectral[few]:.2f} with {few} components, being no linear method."
    )
