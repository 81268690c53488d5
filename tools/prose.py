"""Show sentences of the documentation that a reader may stumble over. It never fails: it helps.

    python tools/prose.py [PATHS]

Long sentences (more than 32 words), and words of a small list: metaphors that the project does not
use, fillers, and words with a plainer one. Code, tables, formulas and headings are not read.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LONGEST = 32
INSTEAD = {
    r"rooms?": "package, or memory",
    r"tension": "violation of the dual constraint",
    r"promised": "predicted",
    r"slopes? of the loss": "derivative",
    r"very|quite|rather|simply|basically|obviously|of course": "nothing",
    r"utili[sz]es?": "use",
    r"in order to": "to",
    r"it is worth noting that|note that": "nothing",
    r"leverages?": "use",
    r"dearest|dear": "expensive",
}
PAGES = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md", "docs/index.md")
FOLDERS = ("docs/start", "docs/how-to", "docs/explain", "docs/evidence")


def sentences(text: str) -> list[tuple[int, str]]:
    """Return the sentences of a page, each with the line it begins on."""
    # blanked, not removed: lines keep their numbers
    for block in (r"^(```|:::|\$\$).*?^\1", r"^---\n.*?^---$", r"<!--.*?-->"):
        text = re.sub(block, lambda m: re.sub(r"[^\n]", "", m[0]), text, flags=re.M | re.S)
    text = re.sub(r"^(\||#|    |\{\{|```).*$", "", text, flags=re.M)
    # a new item, like an empty line, ends a sentence
    text = re.sub(r"^[ \t]*([*-]|\d+\.) ", "\x1e ", text, flags=re.M).replace("\n\n", "\n\x1e\n")
    text = re.sub(r"\]\([^)]*\)", "]", text)
    found, line = [], 1
    for piece in re.split(r"(?<=[.!?:;])(?=\s|\*\*\s)|\x1e", text):
        start = line + len(piece) - len(piece.lstrip("\n"))
        line += piece.count("\n")
        found.append((start, " ".join(piece.split())))
    return found


def main(names: list[str]) -> None:
    """Print what was found, by page and line."""
    root = Path(__file__).resolve().parents[1]
    pages = [Path(name) for name in names] or [
        *(root / name for name in PAGES),
        *(page for folder in FOLDERS for page in sorted((root / folder).glob("*.md"))),
    ]
    count = 0
    for page in pages:
        for line, sentence in sentences(page.read_text(encoding="utf-8")):
            said = [
                f"'{m[0]}': {better}"
                for word, better in INSTEAD.items()
                for m in re.finditer(rf"\b({word})\b", re.sub(r"`[^`]*`", "", sentence), re.I)
            ]
            n_words = len(sentence.split())
            if n_words > LONGEST:
                said.append(f"{n_words} words: {sentence[:60]}...")
            count += len(said)
            for what in said:
                print(f"{page.relative_to(root) if root in page.parents else page}:{line}: {what}")
    print(f"{count} places to look at in {len(pages)} pages")


if __name__ == "__main__":
    main(sys.argv[1:])
