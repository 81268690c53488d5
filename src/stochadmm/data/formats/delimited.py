"""CSV and TSV text, read once into Arrow files."""

from __future__ import annotations

from pathlib import Path

from .._parquet import ArrowFiles, pyarrow
from .._protocol import DataError, Source
from . import Format, Request


def _open(asked: Request) -> Source:
    """Read text once into an Arrow file, whose columns are then taken by name."""
    pa, target = pyarrow(), asked.named_target()
    import pyarrow.csv as text

    folder = asked.scratch_folder()
    made = []
    for number, path in enumerate(asked.paths):
        out = folder / f"{number:05}.arrow"
        delimiter = "\t" if Path(path).suffix.lower() == ".tsv" else ","
        options = text.ReadOptions(block_size=1 << 25)
        try:
            with text.open_csv(path, options, text.ParseOptions(delimiter=delimiter)) as reader:
                with pa.ipc.new_file(str(out), reader.schema) as writer:
                    for batch in reader:
                        writer.write_batch(batch)
        except pa.ArrowInvalid as error:
            raise DataError(f"{path} cannot be read as CSV: {error}") from error
        made.append(str(out))
    found = ArrowFiles.of(
        made, target, asked.columns, asked.weight, asked.offset, origins=asked.paths
    )
    return asked.kept_while(found, folder)


FORMAT = Format(frozenset({".csv", ".tsv"}), _open)
