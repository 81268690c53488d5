"""Every kernel beside its numba form, and the full pass beside the bandwidth of ``X.sum()``.

    python benchmarks/kernels.py [--repeats 7] [--only WORDS]

The last commit whose kernels were compiled by numba is checked out into a temporary folder (numba
is installed beside it if it is missing), and one process for it, one for the portable and one for
the AVX2 variant run each task in turn, so that all meet the same load. Least processor seconds of
one thread; exit code 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

for name in (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "STOCHADMM_NUM_THREADS",
):
    os.environ[name] = "1"

ROOT = Path(__file__).resolve().parent.parent
LAST_NUMBA_FILE = "src/stochadmm/kernels/_jit.py"
FASTER = {"pass", "small"}  # kinds that must be 1.5 times faster
METHODS = (
    "acc-sadmm",
    "svrg-admm",
    "asvrg-admm",
    "sag-admm",
    "stoc-admm",
    "opg-admm",
    "rda-admm",
    "opt-sadmm",
    "sdca-admm",
    "spdhg",
    "vr-pddy",
    "katyusha",
)


# -------------------------------------------------------------------- tasks, in either version


def module(*names: str):
    """Return the first of some modules that there is: by today's name, by that of old."""
    found = [name for name in names if _exists(name)]
    return import_module(found[0])


def _exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of the room that it is in
        return False


def member(owner, *names: str):
    """Return the first of some members that an object has."""
    return next(getattr(owner, name) for name in names if hasattr(owner, name))


@cache
def rows(storage: str, dtype: str, n: int, d: int, outputs: int | None = None):
    import numpy as np
    from scipy import sparse

    rng = np.random.default_rng(0)
    if storage == "dense":
        X = rng.standard_normal((n, d)).astype(dtype)
    else:
        X = sparse.random_array((n, d), density=0.03, rng=rng, dtype=np.dtype(dtype)).tocsr()
    if outputs is None:
        return X, np.where(rng.random(n) < 0.5, -1.0, 1.0).astype(dtype)
    return X, rng.integers(outputs, size=n)


def whole(name: str, *args):
    """Return a pass over the data: predictions, derivatives, value and gradient."""
    import numpy as np

    import stochadmm as sa

    X, y = rows(*args)
    losses = {"logistic": sa.Logistic(), "squared": sa.Squared(), "poisson": sa.Poisson(3.0)}
    f2 = sa.FiniteSum(losses[name], X, np.abs(y) if name == "poisson" else y)
    x = np.full(f2.shape, 0.01, f2.dtype)
    evaluate = member(f2, "evaluate", "snapshot")
    return lambda: evaluate(x)


def constants(what: str, *args):
    import numpy as np

    import stochadmm as sa

    metrics = module("stochadmm.risk.metrics", "stochadmm.metrics")
    X, y = rows(*args)
    f2 = sa.FiniteSum(sa.Logistic(), X, y)
    if what == "gram":
        v = np.ones(f2.n_columns)
        product = member(f2, "gram_product", "_gram_product")
        return lambda: product(v)
    old = hasattr(metrics, "_energies")  # whose public function remembers
    energies = (
        (lambda: metrics._energies(f2, None)) if old else lambda: metrics.column_energies(f2)
    )
    if what == "energies":
        return energies
    if what == "scores":
        energy = energies()
        return lambda: metrics.row_scores(f2, energy)
    numbers = np.ones(f2.n_terms)
    return lambda: f2.gram(numbers)


def sparse_copy(*args):
    import numpy as np

    X, _ = rows(*args)
    dense = X.toarray()
    passes = module("stochadmm.kernels.passes")
    copied = getattr(passes, "sparse_copy", None) or module("stochadmm.finite_sum")._as_csr
    assert np.isfinite(dense).all()
    return lambda: copied(dense)


def fused(n: int):
    import numpy as np

    import stochadmm as sa

    v = np.cumsum(np.random.default_rng(0).standard_normal(n))
    return lambda: sa.TotalVariation1D(3.0).prox(v, 1.0)


def small(d: int, outputs: int = 1):
    """Return 200 iterations of the splitting on d columns."""
    import numpy as np

    import stochadmm as sa
    from stochadmm.kernels import quadratic

    views = module("stochadmm.forms.compiled", "stochadmm.kernels.views")
    operator_view, penalty_view = views.operator_view, views.penalty_view

    rng, double = np.random.default_rng(0), np.dtype(float)
    A = sa.VStack([sa.Differences(d), sa.Identity(d)])
    h = penalty_view(sa.L1(0.1), A.shape[0], outputs, double)
    B = rng.standard_normal((d, d))
    S = A.tosparse()
    inverse = np.linalg.inv(B @ B.T / d + np.eye(d) + S.T @ S)
    a, b = rng.standard_normal((d, outputs)), np.zeros((A.shape[0], outputs))
    w, z, dual = np.zeros_like(a), np.zeros_like(b), np.zeros_like(b)
    if hasattr(quadratic, "Splitting"):
        view = operator_view(A, double, d)
        task = quadratic.Splitting(
            view, h, inverse, a, b, w, z, dual, 1.0, 1.7, 200, 10, 0.0, 1.0, 1.0
        )
        return lambda: quadratic.splitting(task)
    view = operator_view(A, double)
    return lambda: quadratic.splitting(
        inverse, a, view, h, b, 1.0, 1.7, w, z, dual, 200, 10, 0.0, 1.0, 1.0
    )


