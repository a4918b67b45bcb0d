"""The verdicts of a full reproduction as a table; writes claims.md.

attnclust reproduce --out reproduction
python benchmarks/claims.py reproduction
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from attnclust.reproduce.page import judge_record, plural
from attnclust.reproduce.runner import recorded


def main(folder: str) -> None:
    sections = [judge_record(record) for record in recorded(Path(folder))]
    counts = Counter(section.verdict for section in sections)
    seconds = sum(section.record.seconds for section in sections)
    told = ", ".join(f"{n} {plural(v, n)}" for v, n in counts.items())
    lines = [
        "# The claims",
        "",
        "`attnclust reproduce`, then `python benchmarks/claims.py reproduction`: "
        f"{len(sections)} claims, of which {told}; "
        f"{seconds / 60:.0f} minutes of one core in all. Settings, figures with their bands, and "
        "pictures are on the page that the command writes.",
        "",
        "| claim | | verdict | findings that hold | seeds | seconds |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for section in sections:
        run, findings = section.record.run, section.findings
        held = sum(finding.holds for finding in findings)
        size = " (quick)" if run.quick else ""
        lines.append(
            f"| {run.claim} | {section.title} | {section.verdict} | {held} of {len(findings)} "
            f"| {run.seeds}{size} | {section.record.seconds:.0f} |"
        )
    lines += ["", "What does not hold, or not as stated:", ""]
    for section in sections:
        for finding in section.findings:
            if not finding.holds:
                lines.append(
                    f"- {section.record.run.claim}, {finding.setting}: expected "
                    f"{finding.expected}; measured {finding.measured}"
                )
    text = "\n".join(line.replace("|cos|", "cosine").rstrip() for line in lines)
    Path(__file__).with_suffix(".md").write_text(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
