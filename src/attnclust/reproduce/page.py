"""One self-contained page of the claims: the table of findings, then a section for each claim."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from attnclust import __version__
from attnclust.html import save_page
from attnclust.reproduce.claims import Finding, Verdict, load_claim, statement, verdict
from attnclust.reproduce.runner import Record

MARKS: dict[Verdict, str] = {"holds": "✓", "holds in part": "◐", "fails": "✗"}

STYLE = """
:root { --holds: #00694d; --part: #8a5a00; --fails: #b3400a; }
@media (prefers-color-scheme: dark) { :root { --holds: #4fc9a4; --part: #f0b44c;
  --fails: #ff9466; } }
nav ul { display: flex; flex-wrap: wrap; gap: .4rem; list-style: none; margin: 0 0 1.5rem;
  padding: 0; } nav li { background: var(--tint); border-radius: 4px; padding: .1rem .5rem;
  font-size: .86rem; white-space: nowrap; }
tbody th { font-weight: 600; width: 12rem; }
tbody tr:has(th) > * { border-top: 2px solid var(--line); padding-top: .6rem; }
.verdict { white-space: nowrap; font-weight: 600; }
.holds { color: var(--holds); } .part { color: var(--part); } .fails { color: var(--fails); }
figure { margin: 1rem 0; padding: .75rem; background: #fff; border: 1px solid var(--line);
  border-radius: 6px; } img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
"""


@dataclass(frozen=True)
class Section:
    """A claim as the page shows it.

    Parameters
    ----------
    record : Record
    title, statement, setting, explanation : str
    findings : list of Finding
    """

    record: Record
    title: str
    statement: str
    setting: str
    explanation: str
    findings: list[Finding]

    @property
    def verdict(self) -> Verdict:
        """What the findings come to."""
        return verdict(self.findings)


def judge_record(record: Record) -> Section:
    """Findings and words, computed from the recorded numbers.

    Parameters
    ----------
    record : Record

    Returns
    -------
    Section
    """
    claim = load_claim(record.run.claim)
    title, said = statement(claim)
    explanation = claim.explain(record.frame)
    return Section(record, title, said, claim.SETTING, explanation, claim.judge(record.frame))


def write_page(sections: Sequence[Section], folder: Path) -> Path:
    """Write index.html, with the pictures of the folder inside.

    Parameters
    ----------
    sections : sequence of Section
    folder : Path
        Where the pictures are and the page goes.

    Returns
    -------
    Path
    """
    counts = Counter(section.verdict for section in sections)
    summary = ", ".join(
        f'<span class="{_class(v)}">{MARKS[v]} {counts[v]} {plural(v, counts[v])}</span>'
        for v in MARKS
        if counts[v]
    )
    chips = "".join(
        f'<li><a href="#{s.record.run.claim}" title="{escape(s.title)}">{s.record.run.claim}</a> '
        f'<span class="{_class(s.verdict)}" title="{s.verdict}">{MARKS[s.verdict]}</span></li>'
        for s in sections
    )
    rows = "".join(map(_rows, sections))
    body = "".join(_section(section, folder) for section in sections)
    path = folder / "index.html"
    save_page(
        path,
        "Attention-based clustering: the claims",
        f"""<h1>Attention-based clustering: the claims</h1>
<p class="soft">Claims of Maulen-Soto, Boyer and Marion,
<a href="https://arxiv.org/abs/2505.13112">Attention-based clustering, arXiv 2505.13112</a>, and
what follows from them, run by attnclust {__version__}. Every verdict is computed from the recorded
numbers. Figures are medians, with 10 to 90% of the seeds in brackets.</p>
<p>Of {len(sections)} claims: {summary}.</p>
<nav aria-label="Claims"><ul>{chips}</ul></nav>
<div class="wide"><table><thead><tr><th scope="col">Claim</th>
<th scope="col">Setting</th><th scope="col">Expected</th><th scope="col">Measured</th>
<th scope="col">Verdict</th></tr></thead><tbody>{rows}</tbody></table></div>
{body}""",
        STYLE,
    )
    return path


def _class(verdict: Verdict) -> str:
    return "part" if verdict == "holds in part" else verdict


def plural(verdict: Verdict, count: int) -> str:
    """A verdict as `count` claims have it."""
    return verdict if count == 1 else verdict.replace("holds", "hold").replace("fails", "fail")


def _mark(verdict: Verdict) -> str:
    return f'<span class="{_class(verdict)}">{MARKS[verdict]} {verdict}</span>'


def _rows(section: Section) -> str:
    claim = section.record.run.claim
    rows = []
    for place, finding in enumerate(section.findings):
        head = ""
        if place == 0:
            head = (
                f'<th scope="rowgroup" rowspan="{len(section.findings)}"><a href="#{claim}">{claim}'
                f"</a> {escape(section.title)}<br>{_mark(section.verdict)}</th>"
            )
        cells = (finding.setting, finding.expected, finding.measured)
        text = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        own = _mark("holds" if finding.holds else "fails")
        rows.append(f'<tr>{head}{text}<td class="verdict">{own}</td></tr>')
    return "".join(rows)


def _section(section: Section, folder: Path) -> str:
    run = section.record.run
    picture = base64.b64encode((folder / f"{run.claim}.svg").read_bytes()).decode()
    size = "quick" if run.quick else "full"
    return f"""<section id="{run.claim}"><h2>{run.claim} {escape(section.title)}</h2>
<p>{_mark(section.verdict)}. {escape(section.statement)}</p>
<figure><img alt="{escape(section.title)}: the measured numbers"
src="data:image/svg+xml;base64,{picture}"></figure>
<p>{escape(section.explanation)}</p>
<dl><dt>Setting</dt><dd>{escape(section.setting)}</dd>
<dt>Run</dt><dd>{size}, {run.seeds} seeds, random state {run.random_state},
{section.record.seconds:.0f} s; numbers in {run.claim}.parquet ({len(section.record.frame):,} rows)
</dd></dl></section>
"""
