"""Write the counts of nights into the page on reliability.

    python -m nightly.publish build/nightly/20261120 [build/nightly/20261121 ...]

The table between the marks of ``docs/reliability.md`` is made anew: of every piece the
last night that ran it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .__main__ import PIECES, ROOT

PAGE = ROOT / "docs" / "reliability.md"
MARKS = "<!-- nights: made by nightly/publish.py -->", "<!-- end of nights -->"


def rows(nights: list[dict[str, object]]) -> list[str]:
    """Return the lines of the table."""
    lines = [
        "| what must hold | trials | failures | minutes | when | run it |",
        "|---|--:|--:|--:|---|---|",
    ]
    for piece in PIECES:
        done = None
        for night in nights:
            parts: dict[str, dict] = night["parts"]  # type: ignore[assignment]
            own = [p for name, p in parts.items() if name.rpartition("-")[0] == piece.name]
            done = (own, night) if own else done
        if done is None:
            lines.append(f"| {piece.promise} | not run | | | | `--only {piece.name}` |")
            continue
        own, night = done
        trials = sum(part["trials"] for part in own)
        failures = sum(len(part["failures"]) for part in own)
        minutes = sum(part["seconds"] for part in own) / 60
        when = str(night["begun"])[:10]
        lines.append(
            f"| {piece.promise} | {trials:,} | {failures} | {minutes:.0f} | {when} "
            f"| `--only {piece.name}` |"
        )
    return lines


def main() -> None:
    """Rewrite the table."""
    nights = [json.loads((Path(name) / "night.json").read_text()) for name in sys.argv[1:]]
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    table = "\n".join([MARKS[0], "", *rows(nights), "", MARKS[1]])
    PAGE.write_text(before + table + after, encoding="utf-8")


if __name__ == "__main__":
    main()
