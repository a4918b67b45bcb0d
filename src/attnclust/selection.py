"""How many clusters: the spectrum proposes, splits and merges settle, gaps confirm.

1. Spectrum. Of K affinely independent centres the covariance has K - 1 eigenvalues above the noise,
   whose own reach up to sigma^2 (1 + sqrt(d/n))^2 (Marchenko and Pastur 1967) and pass that edge by
   a margin of order n^(-2/3) (Tracy and Widom 1994). So many heads, and one, are where it begins.
2. Rows with hardly a neighbour within the noise are put aside (`gaps.isolated`).
3. Splits and merges, each for a price per cluster (`settling.settle`), go on from there: they see
   what drowns in the noise edge, and undo what unequal columns or tails put above it.
4. Gaps. Where no two neighbours are apart (`gaps.neighbours`) there is one cluster. Where the rows
   about their centres are not spherical Gaussian (`dispersion`), the modes are the clusters,
   else the likelihood is believed.

Columns are not rescaled: K is that of the Euclidean picture (or of unit rows under cosine).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from attnclust._typing import FloatArray
from attnclust.fitting import MISFIT, find_start
from attnclust.gaps import isolated, neighbours
from attnclust.moments import Spectrum, spectrum
from attnclust.moves import split_and_merge
from attnclust.refinement import Clusters, Geometry, assign, attended, dispersion, em
from attnclust.settling import join, overgrow, penalty, settle
from attnclust.tokens import Tokens

if TYPE_CHECKING:
    from pandas import DataFrame

# Tracy-Widom scales over the Marchenko-Pastur edge: passed by noise one time in a thousand.
MARGIN = 3.3
# Splits end at so many clusters, or so many rows per cluster, more if rows are no spherical noise:
# there splits do not end by themselves, and pieces need rows to show a gap between them.
MOST_CLUSTERS = 500
LEAST_ROWS, LEAST_ROWS_OF_PIECES = 10, 60
# Fewer rows than these are not a cloud of their own, but scattered in the tails of one.
LEAST_ROWS_OF_CLOUDS = 30
# Up to so many features the centres may fill all directions, and too many clusters are tried too;
# on so many rows.
FEW_FEATURES = 32
OVERGROWN_ROWS = 5_000
# Eigenpairs looked at, and rows for the evidence: so many, or per cluster if that is more.
MOST_EIGENPAIRS = 256
EVIDENCE_ROWS = 4_000
EVIDENCE_ROWS_PER_CLUSTER = 60
EVIDENCE_STEPS = 20
# A candidate needs so many rows in either half.
LEAST_ROWS_PER_CLUSTER = 4


@dataclass(frozen=True)
class Selection:
    """The number of clusters and what speaks for it.

    Parameters
    ----------
    n_clusters : int
        K.
    reason : str
        Why this K; says so where the evidence is weak.
    noise_variance, edge : float
        sigma^2 of the spectrum's trailing part, and what noise alone reaches up to, in squared
        units of X.
    eigenvalues : array of shape (k,)
        Leading eigenvalues of the covariance, in squared units of X.
    dispersion : float
        Variance of the squared distances to the centres over that of spherical Gaussian noise.
    n_isolated : int
        Rows put aside, as they have hardly a neighbour within the noise.
    candidates : list of dict
        For each K looked at: "n_clusters"; "eigenvalue", the last one it needs, over the edge, None
        for K = 1; "criterion", penalised log-likelihood per row in nats; "redundant", heads that
        share a mode with another; "held_out", reconstruction risk E|y - m|^2 / d on rows left out,
        in squared units of X; "stability", adjusted Rand index of labels by two halves of the rows.
    """

    n_clusters: int
    reason: str
    noise_variance: float
    edge: float
    eigenvalues: FloatArray
    dispersion: float = 1.0
    n_isolated: int = 0
    candidates: list[dict[str, Any]] = field(default_factory=list)

    def to_frame(self) -> DataFrame:
        """The candidates as a pandas data frame, one row for each K."""
        from pandas import DataFrame

        return DataFrame(self.candidates).set_index("n_clusters")


def noise_edge(seen: Spectrum, n_rows: float) -> tuple[float, float]:
    """Noise level of a spectrum and the largest eigenvalue that noise alone would show.

    sigma^2 is the mean of the eigenvalues below the edge, which moves down with it until both
    stand still. The edge is that of Marchenko and Pastur with 3.3 scales of Tracy and Widom.

    Parameters
    ----------
    seen : Spectrum
    n_rows : float
        Rows n that it was made from.

    Returns
    -------
    noise_variance, edge : float

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([5.0, 1.0, 1.0, 1.0])
    >>> noise, edge = noise_edge(Spectrum(np.zeros(4), values, np.eye(4), values.sum()), 1000)
    >>> float(noise), bool(1 < edge < 1.3)
    (1.0, True)
    """
    n, d = np.sqrt(n_rows), np.sqrt(seen.dim)
    reach = (n + d) ** 2 + MARGIN * (n + d) * (1 / n + 1 / d) ** (1 / 3)
    count, most = 0, min(len(seen.values), seen.dim - 1)
    while True:
        noise = seen.trailing_mean(count)
        edge = float(noise * reach / n_rows)
        above = int((seen.values[:most] > edge).sum())
        if above <= count:
            return noise, edge
        count = above


def choose(
    tokens: Tokens,
    seen: Spectrum,
    geometry: Geometry,
    n_rows: float,
    rng: np.random.Generator,
    *,
    lift: bool = True,
    order: int = 3,
) -> tuple[Clusters, Selection, Tokens, Geometry]:
    """Clusters in the number that the tokens ask for.

    Parameters
    ----------
    tokens : Tokens
        The rows to look at.
    seen : Spectrum
        In the same frame, with as many eigenpairs as can be had.
    geometry : Geometry
    n_rows : float
        Rows that the spectrum was made from.
    rng : numpy.random.Generator
    lift, order
        Of `find_start`.

    Returns
    -------
    clusters : Clusters
        A start for the refinement.
    selection : Selection
        Without candidates.
    tokens, geometry : Tokens, Geometry
        Less the isolated rows.
    """
    noise, edge = noise_edge(seen, n_rows)
    above = int((seen.values[: seen.dim - 1] > edge).sum())
    first = max(1, min(above + 1, len(tokens) // 2))
    clusters, _ = find_start(tokens, seen, geometry, first, rng, lift=lift, order=order)
    alone = isolated(tokens, clusters, geometry.floor)
    if alone.any():
        tokens = tokens.take(np.flatnonzero(~alone))
        geometry = replace(geometry, mean_square=tokens.mean_square())
    n = tokens.effective_rows()
    pieces = max(1, int(n / LEAST_ROWS_OF_PIECES))
    settled, spread = clusters, 1.0
    # Where most directions stand out, what is left is hardly a noise level.
    if 2 * above >= seen.dim > FEW_FEATURES:
        if first > pieces:
            clusters, _ = find_start(tokens, seen, geometry, pieces, rng, lift=lift, order=order)
        settled, spread = _settled(tokens, clusters, geometry, pieces, rng)
    if spherical := spread <= MISFIT:
        most = max(1, min(int(n / 3), 4), min(MOST_CLUSTERS, int(n / LEAST_ROWS)))
        settled, spread = _settled(tokens, settled, geometry, most, rng)
        spherical = spread <= MISFIT
        if not spherical and len(settled.weights) > pieces:
            settled, spread = _settled(tokens, clusters, geometry, pieces, rng)
    gaps, k = neighbours(tokens, settled), len(settled.weights)
    round_ = spherical and 2 * gaps.clouds() >= k
    mode = gaps.modes(0 if spherical else LEAST_ROWS_OF_CLOUDS)
    n_modes = int(mode.max()) + 1
    if k == 1:
        reason = "no cluster structure found: no split is worth its price in likelihood"
    elif n_modes == 1:
        reason = f"no cluster structure found: of {k} pieces no two have a gap between them"
    elif round_:
        reason = f"the penalised likelihood of spherical clusters is largest at {k}"
        if n_modes < k:
            reason += f", {k - n_modes} of them without a significant gap to a neighbour"
    else:
        why = (
            "most pieces run into a neighbour"
            if spherical
            else "rows about their centres are no spherical Gaussian noise"
        )
        reason = (
            f"{n_modes} clouds with gaps between them, in {k} pieces; {why} (dispersion "
            f"{spread:.1f}), so pieces without a gap count as one"
        )
    if n_modes == 1 or not round_:
        settled = join(settled, mode)
    if n_alone := int(alone.sum()):
        reason += f"; {n_alone} row{'s stand' if n_alone > 1 else ' stands'} alone, put aside"
    said = f"{above} eigenvalue{'' if above == 1 else 's'} above the noise edge; "
    unit = tokens.unit**2
    return (
        settled,
        Selection(
            len(settled.weights),
            said + reason,
            noise * unit,
            edge * unit,
            seen.values * unit,
            spread,
            n_alone,
        ),
        tokens,
        geometry,
    )


def _settled(
    tokens: Tokens, clusters: Clusters, geometry: Geometry, most: int, rng: np.random.Generator
) -> tuple[Clusters, float]:
    """The better of two ways to settle, and its dispersion.

    From these clusters, and from too many, where centres may fill all directions.
    """
    settled, criterion = settle(tokens, clusters, geometry, most)
    if tokens.dim <= FEW_FEATURES:
        few = tokens.take(np.sort(rng.permutation(len(tokens))[:OVERGROWN_ROWS]))
        grown = overgrow(few, replace(geometry, mean_square=few.mean_square()), most)
        if len(grown.weights) > len(settled.weights):
            again, other = settle(tokens, grown, geometry, most)
            settled = again if other > criterion else settled
    return settled, dispersion(tokens, settled, geometry)


def weigh(
    selection: Selection,
    tokens: Tokens,
    geometry: Geometry,
    rng: np.random.Generator,
    *,
    lift: bool = True,
    order: int = 3,
) -> Selection:
    """The selection with its candidates: one, the neighbours of K, and what the spectrum proposes.

    Each is fitted to at most 4,000 rows (60 per cluster), and to either half of them.

    Parameters
    ----------
    selection : Selection
    tokens, geometry, rng, lift, order
        As for `choose`, less the isolated rows.

    Returns
    -------
    Selection
    """
    values, edge = selection.eigenvalues, selection.edge
    k, proposed = selection.n_clusters, int((values[: tokens.dim - 1] > edge).sum()) + 1
    most = max(EVIDENCE_ROWS, EVIDENCE_ROWS_PER_CLUSTER * k)
    drawn = rng.permutation(len(tokens))[:most]
    rows, *halves = (tokens.take(np.sort(part)) for part in (drawn, *np.array_split(drawn, 2)))

    def fitted(part: Tokens, n_clusters: int) -> tuple[Clusters, float]:
        shape = replace(geometry, mean_square=part.mean_square())
        seen = spectrum(part, min(n_clusters, part.dim), rng)
        found, _ = find_start(part, seen, shape, n_clusters, rng, lift=lift, order=order)
        found, path = em(part, found, shape, n_steps=EVIDENCE_STEPS)
        found, kept, _ = split_and_merge(part, found, path[-1], shape)
        return found, kept[-1].log_likelihood

    table: list[dict[str, Any]] = []
    for n in sorted({1, k - 1, k, k + 1, proposed} - {0}):
        if LEAST_ROWS_PER_CLUSTER * n > len(halves[1]):
            continue
        whole, likelihood = fitted(rows, n)
        parts = [fitted(half, n)[0] for half in halves]
        risks = [_risk(half, found) for half, found in zip(halves, parts[::-1], strict=True)]
        labels = [assign(rows, found) for found in parts]
        table.append(
            {
                "n_clusters": n,
                "eigenvalue": float(values[n - 2] / edge)
                if 2 <= n <= len(values) + 1 and edge > 0
                else None,
                "criterion": likelihood - penalty(rows.dim) * n / rows.effective_rows(),
                "redundant": len(whole.weights) - 1 - int(neighbours(rows, whole).modes().max()),
                "held_out": float(np.mean(risks)) * tokens.unit**2,
                "stability": float(adjusted_rand_score(*labels)),
            }
        )
    return replace(selection, candidates=table)


def _risk(tokens: Tokens, clusters: Clusters) -> float:
    """E|y - m|^2 / d of the centre that each row attends to."""
    deviation = attended(tokens, clusters).deviation
    return float(np.average(deviation, weights=tokens.row_weights()) * clusters.noise_variance)
