"""Keep the failures of a night as seeds that the ordinary tests run ever after.

python -m nightly.keep build/nightly/20260101
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from nightly.piece import SEEDS

REPEATED = ("fuzz", "faults", "interrupts")
"""Pieces of trials that one seed and one number repeat."""


def main() -> int:
    """Add the failures of a folder."""
    night = json.loads((Path(sys.argv[1]) / "night.json").read_text(encoding="utf-8"))
    kept = json.loads(SEEDS.read_text(encoding="utf-8"))
    known = {(f["piece"], f["seed"], f["number"]) for f in kept}
    for part in night["parts"].values():
        for failure in part["failures"]:
            key = (failure["piece"], failure.get("seed"), failure.get("number"))
            if failure["piece"] in REPEATED and key not in known:
                kept.append(dict(zip(("piece", "seed", "number"), key, strict=True)))
                known.add(key)
    lines = ",\n".join(json.dumps(f) for f in kept)
    SEEDS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(kept)} seeds in {SEEDS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
