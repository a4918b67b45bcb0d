"""The arithmetic of a fit on very many vectors: `python benchmarks/scale.py` writes docs/scale.md.

Every figure follows from the constants below; machines and prices are assumptions, to be changed
for one's own.
"""

from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

from attnclust.estimators import SAMPLE_ROWS, SAMPLE_ROWS_PER_CLUSTER

N, DIM, K, BYTES = 10**9, 768, 1000, 4
ROWS_PER_BLOCK = 250_000  # 0.77 GB: three such fit in 4 GB
WIDTH = 8  # states that the tree merges at once
PRICES_OF = "December 2026"


@dataclass(frozen=True)
class Machine:
    """An assumed machine: cores, flop/s of one in float32 products, bytes/s, money per hour."""

    name: str
    cores: int
    flops_per_core: float
    store: float
    network: float
    dollars_per_hour: float


MACHINES = [
    Machine("laptop, own disk", 8, 30e9, 3e9, 0.1e9, 0.0),
    Machine("16 cores, 64 GB, object store", 16, 40e9, 1.5e9, 1.5e9, 0.80),
    Machine("64 cores, 256 GB, own NVMe", 64, 40e9, 8e9, 3e9, 3.20),
]
CLUSTERS = [(1, 0), (1, 1), (1, 2), (16, 1), (64, 1)]


