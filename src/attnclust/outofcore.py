"""Fits of files past the memory: budget, checkpoint, faulty parts, labels written as they come.

Three passes: moments and sample, a step on all rows, labels. Each holds a batch and the sample, of
sizes that follow from the budget; nothing kept grows with the number of rows.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from attnclust._typing import FloatArray, IntArray
from attnclust.datasets import ChangedError, Dataset, open_dataset
from attnclust.estimators import AttentionClustering, at
from attnclust.files import InputError, beside, known_labels
from attnclust.persistence import load_state, save_state
from attnclust.scores import table_scores
from attnclust.sources import Source
from attnclust.summary import describe, name_mostly

# Vectors of more than this share of the budget are read in parts; in memory there is a copy or two.
SHARE = 0.5
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
UNITS |= {f"{u}I": 2 ** (10 * p) for p, u in enumerate("KMGT", 1)}
CHECKPOINT = "checkpoint.safetensors"
SECONDS_BETWEEN = 10.0


def parse_bytes(text: str) -> int:
    """Bytes of a size such as 2GB (10^9 each) or 2GiB (2^30).

    Parameters
    ----------
    text : str

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If it is no size.

    Examples
    --------
    >>> parse_bytes("1.5 GB"), parse_bytes("1KiB")
    (1500000000, 1024)
    """
    found = re.fullmatch(r"\s*(\d+\.?\d*)\s*([KMGT]?I?)B?\s*", text.upper())
    if not found or found[2] not in UNITS or float(found[1]) == 0:
        raise ValueError(f"{text!r} is no size of memory: write 500MB, 2GB or 2GiB")
    return int(float(found[1]) * UNITS[found[2]])


def free_memory() -> int:
    """Bytes that a program may still take: of the machine, or of its control group if less."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024 * int(next(ln.split()[1] for ln in lines if ln.startswith("MemAvailable")))
    group = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError):  # "max" is no number
        limit = int((group / "memory.max").read_text())
        free = min(free, limit - int((group / "memory.current").read_text()))
    return max(free, 0)


def resident_memory() -> int:
    """Bytes of this process in memory; zero where the system does not tell."""
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


@dataclass(frozen=True)
class Plan:
    """What a budget allows: bytes of vectors in a batch, rows in the sample."""

    batch_bytes: int
    sample_rows: int


def plan(budget: int, dim: int, itemsize: int, n_clusters: int, wanted: int) -> Plan:
    """Divide a budget among moments, sample and batches.

    Parameters
    ----------
    budget : int
        Bytes for data.
    dim, itemsize, n_clusters : int
    wanted : int
        Rows of the sample where the budget does not matter.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        Saying what would do, if the budget is too small for 20 rows of the sample per cluster.
    """
    # Scatters of state, part and batch, and the eigenvectors, of d x d in float64. Spare: what the
    # libraries take when first used.
    moments = 64 * dim**2 + 3 * 2**23
    # A row of the sample is held by the state, by the merged one and by the part; or the state's
    # stands beside its scores and attention weights.
    row = 3 * dim * itemsize + 48 * n_clusters
    # A batch: as decoded (measured: six times, of Parquet), as validated, its logits thrice.
    copies = 8 + 3 * n_clusters / dim
    least = max(20 * n_clusters, 1000)
    rows = min(wanted, int((budget - moments) * 0.6 / row))
    batch = int((budget - moments) * 0.3 / copies)
    if rows < min(least, wanted) or batch < 2**16:
        need = moments + max(min(least, wanted) * row / 0.6, 2**16 * copies / 0.3)
        raise ValueError(
            f"{budget / 1e6:.0f} MB for data are too little for {n_clusters} clusters of {dim} "
            f"features: give {(need - budget) / 1e6 + 1:.0f} MB more by --memory"
        )
    return Plan(min(batch, 2**26), rows)


