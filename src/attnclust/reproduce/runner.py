"""Running claims into a folder: numbers as Parquet, pictures as SVG and PNG, and nothing twice.

A claim is recorded once its Parquet file is there, which moves into the folder last; a stopped run
goes on with the claims that are not. The record says with which settings it was made.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from joblib import Parallel, delayed
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
    source : str
        Digest of the claim's code, and of the claims' that it builds on.
    """

    claim: str
    quick: bool
    seeds: int
    random_state: int
    version: str
    source: str

    @classmethod
    def of(
        cls, claim_id: str, *, quick: bool = False, seeds: int | None = None, random_state: int = 0
    ) -> Run:
        """The run that `measure` would make now with these settings."""
        claim = load_claim(claim_id)
        code = inspect.getsource(cast(ModuleType, claim))
        for other in sorted(set(re.findall(r"attnclust\.reproduce\.(c\d\d)", code))):
            code += inspect.getsource(cast(ModuleType, load_claim(other)))
        source = hashlib.sha256(code.encode()).hexdigest()[:16]
        return cls(claim_id, quick, seeds or claim.SEEDS[quick], random_state, __version__, source)


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
        None where there is none, or what is there was made by other code.
    """
    try:
        table = pq.read_table(folder / f"{claim_id}.parquet")
        said: dict[str, Any] = json.loads(table.schema.metadata[METADATA])
        seconds = float(said.pop("seconds"))
        run = Run(**said)
        now = Run.of(claim_id)
        if (run.claim, run.version, run.source) != (claim_id, now.version, now.source):
            return None
        return Record(run, seconds, table.to_pandas())
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
        Processes, one thread each; 1 is this one.

    Yields
    ------
    str
        Each claim once it is recorded; those that already were come first.
    """
    missing = []
    for claim in claim_ids:
        run = Run.of(claim, quick=quick, seeds=seeds, random_state=random_state)
        record = read_record(folder, claim)
        if record is not None and record.run == run:
            yield run.claim
        else:
            missing.append(run)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".attnclust-") as scratch:
        work = (delayed(_run)(run, folder, Path(scratch)) for run in missing)
        yield from Parallel(jobs, return_as="generator_unordered")(work)


def _run(run: Run, folder: Path, scratch: Path) -> str:
    begun = time.perf_counter()
    with threadpool_limits(1):
        frame = measure(run.claim, quick=run.quick, seeds=run.seeds, random_state=run.random_state)
    said = asdict(run) | {"seconds": round(time.perf_counter() - begun, 2)}
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata({**table.schema.metadata, METADATA: json.dumps(said)})
    names = [f"{run.claim}.{kind}" for kind in ("svg", "png", "parquet")]
    figure = load_claim(run.claim).draw(frame)
    for name in names[:2]:
        save_picture(figure, scratch / name)
    pq.write_table(table, scratch / names[2])
    for name in names:
        (scratch / name).replace(folder / name)
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
