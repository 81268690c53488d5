"""Every code block of the README and the documentation runs; internal links lead somewhere."""

import inspect
import re
import runpy
from pathlib import Path

import pytest

import stochadmm as sa

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if "_build" not in path.parts and "gallery" not in path.parts
)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


with_code = [path for path in PAGES if BLOCK.search(path.read_text(encoding="utf-8"))]


@pytest.mark.skipif(not PAGES, reason="the documentation is not part of this distribution")
@pytest.mark.parametrize("path", with_code, ids=_name)
def test_code_blocks_of_a_page_run_in_their_order(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "__docs__"}
    for block in BLOCK.findall(path.read_text(encoding="utf-8")):
        exec(compile(block, _name(path), "exec"), space)
    assert "sa" in space, "a page that shows code imports the package"


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_internal_links_lead_to_files(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    broken = [
        target
        for target in LINK.findall(text)
        if "://" not in target
        and not (path.parent / target).exists()
        # made when the documentation is built
        and not target.startswith(("../_structures", "../gallery", "gallery"))
    ]
    assert not broken


def test_external_links_are_listed_and_secure():
    listed = runpy.run_path(str(ROOT / "tools" / "links.py"))["external"]()
    assert listed, "the documentation links to nothing outside"
    assert [address for address in listed if not address.startswith("https://")] == []


METHODS = [make for make in map(sa.solvers.get, sa.solvers.names()) if inspect.isclass(make)]
COMPARED = [make for make in METHODS if ".comparison." in make.__module__]
PUBLIC = [name for name in sa.__all__ if inspect.isclass(getattr(sa, name))] + [
    "minimize",
    "certify",
]
GIVEN_BY_RUNS = {
    "Certificate",
    "CheckpointError",
    "Comparison",
    "DataError",
    "EngineLost",
    "Pair",
    "Record",
    "Result",
    "Evaluation",
    "Status",
}
"""What runs return or raise: described by attributes, not made by users."""


def test_the_reference_lists_every_public_name():
    listed = set((ROOT / "docs" / "reference" / "index.rst").read_text(encoding="utf-8").split())
    modules = {"cluster", "data", "datasets", "solvers", "terms"}
    assert sorted(set(sa.__all__) - modules - listed - {"Evaluation"}) == []
    compared = {make.__name__ for make in COMPARED}
    assert len(compared) == 18
    assert {f"solvers.{name}" for name in compared - {"SVRGADMM"}} <= listed


@pytest.mark.parametrize("name", [name for name in PUBLIC if name not in GIVEN_BY_RUNS])
def test_every_parameter_of_a_public_name_is_described(name):
    check_parameters(getattr(sa, name))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_every_option_of_a_method_is_described_shared_ones_too(method):
    check_parameters(method)


def check_parameters(thing):
    """Assert that the docstring describes every parameter."""
    described = set()
    for line in inspect.getdoc(thing).splitlines():
        head = re.match(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: :.*)?$", line)
        if head:
            described |= {part.strip(" *") for part in head[1].split(",")}
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    wanted = {
        parameter.name
        for parameter in inspect.signature(thing).parameters.values()
        if parameter.kind not in kinds and not parameter.name.startswith("_")
    }
    assert wanted <= described
