"""Memory of the methods beyond the data: by their own counts, and measured.

Each is measured in a process of its own, which makes a problem, looks at what it holds, runs two
short epochs of one method and tells how much more it held at most. Sizes grow up to ImageNet's
columns and classes; what grows with the rows is added by the method's own count.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stochadmm import solvers
from stochadmm.base.protocols import Array
from stochadmm.losses import Multinomial
from stochadmm.operators import Identity
from stochadmm.penalties import L1, Nuclear
from stochadmm.problem import Pair, Problem
from stochadmm.risk.finite_sum import FiniteSum

from .claims import readable
from .config import Experiment
from .methods import METHODS
from .pieces import pieces
from .store import Store, fingerprint
from .tables import Table

if TYPE_CHECKING:
    from .bench import Bench

FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "STOC-ADMM": ("stoc-admm", {}),
    "OPT-SADMM": ("opt-sadmm", {}),
    "SVRG-ADMM": ("svrg-admm", {}),
    "ACC-SADMM": ("acc-sadmm", {"metric": "none", "step": "paper", "restart": "never"}),
    "SAG-ADMM": ("sag-admm", {}),
    "SAG-ADMM, points": ("sag-admm", {"form": "points"}),
    "SDCA-ADMM": ("sdca-admm", {}),
}
"""The methods that are measured; SAG-ADMM also as it is published, with a point per row."""
PAPER = {
    "SAG-ADMM, points": "38.2 TB",
    "SDCA-ADMM": "9.6 GB",
    "SVRG-ADMM": "≤ 250 MB",
    "ACC-SADMM": "≤ 250 MB",
}


@dataclass(frozen=True)
class Shape:
    """Sizes of a low-rank classification problem."""

    rows: int
    features: int
    classes: int
    batch: int


IMAGENET = Shape(rows=1_281_167, features=4_096, classes=1_000, batch=2_000)
"""What the paper's largest experiment has: features of a network, and its batches."""


@dataclass(frozen=True)
class Shapes:
    """A finite sum that knows its shapes and nothing else: nothing large is allocated."""

    n_terms: int
    shape: tuple[int, ...]
    lipschitz_max: float = 1.0
    lipschitz_mean: float = 0.1
    dtype: Any = np.float64
    keeps_rows: bool = True

    def with_memory(self, memory: int | None) -> Shapes:
        """Return itself: nothing is kept of rows that there are not."""
        return self

    def value(self, x: Array) -> float:
        """Raise: there are no rows."""
        raise TypeError("this sum has a shape only")

    def gradient(self, x: Array) -> Array:
        """Raise: there are no rows."""
        raise TypeError("this sum has a shape only")

    def gradient_change(self, rows: Array, x: Array, y: Array) -> Array:
        """Raise: there are no rows."""
        raise TypeError("this sum has a shape only")


def memory() -> dict[str, float]:
    """Return bytes by method for ImageNet's shape in double precision.

    "without rows" leaves out what grows with the number of rows; "one array" is one number per
    feature and class.

    Examples
    --------
    >>> round(memory()["sag-admm, points"] / 2**40, 1)  # TiB
    38.2
    """
    large, small = (_low_rank(n) for n in (IMAGENET.rows, 2 * IMAGENET.batch))
    found: dict[str, float] = {"one array": 8.0 * IMAGENET.features * IMAGENET.classes}
    for name in ("stoc-admm", "opt-sadmm", "svrg-admm", "sag-admm", "sdca-admm", "acc-sadmm"):
        forms: dict[str, dict[str, Any]] = {name: {}}
        if name == "sag-admm":
            forms = {name: {}, "sag-admm, points": {"form": "points"}}
        for label, options in forms.items():
            kind: Any = solvers.get(name)
            solver = kind(batch_size=IMAGENET.batch, **options)
            total, less = solver.memory(large), solver.memory(small)
            found[label] = float(total)
            per_row = (total - less) / (IMAGENET.rows - 2 * IMAGENET.batch)
            found[f"{label}, without rows"] = float(total - per_row * IMAGENET.rows)
    return found


def _low_rank(n: int) -> Problem:
    f2: Any = Shapes(n, (IMAGENET.features, IMAGENET.classes))
    d = IMAGENET.features
    return Problem(f2, h1=Nuclear(1e-4), h2=L1(1e-4), A1=Identity(d, -1.0), A2=Identity(d))


# ---------------------------------------------------------------- measured


