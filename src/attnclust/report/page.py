"""The page of a fit: summary, map, clusters with their rows, spectrum, and labels to take away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from attnclust._typing import Array, Rows
from attnclust.html import save_page
from attnclust.plotting import COLOURS
from attnclust.plotting.planes import plane_of_centres
from attnclust.refinement import Clusters
from attnclust.report.data import (
    HOVER_CHARACTERS,
    LIST_CHARACTERS,
    MAP_ROWS,
    clip,
    embed,
    tell_clusters,
    tell_rows,
)
from attnclust.report.eigenvalues import picture, reason_for
from attnclust.selection import Selection
from attnclust.tokens import Tokens
from attnclust.trust import describe_clusters

HEADS = {
    "n_clusters": "clusters",
    "eigenvalue": "last eigenvalue over edge",
    "criterion": "penalised log-likelihood per row",
    "redundant": "redundant heads",
    "held_out": "risk on rows left out",
}
OUTLYING = 5  # rows shown as farthest from their centres

BODY = """<h1>Clusters of <bdi>{name}</bdi></h1>
<p class="soft">Made by attnclust {version}. This page holds all it shows and asks no server for
anything.</p>
<noscript><p class="soft">The map, the table and the download need JavaScript, which is switched off
here. The same labels and figures lie beside this page in the labels file and in summary.json.</p>
</noscript>
<dl class="facts">{facts}</dl>
<section class="explore" aria-label="Map and clusters">
<div class="main">
<h2>Map</h2>
<p class="soft" id="map-note">{map_note}</p>
<div class="bar" role="group" aria-label="Map view">
<button type="button" id="zoom-in" aria-label="Zoom in">+</button>
<button type="button" id="zoom-out" aria-label="Zoom out">−</button>
<button type="button" id="whole">Whole map</button>
<button type="button" id="clear" disabled>Choose none</button></div>
<div id="map" role="img" aria-busy="true" aria-describedby="map-note"
aria-label="Map of the rows; the table of clusters holds the same clusters"></div>
</div>
<aside id="panel" tabindex="0" aria-labelledby="panel-title">
<h2 id="panel-title" aria-live="polite">Rows of a cluster</h2><div id="panel-body">
<p>Point at a row of the map to read it. Choose a cluster, by one of its points, its number in the
map or its row in the table, to see the rows that stand for it and those at its border.</p>
</div></aside>
<div class="table">
<h2 id="table-title">Clusters</h2>
<div class="bar"><label for="filter">Filter</label>
<input type="search" id="filter" placeholder="number, label or text" autocomplete="off">
<span id="count" role="status" class="soft"></span>
<button type="button" id="download"
title="An id that a spreadsheet would run as a formula gets an apostrophe in front"
>Download labels (CSV)</button></div>
<div class="wide" role="region" tabindex="0" aria-labelledby="table-title"><table id="clusters">
<thead><tr></tr></thead><tbody></tbody></table></div>
<details><summary>What the columns say</summary><dl id="columns"></dl></details>
</div>
</section>
<section><h2>Why {n_clusters} cluster{plural}</h2>
<p dir="auto">{reason}</p>
<div class="wide" role="region" tabindex="0" aria-label="Spectrum"><figure>{spectrum}
<figcaption class="soft">Largest eigenvalues of the rows' covariance, on a logarithmic scale. Noise
of variance {noise:.4g} in every direction reaches the edge and no further.</figcaption></figure>
</div>{candidates}</section>
<div id="hover" hidden></div>
<script type="application/json" id="data">{data}</script>"""


def write_report(
    path: Path,
    model: Any,
    X: Rows,
    summary: dict[str, Any],
    *,
    ids: Sequence[Any] | None = None,
    texts: Sequence[Any] | None = None,
    known: Array | None = None,
    random_state: int = 0,
) -> None:
    """Write a self-contained page about a fit.

    Parameters
    ----------
    path : Path
        The HTML file.
    model : AttentionClustering
        Fitted.
    X : array or sparse matrix of shape (n, d)
        Its rows.
    summary : dict
        From `attnclust.summary.summarize`, with the parameters, seconds and reason to stop of the
        fit.
    ids, texts : sequences of n values, optional
        What to call a row, and what to show of it.
    known : array of shape (n,), optional
        Known labels, None for none.
    random_state : int
        Draws the rows of the map where there are more than 200,000, and what describes the
        clusters.
    """
    from plotly.offline import get_plotlyjs

    tokens = model._tokens(model._new_rows(X))
    labels = model.predict(X)
    figures = {
        "confidence": model.confidence(X),
        "margin": model.margin(X),
        "outlier score": model.outlier_score(X),
    }
    centres = Clusters(model.cluster_centers_.astype(np.float64), model.weights_, 1.0)
    plane = plane_of_centres(tokens, centres)
    clusters = tell_clusters(describe_clusters(model, X, random_state=random_state), summary)
    outlying = np.argsort(-figures["outlier score"], kind="stable")[:OUTLYING].tolist()
    listed = {row for c in clusters for row in [*c["representative"], *c["borderline"]]}
    selection = reason_for(model, tokens, random_state)
    reason = selection.reason
    data = {
        "colours": COLOURS,
        "centres": plane.points(Tokens(centres.centroids)).tolist(),
        "clusters": clusters,
        "outlying": outlying,
        **tell_rows(
            plane.points(tokens),
            labels,
            figures,
            sorted(listed | set(outlying)),
            ids=ids,
            texts=texts,
            known=known,
            random_state=random_state,
        ),
    }
    name = clip(Path(summary["file"]).name, HOVER_CHARACTERS) or ""
    body = BODY.format(
        name=_shown(name),
        version=escape(summary["version"]),
        facts=_facts(summary, len(clusters)),
        map_note=_map_note(len(labels), plane.share(centres), texts is not None),
        n_clusters=len(clusters),
        plural="" if len(clusters) == 1 else "s",
        reason=escape(reason if reason.endswith(".") else f"K = {selection.n_clusters}: {reason}."),
        spectrum=picture(selection.eigenvalues, selection.edge),
        noise=selection.noise_variance,
        candidates=_candidates(selection),
        data=embed(data),
    )
    here = files("attnclust.report")
    save_page(
        path,
        f"Clusters of {name}",
        body,
        (here / "report.css").read_text("utf-8"),
        get_plotlyjs() + "\n" + (here / "report.js").read_text("utf-8"),
    )


def _shown(value: object) -> str:
    """Text for HTML; a browser would show NUL as damage."""
    return escape((clip(value, HOVER_CHARACTERS) or "–").replace("\0", ""))


def _facts(summary: dict[str, Any], n_clusters: int) -> str:
    facts: list[tuple[str, object]] = [
        ("rows", f"{summary['rows']:,}"),
        ("features", f"{summary['features']:,}"),
        ("clusters K", n_clusters),
        ("metric", summary["parameters"]["metric"]),
        ("log-density per row", f"{summary['score']:.4g}"),
    ]
    if summary["unlabelled"]:
        facts.append(("rows below the threshold", f"{summary['unlabelled']:,}"))
    names = {"ari": "ARI", "nmi": "NMI", "matched_accuracy": "matched accuracy"}
    for key, value in summary.get("scores", {}).items():
        facts.append((f"{names.get(key, key)}, known labels", f"{value:.3f}"))
    for key, value in summary["seconds"].items():
        facts.append((f"seconds to {key}", f"{value:.2f}"))
    if summary["vectors"]:
        facts.append(("vectors", ", ".join(map(str, summary["vectors"]))))
    for key, what in (("text_column", "texts"), ("id_column", "names of rows")):
        if summary.get(key) is not None:
            facts.append((f"{what} from column", summary[key]))
    facts.append(("stopped because", summary["stopped_because"]))
    return "".join(
        f'<div><dt>{escape(name)}</dt><dd dir="auto">{_shown(value)}</dd></div>'
        for name, value in facts
    )


def _map_note(n_rows: int, share: float, texts: bool) -> str:
    said = [f"The plane that shows most of the centres' spread: {share:.0%} of it."]
    if n_rows > MAP_ROWS:
        said.append(f"{MAP_ROWS:,} of the {n_rows:,} rows, drawn at random, are in it.")
    if texts:
        said.append(
            f"Texts are cut after {HOVER_CHARACTERS} characters in the map and after "
            f"{LIST_CHARACTERS:,} in the lists of rows."
        )
    return " ".join(said)


def _candidates(selection: Selection) -> str:
    """The numbers of clusters that were tried, as a table."""
    if not selection.candidates:
        return ""
    names = list(selection.candidates[0])
    head = "".join(f'<th scope="col">{HEADS.get(name, name)}</th>' for name in names)
    rows = []
    for row in selection.candidates:
        chosen = ' class="chosen"' if row["n_clusters"] == selection.n_clusters else ""
        cells = "".join(f'<td class="number">{_figure(row[name])}</td>' for name in names)
        rows.append(f"<tr{chosen}>{cells}</tr>")
    return (
        '<h3 id="tried">Numbers of clusters that were tried</h3><div class="wide" role="region" '
        f'tabindex="0" aria-labelledby="tried"><table class="tried"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _figure(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.4g}"
