"""Print the coverage of each room of the package from a JSON report of coverage.py.

python tools/coverage_rooms.py build/coverage/report.json
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

PACKAGE = "stochadmm"


def by_room(report: dict[str, dict[str, dict[str, dict[str, int]]]]) -> dict[str, tuple[int, int]]:
    """Return statements and those that ran, by the folder or module right below the package."""
    total: Counter[str] = Counter()
    ran: Counter[str] = Counter()
    for name, found in report["files"].items():
        parts = Path(name).parts
        below = parts[parts.index(PACKAGE) + 1 :]
        room = below[0].removesuffix(".py")
        total[room] += found["summary"]["num_statements"]
        ran[room] += found["summary"]["covered_lines"]
    return {room: (total[room], ran[room]) for room in sorted(total)}


def main() -> None:
    """Print a table: room, statements, share that ran."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path)
    rooms = by_room(json.loads(parser.parse_args().report.read_text(encoding="utf-8")))
    rooms["all"] = (sum(t for t, _ in rooms.values()), sum(r for _, r in rooms.values()))
    print(f"{'room':20}{'statements':>12}{'covered':>10}")
    for room, (total, ran) in rooms.items():
        share = 100 * ran / total if total else 100.0
        print(f"{room:20}{total:12}{share:9.1f}%")


if __name__ == "__main__":
    main()
