"""README and site: every block runs, every public name is documented, and the site's own check."""

import dataclasses
import importlib
import inspect
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(p for p in DOCS.rglob("*.md") if "_" not in p.parts[-2])]
API = (DOCS / "reference" / "api.md").read_text()
NAMES = re.findall(r"^   ([\w.]+)$", API, re.MULTILINE)


def page_id(page):
    return str(page.relative_to(ROOT))


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=page_id)
def test_python_blocks_run(page, monkeypatch):
    """In the order of the page, in one namespace."""
    code = blocks(page, "python")
    for extra in ("torch", "dask", "plotly"):
        if any(f"import {extra}" in block for block in code):
            pytest.importorskip(extra)
    monkeypatch.chdir(ROOT)
    names = {"__name__": "page"}
    for block in code:
        exec(compile(block, page_id(page), "exec"), names)


def commands(page):
    lines = "".join(blocks(page, "sh"))
    told = re.findall(r"^attnclust ([^#\n]*[^#\s])", lines, re.MULTILINE)
    return [line for line in told if "completion" not in line]  # those write into the shell's files


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=page_id)
def test_shell_lines_run(page, tmp_path):
    """Every attnclust line, with the shipped vectors for its file names."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "folder-of-parquet").mkdir()
    for name in ("vectors", "more", "documents", "folder-of-parquet/part"):
        (tmp_path / f"{name}.parquet").symlink_to(ROOT / "examples" / "intents.parquet")
    for line in commands(page):
        if "--report" in line:
            pytest.importorskip("plotly")
        command = [sys.executable, "-m", "attnclust", *line.replace("doc_id", "intent").split()]
        if "reproduce" in command:  # all claims run in tests of their own
            command += ["C20", "--quick", "--seeds", "2"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}: {done.stderr}"


def find(name):
    module, _, attribute = f"attnclust.{name}".rpartition(".")
    for extra, home in (("torch", "torch"), ("dask", "distributed")):
        if module == f"attnclust.{home}":
            pytest.importorskip(extra)
    return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("name", NAMES)
def test_public_names_are_documented(name):
    """Every argument, what is returned, the shape of every array, and an example.

    Results (dataclasses and named tuples) need no example, and a class may have it at a method. A
    class of the name that it inherits from tells the parameters of both.
    """
    found = find(name)
    bases = [base for base in getattr(found, "__bases__", ()) if base.__name__ == found.__name__]
    told = "\n".join(inspect.getdoc(one) for one in [found, *bases])
    for argument in inspect.signature(found).parameters:
        assert re.search(rf"^(.*, )?\**{argument}\b", told, re.MULTILINE), argument
    for field in re.findall(r"^\w[\w, ]* : (.*\barray\b(?!-).*)$", told, re.MULTILINE):
        assert re.search(r"shape|as ", field), field
    if inspect.isclass(found):
        result = issubclass(found, tuple) or dataclasses.is_dataclass(found)
        examples = [told, *(inspect.getdoc(method) or "" for method in vars(found).values())]
    else:
        result, examples = False, [told]
        silent = inspect.signature(found).return_annotation == "None"
        assert silent or "Returns\n---" in told, "what is returned"
    assert result or any("Examples\n---" in text for text in examples), "an example"


def test_the_reference_names_what_is_public():
    """All names of the package, and of the modules that the reference lists whole."""
    import attnclust

    assert {n for n in attnclust.__all__ if n != "__version__"} <= set(NAMES)
    in_part = {"", "compare", "fitting", "incontext", "persistence", "reproduce", "torch"}
    in_part |= {"distributed", "selection"}
    for module in {name.rpartition(".")[0] for name in NAMES} - in_part:
        home = importlib.import_module(f"attnclust.{module}")
        for name in getattr(home, "__all__", vars(home)):
            found = getattr(home, name)
            own = getattr(found, "__module__", "").startswith(home.__name__)
            if (
                own
                and not name.startswith("_")
                and (inspect.isclass(found) or inspect.isfunction(found))
            ):
                assert f"{module}.{name}" in NAMES


def test_the_reference_names_every_command_and_exit_code():
    from attnclust import console
    from attnclust.cli import app

    page = (DOCS / "reference" / "command.md").read_text()
    told = re.findall(r"^```\{attnclust-help\} (\w+)", page, re.MULTILINE)
    assert told == [command.callback.__name__ for command in app.registered_commands]
    codes = (DOCS / "reference" / "files.md").read_text().split("## Exit codes")[1]
    for code in (console.DATA_ERROR, console.OUTPUT_ERROR, console.DEFECT, console.INTERRUPTED):
        assert f"| {code} |" in codes


def test_completion_is_on():
    shown = subprocess.run(
        [sys.executable, "-m", "attnclust"],
        env=os.environ | {"_ATTNCLUST_COMPLETE": "source_bash"},
        capture_output=True,
        text=True,
    )
    assert "complete" in shown.stdout


FAULTY = {
    '<script src="https://cdn.example/x.js"></script>': "from the network",
    '<img src="//cdn.example/x.png">': "from the network",
    '<link rel="stylesheet" href="https://cdn.example/x.css">': "from the network",
    '<p style="background: url(https://cdn.example/x.png)">': "from the network",
    '<a href="nowhere.html">': "leads nowhere",
    '<a href="other.html#nowhere">': "no such place",
    '<img src="nowhere.png">': "leads nowhere",
}


@pytest.mark.parametrize("tag", FAULTY)
def test_the_check_of_the_site_sees_faults(tmp_path, tag):
    faults = runpy.run_path(str(DOCS / "check_site.py"))["faults"]
    (tmp_path / "other.html").write_text('<h1 id="here">a</h1>')
    page = '<a href="other.html#here">x</a><a href="https://example.org">y</a>'
    (tmp_path / "page.html").write_text(page)
    assert faults(tmp_path) == []
    (tmp_path / "page.html").write_text(page + tag)
    assert [FAULTY[tag] in fault for fault in faults(tmp_path)] == [True]
