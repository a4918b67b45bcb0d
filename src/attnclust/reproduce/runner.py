"""Running claims into a folder: numbers as Parquet, pictures as SVG and PNG, and nothing twice.

A claim is recorded once its Parquet file is there, which moves into the folder last; a stopped run
goes on with the claims that are not. The record says with which settings it was made.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from attnclust import __version__
from attnclust.reproduce.claims import CLAIM_IDS, load_claim, measure

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

METADATA = b"attnclust"


@dataclass(frozen=True)
class Run:
    """How a claim was run.

    Parameters
    ----------
    claim : str
        "C01" to "C25".
    quick : bool
    seeds : int
    random_state : int
    version : str
        Of the library.
    """

    claim: str
    quick: bool
    seeds: int
    random_state: int
    version: str = __version__


@dataclass(frozen=True)
class Record:
    """A claim that has been run.

    Parameters
    ----------
    run : Run
    seconds : float
        Of the experiment.
    frame : DataFrame
    """

    run: Run
    seconds: float
    frame: DataFrame


def read_record(folder: Path, claim_id: str) -> Record | None:
    """The record of a claim in a folder.

    Parameters
    ----------
    folder : Path
    claim_id : str

    Returns
    -------
    Record or None
        None where there is none, or what is there is not one.
    """
    try:
        table = pq.read_table(folder / f"{claim_id}.parquet")
        said: dict[str, Any] = json.loads(table.schema.metadata[METADATA])
        seconds = float(said.pop("seconds"))
        return Record(Run(**said), seconds, table.to_pandas())
    except (OSError, KeyError, TypeError, ValueError):  # pyarrow's errors are among them
        return None


def run_claims(
    claim_ids: Sequence[str],
    folder: Path,
    *,
    quick: bool = False,
    seeds: int | None = None,
    random_state: int = 0,
    jobs: int = 1,
) -> Iterator[str]:
    """Run the claims that the folder does not hold yet.

    Parameters
    ----------
    claim_ids : sequence of str
    folder : Path
        Exists and can be written.
    quick, seeds, random_state
        Of `measure`.
    jobs : int
        Processes, one thread each.

    Yields
    ------
    str
        Each claim once it is recorded; those that already were come first.
    """
    runs = [
        Run(claim, quick, seeds or load_claim(claim).SEEDS[quick], random_state)
        for claim in claim_ids
    ]
    missing = []
    for run in runs:
        record = read_record(folder, run.claim)
        if record is not None and record.run == run:
            yield run.claim
        else:
            missing.append(run)
    if jobs == 1 or len(missing) < 2:
        for run in missing:
            yield _run(run, folder)
        return
    # Fresh processes: forking one that holds BLAS threads may hang.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(_run, run, folder) for run in missing]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _run(run: Run, folder: Path) -> str:
    begun = time.perf_counter()
    with threadpool_limits(1):
        frame = measure(run.claim, quick=run.quick, seeds=run.seeds, random_state=run.random_state)
    said = asdict(run) | {"seconds": round(time.perf_counter() - begun, 2)}
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata({**table.schema.metadata, METADATA: json.dumps(said)})
    hidden = Path(tempfile.mkdtemp(dir=folder, prefix=".attnclust-"))
    try:
        names = [f"{run.claim}.{kind}" for kind in ("svg", "png", "parquet")]
        figure = load_claim(run.claim).draw(frame)
        for name in names[:2]:
            save_picture(figure, hidden / name)
        pq.write_table(table, hidden / names[2])
        for name in names:
            (hidden / name).replace(folder / name)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return run.claim


def save_picture(figure: Figure, path: Path) -> None:
    """Write a figure, the same bytes each time.

    Parameters
    ----------
    figure : matplotlib Figure
    path : Path
        .svg or .png
    """
    import matplotlib

    # No date and no random ids; text as paths, so that pictures look alike everywhere.
    with matplotlib.rc_context({"svg.hashsalt": "attnclust", "svg.fonttype": "path"}):
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else {})


def recorded(folder: Path) -> list[Record]:
    """All claims that a folder holds.

    Parameters
    ----------
    folder : Path

    Returns
    -------
    list of Record
        In the order of their ids.
    """
    found = (read_record(folder, claim) for claim in CLAIM_IDS)
    return [record for record in found if record is not None]
