"""The report in a browser: it loads without complaint, shows every figure, fits a phone."""

import os
import re
import shutil
import subprocess

import pytest

import stochadmm_reproduction as experiments

pytest.importorskip("yaml")
pytest.importorskip("matplotlib")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--dump-dom",
)
SMALL = """
name: fig1
title: Small
problem: fused
mu: 1.0e-3
passes: 8
seconds: 2
seeds: [0, 1]
methods: [stoc-admm, svrg-admm, acc-sadmm]
datasets: [{name: generated, batch: 50, rows: 400, graph: given}]
variants: [{name: theory}]
tuning: {points: 3, kept: [2, 1], seeds: [101, 102], rows: 200, most: 2}
"""
# what a reader sees, written into the title once the page has loaded
PROBE = """<script>window.addEventListener("load", () => {
  const all = [...document.images];
  const seen = all.filter(i => i.complete && i.naturalWidth > 0 && i.clientWidth > 100);
  const fits = document.documentElement.scrollWidth <= window.innerWidth;
  document.title = `seen ${seen.length} of ${all.length}, fits ${fits}`;
});</script></head>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    (folder / "small.yaml").write_text(SMALL)
    written = experiments.reproduce([str(folder / "small.yaml")], folder / "out")
    return written.read_text(encoding="utf-8")


def opened(html, folder, width=1280):
    """Return the page as the browser has it in the end, and what the console was told."""
    path = folder / "page.html"
    path.write_text(html.replace("</head>", PROBE), encoding="utf-8")
    done = subprocess.run(
        [
            BROWSER,
            *OPTIONS,
            f"--user-data-dir={folder / 'profile'}",
            f"--window-size={width},1600",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "LANG": "C"},
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def seen(dom):
    return re.search(r"<title>(.*?)</title>", dom)[1]


@pytest.mark.parametrize("width", [1280, 500])  # headless windows are not narrower than 500
def test_the_page_loads_and_every_figure_is_visible(page, tmp_path, width):
    dom, console = opened(page, tmp_path, width)
    assert seen(dom) == "seen 4 of 4, fits true"  # the headline, and one figure per axis
    assert console == []
    for section in ("claims", "figures", "tables", "machine"):
        assert f'id="{section}"' in dom


def test_a_broken_figure_and_a_complaint_are_noticed(page, tmp_path):
    broken = re.sub(r"data:image/png;base64,[^\"]{40}", "data:image/png;base64,", page, count=1)
    broken = broken.replace("</body>", "<script>console.error('no')</script></body>")
    dom, console = opened(broken, tmp_path)
    assert seen(dom).startswith("seen 3 of 4")
    assert len(console) == 1
