"""``stochadmm path``: coefficients for many strengths, as a table."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from ._messages import json_text, noted, tell
from ._setting import Asked, together
from ._text import write_table
from .fit import (
    AsJson,
    Drop,
    Edges,
    Graph,
    Grid,
    Groups,
    L1Ratio,
    Loss,
    Standardize,
    Target,
)


def path(
    data: Annotated[str, typer.Argument(hidden=True)],  # told by the first line of the help
    target: Target = None,
    loss: Loss = "",
    alphas: Annotated[int, typer.Option(min=2, help="Number of strengths alpha.")] = 50,
    eps: Annotated[float, typer.Option(help="Smallest over largest alpha.")] = 1e-3,
    edges: Edges = None,
    groups: Groups = None,
    grid: Grid = None,
    graph: Graph = None,
    l1_ratio: L1Ratio = None,
    drop: Drop = None,
    standardize: Standardize = False,
    out: Annotated[str, typer.Option(help="CSV file; - for standard output.")] = "-",
    as_json: AsJson = False,
) -> None:
    """Fit for many strengths, from the largest useful one down.

    DATA: CSV, Parquet, Arrow, libsvm, npz, npy, folder, pattern; - for stdin.
    """
    from ._stream import setting_of

    asked = Asked(together(target, "y"), loss, edges, groups, grid, graph, drop=together(drop))
    setting = setting_of(data, asked)
    options: dict[str, Any] = {} if l1_ratio is None else {"l1_ratio": l1_ratio}
    model = setting.model(standardize=standardize, **options)
    with noted() as notes:
        found = model.path(setting.X, setting.y, alphas=alphas, eps=eps)
    tell([*setting.notes, *notes])
    coefs = found.coefs.reshape(len(found.alphas), -1)
    outputs = coefs.shape[1] // setting.design.n_columns
    names = setting.design.names
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