def human(number, unit):
    """Three digits with a decimal prefix."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g} {prefix}{unit}"
    return f"{number:.3g} {unit}"


def duration(seconds):
    """Seconds, minutes or hours, whichever reads best."""
    for factor, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def page():
    """The page as text."""
    data = N * DIM * BYTES
    sample = max(SAMPLE_ROWS, SAMPLE_ROWS_PER_CLUSTER * K)
    passes = {
        "moments: Y^T Y": 2 * N * DIM**2,
        "step on all rows: logits and sums": 4 * N * DIM * K,
        "labels: logits": 2 * N * DIM * K,
    }
    exps = N * K
    blocks = N // ROWS_PER_BLOCK
    moments = 8 * DIM * (DIM + 1)
    sample_bytes = sample * (DIM * BYTES + 16)
    share = min(8 * sample // blocks + 64, sample)
    typical = sample / blocks * (DIM * BYTES + 16)
    counted = 8 * K * (DIM + 1)
    lines = [
        "# A billion vectors",
        "",
        f"What a fit on n = {N:.0e} vectors of d = {DIM} features in float32 costs, with K = {K} "
        "clusters. Written by `python benchmarks/scale.py`: change the constants there for your "
        "own. The machines are assumptions, not measurements: flop/s are what matrix products of "
        f"tiles reach, and prices what such machines cost by the hour in {PRICES_OF}, give or take "
        "a half.",
        "",
        "## What moves, and what is computed",
        "",
        f"- The vectors: n d {BYTES} bytes = {human(data, 'B')}. Three passes (moments and sample; "
        f"a step on all rows; labels) read {human(3 * data, 'B')}; labels and confidences are "
        f"{human(N * 12, 'B')}. The command works out the logits of the last pass thrice, for "
        "labels, confidences and the mean log-density; the figures below are for labels alone.",
        *(f"- {name}: {human(flops, 'flop')}." for name, flops in passes.items()),
        f"- Exponentials in the step: n K = {human(exps, 'exp')}, about 10 flop each.",
        f"- Heads and refinement see a sample of {sample:,} rows ({human(sample_bytes, 'B')}), "
        "whatever n is.",
        "",
        "## Seconds and money",
        "",
        "The time of a pass is the larger of reading and computing, on all machines at once; the "
        "sum of three passes, with the fit on the sample (50 steps and moves of 4 m d K flop each "
        "on one machine) between.",
        "",
        "| machines | read, one pass | compute, three passes | fit on the sample | in all | "
        "dollars |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for count, which in CLUSTERS:
        machine = MACHINES[which]
        rate = count * machine.cores * machine.flops_per_core
        read = data / (count * machine.store)
        work = [flops / rate for flops in passes.values()]
        work[1] += 10 * exps / rate
        solve = 50 * 4 * sample * DIM * K / (machine.cores * machine.flops_per_core)
        whole = sum(max(read, one) for one in work) + solve
        dollars = whole / 3600 * count * machine.dollars_per_hour
        lines.append(
            f"| {count} x {machine.name} | {duration(read)} | {duration(sum(work))} | "
            f"{duration(solve)} | {duration(whole)} | {dollars:.2f} |"
        )
    depth, width = 0, blocks
    while width > 1:
        width, depth = -(-width // WIDTH), depth + 1
    workers = 16
    up = blocks * moments * 8 / 7 + depth * sample_bytes
    large = SAMPLE_ROWS_PER_CLUSTER * 10**5 * DIM * BYTES
    lines += [
        "",
        "## Network, per worker",
        "",
        f"In blocks of {ROWS_PER_BLOCK:,} rows there are {blocks:,} of them, and the tree that "
        f"merges {WIDTH} at a time is {depth} levels deep. The state of a block is its moments, "
        f"8 d (d + 1) = {human(moments, 'B')}, and its part of the sample, in even blocks about "
        f"{human(typical, 'B')} and at most {share:,} rows. No vector moves otherwise.",
        "",
        f"- First pass: {blocks:,} moments and one sample up the tree, at most "
        f"{human(up, 'B')} in all; on {workers} "
        f"workers, each sends {human(up / workers, 'B')}, "
        f"if every merge were of another worker's states ({WIDTH - 1} of {WIDTH} are, at worst). "
        f"The vectors themselves are {human(data / workers, 'B')} per worker.",
        f"- Second pass: sums of each block, 8 K (d + 1) = {human(counted, 'B')}, so "
        f"{human(blocks * counted * 8 / 7 / workers, 'B')} per worker; the centres come back, "
        f"{human(K * DIM * BYTES, 'B')} each.",
        f"- At the client: one state, {human(moments + sample_bytes, 'B')}, and one array of sums.",
        "",
        "## On an engine",
        "",
        "`attnclust.distributed.AttentionClustering` does this on Dask. Elsewhere the map is "
        "`model.gather(part, stream=number)`, the reduction `a + b`, and the fit "
        "`model.fit_state(total)`; then `predict` labels the parts. Where parts are many, let each "
        "send `state.cut(rows)`, with several times its share of the sample, as Dask's do. Both "
        "examples were run once, in December 2026, with two processes on one machine, and found "
        "their four centres in 160,000 rows:",
        "",
        "- [Ray](../examples/moments_on_ray.py), release 2.60.0.",
        "- [Spark](../examples/moments_on_spark.py), PySpark 4.3.0 on Java 17.",
        "",
        "## What breaks first",
        "",
        "1. The store. Where it gives less than "
        f"{human(data / (2 * N * DIM**2 / (16 * 40e9)), 'B')}/s to a machine of 16 cores, the "
        "first pass waits for it. Files of 100 MB to 1 GB, in row groups that fit a batch, keep "
        "every reader busy.",
        "2. The number of clusters. Past K = d the two passes over K cost more than the moments, "
        f"and the sample grows with K: at K = 10^5 its {human(large, 'B')} "
        "no longer fit beside the tree's merges (a merge holds a sample twice); set `max_samples`.",
        "3. The features. Moments are 8 d^2 bytes per block and 2 n d^2 flop: at d = 4096 a state "
        f"is {human(8 * 4096**2, 'B')}, the first pass {human(2 * N * 4096**2, 'flop')}, and the "
        "eigenvectors, once, about "
        f"{human(10 * 4096**3, 'flop')}.",
        f"4. The scheduler. {blocks:,} blocks are some {3 * blocks:,} tasks, at about a "
        f"millisecond each {duration(3e-3 * blocks)} of overhead; blocks of a hundredth of the "
        f"size would make it {duration(3e-1 * blocks)}.",
        "5. Not precision: moments are summed in float64 about the mean of each tile, and merging "
        f"10^{len(str(N)) - 1} rows in a tree costs a few units in the last place for each of its "
        f"{depth} levels. Nor the keys of the sample: of {sample:,} rows among {N:.0e}, two share "
        "the 53 bits of theirs with a chance of "
        f"{sample**2 / 2 / (2**53 * sample / N):.0e}, which would change an order, no more.",
        "",
    ]
    wrap = {"width": 100, "break_long_words": False, "break_on_hyphens": False}
    return "\n".join(
        line if line.startswith(("|", "#")) else fill(line, **wrap, subsequent_indent=indent(line))
        for line in lines
    )


def indent(line):
    """Of the lines after the first of an item."""
    return " " * (2 if line.startswith("- ") else 3 if line[:1].isdigit() else 0)


if __name__ == "__main__":
    out = Path(__file__).parent.parent / "docs" / "scale.md"
    out.write_text(page())
    print(out)
