"""Every code block of the README and the documentation runs; internal links lead somewhere."""

import re
from pathlib import Path

import pytest

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
        if "://" not in target and not (path.parent / target).exists()
        # made when the documentation is built
        and not target.startswith(("../_structures", "../gallery", "gallery"))
    ]  # fmt: skip
    assert not broken
