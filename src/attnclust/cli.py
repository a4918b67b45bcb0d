"""The command line. Heavy modules load inside the commands."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from attnclust import __version__
from attnclust.console import (
    OUTPUT_ERROR,
    OutputError,
    Stage,
    answering,
    outputs,
    print_claims,
    print_comparison,
    print_groups,
    print_table,
    require,
    tracking,
    writable,
)

if TYPE_CHECKING:
    from attnclust.datasets import Dataset
    from attnclust.estimators import AttentionClustering
    from attnclust.files import Vectors

app = typer.Typer(
    help="Cluster vectors by attention heads.",
    epilog="Exit codes: 0 done; 1 the input, the model file or a missing extra is at fault; 2 "
    "wrong usage; 3 the output cannot be written; 70 a defect of attnclust's own; 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Metric(StrEnum):
    """Geometry of the rows."""

    euclidean = "euclidean"
    cosine = "cosine"


class Solver(StrEnum):
    """How heads are found."""

    fixed_point = "fixed_point"
    pgd = "pgd"


class OnError(StrEnum):
    """What a faulty set does."""

    stop = "raise"
    skip = "skip"


File = Annotated[Path, typer.Argument(help=".npy, .npz, .csv, .tsv, .parquet or .feather.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")]
VectorColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--vectors",
        metavar="COLUMN",
        help="List-typed column, or (repeated) the numeric columns, or the array of an .npz. By "
        "default the only column of number lists, else all numeric columns but identifiers (id, "
        "index, row, ..._id), the label column and those kept.",
    ),
]
LabelColumn = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Known labels to score against.")
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN", help="Carry this column along (repeated), not all that are no vectors."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"attnclust {__version__}")
        raise typer.Exit


@app.command()
def fit(
    file: File,
    clusters: Annotated[
        str, typer.Option("--clusters", "-k", help="Number of clusters K, or auto to choose it.")
    ],
    out: Out,
    vectors: VectorColumns = None,
    label_column: LabelColumn = None,
    keep: Keep = None,
    metric: Annotated[
        Metric, typer.Option(help="cosine: rows and centres at unit length.")
    ] = Metric.euclidean,
    solver: Annotated[
        Solver, typer.Option(help="pgd: gradient training, as published.")
    ] = Solver.fixed_point,
    threshold: Annotated[
        float | None, typer.Option(help="Label -1 where the largest posterior is below it.")
    ] = None,
    max_samples: Annotated[
        int | None, typer.Option(help="Most rows that heads and refinement look at.")
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Write report.html, too: map, clusters, why K.")
    ] = False,
    text_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Text that the report shows of a row.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="What the report calls a row.")
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Most memory to take, as in 2GB; by default half of what is free. FILE is read "
            "part by part if its vectors are more than half of it, or if it is a folder.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on from the checkpoint of a stopped run on large files."),
    ] = False,
    on_error: Annotated[
        OnError, typer.Option(help="What a part of large files that cannot be used does.")
    ] = OnError.stop,
    seed: Annotated[int, typer.Option(help="Seed; the same one repeats the result.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Cluster the vectors of FILE; write labels, model, summary and a picture into a folder.

    FILE may be a folder of Parquet files.
    """
    wanted = _number_of_clusters(clusters)
    shown = [column for column in (text_column, id_column) if column is not None]
    if shown and not report:
        raise typer.BadParameter("only the report shows columns: add --report")
    with answering(quiet, "interrupted; no results were written") as stage:
        if report:
            require("report", "plotly")
        with stage("loading"):
            import numpy as np

            from attnclust.estimators import AttentionClustering
            from attnclust.files import InputError, write_labels
            from attnclust.outofcore import past_memory
            from attnclust.persistence import save_model
            from attnclust.summary import draw, how_it_went, record, summarize
        model = AttentionClustering(
            wanted,
            metric=metric.value,
            solver=solver.value,
            threshold=threshold,
            max_samples="auto" if max_samples is None else max_samples,
            random_state=seed,
        )
        skip = on_error is OnError.skip
        columns = tuple(vectors or ()), label_column, None if keep is None else tuple(keep)
        found = past_memory(file, memory, model, *columns, always=resume or skip)
        if found is not None:
            if report:
                raise InputError(
                    f"{file}: is read part by part, and a report needs all rows at once: raise "
                    "--memory or drop --report"
                )
            dataset, most = found
            model.max_samples = most
            summary = _fit_in_parts(
                model, dataset, out, stage, label_column, skip=skip, resume=resume
            )
            _answer(summary, as_json=as_json, quiet=quiet)
            return
    with answering(quiet) as stage, outputs(out, file) as folder:
        with stage(f"reading {file.name}") as reading:
            rows = _read(file, vectors, label_column, keep, shown=shown)
        with _naming(file, rows), stage(f"clustering {rows.X.shape[0]:,} rows") as fitting:
            model.fit(rows.X)
        with stage("writing") as writing:
            confidence = model.confidence(rows.X)
            write_labels(folder, file.suffix.lower(), model.labels_, confidence, rows.carried)
            draw(model, rows.X, folder / "clusters.png", model.labels_)
            summary = summarize("fit", file, rows, model, model.labels_)
            summary |= how_it_went(model)
            summary["seconds"] = {"read": reading.seconds, "fit": fitting.seconds}
        if report:
            with stage("writing the report") as reporting:
                from attnclust.report import write_report

                write_report(
                    folder / "report.html",
                    model,
                    rows.X,
                    summary,
                    ids=rows.shown.get(id_column or ""),
                    texts=rows.shown.get(text_column or ""),
                    known=rows.known,
                    random_state=seed,
                )
            summary["seconds"]["report"] = reporting.seconds
        if rows.named:  # so that predict finds the columns again; last, as X here has no names
            model.feature_names_in_ = np.array(rows.names, dtype=object)
        save_model(model, folder / "model.safetensors")
        summary["seconds"]["write"] = writing.seconds
        record(summary, folder, out)
    _answer(summary, as_json=as_json, quiet=quiet)


