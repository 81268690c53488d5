"""Commands whose errors are one line with exit code 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """A parser that tells bad usage in one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is."""
        self.exit(2, f"{self.prog}: {message}; see `{self.prog} --help`\n")


def run(work: Callable[[], int | None]) -> int:
    """Return the exit code of some work: 2, and one line, for what the user can mend."""
    try:
        return work() or 0
    except (OSError, ValueError) as error:
        print(f"reproduction: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
