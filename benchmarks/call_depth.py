"""How much code stands behind a call: distinct functions, files and depth, by sys.setprofile.

    python benchmarks/call_depth.py
    python benchmarks/call_depth.py --list 1  # the functions of the first call, by file

Four calls: a dense l1-logistic fit and graph-fused fits at two sizes, and four epochs of ACC-SADMM
with the certificate of their answer. Only functions of the package count; each call is made once
before, so that what is imported or compiled on first use is there. The printed numbers do not
depend on the machine.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

import stochadmm as sa

PACKAGE = str(Path(sa.__file__).parent)


def measured(call: Callable[[], object]) -> tuple[dict[tuple[str, str, int], Counter], int]:
    """Return the functions of the package in a call, with how often who called them; its depth."""
    call()
    functions, depth, deepest = defaultdict(Counter), 0, 0
    stack = ["-"]

    def profile(frame, event, argument):
        nonlocal depth, deepest
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or code.co_name.startswith("<"):
            return
        if event == "call":
            functions[code.co_filename, code.co_qualname, code.co_firstlineno][stack[-1]] += 1
            stack.append(code.co_qualname)
            depth += 1
            deepest = max(deepest, depth)
        elif event == "return":
            stack.pop()
            depth -= 1

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return functions, deepest


def lengths(path: str) -> dict[int, int]:
    """Return the lines of every function of a file by its first line, decorators included."""
    found = {}
    for node in ast.walk(ast.parse(Path(path).read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            found[first] = node.end_lineno - first + 1
    return found


def show(functions: dict[tuple[str, str, int], Counter]) -> None:
    """Print the functions by file: lines, calls and callers."""
    files = defaultdict(list)
    for (path, name, line), callers in functions.items():
        files[path].append((line, name, callers))
    for path in sorted(files):
        lines = lengths(path)
        print(f"\n{path[len(PACKAGE) + 1 :]}: {len(files[path])} functions")
        for line, name, callers in sorted(files[path], key=lambda one: one[:2]):
            by = ", ".join(list(callers)[:3]) + (", ..." if len(callers) > 3 else "")
            print(f"    {name}: {lines.get(line, 0)} lines, {callers.total()} calls, by {by}")


def rows(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gaussian rows and labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    coef = np.where(np.arange(d) < d // 5, 1.0, 0.0)
    return X, np.where(X @ coef + rng.standard_normal(n) > 0, 1, -1)


def calls() -> dict[str, Callable[[], object]]:
    """Return the calls by name."""
    large, small, middle = rows(20_000, 50), rows(300, 20), rows(5_000, 50)
    problem = sa.Problem.linear(
        sa.Logistic(), *middle, structure=sa.Differences(50), on_structure=sa.L1(1e-3)
    )
    return {
        "l1-logistic fit, 20,000 x 50": lambda: sa.SparseLogisticClassifier(alpha=1e-2).fit(
            *large
        ),
        "graph-fused fit, 20,000 x 50": lambda: sa.GraphFusedClassifier(alpha=1e-2).fit(*large),
        "graph-fused fit, 300 x 20": lambda: sa.GraphFusedClassifier(alpha=1e-2).fit(*small),
        "acc-sadmm, 5,000 x 50, four epochs": lambda: sa.minimize(
            problem, "acc-sadmm", max_epochs=4, stop=sa.Gap(1e-12), resumable=False
        ),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", type=int, help="number of the call whose functions are listed")
    asked = parser.parse_args().list
    print(f"{'call':36}{'functions':>10}{'files':>7}{'depth':>7}")
    for number, (name, call) in enumerate(calls().items(), start=1):
        functions, deepest = measured(call)
        files = {path for path, _, _ in functions}
        print(f"{name:36}{len({key[:2] for key in functions}):>10}{len(files):>7}{deepest:>7}")
        if number == asked:
            show(functions)
