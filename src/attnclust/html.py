"""Self-contained pages: one look for all of them, light and dark, and no request to anywhere."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --line: #d8dee4; --page: #fff;
  --tint: #f4f6f8; --link: #0058a3; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #9aa4ae; --line: #363d45;
  --page: #14171a; --tint: #1d2126; --link: #7cc0ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 4rem; background: var(--page);
  color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.25rem; margin: 0 0 .5rem; }
a { color: var(--link); } .soft { color: var(--soft); font-size: .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; line-height: 1.4; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem .35rem 0;
  border-top: 1px solid var(--line); }
thead th { border-top: 0; color: var(--soft); font-weight: 600; }
section { border-top: 2px solid var(--line); margin-top: 2.5rem; padding-top: 1.25rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; font-size: .9rem;
  background: var(--tint); padding: .75rem 1rem; border-radius: 6px; }
dt { color: var(--soft); } dd { margin: 0; }
"""

# What a page may load: nothing but what is in it, whatever its script would like. Plotting by WebGL
# compiles functions.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:"
)


def save_page(path: Path, title: str, body: str, style: str = "", script: str = "") -> None:
    """Write a page, whole or not at all.

    Parameters
    ----------
    path : Path
    title : str
        Text; escaped here.
    body : str
        HTML.
    style : str
        Rules beside those of every page.
    script : str
        JavaScript, run when the body is there.
    """
    if script:  # `<!--` and `</script` mean something to HTML even within strings
        script = re.sub(r"<(?=!--)|<(?=/script)", r"<\\", script, flags=re.IGNORECASE)
        script = f"<script>{script}</script>"
    whole = path.with_name(f".{path.name}")
    whole.write_text(
        f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{STYLE}{style}</style></head><body>
{body}
{script}</body></html>
""",
        encoding="utf-8",
    )
    whole.replace(path)
