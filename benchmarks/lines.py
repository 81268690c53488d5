"""Lines of a benchmark: measured apart, kept in a file, printed as a table.

Every line is measured in a process of its own, so that memory and caches of one do not show in
another, and is appended to a file of JSON lines as soon as it is known. A run that was interrupted
goes on where it ended; delete the file, or lines of it, to measure again.
"""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path


class Lines:
    """What was measured so far, by the words that name a line."""

    def __init__(self, path: str | None) -> None:
        self.path = None if path is None else Path(path)
        self.known: dict[str, dict[str, object]] = {}
        if self.path is not None and self.path.exists():
            for text in self.path.read_text().splitlines():
                line = json.loads(text)
                self.known[line["name"]] = line["found"]

    def measured(self, name: str, work, *arguments, seconds: float = 3600.0):
        """Return what ``work(*arguments)`` finds, from the file where it is known."""
        if name in self.known:
            return self.known[name]
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            try:
                found = pool.apply_async(work, arguments).get(seconds)
            except multiprocessing.TimeoutError:
                found = {"late": seconds}
        self.known[name] = found
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps({"name": name, "found": found}) + "\n")
        return found


class Table:
    """A table in Markdown, printed row by row."""

    def __init__(self, *columns: str) -> None:
        self.columns = columns
        print("\n| " + " | ".join(columns) + " |")
        print("|" + "---|" * len(columns), flush=True)

    def row(self, *cells: object) -> None:
        """Print one row; floats with three digits."""
        shown = (f"{c:.3g}" if isinstance(c, float) else str(c) for c in cells)
        print("| " + " | ".join(shown) + " |", flush=True)
