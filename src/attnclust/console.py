"""What the commands say and how they end: stages on a terminal, one-line errors, whole outputs."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import typer

DATA_ERROR, OUTPUT_ERROR, DEFECT, INTERRUPTED = 1, 3, 70, 130


class Stage:
    """Seconds of a stage of the work, readable once it is over."""

    seconds: float


@contextmanager
def answering(
    quiet: bool, interrupted: str = "interrupted; nothing was written"
) -> Iterator[Callable[[str], AbstractContextManager[Stage]]]:
    """Errors as one line and an exit code; yields what shows a stage on a terminal."""
    try:
        show = sys.stderr.isatty() and not quiet

        @contextmanager
        def stage(name: str) -> Iterator[Stage]:
            spinner: AbstractContextManager[object] = nullcontext()
            if show:
                from rich.console import Console
                from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

                spinner = Progress(
                    SpinnerColumn(),
                    TextColumn("{task.description}"),
                    TimeElapsedColumn(),
                    console=Console(stderr=True),
                    transient=True,
                )
                spinner.add_task(name)
            begun, taken = time.perf_counter(), Stage()
            with spinner:
                yield taken
            taken.seconds = round(time.perf_counter() - begun, 3)

        yield stage
    except (typer.Exit, typer.BadParameter):
        raise
    except (ValueError, MissingExtra) as error:
        _stop(str(error), DATA_ERROR)
    except (OutputError, OSError) as error:
        _stop(str(error), OUTPUT_ERROR)
    except MemoryError as error:
        _stop(f"out of memory: {error}", DATA_ERROR)
    except KeyboardInterrupt:
        _stop(interrupted, INTERRUPTED)
    except Exception as error:
        if os.environ.get("ATTNCLUST_TRACEBACK"):
            raise
        _stop(
            f"a defect of attnclust's own: {type(error).__name__}: {error} "
            "(ATTNCLUST_TRACEBACK=1 shows where)",
            DEFECT,
        )


class MissingExtra(ImportError):
    """An optional library is not installed."""


def require(extra: str, *modules: str) -> None:
    """Raise MissingExtra unless the modules of an extra can be imported."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"this needs {' and '.join(missing)}: pip install 'attnclust[{extra}]'")


class OutputError(Exception):
    """The results cannot be written."""


def tracking(done: Iterator[str], names: list[str], jobs: int, quiet: bool) -> None:
    """Show a bar on a terminal while names come in as they are done, in any order."""
    if quiet or not sys.stderr.isatty():
        for _ in done:
            pass
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    left = list(names)
    with Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task("", total=len(names))
        for name in chain([""], done):
            if name:
                left.remove(name)
                progress.advance(task)
            progress.update(task, description=f"running {', '.join(left[:jobs])}" if left else "")


def _stop(message: str, code: int) -> NoReturn:
    print(f"attnclust: error: {' '.join(message.split())}", file=sys.stderr)
    raise typer.Exit(code) from None


@contextmanager
def writable(out: Path) -> Iterator[Path]:
    """Make the folder `out`; yields a hidden one in it, gone in the end, as is what stays empty."""
    made = [p for p in (out, *out.parents) if not p.exists()]
    hidden = None
    try:
        try:
            out.mkdir(parents=True, exist_ok=True)
            hidden = Path(tempfile.mkdtemp(dir=out, prefix=".attnclust-"))
        except OSError as error:
            raise OutputError(f"{out}: cannot write there: {error.strerror}") from None
        yield hidden
    finally:
        if hidden is not None:
            shutil.rmtree(hidden, ignore_errors=True)
        _remove(made)


@contextmanager
def outputs(out: Path, file: Path, model_file: Path | None = None) -> Iterator[Path]:
    """A hidden folder within `out` for the results, which move up once all are written."""
    if model_file is not None and model_file.resolve().parent == out.resolve():
        raise OutputError(f"{out}: holds the model and its own labels; choose another folder")
    if file.resolve() == (out / f"labels{file.suffix.lower()}").resolve():
        raise OutputError(f"{file}: the labels would replace the input; choose another folder")
    with writable(out) as hidden:
        yield hidden
        results = sorted(hidden.iterdir())
        blocked = [out / r.name for r in results if (out / r.name).is_dir()]
        if blocked:
            raise OutputError(f"{blocked[0]}: a folder is in the way of the results")
        for result in results:
            result.replace(out / result.name)


