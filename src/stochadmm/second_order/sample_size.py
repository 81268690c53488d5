"""How many rows a Hessian takes.

A multiplication in a matrix product costs about a thirtieth of reading a number twice, so that a
Hessian of m rows and d columns takes the work of ``m d / (30 n)`` reads of the data.
"""

from __future__ import annotations

from ..risk import FiniteSum
from ..risk.curvature import is_implicit
from ..risk.parts import row_products, some_rows
from ..risk.sampling import evenly
from .options import SecondOrderOptions


def affordable(f2: FiniteSum, work: int, options: SecondOrderOptions) -> int:
    """Return the rows whose Hessian takes the work of ``work / 30`` reads of the data."""
    rows = work * f2.n_terms // (f2.n_columns * (f2.n_outputs or 1))
    if f2.n_bytes >= options.large_bytes:
        rows = min(rows, f2.n_terms // options.large_share)
    return min(f2.n_terms, rows)


def first_sample(f2: FiniteSum, options: SecondOrderOptions, free: float | None = None) -> int:
    """Return the rows of a first Hessian: about a third of a read's work, and enough of them.

    ``free`` multiplications are always allowed, those of the options when absent.
    """
    o, n, d, outputs = options, f2.n_terms, f2.n_columns, f2.n_outputs or 1
    if is_implicit(f2, False):
        enough = o.rows_per_column_implicit * d
    else:
        enough = o.rows_per_column * d * outputs
    work = row_products(f2, o.scattered) * outputs**2
    at_once = int((o.free_work if free is None else free) / work)
    size = max(affordable(f2, o.hessian_work, o), enough, o.least_rows, at_once)
    return n if size >= o.nearly_all * n else int(size)


def begins_with_part(f2: FiniteSum, options: SecondOrderOptions) -> bool:
    """Say whether it pays to begin with a part of the rows."""
    plain = f2.n_outputs is None and f2.weight is None
    least = max(options.part_rows * f2.n_columns, options.least_part)
    return plain and f2.n_terms // options.part >= least


def part_of(f2: FiniteSum, options: SecondOrderOptions) -> FiniteSum:
    """Return a part of the rows, evenly drawn."""
    return some_rows(f2, evenly(f2.n_terms, f2.n_terms // options.part))
