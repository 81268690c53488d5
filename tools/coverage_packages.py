"""Print the coverage of each package of the package from a JSON report of coverage.py.

python tools/coverage_packages.py build/coverage/report.json
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

PACKAGE = "stochadmm"


def by_package(
    report: dict[str, dict[str, dict[str, dict[str, int]]]],
) -> dict[str, tuple[int, int]]:
    """Return statements and those that ran, by the folder or module right below the package."""
    total: Counter[str] = Counter()
    ran: Counter[str] = Counter()
    for name, found in report["files"].items():
        parts = Path(name).parts
        below = parts[parts.index(PACKAGE) + 1 :]
        package = below[0].removesuffix(".py")
        total[package] += found["summary"]["num_statements"]
        ran[package] += found["summary"]["covered_lines"]
    return {package: (total[package], ran[package]) for package in sorted(total)}


def main() -> None:
    """Print a table: package, statements, share that ran."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path)
    packages = by_package(json.loads(parser.parse_args().report.read_text(encoding="utf-8")))
    packages["all"] = (sum(t for t, _ in packages.values()), sum(r for _, r in packages.values()))
    print(f"{'package':20}{'statements':>12}{'covered':>10}")
    for package, (total, ran) in packages.items():
        share = 100 * ran / total if total else 100.0
        print(f"{package:20}{total:12}{share:9.1f}%")


if __name__ == "__main__":
    main()
