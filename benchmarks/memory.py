"""Memory of the methods beyond the data, at ImageNet's shape and measured at small shapes.

    python benchmarks/memory.py

The first table is ``solver.memory(problem)`` for 1,281,167 rows of 4,096 features and 1,000
classes in double precision, with nuclear and l1 norm; nothing of that size is allocated. The
second runs each method at two small shapes, one with more rows than columns and one the other way
round, and compares the formula with what Python's allocator saw. A formula holds when the method
keeps no more, when its peak is at most half as much again as the formula and one full pass, and
when the formula is at most twice the peak. Where snapshots keep nothing per row the formula counts
every array, and has to be within a tenth of the peak. Exit code 1 when one does not hold.
"""

from __future__ import annotations

import sys
import tracemalloc
from dataclasses import replace

import numpy as np

import stochadmm as sa
from stochadmm_reproduction.claims import readable
from stochadmm_reproduction.memory import IMAGENET, Shapes

ROWS, FEATURES, CLASSES = IMAGENET.rows, IMAGENET.features, IMAGENET.classes
BATCH = IMAGENET.batch
FLOAT64 = np.dtype(np.float64)
SMALL = 1 << 16  # bytes of Python objects
PAPER = {
    "sag-admm, points": "38.2 TB",
    "sdca-admm": "9.6 GB",
    "svrg-admm": "<= 250 MB",
    "acc-sadmm": "<= 250 MB",
}


def methods(batch_size: int) -> dict[str, sa.solvers.Solver]:
    """Return one solver per line of the tables."""
    made = {}
    for name in sa.solvers.names():
        kind = sa.solvers.get(name)
        fields = kind().__dataclass_fields__
        made[name] = kind(batch_size=batch_size) if "batch_size" in fields else kind()
        if name == "sag-admm":
            made["sag-admm, points"] = kind(batch_size=batch_size, form="points")
    return made


def low_rank_problem(f2: Shapes, h1=None) -> sa.Problem:
    """Return nuclear norm (or another one) + l1 norm in the splitting with one copy."""
    d = f2.shape[0]
    return sa.Problem(
        f2, h1=h1 or sa.Nuclear(1e-4), h2=sa.L1(1e-4), A1=sa.Identity(d, -1.0), A2=sa.Identity(d)
    )


def at_imagenet_shape() -> None:
    """Print the first table."""
    p, fewer = (
        low_rank_problem(Shapes(n, (FEATURES, CLASSES), dtype=FLOAT64)) for n in (ROWS, 2 * BATCH)
    )
    print(f"n = {ROWS:,}, d = {FEATURES:,}, C = {CLASSES:,}, b = {BATCH:,}, float64")
    matrix, table, data = (
        readable(8 * a * b) for a, b in ((FEATURES, CLASSES), (ROWS, CLASSES), (ROWS, FEATURES))
    )
    print(f"one d x C matrix {matrix}, one n x C table {table}, the data {data}\n")
    print(f"{'method':18} {'memory':>11} {'without rows':>13} {'matrices':>9}   paper")
    for name, solver in sorted(methods(BATCH).items()):
        try:
            total, small = solver.memory(p), solver.memory(fewer)
        except TypeError:  # it depends on entries of the rows, which there are none of
            print(f"{name:18} {'by its rows':>11}")
            continue
        per_row = (total - small) / (ROWS - 2 * BATCH)
        rest = total - per_row * ROWS
        print(
            f"{name:18} {readable(total):>11} {readable(rest):>13} "
            f"{rest / (8 * FEATURES * CLASSES):>9.1f}   {PAPER.get(name, '')}"
        )
    print(
        "\n'without rows' leaves out what grows with n: dual variables, tables, and predictions\n"
        "and slopes at a snapshot, kept so that a step reads its rows once, not twice.\n"
        "katyusha has no constraint; admm, gram and prox-newton refuse over 4,000 columns.\n"
    )


def measured(solver: sa.solvers.Solver, p: sa.Problem, epochs: int = 2) -> tuple[int, int]:
    """Return what is kept after a start and some epochs, and the peak."""
    rng = np.random.default_rng(0)
    state = solver.start(p)
    solver.epoch(p, state, rng)  # caches of the problem are not the method's
    del state
    tracemalloc.start()
    state = solver.start(p)
    for _ in range(epochs):
        solver.epoch(p, state, rng)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept, peak


