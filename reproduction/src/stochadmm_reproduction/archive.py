"""Finished pieces of work in a few small files, to be kept under version control.

One compressed file of JSON lines per form, kind of work and experiment: a line is the place of a
piece in an output folder, and its text. The same pieces give the same bytes.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path, PurePosixPath

from ._files import replacing

ENDING = ".jsonl.xz"


class Archive:
    """A folder of such files; each is read when the first piece in it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, dict[str, str]] = {}

    def text(self, place: PurePosixPath) -> str | None:
        """Return the text of a piece, by its place in an output folder; None without it."""
        name = _name(place)
        if name not in self._read:
            self._read[name] = self.pieces(name)
        return self._read[name].get(str(place))

    def add(self, out: Path) -> int:
        """Take in what is finished in an output folder; return how many pieces are new."""
        found: dict[str, dict[str, str]] = {}
        for form in ("full", "quick"):
            for path in sorted((out / form).rglob("*")):
                if path.suffix in (".json", ".csv") and not path.name.startswith("."):
                    place = PurePosixPath(path.relative_to(out).as_posix())
                    found.setdefault(_name(place), {})[str(place)] = path.read_text("utf-8")
        n_new = 0
        for name, pieces in found.items():
            before = self.pieces(name)
            whole = before | pieces
            if whole != before:
                n_new += sum(before.get(place) != text for place, text in pieces.items())
                self._write(name, whole)
            self._read[name] = whole
        return n_new

    def pieces(self, name: str) -> dict[str, str]:
        """Return the texts in one file by their places, without any where there is none."""
        path = self.folder / f"{name}{ENDING}"
        try:
            with lzma.open(path, "rt", encoding="utf-8") as stream:
                return dict(json.loads(line) for line in stream)
        except FileNotFoundError:
            return {}
        except (OSError, EOFError, ValueError, TypeError, lzma.LZMAError) as error:
            raise ValueError(
                f"{path} holds no finished pieces ({error}); restore it, or remove it to do them "
                "again"
            ) from error

    def _write(self, name: str, pieces: dict[str, str]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (
            replacing(self.folder / f"{name}{ENDING}") as temporary,
            lzma.open(temporary, "wt", encoding="utf-8", newline="\n") as stream,
        ):
            for item in sorted(pieces.items()):
                stream.write(json.dumps(item, ensure_ascii=False) + "\n")


def _name(place: PurePosixPath) -> str:
    """Return the file that a piece belongs in: form, kind and experiment."""
    form, kind, experiment = place.parts[:3]
    return f"{form}-{experiment}-{kind}"
