"""Small changes of numerical rules that the tests should notice.

    python -m nightly.mutants --count 100 --seed 7 --out build/mutants [--only _newton quadratic]

cosmic-ray makes the changes: another operator, comparison or number, a condition negated, a loop
that does not run. A uniform sample of them is tried, each in a copy of the sources, by the tests
of its package; what these let through is tried by the tests that pin whole fits. A change that
both let through has survived: its difference is printed. Finished mutants are kept in the folder,
and a second call goes on.

Numbers of messages and of documentation are not changed, nor what stands in annotations.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .piece import report

ROOT = Path(__file__).resolve().parents[1]
SHARE = 0.85
"""Of the mutants that the tests have to notice; the rest are read and argued."""
SECONDS = 600.0
"""Seconds after which tests of a mutant count as failed: it runs without an end."""
FITS = ("tests/golden", "tests/solvers/test_second_order.py")
NEWTON = ("tests/solvers/test_newton_rules.py", "tests/golden")


@dataclass(frozen=True)
class Rules:
    """A package or module and the tests that are about it."""

    where: str
    tests: tuple[str, ...]
    kernels: str = "auto"
    """``numpy`` for formulas whose work the compiled kernels do otherwise."""


RULES = (
    Rules("_newton/loop.py", NEWTON),
    Rules("_newton/line_search.py", NEWTON),
    Rules("_newton/trust.py", NEWTON),
    Rules("_newton/dense.py", NEWTON),
    Rules("_newton/duals.py", (*NEWTON, "tests/certificates/test_null_space.py")),
    Rules("_newton/columns.py", ("tests/solvers/default/test_working_set.py",)),
    Rules("_newton/factor.py", ("tests/solvers/default/test_tied_newton.py",)),
    Rules("_newton/fused.py", ("tests/solvers/default/test_tied_newton.py",)),
    Rules("_newton/coordinates.py", ("tests/solvers/default/test_coordinates.py",)),
    Rules(
        "certificates",
        tuple(
            f"tests/certificates/test_{n}.py" for n in ("null_space", "relative", "hard_bounds")
        ),
    ),
    Rules("quadratic", ("tests/quadratic",)),
    Rules("losses", ("tests/losses",), "numpy"),
    Rules("penalties", ("tests/penalties",)),
    Rules("base/serialize.py", ("tests/run/test_checkpoints.py",)),
    Rules("base/files.py", ("tests/base/test_files.py", "tests/run/test_checkpoints.py")),
    Rules("run/checkpoint.py", ("tests/run/test_checkpoints.py",)),
    Rules("run/stopping.py", ("tests/run/test_statuses.py", "tests/run/test_result.py")),
)
KINDS = re.compile(
    "NumberReplacer|ReplaceComparison|ReplaceBinaryOperator_(?!BitOr)|ReplaceUnary|AddNot|"
    "ReplaceTrue|ReplaceFalse|ReplaceAnd|ReplaceOr|ReplaceBreak|ReplaceContinue|ZeroIteration"
)


@dataclass(frozen=True)
class Mutant:
    """One change: the operator of cosmic-ray, and which of its places in a file."""

    rules: Rules
    path: Path
    operator: str
    occurrence: int

    @property
    def name(self) -> str:
        return f"{self.path} {self.operator.split('/')[-1]} {self.occurrence}"


def mutants(rules: Rules) -> Iterator[Mutant]:
    """Return all changes of a package."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    package = ROOT / "src" / "stochadmm"
    where = package / rules.where
    for path in sorted(where.glob("*.py")) if where.is_dir() else [where]:
        tree = get_ast(path.read_text(encoding="utf-8"))
        for name in sorted(operator_names()):
            if KINDS.match(name.split("/")[-1]) and not get_operator(name).arguments():
                operator = get_operator(name)()
                places = sum(len(list(operator.mutation_positions(n))) for n in ast_nodes(tree))
                for occurrence in range(places):
                    yield Mutant(rules, path.relative_to(ROOT), name, occurrence)


def changed(mutant: Mutant) -> str | None:
    """Return the source of a mutant; None where nothing that runs has changed."""
    import ast

    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    before = (ROOT / mutant.path).read_text(encoding="utf-8")
    after = mutate_code(before, get_operator(mutant.operator)(), mutant.occurrence)
    if after is None or _what_runs(ast.parse(before)) == _what_runs(ast.parse(after)):
        return None
    return str(after)