def past_memory(
    file: Path,
    memory: str | None,
    model: AttentionClustering,
    vectors: tuple[str, ...],
    label_column: str | None,
    keep: tuple[str, ...] | None,
    *,
    always: bool = False,
) -> tuple[Dataset, int] | None:
    """Open a file that does not fit in memory, in batches that do.

    Parameters
    ----------
    file : path
    memory : str or None
        Most memory to take; None is half of what is free.
    model : AttentionClustering
        Says how many clusters, and rows of the sample, are wanted.
    vectors, label_column, keep
        Of `open_dataset`.
    always : bool
        Read a file in parts though it fits.

    Returns
    -------
    dataset : Dataset
    sample_rows : int
        Rows of the sample that the memory allows. None in place of both where the file fits.

    Raises
    ------
    ValueError
        If the memory will not do, or is no size.
    """
    budget = free_memory() // 2 if memory is None else parse_bytes(memory)
    if not (always or file.is_dir()):
        readable = file.suffix.lower() in (".npy", ".parquet") or memory is not None
        # Not even twenty times its size on the disk would be too large.
        if not readable or not file.is_file() or file.stat().st_size * 20 < SHARE * budget:
            return None
    dataset = open_dataset(file, vectors, label_column, keep)
    if not (always or file.is_dir()) and dataset.nbytes <= SHARE * budget:
        return None
    itemsize = 4 if dataset.dtype in (np.float16, np.float32) else 8
    if find_spec("matplotlib") is not None:
        import_module("matplotlib.figure")  # for the picture, and part of what is resident
    room = budget - resident_memory()
    planned = plan(room, dataset.dim, itemsize, model._least_clusters, model._most_rows())
    dataset = open_dataset(file, vectors, label_column, keep, planned.batch_bytes)
    return dataset, planned.sample_rows


@dataclass
class Progress:
    """How far the first pass is: parts done, and those passed over."""

    done: int = 0
    skipped: list[dict[str, Any]] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """The parts passed over."""
        return {entry["part"] for entry in self.skipped}


def gather(
    model: AttentionClustering,
    dataset: Dataset,
    checkpoint: Path,
    *,
    skip: bool,
    resume: bool,
) -> Progress:
    """Moments and sample of all parts, into the model's state.

    Parameters
    ----------
    model : AttentionClustering
        Not fitted.
    dataset : Dataset
    checkpoint : path
        Where the state goes every ten seconds, when a part fails, and at the end.
    skip : bool
        Pass over parts that cannot be read or hold rows that cannot be used.
    resume : bool
        Go on from the checkpoint if there is one.

    Returns
    -------
    Progress

    Raises
    ------
    InputError
        If a checkpoint is of other files or parameters, a file changes, or a part fails.
    """
    identity = dataset.identity | {"metric": model.metric, "seed": model.random_state}
    progress = Progress()
    if resume and checkpoint.exists():
        state, about = load_state(checkpoint)
        other = [key for key, value in identity.items() if about["identity"].get(key) != value]
        if other:
            raise InputError(
                f"{checkpoint}: is of a run with other {', '.join(other)}: run without --resume"
            )
        progress = Progress(**about["progress"])
        model.partial_fit(np.empty((0, dataset.dim), state.rows.dtype))
        model._take(state)

    def save() -> None:
        if "state_" in model.__dict__:
            about = {"identity": identity, "progress": asdict(progress)}
            save_state(model.state_, checkpoint, about)

    saved = time.monotonic()
    for part in dataset.parts[progress.done :]:
        before = model.__dict__.get("state_")
        try:
            for batch in part.read(False):
                with at(batch.where):
                    model.partial_fit(batch.X)
        except BaseException as error:
            model.__dict__.pop("state_", None)
            if before is not None:
                model._take(before)
            if not skip or not isinstance(error, ValueError) or isinstance(error, ChangedError):
                with suppress(OSError):
                    save()
                raise
            progress.skipped.append({"part": part.where, "rows": part.n_rows, "error": str(error)})
        progress.done += 1
        if time.monotonic() - saved > SECONDS_BETWEEN:
            save()
            saved = time.monotonic()
    if "state_" not in model.__dict__:
        raise InputError(f"{dataset.path}: no part can be used: {progress.skipped[0]['error']}")
    save()
    return progress


@dataclass
class Tally:
    """What the pass over labels counts."""

    sizes: IntArray
    rows: int = 0
    log_density: float = 0.0
    kinds: Counter[tuple[str, int]] = field(default_factory=Counter)


