"""The site: Markdown pages, a gallery that runs, an API from docstrings, the program's own help.

Nothing that a reader's browser loads comes from the network: formulas are MathML, made here.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import latex2mathml.converter
import matplotlib.pyplot as plt
from docutils import nodes
from matplotlib.animation import Animation, PillowWriter
from sphinx.util.docutils import SphinxDirective
from sphinx_gallery.scrapers import figure_rst, matplotlib_scraper

import attnclust

HERE = Path(__file__).parent
CLAIMS = ("C01", "C03", "C04", "C10", "C12", "C13", "C24")

project = "attnclust"
author = "The attnclust developers"
copyright = "the attnclust developers"
version = release = attnclust.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_generated/*.md"]
templates_path = ["_templates"]
default_role = "code"
smartquotes = False

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]  # the order of the gallery is a function

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc tells them, with shapes
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "furo"
html_title = f"attnclust {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False


def pictures(block, block_vars, gallery_conf) -> str:
    """Figures of an example; an animation as a GIF, since Matplotlib's player loads its icons."""
    rst = ""
    for animation in block_vars["example_globals"].values():
        if isinstance(animation, Animation) and plt.fignum_exists(animation._fig.number):
            path = Path(next(block_vars["image_path_iterator"])).with_suffix(".gif")
            animation.save(path, writer=PillowWriter(fps=10))
            plt.close(animation._fig)
            rst += figure_rst([path], gallery_conf["src_dir"])
    return rst + matplotlib_scraper(block, block_vars, gallery_conf)


sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery", "../examples/recipes"],
    "gallery_dirs": ["gallery", "recipes"],
    "filename_pattern": r"/gallery/",  # recipes run in tests, some with what is not installed here
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "image_scrapers": (pictures,),
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 1,
    "remove_config_comments": True,
}


class Help(SphinxDirective):
    """What a command of attnclust says of itself: ``attnclust ARGUMENTS --help``."""

    required_arguments = 0
    optional_arguments = 9

    def run(self) -> list[nodes.Node]:
        """The program, asked anew at each build."""
        self.env.note_reread()
        command = [sys.executable, "-m", "attnclust", *self.arguments, "--help"]
        plain = os.environ | {"COLUMNS": "88", "TERM": "dumb", "NO_COLOR": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=plain)
        block = nodes.literal_block(done.stdout, done.stdout)
        block["language"] = "text"
        return [block]


def mathml(display: str):
    """A visitor that writes a formula as MathML."""

    def visit(self, node: nodes.Node) -> None:
        formula = node.astext()
        try:
            self.body.append(latex2mathml.converter.convert(formula, display=display))
        except Exception as error:
            raise ValueError(f"no MathML for {formula!r}: {error}") from error
        raise nodes.SkipNode

    return visit


def plain_text(app, what, name, obj, options, lines: list[str]) -> None:
    """Bars and stars in a docstring are mathematics, not markup."""
    for number, line in enumerate(lines):
        if line == "Examples":
            return
        parts = line.split("`")
        parts[::2] = [re.sub(r"\||(?<!^)\*", r"\\\g<0>", part) for part in parts[::2]]
        lines[number] = "`".join(parts)


def skip_foreign(app, what, name, obj, skip, options) -> bool | None:
    """Named tuples' fields, which the class tells; scikit-learn's metadata requests."""
    field = (getattr(obj, "__doc__", "") or "").startswith("Alias for field")
    return True if field or re.fullmatch(r"set_\w+_request", name) else None


def draw_claims(app) -> None:
    """Pictures of `why.md`: the quick claims of the reproduction, kept between builds."""
    from attnclust.reproduce.runner import run_claims

    folder = HERE / "_generated"
    folder.mkdir(exist_ok=True)
    for _ in run_claims(CLAIMS, folder, quick=True):
        pass


def setup(app) -> None:
    app.add_html_math_renderer("mathml", (mathml("inline"), None), (mathml("block"), None))
    app.add_directive("attnclust-help", Help)
    app.connect("autodoc-process-docstring", plain_text, priority=100)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("builder-inited", draw_claims, priority=100)