def newton(d: int):
    """Return an evaluation of the augmented Lagrangian and Newton's matrix."""
    import numpy as np

    import stochadmm as sa
    from stochadmm.kernels import quadratic

    views = module("stochadmm.forms.compiled", "stochadmm.kernels.views")
    operator_view, penalty_view = views.operator_view, views.penalty_view

    rng, double = np.random.default_rng(0), np.dtype(float)
    A = sa.VStack([sa.Differences(d), sa.Identity(d)])
    h = penalty_view(sa.L1(0.5), A.shape[0], 1, double)
    new = hasattr(quadratic, "Augmented")
    S = operator_view(A, double, d) if new else operator_view(A, double)
    w, b = rng.standard_normal((d, 1)), np.zeros((A.shape[0], 1))
    arrays = [np.zeros_like(b) for _ in range(5)]
    dual, shifted, z, new_dual, weight = arrays
    H, out = np.eye(d), np.empty((d, d))

    def run():
        for _ in range(20):
            given = (S, h, b, dual, 1.0, w, shifted, z, new_dual, weight)
            quadratic.augmented(*((quadratic.Augmented(*given),) if new else given))
            quadratic.newton_matrix(H, S, h, shifted, weight, out)

    return run


def epoch(name: str, storage: str, dtype: str, n: int, d: int, outputs: int | None = None):
    """Return one epoch of a method with batches of 100 rows."""
    import dataclasses

    import numpy as np

    import stochadmm as sa
    from stochadmm.solvers._base import get

    X, y = rows(storage, dtype, n, d, outputs)
    loss = sa.Logistic() if outputs is None else sa.Multinomial(outputs)
    rng = np.random.default_rng(0)
    edges = np.array([rng.choice(d, 2, replace=False) for _ in range(100)])
    free = name == "katyusha"
    A = None if free else sa.VStack([sa.Incidence(edges, d), sa.Identity(d)])
    problem = sa.Problem.linear(
        loss,
        X,
        y,
        structure=A,
        on_structure=None if free else sa.L1(1e-5),
        on_coefficients=sa.L1(1e-5) if free else None,
    )
    solver = get(name)()
    known = {field.name for field in dataclasses.fields(solver)}
    given = {"batch_size": 100, "metric": "none", "restart": "never", "warm_start_passes": 0}
    if name in ("acc-sadmm", "svrg-admm", "asvrg-admm", "sag-admm", "stoc-admm"):
        given["beta"] = 1e-3
    solver = dataclasses.replace(solver, **{k: v for k, v in given.items() if k in known})
    state = solver.start(problem)
    state.engine = "compiled"
    return lambda: solver.epoch(problem, state, rng)


def read(n: int, d: int):
    X, _ = rows("dense", "float64", n, d)
    return X.sum


def tasks() -> dict:
    """Return what is measured: a kind and how to make it, by name."""
    made: dict = {}
    for dtype in ("float64", "float32"):
        for loss in ("logistic", "squared", "poisson"):
            args = ("dense", dtype, 40_000, 50)
            made[f"pass {loss} dense 40,000 x 50 {dtype}"] = ("pass", whole, loss, *args)
        made[f"pass logistic dense 4,000 x 50 {dtype}"] = (
            "pass",
            whole,
            "logistic",
            "dense",
            dtype,
            4_000,
            50,
        )
        made[f"pass logistic CSR 20,000 x 1,000 {dtype}"] = (
            "pass",
            whole,
            "logistic",
            "csr",
            dtype,
            20_000,
            1_000,
        )
    for what in ("gram", "energies", "scores"):
        made[f"{what} dense 40,000 x 50"] = (
            "other",
            constants,
            what,
            "dense",
            "float64",
            40_000,
            50,
        )
        made[f"{what} CSR 20,000 x 1,000"] = (
            "other",
            constants,
            what,
            "csr",
            "float64",
            20_000,
            1_000,
        )
    made["Gram matrix CSR 20,000 x 1,000"] = (
        "other",
        constants,
        "matrix",
        "csr",
        "float64",
        20_000,
        1_000,
    )
    made["sparse copy 20,000 x 1,000"] = ("other", sparse_copy, "csr", "float64", 20_000, 1_000)
    made["total variation 100,000"] = ("other", fused, 100_000)
    for d in (10, 50, 200):
        made[f"small problem, splitting, d = {d}"] = ("small", small, d)
    made["small problem, splitting, d = 50, 5 outputs"] = ("small", small, 50, 5)
    for d in (10, 100):
        made[f"small problem, Newton's parts, d = {d}"] = ("small", newton, d)
    for name in METHODS:
        made[f"{name} dense 20,000 x 54"] = ("other", epoch, name, "dense", "float64", 20_000, 54)
        made[f"{name} CSR 20,000 x 500"] = ("other", epoch, name, "csr", "float64", 20_000, 500)
    for name in ("acc-sadmm", "sdca-admm"):
        made[f"{name} dense 20,000 x 54 float32"] = (
            "other",
            epoch,
            name,
            "dense",
            "float32",
            20_000,
            54,
        )
        for storage in ("dense", "csr"):
            made[f"{name} {storage} 5,000 x 54, 5 classes"] = (
                "other",
                epoch,
                name,
                storage,
                "float64",
                5_000,
                54,
                5,
            )
    made["pass logistic dense 200,000 x 54 float64"] = (
        "pass",
        whole,
        "logistic",
        "dense",
        "float64",
        200_000,
        54,
    )
    made["X.sum() dense 200,000 x 54 float64"] = ("read", read, 200_000, 54)
    return made