def sizes(quick: bool, label: str) -> list[Shape]:
    """Return the three shapes that a method is measured at: batches grow with the columns."""
    least = 8 if quick else 4
    shapes = []
    for part in (least, least // 2, least // 4):
        d, C, b = (full // part for full in (IMAGENET.features, IMAGENET.classes, IMAGENET.batch))
        few = "points" in label  # a matrix per row
        shapes.append(Shape(16 if few else 2 * b, d, C, 4 if few else b))
    return shapes


def problem_of(shape: Shape) -> Problem:
    """Return a problem of a shape in single precision that keeps nothing per row."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((shape.rows, shape.features), dtype=np.float32)
    X /= np.float32(shape.features**0.5)
    y = rng.integers(shape.classes, size=shape.rows)
    f2 = FiniteSum(Multinomial(shape.classes), X, y).with_memory(0)
    eye = Identity(shape.features)
    return Problem(f2, h1=Nuclear(1e-4), h2=L1(1e-4), A1=Identity(shape.features, -1.0), A2=eye)


def solver_of(label: str, batch: int, n_inner: int | None = 3) -> Any:
    """Return a method of the table; three steps make an epoch."""
    name, options = FORMS[label]
    kind: Any = solvers.get(name)
    return kind(batch_size=batch, n_inner=n_inner, **options)


def probe(asked: str) -> None:
    """Measure in this process, and write the bytes and those of the method's own count."""
    wanted = json.loads(asked)
    shape = Shape(**wanted["shape"])
    problem, solver = problem_of(shape), solver_of(wanted["label"], shape.batch)
    if not solver.serves(problem):  # some take one penalty only
        problem = Problem(problem.f2, h1=problem.h1, A1=problem.A1, A2=problem.A2)
    small = np.ones((64, 64), dtype=np.float32)
    np.linalg.eigh(small @ small)  # what BLAS holds for itself
    rng = np.random.default_rng(0)
    state = solver.start(problem)
    del state  # constants of the data are not the method's
    before = _held(reset=True)
    # away from zero, whose singular values cost nothing
    x2 = rng.standard_normal(problem.shape2, dtype=np.float32)
    state = solver.start(problem, problem.feasible(Pair(np.zeros_like(x2), x2)))
    del x2
    for _ in range(2):
        solver.epoch(problem, state, rng)
    print(json.dumps({"peak": _peak() - before, "count": int(solver.memory(problem))}))


def _held(reset: bool) -> int:
    """Return the bytes that this process holds now; with ``reset`` its peak begins anew."""
    status = Path("/proc/self/status")
    if not status.exists():
        return _peak()
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    return _line(status, "VmRSS:")


def _peak() -> int:
    status = Path("/proc/self/status")
    if status.exists():
        return _line(status, "VmHWM:")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def _line(status: Path, name: str) -> int:
    lines = status.read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def measured(store: Store, quick: bool) -> dict[str, list[dict[str, Any]]]:
    """Return peaks and counts by method, at three sizes; finished ones from the folder."""
    found: dict[str, list[dict[str, Any]]] = {}
    for label in FORMS:
        for number, shape in enumerate(sizes(quick, label)):
            key = ("quick" if quick else "full", "memory", "peaks", f"{label}-{number}")
            mark = fingerprint(label, shape, 2)  # 2: steps begin away from zero
            kept = store.get(key, mark)
            if kept is None:
                kept = asdict(shape) | _in_a_process(label, shape)
                store.put(key, mark, kept)
            found.setdefault(label, []).append(kept)
    return found


def _in_a_process(label: str, shape: Shape) -> dict[str, Any]:
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; "
        "from stochadmm_reproduction.memory import probe; probe(sys.argv[1])"
    )
    asked = json.dumps({"label": label, "shape": asdict(shape)})
    done = subprocess.run(
        [sys.executable, "-c", code, asked], capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it was killed"])[-1]
        raise OSError(f"the memory of {label} could not be measured: {last}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def memory_table(found: dict[str, list[dict[str, Any]]]) -> Table:
    """Return measured memory beside the counts, and ImageNet's size beside the paper's figures."""
    rows = []
    for label, peaks in found.items():
        cells = tuple(f"{readable(p['peak'])} ({readable(p['count'])})" for p in peaks)
        rows.append((label, *cells, readable(at_imagenet(label, peaks)), PAPER.get(label, "")))
    largest = [f"{p['features']:,} x {p['classes']:,}" for p in next(iter(found.values()))]
    return Table(
        "memory",
        "Memory beyond the data",
        ("method", *largest, "ImageNet, 1,281,167 rows", "paper"),
        rows,
        "Peak memory of a process beyond the problem itself, in single precision; in brackets the "
        "method's own count. Columns are features x classes, with batches in proportion, at most "
        "four thousand rows, and nothing kept per row where a method can do without. ImageNet: "
        "the method's count there plus the difference of peak and count at the largest size, in "
        "proportion to features x classes. The paper's numbers are double precision in binary "
        "units: eight matrices of one number per feature and class are 250 MB.",
    )


def peaks_table(bench: Bench, chosen: list[Experiment]) -> Table | None:
    """Return the memory that runs have taken where it was traced, None without any."""
    found: dict[tuple[str, str, str], float] = {}
    for experiment in chosen:
        for piece in pieces(experiment):
            if piece.kind != "runs" or not piece.spec.light:
                continue
            kept = bench.finished(piece) or {}
            if "peak" in kept:
                key = (experiment.name, piece.spec.name, METHODS[piece.method].label)
                found[key] = max(found.get(key, 0.0), kept["peak"])
    rows = [(*key, readable(peak), PAPER.get(key[2], "")) for key, peak in found.items()]
    return (
        None
        if not rows
        else Table(
            "peaks",
            "Memory of the steps beyond the rows in a memory map",
            ("figure", "data", "method", "peak", "paper"),
            rows,
            "Peak of the arrays of the steps as seen by Python's allocator, the largest over all "
            "seeds. Batches and the workspace of the nuclear norm are included, measuring and the "
            "map are not. Single precision; the paper's figure is for double.",
        )
    )


def at_imagenet(label: str, peaks: list[dict[str, Any]]) -> float:
    """Return the bytes at ImageNet's size: the count there, and what was measured beside it."""
    f2: Any = Shapes(
        IMAGENET.rows,
        (IMAGENET.features, IMAGENET.classes),
        dtype=np.dtype(np.float32),
        keeps_rows=False,
    )
    d = IMAGENET.features
    whole = Problem(f2, h1=Nuclear(1e-4), h2=L1(1e-4), A1=Identity(d, -1.0), A2=Identity(d))
    last = peaks[-1]
    count = float(solver_of(label, IMAGENET.batch, None).memory(whole))
    matrices = (IMAGENET.features * IMAGENET.classes) / (last["features"] * last["classes"])
    return float(count + matrices * (last["peak"] - last["count"]))
