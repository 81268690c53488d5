"""The experiments use the library as anybody would: by public names, never by the inside."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import stochadmm_reproduction

FOLDER = Path(stochadmm_reproduction.__file__).parent
PUBLIC = {
    "stochadmm",
    "stochadmm.comparison",
    "stochadmm.data",
    "stochadmm.datasets",
    "stochadmm.losses",
    "stochadmm.operators",
    "stochadmm.penalties",
    "stochadmm.solvers",
    "stochadmm.structures",
}
FILES = sorted(path for path in FOLDER.rglob("*.py"))


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module, [alias.name for alias in node.names]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_only_public_names_of_the_library_are_used(path):
    for module, names in imported(ast.parse(path.read_text("utf-8"))):
        if module.split(".")[0] != "stochadmm":
            continue
        assert module in PUBLIC
        for name in names:
            assert not name.startswith("_")
            assert hasattr(import_module(module), name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_no_private_attribute_of_another_object_is_touched(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            dunder = node.attr.startswith("__") and node.attr.endswith("__")
            assert own or dunder, f"{path.name}:{node.lineno}: .{node.attr}"
