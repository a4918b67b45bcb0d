"""Heads trained by gradient descent align with the class means of real vectors.

The heads are those of the theory, trained on unlabelled unit vectors from random starts; real class
means are not orthonormal, and their clusters not round. How far it goes is measured on raw, centred
and normalised tokens, each time beside k-means, and in the space that the heads live in.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from attnclust._typing import FloatArray, IntArray
from attnclust.estimators import AttentionClustering
from attnclust.manifold import alignment, normalize, random_heads
from attnclust.moments import spectrum
from attnclust.normalization import normalize as normalize_keys
from attnclust.reproduce.c23 import dots
from attnclust.reproduce.claims import Finding, band, number, tidy
from attnclust.reproduce.pictures import panels
from attnclust.reproduce.runs import LENGTH
from attnclust.tokens import Tokens
from attnclust.training import train_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EMBEDDINGS = Path(__file__).parents[3] / "examples" / "intents.parquet"
N_PROMPTS, STRENGTH, STEP_SIZE = 8, 1.0, 0.5
N_STEPS = {False: 2000, True: 400}
# Steps on embeddings, of 384 features each.
FEWER_STEPS = 1000
SEEDS = (10, 4)
# How much of k-means' alignment and ARI may be missing.
MARGIN = 0.05
RAW, CENTRED, NORMALISED = "heads, raw tokens", "heads, centred tokens", "heads, normalised keys"
FIXED, KMEANS = "fixed point, refined", "k-means, 10 starts"
METHODS = (RAW, CENTRED, NORMALISED, FIXED, KMEANS)
SETTING = (
    "scikit-learn's digits, and its wine, breast cancer and iris data standardised; sentence "
    "embeddings in 15 intents where the source tree has them (not in quick runs). Rows of unit "
    "length; centred means less the mean first; normalised keys are scaled by 1/sqrt(K). H = K, "
    f"L = {LENGTH}, {N_PROMPTS} prompts per step, c half of the inverse of the leading eigenvalue "
    f"of S, pairwise regulariser of strength {STRENGTH} falling to 0, {N_STEPS[False]} steps of "
    f"size {STEP_SIZE} (embeddings {FEWER_STEPS}, quick {N_STEPS[True]})."
)


def load(quick: bool) -> dict[str, tuple[FloatArray, IntArray]]:
    """Rows and classes by name."""
    found = {"digits": datasets.load_digits(return_X_y=True)}
    for name in ("wine", "breast_cancer", "iris"):
        X, known = getattr(datasets, f"load_{name}")(return_X_y=True)
        found[name.replace("_", " ")] = StandardScaler().fit_transform(X), known
    if EMBEDDINGS.exists() and not quick:
        frame = pd.read_parquet(EMBEDDINGS)
        rows = np.array(frame["embedding"].tolist(), dtype=float)
        found["embeddings"] = rows, pd.factorize(frame["intent"])[0]
    return found


def means(tokens: FloatArray, labels: IntArray) -> FloatArray:
    """Mean token of each label."""
    member = np.eye(labels.max() + 1)[labels]
    return np.asarray(member.T @ tokens / np.maximum(member.sum(0), 1)[:, None])


def head_labels(tokens: FloatArray, heads: FloatArray) -> IntArray:
    """Head of the largest score for each run (R, n), heads turned towards their own tokens."""
    u = tokens @ np.swapaxes(heads, -1, -2)
    own = np.abs(u).argmax(-1)[..., None] == np.arange(heads.shape[-2])
    side = np.where((u * own).sum(-2, keepdims=True) < 0, -1.0, 1.0)
    return np.asarray((u * side).argmax(-1))


def train(
    tokens: FloatArray, n_heads: int, seeds: int, n_steps: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Heads of each run (R, H, d) at the start and at the end."""
    rows = tokens.astype(np.float32)
    start = random_heads(rng, (seeds, n_heads, tokens.shape[1]))
    shape = (seeds, N_PROMPTS, LENGTH)
    trained = train_heads(
        lambda _step: rows[rng.integers(0, len(rows), shape)],
        start,
        temperature=0.5 / float(np.linalg.norm(tokens, 2) ** 2 / len(tokens)),
        strength=STRENGTH,
        step_size=STEP_SIZE,
        n_steps=n_steps,
        record=n_steps,
    )
    return start, trained.heads


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Mean alignment with the class means and ARI, beside k-means in the same space."""
    frames = []
    for name, (X, known) in load(quick).items():
        k = int(known.max()) + 1
        n_steps = FEWER_STEPS if name == "embeddings" else N_STEPS[quick]
        tokens = normalize(X)
        framed = Tokens(tokens)
        spaces = {
            RAW: tokens,
            CENTRED: normalize(X - X.mean(0)),
            NORMALISED: normalize_keys(spectrum(framed, k, rng), k).project(framed) / np.sqrt(k),
        }
        rivals = {
            method: np.array(
                [fit(int(rng.integers(2**31))).fit(tokens).labels_ for _ in range(seeds)]
            )
            for method, fit in (
                (FIXED, lambda state: AttentionClustering(k, random_state=state)),  # noqa: B023
                (KMEANS, lambda state: KMeans(k, n_init=10, random_state=state)),  # noqa: B023
            )
        }
        for method in METHODS:
            space = spaces.get(method, spaces[CENTRED])
            truth = means(space, known)
            aligned = {
                rival: alignment(np.array([means(space, one) for one in labels]), truth).mean(-1)
                for rival, labels in rivals.items()
            }
            if method in spaces:
                start, heads = train(space, k, seeds, n_steps, rng)
                labels = head_labels(space, heads)
                chance, reached = (alignment(one, truth).mean(-1) for one in (start, heads))
                overlap = np.array([_mean_cosine(one, np.abs) for one in heads])
            else:
                labels, reached = rivals[method], aligned[method]
                chance, overlap = np.zeros(seeds), np.zeros(seeds)
            columns = {
                "alignment": reached,
                "ari": _scores(known, labels),
                "start": chance,
                "overlap": overlap,
                "cosine": np.full(seeds, _mean_cosine(truth)),
                "rival_alignment": aligned[KMEANS],
                "rival_ari": _scores(known, rivals[KMEANS]),
            }
            frames.append(tidy(columns, setting=f"{name}, K {k}, d {X.shape[1]}", method=method))
    return pd.concat(frames, ignore_index=True)


def _mean_cosine(vectors: FloatArray, of: Callable[[FloatArray], FloatArray] = np.asarray) -> float:
    units = normalize(vectors)
    return float(of(units @ units.T)[np.triu_indices(len(units), 1)].mean())


def _scores(known: IntArray, labels: IntArray) -> FloatArray:
    return np.array([adjusted_rand_score(known, one) for one in labels])


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Alignment and ARI near those of k-means, for each data set and space."""
    findings = []
    for (setting, method), part in frame.groupby(["setting", "method"], sort=False):
        if method == KMEANS:
            continue
        findings.append(
            Finding(
                f"{setting}: {method}",
                f"alignment and ARI at most {MARGIN} below those of k-means, "
                f"{number(part['rival_alignment'].median())} and "
                f"{number(part['rival_ari'].median())}",
                f"alignment {band(part['alignment'])}, ARI {band(part['ari'])}",
                _near(part),
            )
        )
    return findings