@app.command()
def predict(
    model_file: Annotated[Path, typer.Argument(metavar="MODEL", help="model.safetensors")],
    file: File,
    out: Out,
    vectors: VectorColumns = None,
    label_column: LabelColumn = None,
    keep: Keep = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Label the vectors of FILE by a fitted MODEL; write labels and a summary into a folder."""
    with answering(quiet) as stage, outputs(out, file, model_file) as folder:
        with stage("loading"):
            from attnclust.files import write_labels
            from attnclust.persistence import load_model
            from attnclust.summary import record, summarize
        with stage(f"reading {file.name}") as reading:
            model = load_model(model_file)
            # Rows are read in the order of these names, and have none themselves from here on.
            features = list(getattr(model, "feature_names_in_", ()))
            if features:
                del model.feature_names_in_
            rows = _read(file, vectors, label_column, keep, features)
        with _naming(file, rows), stage(f"labelling {rows.X.shape[0]:,} rows") as predicting:
            labels = model.predict(rows.X)
            confidence = model.confidence(rows.X)
        with stage("writing"):
            write_labels(folder, file.suffix.lower(), labels, confidence, rows.carried)
        summary = summarize("predict", file, rows, model, labels)
        summary["model"] = str(model_file)
        summary["seconds"] = {"read": reading.seconds, "predict": predicting.seconds}
        record(summary, folder, out)
    _answer(summary, as_json=as_json, quiet=quiet)


@app.command()
def incontext(
    file: File,
    group_column: Annotated[
        str, typer.Option(metavar="COLUMN", help="Rows of one value are one set.")
    ],
    out: Out,
    clusters: Annotated[
        str, typer.Option("--clusters", "-k", help="Number of clusters in each set, or auto.")
    ] = "auto",
    vectors: VectorColumns = None,
    keep: Keep = None,
    on_error: Annotated[
        OnError, typer.Option(help="What a set that cannot be clustered does.")
    ] = OnError.stop,
    seed: Annotated[int, typer.Option(help="Seed; the same one repeats the result.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Cluster each set of vectors of FILE by itself: the rows of one document, image, session."""
    wanted = _number_of_clusters(clusters)
    with answering(quiet) as stage, outputs(out, file) as folder:
        with stage("loading"):
            import numpy as np
            import pyarrow as pa

            from attnclust.files import InputError, write_labels, write_table
            from attnclust.prompts import InContextClustering
            from attnclust.summary import record
        with stage(f"reading {file.name}") as reading:
            rows = _read(file, vectors, group_column, keep)
            groups = rows.known
            missing = [] if groups is None else [n for n, g in enumerate(groups) if g is None]
            if missing:
                raise InputError(
                    f"{file}: row {missing[0]} (counted from 0) has no {group_column!r} "
                    f"({len(missing)} have none): fill it or drop such rows"
                )
        model = InContextClustering(
            wanted,
            on_error="skip" if on_error is OnError.skip else "raise",
            random_state=seed,
        )
        with _naming(file, rows), stage(f"clustering {rows.X.shape[0]:,} rows") as fitting:
            model.fit(rows.X, groups=groups)
        with stage("writing"):
            suffix = file.suffix.lower()
            write_labels(folder, suffix, model.labels_, model.confidence_, rows.carried)
            names = model.groups_.tolist()
            table = {
                group_column: names,
                "rows": model.sizes_,
                "clusters": model.n_clusters_,
                "noise_variance": model.noise_variance_,
                "error": [model.errors_.get(name) for name in names],
            }
            kind = ".csv" if suffix == ".npz" else suffix
            write_table(pa.table(table), folder / f"groups{kind}")
        counts = np.bincount(model.n_clusters_)
        summary: dict[str, Any] = {
            "command": "incontext",
            "version": __version__,
            "file": str(file),
            "rows": int(rows.X.shape[0]),
            "features": int(rows.X.shape[1]),
            "groups": len(names),
            "skipped": {str(name): why for name, why in model.errors_.items()},
            "groups_by_clusters": {str(k): int(n) for k, n in enumerate(counts) if n and k},
            "parameters": model.get_params(),
            "seconds": {"read": reading.seconds, "fit": fitting.seconds},
        }
        record(summary, folder, out)
    if as_json:
        print(json.dumps(summary))
    elif not quiet:
        print_groups(summary)


@app.command()
def compare(
    file: File,
    clusters: Annotated[int, typer.Option("--clusters", "-k", help="Number of clusters K.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the results; without, no files.")
    ] = None,
    vectors: VectorColumns = None,
    label_column: LabelColumn = None,
    keep: Keep = None,
    metric: Annotated[
        Metric, typer.Option(help="cosine: all methods get rows of unit length.")
    ] = Metric.euclidean,
    starts: Annotated[
        int, typer.Option(min=1, help="Starts of the k-means that keeps the best.")
    ] = 10,
    seed: Annotated[int, typer.Option(help="Seed of all methods.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Cluster the vectors of FILE by attention, k-means, EM and others; say how they compare.

    The folder gets a page, the same as JSON, and the labels of each method.
    """
    writing = nullcontext() if out is None else outputs(out, file)
    with answering(quiet) as stage, writing as folder:
        with stage("loading"):
            import attnclust.compare as comparing
            from attnclust.compare.report import describe, write_results
        with stage(f"reading {file.name}"):
            rows = _read(file, vectors, label_column, keep)
        with _naming(file, rows):
            found = comparing.compare(
                rows.X,
                clusters,
                known=rows.known,
                metric=metric.value,
                n_starts=starts,
                random_state=seed,
                running=stage,
            )
        summary = describe(file, rows, found, label_column, seed)
        if out is not None and folder is not None:
            with stage("writing"):
                write_results(folder, out, file.suffix.lower(), summary, found, rows.carried)
    if as_json:
        print(json.dumps(summary))
    elif not quiet:
        print_comparison(summary)


@app.command()
def inspect(
    model_file: Annotated[Path, typer.Argument(metavar="MODEL", help="model.safetensors")],
    as_json: Json = False,
) -> None:
    """Show what a MODEL file holds."""
    with answering(quiet=True):
        from attnclust.persistence import describe_model, load_model

        document = describe_model(model_file)
        weights = load_model(model_file).weights_.tolist()
        if as_json:
            print(json.dumps({**document, "weights": weights}))
            return
        attributes, history = document["attributes"], document["history"]
        print(f"{document['class']}, written by attnclust {document['library_version']}")
        print(f"clusters        {len(weights)}")
        print(f"features        {attributes['n_features_in_']}")
        print(f"noise variance  {attributes['noise_variance_']:.6g}")
        print(f"start           {history['start']}")
        print(f"attention steps {attributes['n_iter_']}")
        print(f"stopped because {history['reason']}")
        if document["selection"] is not None:
            print(f"why so many     {document['selection']['reason']}")
        print("parameters      " + ", ".join(f"{k}={v}" for k, v in document["parameters"].items()))
        print("weights         " + " ".join(f"{w:.4f}" for w in weights))


@app.command()
def reproduce(
    claims: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="C01 to C25; all by default.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small versions: seconds each.")] = False,
    seeds: Annotated[
        int | None, typer.Option(min=2, help="Seeds per setting; by default each claim's own.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path(
        "reproduction"
    ),
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; by default as many as cores.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Master seed.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the claims of the method; write numbers, pictures and one page of verdicts into a folder.

    A claim that the folder holds already, run with the same settings, is not run again: a stopped
    run goes on where it was.
    """
    with answering(quiet, "interrupted; the claims that were done are kept: run again to go on"):
        require("reproduce", "pandas", "matplotlib")
        from dataclasses import asdict

        from attnclust.reproduce.claims import CLAIM_IDS, find_claim
        from attnclust.reproduce.page import judge_record, write_page
        from attnclust.reproduce.runner import recorded, run_claims

        chosen = sorted({find_claim(claim) for claim in claims or CLAIM_IDS})
        jobs = jobs or len(os.sched_getaffinity(0))
        with writable(out):
            done = run_claims(chosen, out, quick=quick, seeds=seeds, random_state=seed, jobs=jobs)
            tracking(done, chosen, jobs, quiet)
            sections = [judge_record(record) for record in recorded(out)]
            page = write_page(sections, out)
        rows = [
            {
                "claim": section.record.run.claim,
                "title": section.title,
                "verdict": section.verdict,
                "seconds": section.record.seconds,
                "findings": [asdict(finding) for finding in section.findings],
            }
            for section in sections
            if section.record.run.claim in chosen
        ]
    if as_json:
        print(json.dumps(rows))
    elif not quiet:
        print_claims(rows, page)


def main() -> None:
    """Entry point of the command."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            app(prog_name="attnclust")
        finally:
            sys.stdout.flush()
    except OSError as error:
        # Python would try once more to write what it still holds.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"attnclust: error: standard output: {error.strerror}", file=sys.stderr)
        sys.exit(OUTPUT_ERROR)


def _number_of_clusters(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    if not text.isdecimal():
        raise typer.BadParameter("a number or auto", param_hint="--clusters")
    return int(text)


def _fit_in_parts(
    model: AttentionClustering,
    dataset: Dataset,
    out: Path,
    stage: Callable[[str], AbstractContextManager[Stage]],
    label_column: str | None,
    *,
    skip: bool,
    resume: bool,
) -> dict[str, Any]:
    """What `fit` does, for files that are read part by part, thrice."""
    import numpy as np

    from attnclust.outofcore import CHECKPOINT, finish, gather, label, summarize_dataset
    from attnclust.persistence import save_model
    from attnclust.summary import draw, how_it_went, record

    file, checkpoint = dataset.path, out / CHECKPOINT
    if file.is_dir() and out.resolve().is_relative_to(file.resolve()):
        raise OutputError(f"{out}: lies in the folder that is read; choose another")
    with outputs(out, file) as folder:
        with stage(f"reading {dataset.n_rows:,} rows in {len(dataset.parts):,} parts") as reading:
            progress = gather(model, dataset, checkpoint, skip=skip, resume=resume)
        with stage("clustering") as fitting:
            finish(model, dataset, progress)
        with stage("labelling") as labelling:
            tally = label(model, dataset, progress, folder, label_column)
        draw(model, model.state_.rows, folder / "clusters.png")
        summary = summarize_dataset(dataset, model, tally, progress)
        if dataset.named:
            model.feature_names_in_ = np.array(dataset.names, dtype=object)
        save_model(model, folder / "model.safetensors")
        summary |= how_it_went(model)
        summary["seconds"] = {
            "read": reading.seconds,
            "fit": fitting.seconds,
            "label": labelling.seconds,
        }
        record(summary, folder, out)
    checkpoint.unlink(missing_ok=True)
    return summary


def _read(
    file: Path,
    vectors: list[str] | None,
    label_column: str | None,
    keep: list[str] | None,
    features: Sequence[str] = (),
    shown: Sequence[str] = (),
) -> Vectors:
    from attnclust.files import read_vectors

    return read_vectors(file, vectors or (), label_column, keep, features, shown)


@contextmanager
def _naming(file: Path, rows: Vectors) -> Iterator[None]:
    """Say of which file, and which columns, an error about rows speaks."""
    try:
        yield
    except ValueError as error:
        columns = f" (vectors from {', '.join(rows.names[:3])})" if rows.names else ""
        raise ValueError(f"{file}{columns}: {error}") from None


def _answer(summary: dict[str, Any], *, as_json: bool, quiet: bool) -> None:
    if as_json:
        print(json.dumps(summary))
    elif not quiet:
        print_table(summary)
