"""Draw the packages of the package from its real imports, those inside functions included.

    python tools/draw_layers.py            print the drawing
    python tools/draw_layers.py --write    put it into ARCHITECTURE.md
    python tools/draw_layers.py --check    exit with 1 where ARCHITECTURE.md shows another one

Layers are those of the import contract in ``pyproject.toml``, highest first; behind each package
stand the packages that it imports, without ``base``, on which everything stands.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- packages: made by tools/draw_layers.py -->", "<!-- end of packages -->"
PACKAGE = "stochadmm"
GROUND = "base"


def layers() -> list[list[str]]:
    """Return the packages of every layer, highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (
        c for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "layers"
    )
    return [[package.strip(" ()") for package in layer.split(":")] for layer in contract["layers"]]


def imports() -> dict[str, set[str]]:
    """Return the packages that each package imports."""
    sys.path.insert(0, str(ROOT / "src"))
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    found: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            names = [name.split(".")[1:2] for name in (module, other)]
            if all(names) and names[0] != names[1]:
                found[names[0][0]].add(names[1][0])
    return found


def drawing() -> str:
    """Return the layers as text."""
    order = [package for layer in layers() for package in layer]
    used = imports()
    width = max(map(len, order))
    lines = []
    for layer in layers():
        for place, package in enumerate(layer):
            below = [other for other in order if other in used[package] and other != GROUND]
            corner = "│" if place else "┌"
            lines.append(f"{corner} {package:{width}s}  ► {', '.join(below) or '-'}".rstrip())
    return "\n".join(["```", *lines, "```"])


def main() -> int:
    """Print, write or check the drawing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    shown, after = rest.split(END)
    made = drawing()
    if given.write:
        PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")
    elif given.check:
        if shown.strip() != made:
            print("ARCHITECTURE.md shows other imports; run: python tools/draw_layers.py --write")
            return 1
    else:
        print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
