"""Check that no page of the built documentation is wider than a laptop or a telephone.

    make docs
    python tools/check_pages.py [--html docs/_build/html] [--pictures FOLDER]

Opens every page in headless Chromium at 1366 and at 390 pixels and compares the width of its
content with the width of the window. Exits with 1 where a page is wider, and names the widest
element. ``--pictures`` also writes screenshots of a few pages.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, ClassVar

WIDTHS = (1366, 390)
SHOWN = (
    "index",
    "start/which-estimator",
    "how-to/tariffs",
    "reference/index",
    "reference/api/stochadmm.GraphFusedClassifier",
    "evidence/index",
    "reproduction",
)
CHROMIUM = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage"
).split()

# One page after the other in a frame that is as wide as the window; formulas are waited for.
LOOP = """<!doctype html><body><script>
const soon = promise => Promise.race([promise, new Promise(done => setTimeout(done, 5000))]);
async function main() {
  for (const page of PAGES) {
    const frame = document.createElement("iframe");
    frame.style.cssText = `width:${WIDTHS[0]}px;height:900px;border:0`;
    frame.src = "/" + page;
    const loaded = new Promise(done => { frame.onload = done; });
    document.body.append(frame);
    await loaded;
    const inside = frame.contentDocument, math = frame.contentWindow.MathJax;
    if (math && math.startup) await soon(math.startup.promise);
    const found = [];
    for (const width of WIDTHS) {
      frame.style.width = `${width}px`;
      const across = Math.max(inside.documentElement.scrollWidth, inside.body.scrollWidth);
      // what a parent cuts off does not show in scrollWidth; what scrolls by itself is fine
      const scrolls = e => e && !e.matches("article, body") &&
        (/auto|scroll/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
      const over = [...(inside.querySelector("article") || inside.body).querySelectorAll("*")]
        .filter(e => e.clientWidth > 0 && !scrolls(e)
          && e.getBoundingClientRect().right > width + 1);
      const widest = over.slice(-3).map(e => e.tagName + "." + e.className + ": " +
        e.textContent.trim().slice(0, 40)).join(" | ");
      found.push({page, width, across, widest});
    }
    frame.remove();
    await fetch("/found", {method: "POST", body: JSON.stringify(found)});
  }
}
main();
</script>"""


class Site(http.server.SimpleHTTPRequestHandler):
    """The built pages, the loop over them, and its findings."""

    loop = b""
    found: ClassVar[list[dict[str, Any]]] = []
    missing = 0
    done = threading.Event()

    def do_GET(self) -> None:
        """Serve the loop, or a file."""
        if self.path != "/check-pages":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.loop)

    def do_POST(self) -> None:
        """Keep what the loop has found."""
        Site.found += json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        Site.missing -= 1
        if not Site.missing:
            self.done.set()

    def log_message(self, *_: Any) -> None:
        """Say nothing about requests."""


def browse(*arguments: str) -> subprocess.Popen[bytes]:
    """Start Chromium with a profile of its own."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("Chromium was not found; install it, for example: apt-get install chromium")
    profile = tempfile.mkdtemp(prefix="check-pages-")
    command = [program, *CHROMIUM, f"--user-data-dir={profile}", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> int:
    """Check every page, and print those that are too wide."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--html", type=Path, default=Path("docs/_build/html"))
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--seconds", type=float, default=900.0)
    given = parser.parse_args()
    pages = sorted(str(path.relative_to(given.html)) for path in given.html.rglob("*.html"))
    pages = [page for page in pages if "_static" not in page]
    if not pages:
        sys.exit(f"no pages in {given.html}; run: make docs")
    loop = LOOP.replace("PAGES", json.dumps(pages)).replace("WIDTHS", json.dumps(WIDTHS))
    Site.loop, Site.missing = loop.encode(), len(pages)
    handler = functools.partial(Site, directory=str(given.html))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        browser = browse(
            "--window-size=1400,1000", "--remote-debugging-port=0", f"{address}/check-pages"
        )
        finished = Site.done.wait(given.seconds)
        browser.terminate()
        if given.pictures:
            given.pictures.mkdir(parents=True, exist_ok=True)
            for page in SHOWN:
                if not (given.html / f"{page}.html").exists():
                    continue
                for width in WIDTHS:
                    picture = given.pictures / f"{page.replace('/', '-')}-{width}.png"
                    size = f"--window-size={width},{1600 if width < 500 else 1000}"
                    browse(f"--screenshot={picture}", size, f"{address}/{page}.html").wait(120)
        server.shutdown()
    wide = [one for one in Site.found if one["across"] > one["width"] or one["widest"]]
    for one in wide:
        print(f"{one['page']}: {one['across']} at {one['width']} pixels; {one['widest']}")
    print(f"{len(pages)} pages at {WIDTHS[0]} and {WIDTHS[1]} pixels, {len(wide)} too wide")
    if not finished:
        sys.exit(f"{Site.missing} of {len(pages)} pages are left after {given.seconds:g} seconds")
    return bool(wide)


if __name__ == "__main__":
    sys.exit(main())