# -------------------------------------------------------------------- processes


def work() -> None:
    """Answer names of tasks with the processor seconds of one run, the first one unmeasured."""
    from before_after import use_only

    use_only(Path(os.environ["PYTHONPATH"].split(os.pathsep)[0]))
    ready: dict = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in ready:
            ready.clear()
            _, make, *args = tasks()[name]
            ready[name] = make(*args)
            ready[name]()
        start = time.process_time()
        ready[name]()
        print(json.dumps(time.process_time() - start), flush=True)


class Worker:
    """A process that runs tasks with one version of the package."""

    def __init__(self, source: Path, kernels: str, extra: list[str]) -> None:
        path = os.pathsep.join([str(source), *extra])
        environment = {**os.environ, "PYTHONPATH": path, "STOCHADMM_KERNELS": kernels}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work"],
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def seconds(self, name: str) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(name, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{name}: the process ended")
        return float(json.loads(line))


def numba_commit() -> str:
    """Return the last commit that had the numba kernels."""
    git = ["git", "-C", str(ROOT), "log", "-1", "--format=%H", "--diff-filter=D", "--"]
    gone = subprocess.check_output([*git, LAST_NUMBA_FILE], text=True).strip()
    return f"{gone}~1" if gone else "HEAD"


def numba_folder(folder: Path) -> list[str]:
    """Return folders that make numba importable, installing it if it is missing."""
    if find_spec("numba") is not None:
        return []
    target = str(folder / "numba")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target]
    subprocess.check_call([*pip, "-c", str(ROOT / "constraints.txt"), "numba", "llvmlite"])
    return [target]


def report(repeats: int, only: str) -> bool:
    """Print the table; return whether every target is met."""
    good, least = True, {}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "numba-version")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.check_call([*git, "add", "-q", "--detach", str(tree), numba_commit()])
        try:
            workers = {
                "numba": Worker(tree / "src", "auto", numba_folder(Path(folder))),
                "base": Worker(ROOT / "src", "base", []),
                "avx2": Worker(ROOT / "src", "avx2", []),
            }
            print(f"{'milliseconds':<48} {'numba':>9} {'numba / base':>13} {'numba / avx2':>13}")
            for name, (kind, *_) in tasks().items():
                if only not in name and kind != "read":
                    continue
                times = {key: [] for key in workers}
                for _ in range(repeats):
                    for key, worker in workers.items():
                        times[key].append(worker.seconds(name))
                best = least[name] = {key: min(found) for key, found in times.items()}
                ratios = {key: best["numba"] / max(best[key], 1e-9) for key in ("base", "avx2")}
                needed = {"read": 0.0}.get(kind, 1.5 if kind in FASTER else 1.0)
                met = ratios["avx2"] >= needed
                good &= met
                print(
                    f"{name:<48} {1e3 * best['numba']:9.2f} {ratios['base']:13.2f} "
                    f"{ratios['avx2']:13.2f}  {'ok' if met else f'MISSED {needed}'}",
                    flush=True,
                )
        finally:
            subprocess.call([*git, "remove", "--force", str(tree)])
    full = least.get("pass logistic dense 200,000 x 54 float64")
    if full is not None:
        share = least["X.sum() dense 200,000 x 54 float64"]["avx2"] / full["avx2"]
        met = share >= 0.7
        good &= met
        print(
            f"full pass: {100 * share:.0f} % of the bandwidth of X.sum(), wanted 70 %  "
            f"{'ok' if met else 'MISSED'}"
        )
    return good


def main() -> None:
    """Print the report; exit code 1 when something is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", default="", help="tasks whose name contains these words")
    options = parser.parse_args()
    if options.work:
        work()
        return
    sys.exit(0 if report(options.repeats, options.only) else 1)


if __name__ == "__main__":
    main()
