"""Check the built site: nothing is loaded from the network, no link inside leads nowhere.

python docs/check_site.py docs/_build/html
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes through which a page makes the browser load something; a link waits for the reader.
LOADS = {"src", "srcset", "data", "poster"}
REMOTE = re.compile(r"(https?:)?//")
REMOTE_IN_STYLE = re.compile(r"""url\(\s*["']?(?:https?:)?//|@import\s+["'](?:https?:)?//""")


class Page(HTMLParser):
    """What a page loads, where it links to, and what can be linked to on it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Read one tag."""
        told = {name: value or "" for name, value in attributes}
        self.anchors |= {told[name] for name in ("id", "name") if name in told}
        self.loads += [told[name] for name in LOADS & told.keys()]
        if REMOTE_IN_STYLE.search(told.get("style", "")):
            self.loads.append(told["style"])
        if "href" not in told:
            return
        if tag == "link" and told.get("rel") not in {"canonical", "author"}:
            self.loads.append(told["href"])
        elif tag == "a":
            self.links.append(told["href"])


def faults(site: Path) -> list[str]:
    """What is wrong with a built site, one line each."""
    pages = {path.resolve(): Page(path.read_text()) for path in site.rglob("*.html")}
    if not pages:
        return [f"{site} holds no page"]
    found = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for target in page.loads:
            if REMOTE.match(target) or "://" in target:
                found.append(f"{name}: loads {target} from the network")
        for target in page.links + page.loads:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if to.is_dir():
                to /= "index.html"
            place = unquote(parts.fragment)
            if not to.exists():
                found.append(f"{name}: {target} leads nowhere")
            elif place not in {"", "top"} and to in pages and place not in pages[to].anchors:
                found.append(f"{name}: {target} has no such place")
    for path in site.rglob("*.css"):
        if REMOTE_IN_STYLE.search(path.read_text()):
            found.append(f"{path.relative_to(site)}: loads from the network")
    return found


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]))
    print("\n".join(wrong) or "nothing is loaded from the network, and every link inside leads on")
    sys.exit(bool(wrong))
