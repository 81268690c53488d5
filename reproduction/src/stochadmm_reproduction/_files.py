"""Files that are whole or absent: written under another name, then renamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the name of an empty file that becomes ``path`` at once when the block ends.

    Until then, and for good if the block raises or the process is killed, ``path`` is what it was
    before.
    """
    # a name of its own: two processes may write the same file
    temporary = path.with_name(f".{path.name[:100]}.{uuid4().hex}.part")
    try:
        temporary.touch()
        yield temporary
        with temporary.open("rb+") as stream:  # the content is on the disk before the name is
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> Path:
    """Write a text file in UTF-8 that is never seen half written; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path
