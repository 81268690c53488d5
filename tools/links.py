"""List the external links of the README and the documentation, each with the pages that have it.

    python tools/links.py

Nothing is fetched: what is linked is meant to be looked at before a release.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"https?://[^\s)>\"'`\]]+")


def external() -> dict[str, list[str]]:
    """Return addresses with the pages that name them."""
    found: dict[str, set[str]] = {}
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
    pages += [ROOT / "CITATION.cff", *sorted((ROOT / "docs").rglob("*.md"))]
    pages += sorted((ROOT / "docs").rglob("*.rst")) + sorted((ROOT / "examples").rglob("*.py"))
    for page in pages:
        if page.is_file() and "_build" not in page.parts:
            for address in LINK.findall(page.read_text(encoding="utf-8")):
                found.setdefault(address.rstrip(".,;"), set()).add(str(page.relative_to(ROOT)))
    return {address: sorted(found[address]) for address in sorted(found)}


if __name__ == "__main__":
    for address, pages in external().items():
        print(f"{address}\t{', '.join(pages)}")
