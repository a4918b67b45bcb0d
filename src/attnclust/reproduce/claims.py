"""What a claim is: numbers, and the findings that its verdict follows from."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np
import numpy.typing as npt

from attnclust.checks import check_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

CLAIM_IDS = tuple(f"C{number:02}" for number in range(1, 26))
Verdict = Literal["holds", "holds in part", "fails"]


@dataclass(frozen=True)
class Finding:
    """One row of the results table: what was expected of a setting, and what was measured.

    Parameters
    ----------
    setting, expected, measured : str
        In words and numbers.
    holds : bool
        Computed from the numbers.
    """

    setting: str
    expected: str
    measured: str
    holds: bool

    @classmethod
    def above(cls, setting: str, what: str, values: npt.ArrayLike, bound: float) -> Finding:
        """The median of the values is above a bound."""
        holds = bool(np.median(np.asarray(values)) > bound)
        return cls(setting, f"{what} above {number(bound)}", band(values), holds)

    @classmethod
    def below(cls, setting: str, what: str, values: npt.ArrayLike, bound: float) -> Finding:
        """The median of the values is below a bound."""
        holds = bool(np.median(np.asarray(values)) < bound)
        return cls(setting, f"{what} below {number(bound)}", band(values), holds)

    @classmethod
    def sampled(
        cls, setting: str, what: str, values: npt.ArrayLike, expected: float, errors: float = 4
    ) -> Finding:
        """The mean of independent values is within some standard errors of a formula's value."""
        sample = np.asarray(values, dtype=float)
        error = sample.std(ddof=1) / np.sqrt(sample.size)
        holds = bool(abs(sample.mean() - expected) <= errors * error)
        measured = f"{number(sample.mean())} (standard error {error:.2g})"
        return cls(setting, f"{what} {number(expected)}", measured, holds)


class Claim(Protocol):
    """What each of the modules c01 to c25 holds."""

    __name__: str
    __doc__: str | None
    # The exact setting, in a sentence, and the seeds of a full and of a quick run.
    SETTING: str
    SEEDS: tuple[int, int]

    def measure(self, seeds: int, quick: bool, rng: np.random.Generator) -> DataFrame:
        """Run the experiment: one row per seed and setting."""

    def judge(self, frame: DataFrame) -> list[Finding]:
        """Findings, from the numbers alone."""

    def draw(self, frame: DataFrame) -> Figure:
        """The picture, from the numbers alone."""

    def explain(self, frame: DataFrame) -> str:
        """Two or three sentences on what is seen."""


def find_claim(claim_id: str) -> str:
    """The id of a claim as it is written here.

    Parameters
    ----------
    claim_id : str
        "C01" to "C25", in any case; "1" and "c1" will do.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        For an unknown id, with the nearest known one.

    Examples
    --------
    >>> find_claim("c7")
    'C07'
    """
    known = claim_id.strip().upper()
    digits = known.removeprefix("C")
    if digits.isdecimal():
        known = f"C{int(digits):02}"
    if known not in CLAIM_IDS:
        near = difflib.get_close_matches(known, CLAIM_IDS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "claims are C01 to C25"
        raise ValueError(f"no claim {claim_id!r}: {hint}")
    return known


def load_claim(claim_id: str) -> Claim:
    """The module of a claim.

    Parameters
    ----------
    claim_id : str
        As for `find_claim`.

    Returns
    -------
    module

    Examples
    --------
    >>> load_claim("C01").__doc__.splitlines()[0]
    'Two heads, trained without labels, find the two centres.'
    """
    return cast(Claim, import_module(f"attnclust.reproduce.{find_claim(claim_id).lower()}"))


def measure(
    claim_id: str, *, quick: bool = False, seeds: int | None = None, random_state: int = 0
) -> DataFrame:
    """Run the experiment of a claim.

    Parameters
    ----------
    claim_id : str
        "C01" to "C25".
    quick : bool
        A small version, seconds rather than minutes.
    seeds : int, optional
        Number of seeds; the claim's own by default.
    random_state : int
        Master seed; each claim draws from its own stream of it.

    Returns
    -------
    pandas.DataFrame
        Tidy: one row per seed and setting.

    Raises
    ------
    ValueError
        For an unknown claim, or fewer than two seeds.

    Examples
    --------
    >>> frame = measure("C20", quick=True, seeds=2)
    >>> bool((frame["difference"] < 1e-12).all())
    True
    """
    claim_id = find_claim(claim_id)
    claim = load_claim(claim_id)
    if seeds is None:
        seeds = claim.SEEDS[quick]
    check_integer("seeds", seeds, 2)
    stream = np.random.SeedSequence(random_state, spawn_key=(int(claim_id[1:]),))
    return claim.measure(seeds, quick, np.random.default_rng(stream))


def verdict(findings: Sequence[Finding]) -> Verdict:
    """What the findings of a claim come to.

    Parameters
    ----------
    findings : sequence of Finding

    Returns
    -------
    str
    """
    held = [finding.holds for finding in findings]
    if all(held):
        return "holds"
    return "holds in part" if any(held) else "fails"


def statement(claim: Claim) -> tuple[str, str]:
    """Title and statement of a claim, from its docstring.

    Parameters
    ----------
    claim : module

    Returns
    -------
    title, statement : str
    """
    title, _, rest = (claim.__doc__ or "").strip().partition("\n")
    return title.rstrip("."), " ".join(rest.split())


def number(value: float) -> str:
    """A number for people: four significant digits, more next to one, where they tell.

    Parameters
    ----------
    value : float

    Returns
    -------
    str

    Examples
    --------
    >>> number(0.999), number(0.99987), number(0.25), number(1e-14), number(12.0), number(1.0)
    ('0.999', '0.99987', '0.25', '1e-14', '12', '1')
    """
    gap = abs(1 - abs(value))
    if 0 < gap < 1e-2:
        digits = int(np.ceil(-np.log10(gap))) + 1
        return f"{value:.{min(digits, 8)}f}".rstrip("0").rstrip(".")
    return f"{value:.4g}"


def band(values: npt.ArrayLike) -> str:
    """Median with its 10 to 90% band.

    Parameters
    ----------
    values : array-like

    Returns
    -------
    str

    Examples
    --------
    >>> band([0.1, 0.2, 0.3])
    '0.2 (0.12 to 0.28)'
    """
    low, middle, high = np.quantile(np.asarray(values, dtype=float), [0.1, 0.5, 0.9])
    return f"{number(middle)} ({number(low)} to {number(high)})"


def tidy(columns: dict[str, Any], **setting: Any) -> DataFrame:
    """Arrays over seeds as rows, with the setting beside them.

    Parameters
    ----------
    columns : dict of array of shape (seeds,)
    **setting
        Values that all rows share.

    Returns
    -------
    pandas.DataFrame
        Columns: those of the setting, `seed`, then the arrays.

    Examples
    --------
    >>> tidy({"alignment": [0.5, 1.0]}, sigma=0.1)
       sigma  seed  alignment
    0    0.1     0        0.5
    1    0.1     1        1.0
    """
    import pandas as pd

    seeds = range(len(next(iter(columns.values()))))
    return pd.DataFrame({**setting, "seed": seeds, **columns})
