"""Count what can be read off the syntax tree of the package: knots, caches, probes, constants.

    python tools/count_code.py [FOLDER ...]

Each folder is a source tree that holds ``stochadmm``; with several (a checkout of an older commit
and this one) there is a column for each. ``--list NAME`` prints the places of one count;
``--check NAME ...`` makes some of them a rule.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "stochadmm"
LONG = 450
ROOMS_OF_ROWS = ("data", "core", "kernels", "risk", "finite_sum")
"""Modules that may touch rows: the data layer, what stands directly on it, and compiled loops."""
ROWS = {"X", "row_norms2"}
"""Attributes that are as long as the data."""


@dataclass(frozen=True)
class Source:
    """One parsed file."""

    path: Path
    parts: tuple[str, ...]
    """Names below the package: ("solvers", "auto")."""
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """The package or module right below the root."""
        return self.parts[0] if self.parts else "__init__"


def sources(folder: Path) -> list[Source]:
    """Return the parsed files of a source tree."""
    root = folder / PACKAGE
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        text = path.read_text(encoding="utf-8")
        found.append(Source(path, parts, text, ast.parse(text)))
    return found


def _target(source: Source, node: ast.ImportFrom) -> tuple[str, ...] | None:
    """Return the module an import names, relative to the package; None outside it."""
    named = tuple(node.module.split(".")) if node.module else ()
    if node.level == 0:
        return named[1:] if named[:1] == (PACKAGE,) else None
    is_package = source.path.name == "__init__.py"
    depth = len(source.parts) + is_package - node.level
    return source.parts[:depth] + named


def private_imports(source: Source) -> Iterator[int]:
    """Private modules or names imported from another room."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        target = _target(source, node)
        if not target or target[0] == source.room:
            continue
        hidden = any(name.startswith("_") for name in target)
        if hidden or any(alias.name.startswith("_") for alias in node.names):
            yield node.lineno


def dict_uses(source: Source) -> Iterator[int]:
    """Uses of ``__dict__``."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr == "__dict__":
            yield node.lineno


def attribute_caches(source: Source) -> Iterator[int]:
    """``cached_property``, and names set on an object that is not ``self`` in ``__init__``."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef):
            for mark in node.decorator_list:
                if ast.unparse(mark).split("(")[0].endswith("cached_property"):
                    yield node.lineno
        if isinstance(node, ast.Attribute) and node.attr in {"kept", "_kept"}:
            if isinstance(node.ctx, ast.Store):
                yield node.lineno


def probes(source: Source) -> Iterator[int]:
    """Questions what an object is or has: isinstance and its like, ``type(x) is``."""
    asking = {"isinstance", "issubclass", "hasattr", "getattr", "attrgetter"}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and _called(node) in asking:
            yield node.lineno
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            calls = [ast.unparse(side.func) for side in sides if isinstance(side, ast.Call)]
            if "type" in calls:
                yield node.lineno


def _called(node: ast.Call) -> str:
    """Return the last part of the name of what is called."""
    return ast.unparse(node.func).rpartition(".")[2]


def casts(source: Source) -> Iterator[int]:
    """Calls of typing.cast."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "cast":
                yield node.lineno


def _is_number(node: ast.expr) -> bool:
    try:
        value = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}})
    except Exception:
        return False
    return isinstance(value, int | float) and not isinstance(value, bool)


def constants(source: Source) -> Iterator[int]:
    """Names of numbers at the level of a module."""
    for node in source.tree.body:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            if _is_number(node.value):
                yield node.lineno
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from (node.lineno for value in node.value.elts if _is_number(value))
            elif isinstance(target, ast.Name) and _is_number(node.value):
                yield node.lineno


def touches_rows(source: Source) -> Iterator[int]:
    """Attributes ``.X`` and row norms read outside the data layer, estimators and data sets."""
    if source.room in (*ROOMS_OF_ROWS, "estimators", "datasets", "experiments", "cli", "testing"):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr in ROWS:
            yield node.lineno


def long_files(source: Source) -> Iterator[int]:
    """Files longer than a screenful of screens."""
    length = len(source.text.splitlines())
    if length > LONG:
        yield length


COUNTS: dict[str, tuple[Callable[[Source], Iterator[int]], int]] = {
    "private imports across rooms": (private_imports, 0),
    "uses of __dict__": (dict_uses, 0),
    "attribute caches": (attribute_caches, 0),
    "probes: isinstance, hasattr, getattr": (probes, 120),
    "casts": (casts, 50),
    "numeric module constants": (constants, 60),
    "rows touched outside the data layer": (touches_rows, 0),
    f"files over {LONG} lines": (long_files, 0),
}


def main() -> int:
    """Print a table: one row per count, one column per tree, and the target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("src")])
    parser.add_argument("--list", metavar="NAME", help="print the places of counts by this word")
    parser.add_argument(
        "--check", nargs="+", metavar="NAME", default=(),
        help="exit with 1 where a count by one of these words is above its target",
    )  # fmt: skip
    options = parser.parse_args()
    trees = [sources(folder) for folder in options.folders]
    if options.list:
        for name, (count, _) in COUNTS.items():
            if options.list in name:
                for source in trees[-1]:
                    for line in count(source):
                        print(f"{source.path}:{line}")
        return 0
    above = []
    for name, (count, target) in COUNTS.items():
        numbers = [sum(1 for source in tree for _ in count(source)) for tree in trees]
        print(f"{name:40}" + "".join(f"{n:8}" for n in numbers) + f"   at most {target}")
        if numbers[-1] > target and any(word in name for word in options.check):
            above.append(name)
    if above:
        print("too many: " + ", ".join(above) + "; --list names the places")
    return int(bool(above))


if __name__ == "__main__":
    raise SystemExit(main())
