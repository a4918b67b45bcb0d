"""Any linear head is a sum of rank-one heads, and a few heads are one matrix head of that rank.

A d x d head sum_h q_h k_h^T comes from its singular vectors, with a query and a key each. Heads
with key = query make symmetric positive semidefinite matrices M = Q^T Q only. The layer through the
heads costs O(L d H) and equals the one through the L x L scores.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attnclust._typing import FloatArray
from attnclust.attention import matrix_attention
from attnclust.reproduce.claims import Finding, number
from attnclust.reproduce.pictures import bands, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIM, RANK, TEMPERATURE = 12, 4, 0.7
LENGTHS = (64, 256, 1024, 4096)
QUICK_LENGTHS = (64, 256, 1024)
SEEDS = (20, 5)
SETTING = (
    f"Standard normal tokens in d = {DIM}, random matrix heads, c = {TEMPERATURE}; the explicit "
    "layer forms the L x L scores. Differences are relative to the largest output."
)


INDEFINITE = "symmetric, key = query"


def _explicit(tokens: FloatArray, M: FloatArray) -> FloatArray:
    """The layer through the L x L score matrix."""
    return np.asarray(TEMPERATURE / len(tokens) * (tokens @ M @ tokens.T) @ tokens)


def _heads(rng: np.random.Generator) -> dict[str, tuple[FloatArray, FloatArray, FloatArray]]:
    """Matrices, and the queries and keys of rank-one heads that stand for them."""
    general = rng.standard_normal((DIM, DIM))
    left, values, right = np.linalg.svd(general)
    factors = rng.standard_normal((RANK, DIM))
    symmetric = general + general.T
    signs, axes = np.linalg.eigh(symmetric)
    positive = (axes * np.sqrt(np.maximum(signs, 0))).T
    return {
        "d x d head, SVD": (general, left.T * values[:, None], right),
        f"Q^T Q of rank {RANK}, key = query": (factors.T @ factors, factors, factors),
        "symmetric, with signs": (symmetric, axes.T * signs[:, None], axes.T),
        INDEFINITE: (symmetric, positive, positive),
    }


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Largest relative difference of two ways to the same output, and the seconds of both."""
    rows = []
    for length in QUICK_LENGTHS if quick else LENGTHS:
        for seed in range(seeds):
            tokens = rng.standard_normal((length, DIM))
            for way, (M, query, key) in _heads(rng).items():
                begun = time.perf_counter()
                explicit = _explicit(tokens, M)
                middle = time.perf_counter()
                output = matrix_attention(tokens, query, key, TEMPERATURE)
                done = time.perf_counter()
                gap = np.abs(output - explicit).max() / np.abs(explicit).max()
                rows.append((length, way, seed, gap, middle - begun, done - middle))
    columns = ["length", "way", "seed", "difference", "seconds_explicit", "seconds_heads"]
    return pd.DataFrame(rows, columns=columns)


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Equal to 1e-12, but for key = query heads standing in for a matrix with negative parts."""
    findings = []
    for way, part in frame.groupby("way", sort=False):
        lengths = f"{part['length'].min()} to {part['length'].max()}"
        worst = float(part["difference"].max())
        if way == INDEFINITE:
            least = float(part["difference"].min())
            findings.append(
                Finding(
                    f"{way}: indefinite matrix, its positive part",
                    "not equal: differs by more than 1%",
                    f"at least {number(least)}",
                    least > 0.01,
                )
            )
            continue
        findings.append(
            Finding(
                f"{way}, L = {lengths}",
                "through heads and through L x L scores equal to 1e-12",
                f"at most {worst:.1e}",
                worst < 1e-12,
            )
        )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Difference and seconds over the length of the prompt."""
    figure, (left, right) = panels(2)
    bands(left, frame, "length", "difference", "way", names={w: w for w in frame["way"].unique()})
    left.set(xscale="log", yscale="log", xlabel="length L", ylabel="relative difference")
    left.set_ylim(1e-17, 30)
    left.axhline(1e-12, color="#444444", linewidth=0.8, linestyle=":")
    left.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(0, 0.68))
    long = frame.melt(
        id_vars="length",
        value_vars=["seconds_explicit", "seconds_heads"],
        var_name="way",
        value_name="seconds",
    )
    names = {"seconds_explicit": "through L × L scores", "seconds_heads": "through heads"}
    bands(right, long, "length", "seconds", "way", names=names)
    right.set(xscale="log", yscale="log", xlabel="length L", ylabel="seconds")
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    longest = frame[frame["length"] == frame["length"].max()]
    ratio = (longest["seconds_explicit"] / longest["seconds_heads"]).median()
    return (
        "Both ways give the same output to rounding, except where heads with key = query stand in "
        "for a symmetric matrix with negative eigenvalues: those need signs, or separate keys and "
        f"queries. At L = {longest['length'].iloc[0]} the way through the heads is "
        f"{ratio:.0f} times faster here, and the gap grows with L."
    )
