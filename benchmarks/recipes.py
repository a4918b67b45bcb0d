"""Every recipe, run with the libraries that are here; prints one table with their versions.

python benchmarks/recipes.py   # make recipes installs what they need
"""

from __future__ import annotations

import ast
import platform
import subprocess
import sys
import time
from importlib.metadata import packages_distributions, version
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "examples" / "recipes"


def libraries(path):
    """What a recipe imports that Python does not have itself, with versions."""
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
        imported |= {name.partition(".")[0] for name in names}
    homes = packages_distributions()
    found = {homes[name][0] for name in imported - set(sys.stdlib_module_names) if name in homes}
    return ", ".join(f"{name} {version(name)}" for name in sorted(found, key=str.lower))


def main() -> None:
    failed = False
    print("# Recipes, and the versions they ran with\n")
    print(f"`make recipes`, Python {platform.python_version()}.\n")
    print("| recipe | outcome | seconds | libraries |\n| --- | --- | --- | --- |")
    for path in sorted(FOLDER.glob("*.py")):
        begun = time.perf_counter()
        done = subprocess.run([sys.executable, path], cwd=FOLDER, capture_output=True, text=True)
        seconds = time.perf_counter() - begun
        lines = done.stderr.strip().splitlines()
        outcome = "ran" if done.returncode == 0 else lines[-1]
        failed |= done.returncode != 0
        print(f"| {path.stem} | {outcome} | {seconds:.0f} | {libraries(path)} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