def _near(part: pd.DataFrame) -> bool:
    missing = [(part[f"rival_{name}"] - part[name]).median() for name in ("alignment", "ari")]
    return bool(max(missing) <= MARGIN)


def draw(frame: pd.DataFrame) -> Figure:
    """Alignment and ARI by data set and method."""
    figure, axes = panels(2, width=4.4, height=4.4)
    dots(axes[0], frame, "alignment", list(METHODS), True)
    dots(axes[1], frame, "ari", list(METHODS), False)
    axes[0].set(xlabel="mean |cos| with the class means", xlim=(0, 1.02))
    axes[1].set_xlabel("adjusted Rand index (ARI)")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3, fontsize=9)
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    middle = frame.groupby(["method", "setting"])[["alignment", "ari", "start"]].median()
    near = {
        method: sum(_near(part) for _, part in frame[frame["method"] == method].groupby("setting"))
        for method in METHODS
    }
    n_sets = frame["setting"].nunique()
    said = "; ".join(
        f"{method}: alignment {_range(middle.loc[method, 'alignment'])}, "
        f"ARI {_range(middle.loc[method, 'ari'])}, near k-means on {near[method]} of {n_sets}"
        for method in METHODS[:4]
    )
    told = frame.groupby(["method", "setting"])[["cosine", "overlap"]].median()
    raw, normalised = (told.loc[method] for method in (RAW, NORMALISED))
    return (
        f"Medians over the {n_sets} data sets, least to greatest. {said}. Random heads, where "
        f"training starts, have {_range(middle.loc[RAW, 'start'])} on raw tokens. The theory has "
        f"orthogonal class means: their mean cosine is {_range(raw['cosine'])} on raw tokens and "
        f"{_range(normalised['cosine'])} on normalised keys, where the heads' own mean |cos| is "
        f"{_range(normalised['overlap'])} ({_range(raw['overlap'])} on raw tokens). Two opposite "
        "means share one line, along which |cos| is high for either and labels say nothing."
    )


def _range(values: pd.Series) -> str:
    return f"{values.min():.2f} to {values.max():.2f}"
