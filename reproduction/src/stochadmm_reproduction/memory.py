"""Memory of the methods beyond the data, measured; what they keep for every row, counted.

Each is measured in a process of its own, which makes a problem, looks at what it holds, runs two
short epochs of one method and tells how much more it held at most. Sizes grow up to ImageNet's
columns and classes; what grows with the rows is added.
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

from stochadmm import FiniteSum, Pair, Problem, solvers
from stochadmm.losses import Multinomial
from stochadmm.operators import Identity
from stochadmm.penalties import L1, Nuclear

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


def per_row(label: str, shape: Shape) -> int:
    """Return the numbers that a method keeps for every row, where it keeps as little as it can.

    A derivative or a dual variable per class, and in the published form of SAG-ADMM a point.
    """
    table = shape.classes if label.startswith(("SAG", "SDCA")) else 0
    return table + (shape.features * shape.classes if "points" in label else 0)


def memory() -> dict[str, float]:
    """Return bytes for ImageNet's shape in double precision: of one array, and of tables of rows.

    Examples
    --------
    >>> round(memory()["SAG-ADMM, points"] / 2**40, 1)  # TiB
    38.2
    """
    found = {"one array": 8.0 * IMAGENET.features * IMAGENET.classes}
    for label in ("SAG-ADMM, points", "SDCA-ADMM"):
        found[label] = 8.0 * IMAGENET.rows * per_row(label, IMAGENET)
    return found


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
    """Measure in this process, and write the bytes."""
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
    print(json.dumps({"peak": _peak() - before}))


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
    """Return peaks by method, at three sizes; finished ones from the folder."""
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
    """Return measured memory, and ImageNet's size beside the paper's figures."""
    rows = []
    for label, peaks in found.items():
        cells = tuple(readable(p["peak"]) for p in peaks)
        rows.append((label, *cells, readable(at_imagenet(label, peaks)), PAPER.get(label, "")))
    largest = [f"{p['features']:,} x {p['classes']:,}" for p in next(iter(found.values()))]
    return Table(
        "memory",
        "Memory beyond the data",
        ("method", *largest, "ImageNet, 1,281,167 rows", "paper"),
        rows,
        "Peak memory of a process beyond the problem itself, in single precision. Columns are "
        "features x classes, with batches in proportion, at most four thousand rows, and nothing "
        "kept per row where a method can do without. ImageNet: the peak at the largest size in "
        "proportion to features x classes, with what is kept for every row counted for all rows. "
        "The paper's numbers are double precision in binary units: eight matrices of one number "
        "per feature and class are 250 MB.",
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
    """Return the bytes at ImageNet's size: rows counted, all else in proportion to what it was."""
    last = peaks[-1]
    shape = Shape(last["rows"], last["features"], last["classes"], last["batch"])
    matrices = (IMAGENET.features * IMAGENET.classes) / (shape.features * shape.classes)
    rest = last["peak"] - 4 * shape.rows * per_row(label, shape)
    return float(4 * IMAGENET.rows * per_row(label, IMAGENET) + matrices * rest)