def of_a_pass(f2: sa.FiniteSum) -> int:
    """Return the peak of one full gradient with its value, which every method needs at times."""
    x = np.zeros(f2.shape)
    f2.evaluate(x)
    tracemalloc.start()
    f2.evaluate(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def small_problem(name: str, n: int, d: int, C: int) -> sa.Problem:
    """Return a problem that the method can serve."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    if name in ("admm", "gram", "prox-newton"):
        f2 = sa.FiniteSum(sa.Squared(), X, rng.standard_normal((n, C)))
    else:
        f2 = sa.FiniteSum(sa.Multinomial(C), X, rng.integers(C, size=n))
    if name == "katyusha":
        return sa.Problem(f2, h2=sa.L1(1e-3))
    return sa.Problem(f2, h1=sa.L1(1e-3), A1=sa.Identity(d, -1.0), A2=sa.Identity(d))


def at_small_shapes() -> bool:
    """Print the second table; return whether every formula holds."""
    fine = True
    print(
        f"{'method':18} {'n x d x C':>16} {'formula':>11} {'kept':>11} {'peak':>11} {'a pass':>11}"
    )
    for n, d, C in ((4000, 30, 20), (200, 1200, 20)):
        for name in sorted(methods(BATCH)):
            if "points" in name and n > 1000:
                continue  # the table alone would be large
            p, solver = small_problem(name, n, d, C), methods(50)[name]
            if not solver.serves(p):
                continue
            formula, a_pass = solver.memory(p), of_a_pass(p.f2)
            kept, peak = measured(solver, p)
            held = kept <= 1.1 * formula + SMALL and formula <= 2 * peak + SMALL
            held &= peak <= 1.5 * (formula + a_pass) + SMALL
            fine &= held
            numbers = "".join(f"{readable(v):>12}" for v in (formula, kept, peak, a_pass))
            shape, verdict = f"{n} x {d} x {C}", "" if held else "  <- off"
            print(f"{name:18} {shape:>16}{numbers}{verdict}", flush=True)
        print(f"a pass holds {a_pass / (8 * n * C):.1f} tables of n x C numbers for a while\n")
    return fine


def without_rows() -> bool:
    """Print what SVRG- and ACC-SADMM take when snapshots keep nothing per row, in float32."""
    shapes = Shapes(ROWS, (FEATURES, CLASSES), dtype=np.dtype(np.float32), keeps_rows=False)
    there, fine = low_rank_problem(shapes), True
    title = "nothing per row, float32"
    print(f"{title:36} {'formula':>11} {'peak':>11} {'ratio':>6} {'ImageNet':>12}  limit")
    for n, d, C, batch in ((20_000, 400, 100, BATCH), (5_000, 1_000, 60, 500)):
        rng = np.random.default_rng(0)
        X = (rng.standard_normal((n, d)) / np.sqrt(d)).astype(np.float32)
        f2 = sa.FiniteSum(sa.Multinomial(C), X, rng.integers(C, size=n)).with_memory(0)
        here = low_rank_problem(f2, sa.L1(1e-4))
        for solver, limit in (
            (sa.SVRGADMM(batch_size=batch, n_inner=4), 250),
            (sa.AccSADMM(batch_size=batch, n_inner=4, metric="none", restart=2), 350),
        ):
            # at the large shape with all batches of an epoch
            large = replace(solver, batch_size=BATCH, n_inner=None).memory(there) / 1e6
            formula, peak = solver.memory(here), measured(solver, here, epochs=4)[1]
            held = abs(peak - formula) <= 0.1 * formula and large <= limit
            fine &= held
            shape = f"{n} x {d} x {C}"
            print(
                f"{solver.name:18} {shape:>17} {readable(formula):>11} {readable(peak):>11} "
                f"{peak / formula:>6.2f} {large:>9.0f} MB  {limit} MB"
                f"{'' if held else '  <- off'}"
            )
    print(
        "\nThe readable loops, which a run takes here. The work of a prox other than that of l1\n"
        "comes on top: the SVD of a nuclear norm copies its matrix and has two factors.\n"
    )
    return fine


if __name__ == "__main__":
    at_imagenet_shape()
    light = without_rows()
    sys.exit(0 if at_small_shapes() and light else 1)
