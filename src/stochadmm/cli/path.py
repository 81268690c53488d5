"""``stochadmm path``: coefficients for many strengths, as a table."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from ._messages import json_text, noted, tell
from ._setting import Asked, together
from ._text import Dialect, write_table
from .fit import (
    MAP,
    AsJson,
    Decimal,
    Drop,
    Edges,
    Encoding,
    Eps,
    Exposure,
    Format,
    Free,
    Graph,
    Grid,
    Groups,
    L1Ratio,
    Loss,
    Missing,
    Monotone,
    Nominal,
    Offset,
    Ordered,
    Sep,
    Standardize,
    Target,
    Terms,
    Weight,
)


def path(
    data: Annotated[str, typer.Argument(hidden=True)],  # told by the first line of the help
    target: Target = None,
    loss: Loss = "",
    alphas: Annotated[int, typer.Option(min=2, help="Number of strengths alpha.")] = 50,
    eps: Eps = 1e-3,
    edges: Edges = None,
    groups: Groups = None,
    grid: Grid = None,
    graph: Graph = None,
    l1_ratio: L1Ratio = None,
    weight: Weight = None,
    offset: Offset = None,
    exposure: Exposure = None,
    ordered: Ordered = None,
    nominal: Nominal = None,
    map_: Annotated[list[str] | None, MAP] = None,
    free: Free = None,
    monotone: Monotone = None,
    terms: Terms = None,
    missing: Missing = None,
    drop: Drop = None,
    sep: Sep = "",
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    format_: Format = "",
    standardize: Standardize = False,
    out: Annotated[str, typer.Option(help="CSV file; - for standard output.")] = "-",
    as_json: AsJson = False,
) -> None:
    """Fit for many strengths, from the largest useful one down.

    DATA: CSV, Parquet, Arrow, libsvm, npz, npy, folder, pattern; - for stdin.
    """
    from ._stream import setting_of

    asked = Asked(
        together(target, "y"),
        loss,
        edges,
        groups,
        grid,
        graph,
        weight,
        offset,
        together(drop),
        exposure,
        together(ordered),
        together(nominal),
        together(free),
        together(map_),
        together(monotone),
        terms,
        missing,
    )
    setting = setting_of(data, asked, dialect=Dialect(sep, decimal, encoding, format_))
    options: dict[str, Any] = {} if l1_ratio is None else {"l1_ratio": l1_ratio}
    model = setting.model(standardize=standardize, **options)
    with noted() as notes:
        found = model.path(setting.X, setting.y, **setting.beside(), alphas=alphas, eps=eps)
    tell([*setting.notes, *notes])
    coefs = found.coefs.reshape(len(found.alphas), -1)
    names = found.feature_names if asked.has_terms else setting.design.names
    outputs = coefs.shape[1] // len(names)
    if outputs > 1:
        names = [f"{name}[{output}]" for output in setting.outputs for name in names]
    if as_json:
        rows = [
            {"alpha": a, "relative_gap": g, "coef": c}
            for a, g, c in zip(
                found.alphas.tolist(), found.gaps.tolist(), coefs.tolist(), strict=True
            )
        ]
        typer.echo(json_text({"columns": names, "path": rows}))
        return
    header = ["alpha", "relative_gap", *names]
    numbers = np.column_stack([found.alphas, found.gaps, coefs]).tolist()
    write_table(out, header, numbers)
