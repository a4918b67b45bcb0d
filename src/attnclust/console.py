"""What the commands say and how they end: stages on a terminal, one-line errors, whole outputs."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NoReturn

import typer

DATA_ERROR, OUTPUT_ERROR, DEFECT, INTERRUPTED = 1, 3, 70, 130


class Stage:
    """Seconds of a stage of the work, readable once it is over."""

    seconds: float


@contextmanager
def answering(quiet: bool) -> Iterator[Callable[[str], AbstractContextManager[Stage]]]:
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
    except ValueError as error:
        _stop(str(error), DATA_ERROR)
    except (OutputError, OSError) as error:
        _stop(str(error), OUTPUT_ERROR)
    except MemoryError as error:
        _stop(f"out of memory: {error}", DATA_ERROR)
    except KeyboardInterrupt:
        _stop("interrupted; nothing was written", INTERRUPTED)
    except Exception as error:
        if os.environ.get("ATTNCLUST_TRACEBACK"):
            raise
        _stop(
            f"a defect of attnclust's own: {type(error).__name__}: {error} "
            "(ATTNCLUST_TRACEBACK=1 shows where)",
            DEFECT,
        )


class OutputError(Exception):
    """The results cannot be written."""


def _stop(message: str, code: int) -> NoReturn:
    print(f"attnclust: error: {' '.join(message.split())}", file=sys.stderr)
    raise typer.Exit(code) from None


@contextmanager
def outputs(out: Path, file: Path, model_file: Path | None = None) -> Iterator[Path]:
    """A hidden folder within `out` for the results, which move up once all are written."""
    if model_file is not None and model_file.resolve().parent == out.resolve():
        raise OutputError(f"{out}: holds the model and its own labels; choose another folder")
    if file.resolve() == (out / f"labels{file.suffix.lower()}").resolve():
        raise OutputError(f"{file}: the labels would replace the input; choose another folder")
    made = [p for p in (out, *out.parents) if not p.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        hidden = Path(tempfile.mkdtemp(dir=out, prefix=".attnclust-"))
    except OSError as error:
        _remove(made)
        raise OutputError(f"{out}: cannot write there: {error.strerror}") from None
    try:
        yield hidden
        results = sorted(hidden.iterdir())
        blocked = [out / r.name for r in results if (out / r.name).is_dir()]
        if blocked:
            raise OutputError(f"{blocked[0]}: a folder is in the way of the results")
        for result in results:
            result.replace(out / result.name)
        hidden.rmdir()
    except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        _remove(made)
        raise


def _remove(folders: list[Path]) -> None:
    """Folders made in vain, innermost first; those that others have filled since stay."""
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
