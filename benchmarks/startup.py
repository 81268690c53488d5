"""What a user waits for before the first answer, and what the package weighs.

    python benchmarks/startup.py              # the environment at hand
    python benchmarks/startup.py --fresh      # a new one, with the package installed from here

Import beside scikit-learn's own, the very first fits ever made by an installation (nothing is
compiled or cached, so the second process is no faster than the first), and the size of the
package with all it requires beyond NumPy, SciPy and scikit-learn. Times are processor seconds of
one thread, which is what a user waits on a machine with a free core; the least of five processes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GIVEN = ("numpy", "scipy", "scikit-learn")
REPEATS = 5

IMPORT = """
import json, time
def now():
    return time.process_time(), time.perf_counter()
start = now()
import sklearn.linear_model, scipy.sparse.linalg
middle = now()
import stochadmm
end = now()
print(json.dumps({"sklearn": middle[0] - start[0], "stochadmm": end[0] - middle[0],
                  "wall": end[1] - middle[1]}))
"""

FIT = """
import json, time
import numpy as np, stochadmm as sa
import sklearn.linear_model, scipy.sparse.linalg
sa.GraphFusedClassifier
rng = np.random.default_rng(0)
n, d = %d, %d
X = rng.standard_normal((n, d))
y = X[:, : d // 4].sum(axis=1) + 0.3 * rng.standard_normal(n) > 0
edges = np.column_stack([np.arange(d - 1), np.arange(1, d)])
start, clock = time.process_time(), time.perf_counter()
model = sa.GraphFusedClassifier(alpha=0.01, graph=edges).fit(X, y)
from stochadmm.kernels import extension
print(json.dumps({"seconds": time.process_time() - start, "wall": time.perf_counter() - clock,
                  "kernels": extension.chosen().name}))
"""


def fresh(python: str, code: str) -> dict:
    """Run code in a new process and return the JSON that it prints last."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None) if python != sys.executable else None
    done = subprocess.run([python, "-c", code], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def say(ok: bool, text: str) -> bool:
    """Print one line of the report."""
    print(f"{'ok    ' if ok else 'MISSED'}  {text}", flush=True)
    return ok


def imports(python: str) -> bool:
    """Measure the import beside scikit-learn's."""
    runs = [fresh(python, IMPORT) for _ in range(REPEATS)]
    ours, theirs, wall = (min(r[k] for r in runs) for k in ("stochadmm", "sklearn", "wall"))
    return say(
        ours <= 0.3,
        f"import stochadmm adds {ours:.2f} s (wall {wall:.2f} s) to "
        f"{theirs:.2f} s of scikit-learn, allowed 0.30 s",
    )


def fits(python: str) -> list[bool]:
    """Measure the first fit of a process; the first process is the first of the installation."""
    passed = []
    for n, d, allowed in ((200, 20, 1.0), (100_000, 50, 1.5)):
        runs = [fresh(python, FIT % (n, d)) for _ in range(REPEATS)]
        first, best = runs[0], min(runs, key=lambda r: r["seconds"])
        passed.append(
            say(
                first["seconds"] <= allowed,
                f"first fit ever of {n:,} x {d}: {first['seconds']:.2f} s (wall "
                f"{first['wall']:.2f} s), least of {REPEATS} processes {best['seconds']:.2f} s, "
                f"allowed {allowed:.1f} s; kernels: {first['kernels']}",
            )
        )
    return passed


SIZES = """
import json, sys
sys.path.insert(0, %r)
import startup
print(json.dumps(startup.sizes()))
"""


def required(name: str, found: dict[str, set[str]]) -> set[str]:
    """Return a distribution and everything that it requires, without extras."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name not in found:
        found[name] = {name}
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:
            found[name] = set()
            return set()
        for need in needs:
            if "extra ==" not in need:
                found[name] |= required(re.split(r"[^A-Za-z0-9._-]", need)[0], found)
    return found[name]


def sizes() -> dict[str, float]:
    """Return the megabytes of what the package adds to NumPy, SciPy and scikit-learn."""
    found: dict[str, set[str]] = {}
    beside = required("stochadmm", found) - set().union(*(required(n, {}) for n in GIVEN))
    made = {}
    for name in sorted(beside):
        files = distribution(name).files or []
        places = [Path(str(f.locate())) for f in files if not str(f).endswith(".pyc")]
        made[name] = sum(p.stat().st_size for p in places if p.is_file()) / 1e6
    return made


def weigh(python: str) -> bool:
    """Measure the size of the package and all that it requires."""
    made = fresh(python, SIZES % str(Path(__file__).parent))
    total = sum(made.values())
    parts = ", ".join(f"{k} {v:.1f}" for k, v in sorted(made.items(), key=lambda kv: -kv[1]))
    return say(total <= 25, f"{total:.1f} MB beyond {', '.join(GIVEN)}, allowed 25 ({parts})")


def environment(folder: str) -> str:
    """Return the interpreter of a new environment with the package installed from here."""
    subprocess.check_call([sys.executable, "-m", "venv", folder])
    python = str(Path(folder, "bin", "python"))
    constraints = ["-c", str(ROOT / "constraints.txt")]
    subprocess.check_call([python, "-m", "pip", "install", "-q", *constraints, str(ROOT)])
    return python


def main() -> None:
    """Print the report; exit code 1 when something is missed."""
    with tempfile.TemporaryDirectory() as folder:
        python = environment(folder) if "--fresh" in sys.argv else sys.executable
        passed = [*fits(python), imports(python), weigh(python)]
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
