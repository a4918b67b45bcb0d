"""One page of a comparison: scores, agreement, known classes, and what each method is."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from attnclust.compare.table import best_cell, cell, shown_columns
from attnclust.html import save_page

# One hue whose shade grows, with the figure in each cell: no colours need telling apart.
STYLE = """
:root { --shade: 0 114 178; }
@media (prefers-color-scheme: dark) { :root { --shade: 86 180 233; } }
p, dd, li { overflow-wrap: anywhere; }
tbody th { font-weight: 600; overflow-wrap: anywhere; min-width: 10.5rem; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.best { font-weight: 700; }
.shaded { width: auto; } .shaded .n { padding-right: 1rem; }
.shade { background: rgb(var(--shade) / calc(var(--a) * .5)); border: 2px solid var(--page);
  font-variant-numeric: tabular-nums; }
.shade, .above { text-align: center; width: 6rem; min-width: 5rem; padding: .35rem .25rem; }
.shaded thead th { vertical-align: bottom; text-wrap: balance; }
.notes { padding-left: 1.2rem; font-size: .9rem; }
@media (max-width: 34rem) { dl { grid-template-columns: 1fr; } dd + dt { margin-top: .5rem; } }
"""


@dataclass(frozen=True)
class Line:
    """A row of a shaded table.

    Parameters
    ----------
    name : str
    shades : list of float
        Figures up to one.
    before : list of str
        Cells before them.
    """

    name: str
    shades: list[float]
    before: list[str] = field(default_factory=list)


def save_comparison(path: Path, document: dict[str, Any]) -> None:
    """Write the page of a comparison.

    Parameters
    ----------
    path : path
    document : dict
        As `attnclust.compare.report.describe` makes it.
    """
    name = Path(document["file"]).name.encode(errors="backslashreplace").decode()
    given = ", ".join(map(_given, document["vectors"]))
    vectors = f" from {given}" if given else ""
    unit = " (all rows at unit length)" if document["metric"] == "cosine" else ""
    body = f"""<h1>Methods compared on {_given(name)}</h1>
<p class="soft">{document["rows"]:,} rows of {document["features"]:,} features{vectors};
{document["n_clusters"]:,} clusters, metric {document["metric"]}{unit}, seed {document["seed"]};
attnclust {document["version"]}. Seconds are of one run of each method, one after the other on one
machine.</p>
{_scores(document)}
{_agreement(document["agreement"])}
{_classes(document)}
{_about(document["methods"])}"""
    save_page(path, f"Methods compared on {name}", body, STYLE)


def _given(text: str) -> str:
    """A user's text, which neither is markup nor turns the direction of what follows."""
    return f"<bdi>{escape(text)}</bdi>"


def _scores(document: dict[str, Any]) -> str:
    rows = document["methods"]
    columns = [(column, best_cell(rows, column)) for column in shown_columns(rows)]
    heads = "".join(
        f'<th scope="col" class="n" title="{escape(c.told)}">{escape(c.head)}</th>'
        for c, _ in columns
    )
    lines = []
    for row in rows:
        cells = [(cell(row, column), best) for column, best in columns]
        figures = "".join(f'<td class="n{" best" * (c == best)}">{c}</td>' for c, best in cells)
        lines.append(f'<tr><th scope="row">{escape(row["method"])}</th>{figures}</tr>')
    notes = "".join(
        f"<li>{escape(row['method'])}: {escape(row['note'])}</li>" for row in rows if row["note"]
    )
    return f"""<div class="wide"><table><thead><tr><th scope="col">Method</th>{heads}</tr></thead>
<tbody>{"".join(lines)}</tbody></table></div>
{f'<ul class="notes">{notes}</ul>' if notes else ""}
<p class="soft">Best first: {escape(document["order"])}. The best figures of a column are bold.
Inertia is the sum of squares about a labelling's own means, over the least in the table; k-means
aims at it, the others do not. Silhouette is the mean over at most 2,000 rows.</p>"""


def _agreement(agreement: dict[str, Any]) -> str:
    names = agreement["methods"]
    lines = [Line(n, v) for n, v in zip(names, agreement["adjusted_rand"], strict=True)]
    return f"""<section><h2>Agreement</h2>
<p>Adjusted Rand index between the labels of two methods: 1 where they are the same clusters, about
0 where they share no more than chance would have it. The shade grows with it.</p>
{_shaded(["Method"], names, lines)}</section>"""


def _classes(document: dict[str, Any]) -> str:
    if "classes" not in document:
        return ""
    classes, names = document["classes"], document["agreement"]["methods"]
    lines = [
        Line(c["class"], [c["fits"][name] for name in names], [f"{c['rows']:,}"])
        for c in classes["largest"]
    ]
    left = classes["number"] - len(lines)
    return f"""<section><h2>Known classes</h2>
<p>How well each class of {_given(classes["column"])} is met by the cluster that fits it best: twice
the rows that both have, over the rows of the one and of the other; 1 where they are the same rows.
</p>{_shaded([classes["column"], "Rows"], names, lines)}
{f'<p class="soft">And {left:,} smaller classes.</p>' if left else ""}</section>"""


def _about(rows: list[dict[str, Any]]) -> str:
    items = "".join(
        f"<dt>{escape(row['method'])}</dt><dd>{escape(row['about'])}</dd>" for row in rows
    )
    return f"<section><h2>The methods</h2><dl>{items}</dl></section>"


def _shaded(plain: list[str], shaded: list[str], lines: list[Line]) -> str:
    """A table of names and plain cells, then of figures on a shade that grows with them."""
    corner, *before = plain
    heads = f'<th scope="col">{_given(corner)}</th>'
    heads += "".join(f'<th scope="col" class="n">{escape(head)}</th>' for head in before)
    heads += "".join(f'<th scope="col" class="above">{escape(head)}</th>' for head in shaded)
    rows = []
    for line in lines:
        cells = "".join(f'<td class="n">{escape(text)}</td>' for text in line.before)
        cells += "".join(
            f'<td class="shade" style="--a:{max(shade, 0.0) ** 3:.3f}">{shade:.3f}</td>'
            for shade in line.shades
        )
        rows.append(f'<tr><th scope="row">{_given(line.name)}</th>{cells}</tr>')
    return f"""<div class="wide"><table class="shaded"><thead><tr>{heads}</tr></thead>
<tbody>{"".join(rows)}</tbody></table></div>"""
