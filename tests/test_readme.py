import os
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()


def test_the_table_is_the_measured_one():
    """Each cell of the README's table stands in the same row of the benchmark's own table."""

    def rows(text):
        cells = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines()]
        return {row[0]: row[1:] for row in cells if re.match(r"\d+, \d+, ", row[0])}

    measured = rows((ROOT / "benchmarks" / "accuracy.md").read_text())
    shown = rows(TEXT.split("## Many prompts")[0])
    assert shown.keys() == measured.keys()
    for name, cells in shown.items():
        assert set(cells) <= set(measured[name]), name


def test_the_page_on_scale_is_the_computed_one():
    script = runpy.run_path(str(ROOT / "benchmarks" / "scale.py"))
    assert (ROOT / "docs" / "scale.md").read_text() == script["page"]()


def test_links_lead_somewhere():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
            assert target.startswith("https://") or (ROOT / target).exists(), target


def test_the_map_names_every_module():
    told = set(re.findall(r"`(\w+\.py)`", (ROOT / "CONTRIBUTING.md").read_text()))
    there = {p.name for p in (ROOT / "src" / "attnclust").rglob("*.py")}
    claims = {name for name in there if re.fullmatch(r"c\d\d\.py", name)}
    assert {n for n in there if not n.startswith("_")} - claims == told - claims
    assert {min(claims), max(claims)} <= told


@pytest.mark.skipif(os.name != "posix", reason="make and a shell are needed")
def test_makefile_targets_named_in_the_readme_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make (\w+) +#", TEXT, re.MULTILINE)) <= targets
