"""d orthonormal heads are the layer without parameters.

Any d orthonormal heads have M = I, so that T(x) = (c/L) sum_k <x, x_k> x_k whatever the heads, at
the same overall scale c = H lambda.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attnclust.attention import in_context_attention, linear_attention
from attnclust.manifold import random_orthonormal
from attnclust.reproduce.claims import Finding, band, number, tidy
from attnclust.reproduce.pictures import bands, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIMS = (2, 5, 16, 64)
LENGTHS = (10, 100)
TEMPERATURE = 1.3
SEEDS = (100, 20)
SETTING = (
    f"Standard normal tokens, random orthonormal frames, d from {min(DIMS)} to {max(DIMS)}, "
    f"L = {' and '.join(map(str, LENGTHS))}, c = {TEMPERATURE}. Differences are relative to the "
    "largest output."
)


def measure(seeds: int, quick: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Largest relative difference of the two layers, with all heads and with one left out."""
    frames = []
    for dim in DIMS:
        for length in LENGTHS:
            tokens = rng.standard_normal((seeds, length, dim))
            heads = random_orthonormal(rng, dim, dim, (seeds,))
            free = in_context_attention(tokens, TEMPERATURE)
            size = np.abs(free).max((1, 2))
            all_heads = linear_attention(tokens, heads, TEMPERATURE)
            fewer = linear_attention(tokens, heads[:, 1:], TEMPERATURE)
            columns = {
                "difference": np.abs(all_heads - free).max((1, 2)) / size,
                "one_head_less": np.abs(fewer - free).max((1, 2)) / size,
            }
            frames.append(tidy(columns, dim=dim, length=length))
    return pd.concat(frames, ignore_index=True)


def judge(frame: pd.DataFrame) -> list[Finding]:
    """Equal to 1e-12 with d heads, and not with d - 1."""
    findings = []
    for dim, part in frame.groupby("dim"):
        worst = float(part["difference"].max())
        findings.append(
            Finding(
                f"d = H = {dim}",
                "equal to 1e-12",
                f"at most {worst:.1e} in {len(part)} prompts",
                worst < 1e-12,
            )
        )
    least = frame["one_head_less"]
    findings.append(
        Finding(
            "one head left out, H = d - 1",
            "not equal: differs by more than 1e-3",
            f"{band(least)}, at least {number(least.min())}",
            bool(least.min() > 1e-3),
        )
    )
    return findings


def draw(frame: pd.DataFrame) -> Figure:
    """Difference over d."""
    figure, (ax,) = panels(1, width=6)
    long = frame.melt(
        id_vars="dim",
        value_vars=["one_head_less", "difference"],
        var_name="heads",
        value_name="gap",
    )
    bands(
        ax, long, "dim", "gap", "heads", names={"difference": "H = d", "one_head_less": "H = d - 1"}
    )
    ax.set(xscale="log", yscale="log", xlabel="dimension d", ylabel="relative difference")
    ax.set_ylim(1e-17, 10)
    ax.axhline(1e-12, color="#444444", linewidth=0.8, linestyle=":")
    ax.set_xticks(DIMS, [str(dim) for dim in DIMS])
    ax.minorticks_off()
    return figure


def explain(frame: pd.DataFrame) -> str:
    """What is seen."""
    return (
        f"With all d heads the two layers differ by rounding, {frame['difference'].max():.1e} at "
        f"most; with one head left out the median difference is "
        f"{number(frame['one_head_less'].median())}. The scale is the overall one, c = H lambda: "
        "at equal lambda per head the outputs would differ by the factor H."
    )