def label(
    model: AttentionClustering,
    dataset: Dataset,
    progress: Progress,
    folder: Path,
    label_column: str | None,
) -> Tally:
    """The third pass: labels, written as they come; rows of parts passed over get -1.

    Parameters
    ----------
    model : AttentionClustering
        Fitted.
    dataset : Dataset
    progress : Progress
        Names the parts passed over.
    folder : path
        Gets labels.parquet with the columns carried along, or labels.npy.
    label_column : str, optional
        Column of known labels, to be counted by cluster.

    Returns
    -------
    Tally
    """
    tally = Tally(np.zeros(len(model.weights_), dtype=np.int64))
    write, close = _writer(dataset, folder, np.dtype(model.cluster_centers_.dtype))
    try:
        for part in dataset.parts:
            tally.rows += part.n_rows
            if part.where in progress.names:
                none = np.full(part.n_rows, -1)
                write(none, np.full(part.n_rows, np.nan), None)
                continue
            for batch in part.read(True):
                with at(batch.where):
                    found = model._told(model._new_rows(batch.X))
                labels = found.labels
                tally.log_density += float(found.log_density.sum())
                tally.sizes += np.bincount(labels[labels >= 0], minlength=len(model.weights_))
                if label_column is not None:
                    known = known_labels(batch.aside[label_column].to_pylist())
                    told = [
                        (str(name), int(k))
                        for name, k in zip(known, labels, strict=True)
                        if name is not None
                    ]
                    tally.kinds.update(told)
                write(labels, found.confidence, batch.aside)
    finally:
        close()
    return tally


def _writer(
    dataset: Dataset, folder: Path, dtype: np.dtype[Any]
) -> tuple[Callable[[IntArray, FloatArray, Any], None], Callable[[], None]]:
    """Functions that write the labels of a batch, and close the file."""
    if dataset.schema is None:
        file = (folder / "labels.npy").open("wb")
        header = {"descr": "<i8", "fortran_order": False, "shape": (dataset.n_rows,)}
        np.lib.format.write_array_header_1_0(file, header)
        return lambda labels, _confidence, _aside: _append(file, labels), file.close
    aside = pa.schema([f.with_nullable(True) for f in dataset.schema])
    empty = {"cluster": np.empty(0, np.int64), "confidence": np.empty(0, dtype)}
    whole = beside(aside.empty_table(), empty).schema
    table = pq.ParquetWriter(folder / "labels.parquet", whole)

    def write(labels: IntArray, confidence: FloatArray, beside_: Any) -> None:
        n = len(labels)
        columns = [
            pa.nulls(n, f.type) if beside_ is None else beside_[f.name].cast(f.type) for f in aside
        ]
        columns += [pa.array(labels.astype(np.int64)), pa.array(confidence.astype(dtype))]
        table.write_table(pa.table(columns, schema=whole))

    return write, table.close


def _append(file: Any, labels: IntArray) -> None:
    file.write(labels.astype("<i8").tobytes())


def finish(model: AttentionClustering, dataset: Dataset, progress: Progress) -> None:
    """The second pass: fit on the state, and a step on all rows that it has seen."""
    skipped = progress.names
    model._finish(Source([p for p in dataset.parts if p.where not in skipped], True))


def summarize_dataset(
    dataset: Dataset, model: AttentionClustering, tally: Tally, progress: Progress
) -> dict[str, Any]:
    """The summary of `summarize`, from what was counted, and the parts passed over."""
    names = dataset.names if len(dataset.names) <= 20 else [*dataset.names[:19], "..."]
    read = tally.rows - sum(entry["rows"] for entry in progress.skipped)
    score = tally.log_density / max(read, 1)
    shape = (tally.rows, dataset.dim)
    summary = describe("fit", dataset.path, names, shape, model, tally.sizes, score)
    if tally.kinds:
        kinds = sorted({name for name, _ in tally.kinds})
        place = {name: row for row, name in enumerate(kinds)}
        table = np.zeros((len(kinds), len(model.weights_) + 1), dtype=np.int64)
        for (name, k), count in tally.kinds.items():
            table[place[name], k] = count  # -1 is the last column
        summary["scores"] = table_scores(table)
        for cluster in summary["clusters"]:
            name_mostly(cluster, np.array(kinds), table[:, cluster["cluster"]])
    summary["parts"] = len(dataset.parts)
    summary["skipped"] = progress.skipped
    return summary
