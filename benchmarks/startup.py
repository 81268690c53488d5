"""What a user waits for before the first answer, measured in fresh processes.

    python benchmarks/startup.py

Import beside scikit-learn's own, the very first solve with an empty cache of machine code, the
first solve of a second process, and solves where no cache can be written. Times are processor
seconds of one thread, which is what a user waits on a machine with a free core; the clock on the
wall is printed beside them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

IMPORT = """
import json, sys, time
def now():
    return time.process_time(), time.perf_counter()
start = now()
import sklearn.linear_model, scipy.sparse.linalg
middle = now()
import stochadmm
end = now()
print(json.dumps({"sklearn": middle[0] - start[0], "stochadmm": end[0] - middle[0],
                  "wall": end[1] - middle[1], "numba": "numba" in sys.modules}))
"""

SOLVE = """
import json, time
import numpy as np, stochadmm as sa
compiled = []
if %r:
    from numba.core import event
    class Listener(event.Listener):
        def on_start(self, e):
            compiled.append(e.data["dispatcher"].py_func.__name__)
        def on_end(self, e):
            pass
    event.register("numba:compile", Listener())
rng = np.random.default_rng(0)
X = rng.standard_normal((500, 20))
y = np.where(X[:, 0] + 0.3 * rng.standard_normal(500) > 0, 1.0, -1.0)
start, clock = time.process_time(), time.perf_counter()
problem = sa.Problem.linear(sa.Logistic(), X, y, structure=sa.Differences(20),
                            on_structure=sa.L1(0.01))
result = sa.minimize(problem, %r, max_passes=20, stop=sa.Never())
print(json.dumps({"seconds": time.process_time() - start, "wall": time.perf_counter() - clock,
                  "engine": result.info["engine"], "compiled": compiled}))
"""


def fresh(code: str, cache: str | None = None) -> dict:
    """Run code in a new process and return the JSON that it prints last."""
    environment = dict(os.environ)
    environment.pop("NUMBA_CACHE_DIR", None)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    if done.returncode != 0:
        return {"error": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def say(ok: bool, text: str) -> bool:
    """Print one line of the report."""
    print(f"{'ok    ' if ok else 'MISSED'}  {text}", flush=True)
    return ok


def imports() -> list[bool]:
    """Measure the import, the best of five processes each."""
    runs = [fresh(IMPORT) for _ in range(5)]
    ours, theirs, wall = (min(r[k] for r in runs) for k in ("stochadmm", "sklearn", "wall"))
    return [
        say(ours <= 0.3, f"import stochadmm adds {ours:.2f} s (wall {wall:.2f} s) to "
                         f"{theirs:.2f} s of scikit-learn, allowed 0.30 s"),
        say(not any(r["numba"] for r in runs), "import stochadmm does not load numba"),
    ]  # fmt: skip


def solves(name: str) -> list[bool]:
    """Measure the first and the second process with a cache folder of their own."""
    with tempfile.TemporaryDirectory() as cache:
        first = fresh(SOLVE % (False, name), cache)
        files = sum(1 for _ in Path(cache).rglob("*.nbc"))
        second = [fresh(SOLVE % (False, name), cache) for _ in range(3)]
        counted = fresh(SOLVE % (True, name), cache)
    for answer in (first, counted, *second):
        if "error" in answer:
            return [say(False, f"{name}: {answer['error']}")]
    warm, found = min(second, key=lambda r: r["seconds"]), counted["compiled"]
    return [
        say(first["seconds"] < 20 and first["engine"] == "compiled",
            f"{name}: very first solve {shown(first)}, allowed 20 s ({files} kernels)"),
        say(not found, f"{name}: a second process compiles {len(found)} kernels"
            + "".join(f" {k}" for k in sorted(set(found)))),
        say(warm["seconds"] < 1,
            f"{name}: first small solve of a second process {shown(warm)}, allowed 1 s"),
    ]  # fmt: skip


def shown(answer: dict) -> str:
    """Return the seconds of a run, or its error."""
    if "error" in answer:
        return answer["error"]
    return f"{answer['seconds']:.2f} s (wall {answer['wall']:.2f} s)"


def unwritable(name: str) -> list[bool]:
    """Solve with cache folders that cannot be made: below a file, and below /proc."""
    passed = []
    with tempfile.TemporaryDirectory() as folder:
        blocker = Path(folder, "file")
        blocker.write_text("not a folder")
        for place in (str(blocker / "cache"), "/proc/stochadmm"):
            answer = fresh(SOLVE % (False, name), place)
            label = "below a file" if place.startswith(folder) else "below /proc"
            passed.append(
                say(answer.get("engine") == "compiled",
                    f"{name}: cache folder {label} cannot be written: {shown(answer)}")
            )  # fmt: skip
        passed.append(read_only_install(name, folder))
    return passed


def read_only_install(name: str, folder: str) -> bool:
    """Solve with a package whose own __pycache__ and home folder cannot be written."""
    source = Path(str(find_spec("stochadmm").origin)).parent
    copy = Path(folder, "site", "stochadmm")
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for part in [copy, *(p for p in copy.rglob("*") if p.is_dir())]:
        (part / "__pycache__").write_text("a file: not even root can make this folder")
    home = Path(folder, "home")
    home.write_text("a file")
    setup = (
        f"import os, sys; os.environ['HOME'] = {str(home)!r}; "
        f"os.environ['XDG_CACHE_HOME'] = {str(home)!r}; sys.path.insert(0, {str(copy.parent)!r})\n"
    )
    answer = fresh(setup + SOLVE % (False, name))
    good = answer.get("engine") == "compiled"
    return say(good, f"{name}: read-only install and home: {shown(answer)}")


def main() -> None:
    """Print the report; exit code 1 when something is missed."""
    names = sys.argv[1:] or ["acc-sadmm"]
    passed = imports()
    for name in names:
        passed += solves(name)
    passed += unwritable(names[0])
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