def _remove(folders: list[Path]) -> None:
    """Remove folders that are empty, innermost first."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def print_table(summary: dict[str, Any]) -> None:
    """The summary of a run for people: clusters by size, scores, seconds, files."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    table = Table("cluster", "size", "share", box=SIMPLE_HEAD)
    for column in table.columns:
        column.justify = "right"
    ranked = sorted(summary["clusters"], key=lambda c: -c["size"])
    if "scores" in summary:
        table.add_column("mostly")
    for cluster in ranked[:30]:
        share = cluster["size"] / summary["rows"]
        row = [str(cluster["cluster"]), f"{cluster['size']:,}", f"{share:.1%}"]
        if "mostly" in cluster:
            row.append(escape(f"{cluster['mostly']} ({cluster['mostly_share']:.0%})"))
        table.add_row(*row)
    console.print(table)
    if len(ranked) > 30:
        console.print(f"  and {len(ranked) - 30} smaller ones")
    lines = [f"{summary['rows']:,} rows of {summary['features']} features"]
    if "reason" in summary:
        lines.append(f"{len(ranked)} cluster{'s' * (len(ranked) > 1)}: {summary['reason']}")
    if summary["unlabelled"]:
        lines.append(f"{summary['unlabelled']:,} rows below the threshold")
    if "scores" in summary:
        s = summary["scores"]
        lines.append(
            f"against known labels: ARI {s['ari']:.3f}, NMI {s['nmi']:.3f}, "
            f"matched accuracy {s['matched_accuracy']:.3f}"
        )
    lines.append("seconds: " + ", ".join(f"{k} {v:.2f}" for k, v in summary["seconds"].items()))
    lines += [f"wrote {name}" for name in summary["outputs"]]
    for line in lines:
        console.print(f"  {line}", soft_wrap=True, markup=False)


def print_groups(summary: dict[str, Any]) -> None:
    """How many groups have how many clusters, for people."""
    counts = summary["groups_by_clusters"].items()
    shown = ", ".join(f"{n:,} with {k}" for k, n in counts) or "none"
    lines = [
        f"{summary['groups']:,} groups of {summary['rows']:,} rows",
        f"clusters: {shown}",
        *(f"skipped: {why}" for why in list(summary["skipped"].values())[:10]),
        "seconds: " + ", ".join(f"{k} {v:.2f}" for k, v in summary["seconds"].items()),
        *(f"wrote {name}" for name in summary["outputs"]),
    ]
    if len(summary["skipped"]) > 10:
        lines.insert(-1, f"and {len(summary['skipped']) - 10} more skipped")
    for line in lines:
        print(f"  {line}")


def print_comparison(document: dict[str, Any]) -> None:
    """Methods best first, why some have no figures, and how far their labels agree, for people."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.padding import Padding
    from rich.table import Table

    from attnclust.compare.table import best_cell, cell, shown_columns

    console = Console(highlight=False)
    rows, agreement = document["methods"], document["agreement"]
    # A terminal is narrow: NMI and accuracy say nearly what ARI does, and K mostly goes unsaid.
    hidden = {"nmi", "matched_accuracy"}
    if not any(row["empty"] for row in rows):
        hidden.add("clusters")
    columns = [c for c in shown_columns(rows) if c.key not in hidden]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("method", no_wrap=True)
    for column in columns:
        table.add_column(column.head.lower().replace("ari", "ARI"), justify="right", no_wrap=True)
    best = [best_cell(rows, column) for column in columns]
    for row in rows:
        cells = [cell(row, column) for column in columns]
        marked = [f"[bold]{c}[/]" if c == b else c for c, b in zip(cells, best, strict=True)]
        table.add_row(row["method"], *marked)
    console.print(Padding(table, (0, 0, 0, 2)))
    matrix = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    matrix.add_column("agreement (ARI)")
    for place in range(len(agreement["methods"])):
        matrix.add_column(str(place + 1), justify="right")
    for place, name in enumerate(agreement["methods"]):
        values = agreement["adjusted_rand"][place]
        matrix.add_row(f"{place + 1} {name}", *(f"{value:.3f}" for value in values))
    console.print(Padding(matrix, (0, 0, 0, 2)))
    lines = [f"{row['method']}: {row['note']}" for row in rows if row["note"]]
    lines.append(f"best first: {document['order']}")
    lines.append("inertia: sum of squares about the means, over the least; seconds: of one run")
    for line in lines:
        console.print(Padding(escape(line), (0, 0, 0, 2)))
    for name in document.get("outputs", []):
        console.print(f"  wrote {name}", soft_wrap=True, markup=False)


def print_claims(rows: list[dict[str, Any]], page: Path) -> None:
    """Verdicts of the claims for people, and the settings in which one does not hold."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False)
    colours = {"holds": "green", "holds in part": "yellow", "fails": "red"}
    for row in rows:
        colour = colours[row["verdict"]]
        console.print(f"[bold]{row['claim']}[/] [{colour}]{row['verdict']}[/]: {row['title']}")
        for finding in row["findings"]:
            if not finding["holds"]:
                text = "not for {setting}: expected {expected}; measured {measured}"
                text = text.format(**finding)
                console.print(Padding(Text(text, style="dim"), (0, 0, 0, 6)))
    console.print(f"wrote {page}", soft_wrap=True, markup=False)
