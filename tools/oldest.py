"""Print the oldest versions that pyproject.toml allows, as requirements for pip.

python tools/oldest.py [EXTRA ...]
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def oldest(extras: list[str]) -> list[str]:
    """Return ``name==version`` for every requirement, those of extras included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    pins: dict[str, str] = {}
    for requirement in wanted:
        found = re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement)
        if found is None:
            raise SystemExit(f"{requirement!r} in pyproject.toml has no lower bound >=")
        name, version = found.groups()
        if pins.setdefault(name, version) != version:
            raise SystemExit(f"{name} has two lower bounds, {pins[name]} and {version}")
    return [f"{name}=={version}" for name, version in sorted(pins.items())]


if __name__ == "__main__":
    print("\n".join(oldest(sys.argv[1:])))