def _what_runs(tree: object) -> str:
    """Return a module without annotations and raised messages."""
    import ast

    class Bare(ast.NodeTransformer):
        def visit_Raise(self, node: ast.Raise) -> ast.Raise:
            return ast.Raise()

        def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
            self.generic_visit(node)
            node.annotation = ast.Constant(None)
            return node

        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
            self.generic_visit(node)
            node.returns = None
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    argument.annotation = None
            return node

    return ast.dump(Bare().visit(tree))  # type: ignore[arg-type]


def survives(mutant: Mutant, source: str, copy: Path) -> bool:
    """Run the tests on a copy of the sources with one change."""
    path = copy / mutant.path
    before = path.read_text(encoding="utf-8")
    path.write_text(source, encoding="utf-8")
    try:
        own = passes(mutant.rules.tests, copy, mutant.rules.kernels)
        return own and passes(FITS, copy)
    finally:
        path.write_text(before, encoding="utf-8")


def passes(tests: tuple[str, ...], copy: Path, kernels: str = "auto") -> bool:
    """Say whether tests pass in the copy."""
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    elsewhere = {
        "PYTHONPATH": f"{copy / 'tests' / 'elsewhere'}{os.pathsep}{copy / 'src'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "STOCHADMM_KERNELS": kernels,
    }
    quick = ("-x", "-q", "-p", "no:cacheprovider", "-m", "not slow")
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", *quick, *tests],
            cwd=copy,
            env=os.environ | one | elsewhere,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0


def main() -> int:
    """Try mutants, print who survived and the counts."""
    parser = argparse.ArgumentParser(description="Small changes that the tests should notice.")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--only", nargs="*", default=[""], help="beginnings of module names")
    asked = parser.parse_args()
    # a shell's background jobs ignore what some tests send to themselves
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began, out = time.perf_counter(), asked.out.resolve()
    copy = out / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    for part in ("src", "tests", "nightly", "benchmarks"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    for other in ("docs", "README.md", "pyproject.toml", "reproduction"):
        (copy / other).symlink_to(ROOT / other)
    chosen = [r for r in RULES if any(r.where.startswith(only) for only in asked.only)]
    unchanged = {(rules.tests, rules.kernels) for rules in chosen} | {(FITS, "auto")}
    for tests, kernels in sorted(unchanged):
        if not passes(tests, copy, kernels):
            print(f"{' '.join(tests)} fails without a change")
            return 2
    rng = np.random.default_rng(asked.seed)
    lists = [list(mutants(rules)) for rules in chosen]
    # every package has the same share, whatever its length
    order = [[own[k] for k in rng.permutation(len(own))] for own in lists]
    found, tried = out / f"mutants-{asked.seed}.jsonl", {}
    if found.exists():
        kept = map(json.loads, found.read_text(encoding="utf-8").splitlines())
        tried = {one["mutant"]: one["survived"] for one in kept}
    results: dict[str, bool] = {}
    while len(results) < asked.count and any(order):
        for own in order:
            while own and len(results) < asked.count:
                mutant = own.pop()
                source = changed(mutant)
                if source is None:
                    continue
                if mutant.name not in tried:
                    tried[mutant.name] = survives(mutant, source, copy)
                    line = {"mutant": mutant.name, "survived": tried[mutant.name]}
                    with found.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
                results[mutant.name] = tried[mutant.name]
                if results[mutant.name]:
                    print(f"survived: {mutant.name}\n{_difference(mutant, source)}", flush=True)
                break
    survivors = [name for name, survived in results.items() if survived]
    share = 1 - len(survivors) / max(1, len(results))
    print(f"{len(results) - len(survivors)} of {len(results)} noticed, {share:.0%}")
    failures = [{"piece": "mutants", "seed": asked.seed, "what": name} for name in survivors]
    report("mutants", len(results), failures if share < SHARE else [], time.perf_counter() - began)
    return 1 if share < SHARE else 0


def _difference(mutant: Mutant, source: str) -> str:
    import difflib

    before = (ROOT / mutant.path).read_text(encoding="utf-8").splitlines()
    lines = list(difflib.unified_diff(before, source.splitlines(), lineterm="", n=0))
    return "\n".join(lines[2:])


if __name__ == "__main__":
    sys.exit(main())
