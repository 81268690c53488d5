"""Low rank + sparse: certified by `auto`, beside plain first-order methods to the true gap.

    python benchmarks/low_rank.py squared [--problems usps,generated,singular]
    python benchmarks/low_rank.py school
    python benchmarks/low_rank.py multinomial [--problems usps,coil20,news,generated,mnist,...]
    python benchmarks/low_rank.py entries            clinc150 with an l1 norm alone, beside saga
    python benchmarks/low_rank.py large [--rows 128000 --columns 4096 --classes 1000]
    ... [--store lines.jsonl]                        go on where an earlier run has ended

Squared losses: nuclear + l1 and nuclear + rows at three strengths. The baseline is consensus ADMM
on the Gram matrix with six fixed penalties, stopped when its objective (whose evaluation is not
counted) is within the tolerance of the best value known. CPU seconds, one thread, from raw arrays
to the result, loading compiled code left out. Multinomial losses: the baseline is FISTA with
restarts and a prox of the sum by Dykstra's projections, the best of three step rules, or
ACC-SADMM, each ended after so many times the seconds of `auto` (`--times`). Strengths: a = f |g|_2
and b = 0.3 f max|g| with g the gradient at zero (rows: the largest norm of a row). Every line is
measured in a process of its own. `large` generates rows like a network's features on the disk,
reads them from a map of float16, asks for 1e-3 and tells the largest memory that is not the map;
it goes on from a checkpoint beside the rows.
"""

from __future__ import annotations

import argparse
import os
import resource
import threading
import time
from functools import partial
from pathlib import Path

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from lines import Lines, Table  # noqa: E402

import stochadmm as sa  # noqa: E402
from stochadmm_reproduction import datasets  # noqa: E402
from stochadmm_reproduction.datasets import on_disk  # noqa: E402

TOLERANCES = (1e-4, 1e-6)
PENALTIES = (0.01, 0.1, 0.5, 2.0, 10.0, 100.0)
"""Fixed penalties of the plain ADMM, in mean eigenvalues of the Gram matrix."""


def generated(n=5000, d=150, outputs=150, rank=5, seed=0):
    """Return rows with correlated columns and targets of low rank on a third of the columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.logspace(0, -1, d)
    X = X @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    W = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, outputs))
    Y = X @ (W * (rng.random((d, 1)) < 0.3))
    return X, Y + Y.std() * rng.standard_normal(Y.shape)


def singular():
    """Return columns of which a third repeats others."""
    X, Y = generated(2000, 100, 60, seed=1)
    return np.hstack([X, X[:, :50]]), Y


def usps():
    """Return pixels and the indicators of the digits."""
    data = datasets.load("usps")
    labels = np.unique(data.y, return_inverse=True)[1]
    return np.asarray(data.X, dtype=np.float64), np.eye(labels.max() + 1)[labels]


SETS = {"usps": usps, "generated": generated, "singular": singular}


def strengths(gradient, f, rows):
    """Return the strengths of the nuclear and of the sparse norm."""
    largest = np.linalg.norm(gradient, axis=1).max() if rows else np.abs(gradient).max()
    return f * np.linalg.norm(gradient, 2), 0.3 * f * largest


def stated(loss, X, y, a, b, rows=False, **given):
    """Return the problem with both norms."""
    d = X.shape[1]
    both = sa.VStack([sa.Identity(d), sa.Identity(d)])
    norms = sa.Stacked([(sa.Nuclear(a), d), ((sa.RowsL21 if rows else sa.L1)(b), d)])
    return sa.Problem.linear(loss, X, y, structure=both, on_structure=norms, **given)


def plain_admm(X, Y, a, b, rows, factor, target, seconds):
    """Return the CPU seconds of consensus ADMM until the target, infinity if it is not reached."""
    n, began, lost = len(X), time.process_time(), 0.0
    G, g = X.T @ X / n, X.T @ Y / n
    values, V = np.linalg.eigh(G)
    rho = factor * values.mean()
    Z1 = Z2 = U1 = U2 = np.zeros_like(g)
    constant = (Y**2).sum() / 2 / n

    def objective(W):
        sparse = np.linalg.norm(W, axis=1).sum() if rows else np.abs(W).sum()
        smooth = 0.5 * np.vdot(W, G @ W) - np.vdot(W, g) + constant
        return smooth + a * np.linalg.norm(W, "nuc") + b * sparse

    for k in range(1, 100_000):
        W = V @ ((V.T @ (g + rho * (Z1 - U1 + Z2 - U2))) / (values + 2 * rho)[:, None])
        left, s, right = np.linalg.svd(W + U1, full_matrices=False)
        Z1 = (left * np.maximum(s - a / rho, 0)) @ right
        T = W + U2
        size = np.linalg.norm(T, axis=1, keepdims=True) if rows else np.abs(T)
        Z2 = T * np.maximum(1 - b / rho / np.maximum(size, 1e-300), 0)
        U1, U2 = U1 + W - Z1, U2 + W - Z2
        if k % 10 == 0:
            clock = time.process_time()
            if min(objective(Z1), objective(Z2)) <= target:
                return clock - began - lost
            lost += time.process_time() - clock
            if clock - began - lost > seconds:
                break
    return np.inf


def certified(make, tol, **given):
    """Return the result of `auto` and the CPU seconds from raw arrays."""
    warm_up()
    began = time.process_time()
    result = sa.minimize(make(), stop=sa.Gap(tol), **given)
    return result, time.process_time() - began


def warm_up():
    """Load compiled code."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((50, 6)), rng.standard_normal((50, 4))
    sa.minimize(stated(sa.Squared(), X, Y, 0.1, 0.1), stop=sa.Gap(1e-2))
    sa.minimize(stated(sa.Multinomial(), X, Y.argmax(axis=1), 0.1, 0.1), stop=sa.Gap(1e-2))


def shown(result, seconds):
    """Return what is kept of a run."""
    return {
        "seconds": seconds,
        "objective": result.objective,
        "gap": float(result.relative_gap),
        "passes": float(result.n_passes),
        "status": result.status.name,
        "route": result.info.get("route", ""),
        "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


# ---------------------------------------------------------------- squared losses


def squared_problem(name, rows, f):
    """Return rows, targets and both strengths."""
    X, Y = SETS[name]()
    return X, Y, *strengths(X.T @ Y / len(X), f, rows)


def own_squared(name, rows, f, tol):
    """Run `auto`."""
    X, Y, a, b = squared_problem(name, rows, f)
    return shown(*certified(partial(stated, sa.Squared(), X, Y, a, b, rows), tol, max_passes=1000))


def plain_squared(name, rows, f, best, tol, limit):
    """Run the baseline with every penalty; return the least seconds."""
    X, Y, a, b = squared_problem(name, rows, f)
    target = best * (1 + tol)
    times = [plain_admm(X, Y, a, b, rows, factor, target, limit) for factor in PENALTIES]
    return {"seconds": min(times)}


def squared(lines, names, limit):
    """Print a row per problem, norm, strength and tolerance."""
    table = Table("problem", "norm", "f", "tol", "auto s", "plain s", "allowed s", "gap", "status")
    for name in names:
        for rows in (False, True):
            for f in (0.3, 0.1, 0.03):
                label = f"squared {name} {'rows' if rows else 'entries'} {f}"
                best = lines.measured(f"{label} best", own_squared, name, rows, f, 1e-8)
                for tol in TOLERANCES:
                    own = lines.measured(f"{label} {tol}", own_squared, name, rows, f, tol)
                    given = name, rows, f, best["objective"], tol, limit
                    plain = lines.measured(f"{label} {tol} plain", plain_squared, *given)
                    allowed = (2 if tol == 1e-4 else 3) * plain["seconds"] + 0.1
                    table.row(
                        name,
                        "rows" if rows else "entries",
                        f,
                        f"{tol:.0e}",
                        own["seconds"],
                        plain["seconds"],
                        allowed,
                        f"{own['gap']:.1e}",
                        own["status"],
                    )


def own_school(ratio, sparsity, alpha):
    """Fit all tasks of the school data at once: a target per school, the others missing."""
    data = datasets.load("school")
    tasks = np.unique(data.tasks, return_inverse=True)[1]
    Y = np.full((len(data.y), tasks.max() + 1), np.nan)
    Y[np.arange(len(Y)), tasks] = data.y
    warm_up()
    began = time.process_time()
    given = {"alpha": alpha, "l1_ratio": ratio, "sparsity": sparsity, "tol": 1e-4}
    model = sa.SparseLowRankRegressor(**given).fit(data.X, Y)
    return shown(model.result_, time.process_time() - began) | {"rank": model.rank_}


def school(lines):
    """Print a row per norm and strength."""
    table = Table("norm", "l1_ratio", "alpha", "auto s", "allowed s", "rank", "gap", "status")
    for ratio in (0.0, 0.5):
        for sparsity in ("entries", "rows"):
            for alpha in (0.3, 0.03):
                given = ratio, sparsity, alpha
                own = lines.measured(f"school {given}", own_school, *given)
                table.row(
                    sparsity,
                    ratio,
                    alpha,
                    own["seconds"],
                    10,
                    own["rank"],
                    f"{own['gap']:.1e}",
                    own["status"],
                )


# ---------------------------------------------------------------- multinomial losses


def indicator_gradient(X, y):
    """Return the gradient of the multinomial loss at zero."""
    outputs = int(y.max()) + 1
    return np.asarray(X.T @ (1 / outputs - np.eye(outputs)[y])) / X.shape[0]


def image_classes(name, scale=1.0):
    """Return pixels and classes."""
    data = datasets.load(name)
    return np.asarray(data.X, dtype=np.float64) / scale, np.unique(data.y, return_inverse=True)[1]


def text_classes(name, **given):
    """Return sparse rows and classes."""
    data = datasets.load(name, **given)
    return data.X, np.unique(data.y, return_inverse=True)[1]


def generated_classes(n=16_000, d=512, outputs=125, seed=0):
    """Return rectified rows and classes of low rank."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 40)) @ rng.standard_normal((40, d)) / 6
    X = np.maximum(X + 0.5 * rng.standard_normal((n, d)), 0)
    Z = X @ (0.3 * rng.standard_normal((d, 8)) @ rng.standard_normal((8, outputs)))
    return X, (Z + Z.std() / 2 * rng.gumbel(size=Z.shape)).argmax(axis=1)


CLASSES = {
    "usps": lambda: image_classes("usps"),
    "coil20": lambda: image_classes("coil20", 255.0),
    "news": lambda: text_classes("20news", words=1000),
    "generated": generated_classes,
    "mnist": lambda: image_classes("mnist", 255.0),
    "clinc150": lambda: text_classes("clinc150"),
}
STEP_RULES = {"bound": (1.0, 1.0), "lower at times": (1.0, 0.97), "from below": (0.02, 0.97)}
"""First 1/step as a share of its bound, and its factor after every step."""


class Softmax:
    """The multinomial loss and its gradient, for the baseline."""

    def __init__(self, X, y):
        self.X, self.XT, self.n = X, X.T.tocsr() if hasattr(X, "tocsr") else X.T, X.shape[0]
        self.index = np.arange(self.n), y

    def at(self, Z):
        """Return the mean loss and the derivatives at predictions."""
        top = Z.max(axis=1, keepdims=True)
        P = np.exp(Z - top)
        total = P.sum(axis=1, keepdims=True)
        loss = float(np.mean(np.log(total[:, 0]) + top[:, 0] - Z[self.index]))
        P /= total
        P[self.index] -= 1
        return loss, P


def threshold(T, a):
    """Return the prox of the nuclear norm by the smaller Gram matrix."""
    if T.shape[0] < T.shape[1]:
        return threshold(T.T, a).T
    squares, Q = np.linalg.eigh(T.T @ T)
    Q, s = Q[:, squares > a * a], np.sqrt(squares[squares > a * a])
    return (T @ (Q * ((s - a) / s))) @ Q.T


def fista(X, y, a, b, rule, target, seconds):
    """Return CPU seconds until the target (evaluations of the norm not counted), or infinity."""
    first, fall = STEP_RULES[rule]
    data, began, lost = Softmax(X, y), time.process_time(), 0.0
    v = np.ones(X.shape[1])
    for _ in range(10):
        v = data.XT @ (X @ v) / data.n
        v, size = v / np.linalg.norm(v), np.linalg.norm(v)
    L, momentum, best = first * 0.5 * size, 1.0, np.inf
    W = before = np.zeros((X.shape[1], int(y.max()) + 1))
    Z = Z_before = np.zeros((data.n, W.shape[1]))
    second = np.zeros_like(W)
    for _ in range(100_000):
        ahead = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        ratio = (momentum - 1) / ahead
        V = W + ratio * (W - before)
        loss, derivatives = data.at(Z + ratio * (Z - Z_before))
        g = np.asarray(data.XT @ derivatives) / data.n
        while True:
            T, dual = V - g / L, second
            for k in range(10):
                U = T - dual / L
                low_rank = threshold(U, a / L)
                T2 = T - (U - low_rank)
                new = T2 - np.clip(T2, -b / L, b / L)
                dual = L * (T2 - new)
                if k % 2 and np.linalg.norm(low_rank - new) <= 1e-2 * np.linalg.norm(new - W):
                    break
            Z_new, D = np.asarray(X @ new), new - V
            value = data.at(Z_new)[0]
            if value <= loss + np.vdot(g, D) + 0.5 * L * np.vdot(D, D) + 1e-12:
                break
            L *= 1.5
        second = dual
        clock = time.process_time()
        F = value + a * np.linalg.norm(new, "nuc") + b * np.abs(new).sum()
        if target >= F:
            return clock - began - lost
        lost += time.process_time() - clock
        if clock - began - lost > seconds:
            return np.inf
        if best < F and momentum > 1:
            momentum, before, Z_before = 1.0, W, Z
            continue
        before, Z_before, W, Z, momentum, best = W, Z, new, Z_new, ahead, F
        L *= fall
    return np.inf


def classes_problem(name, f):
    """Return rows, classes and both strengths."""
    X, y = CLASSES[name]()
    return X, y, *strengths(indicator_gradient(X, y), f, False)


def own_classes(name, f, tol, seconds):
    """Run `auto`."""
    X, y, a, b = classes_problem(name, f)
    make = partial(stated, sa.Multinomial(), X, y, a, b)
    result, own = certified(make, tol, max_passes=1e5, max_seconds=seconds)
    return shown(result, own) | {"certificates": result.info.get("passes of certificates", 0.0)}


def first_order(name, f, best, limit):
    """Return the least CPU seconds of first-order methods until the true 1e-4."""
    X, y, a, b = classes_problem(name, f)
    target = best * (1 + 1e-4)
    found = {rule: fista(X, y, a, b, rule, target, limit) for rule in STEP_RULES}
    found["acc-sadmm"] = stochastic(X, y, a, b, target, limit)
    first = min(found, key=found.__getitem__)
    return {"seconds": found[first], "method": first if found[first] < np.inf else "none"}


def stochastic(X, y, a, b, target, limit):
    """Return the CPU seconds of ACC-SADMM until the target; its evaluation is not counted."""
    began, lost = time.process_time(), 0.0
    problem = stated(sa.Multinomial(), X, y, a, b)
    for state in sa.iterate(problem, "acc-sadmm"):
        clock = time.process_time()
        if problem.objective(state.output) <= target:
            return clock - began - lost
        lost += time.process_time() - clock
        if clock - began - lost > limit:
            return np.inf
    return np.inf


def multinomial(lines, names, limit, shares, times):
    """Print a row per problem and strength: certified 1e-4 beside the true 1e-4."""
    table = Table(
        "problem",
        "f",
        "auto s",
        "first order s",
        "which",
        "ratio",
        "passes + certificates",
        "gap",
        "status",
        "route",
        "MB",
    )
    for name in names:
        for f in shares:
            label = f"multinomial {name} {f}"
            own = lines.measured(label, own_classes, name, f, 1e-4, 20 * limit)
            best = lines.measured(f"{label} best", own_classes, name, f, 1e-5, 10 * limit)
            known = min(own["objective"], best["objective"])
            most = times * own["seconds"]
            plain = lines.measured(f"{label} plain", first_order, name, f, known, most)
            reached = plain["seconds"] < np.inf
            table.row(
                name,
                f,
                own["seconds"],
                plain["seconds"] if reached else f"> {most:.3g}",
                plain["method"],
                own["seconds"] / plain["seconds"] if reached else "",
                f"{own['passes']:.1f} + {own['certificates']:.1f}",
                f"{own['gap']:.1e}",
                own["status"],
                own["route"],
                round(own["MB"]),
            )


# ---------------------------------------------------------------- many classes, l1 alone


def own_entries(alpha, intercept, seconds):
    """Run `auto` on all words of clinc150."""
    X, y = CLASSES["clinc150"]()
    norm = sa.L1(alpha)
    make = partial(
        sa.Problem.linear, sa.Multinomial(), X, y, on_coefficients=norm, intercept=intercept
    )
    result, own = certified(make, 1e-4, max_passes=1e5, max_seconds=seconds)
    return shown(result, own) | {"nonzeros": int(np.count_nonzero(result.x2))}


def saga_entries(alpha, best, seconds):
    """Run saga of scikit-learn on the same objective; return its true gap after such seconds."""
    from sklearn.linear_model import LogisticRegression

    X, y = CLASSES["clinc150"]()
    problem = sa.Problem.linear(sa.Multinomial(), X, y, on_coefficients=sa.L1(alpha))
    model = LogisticRegression(
        penalty="l1",
        C=1 / (alpha * len(y)),
        solver="saga",
        fit_intercept=False,
        tol=0.0,
        max_iter=10,
        warm_start=True,
    )
    spent, gap = 0.0, np.inf
    while spent < seconds and gap > 1e-4:
        began = time.process_time()
        model.fit(X, y)
        spent += time.process_time() - began
        x = problem.feasible(sa.Pair(problem.zeros().x1, np.ascontiguousarray(model.coef_.T)))
        gap = problem.objective(x) / best - 1
    return {"seconds": spent, "gap": gap}


def entries(lines, limit):
    """Print a row per strength."""
    table = Table("alpha", "auto s", "gap", "status", "passes", "nonzeros", "saga s", "its gap")
    for alpha in (1e-3, 1e-4):
        own = lines.measured(f"entries {alpha}", own_entries, alpha, False, 20 * limit)
        given = alpha, own["objective"], 20 * limit
        saga = lines.measured(f"entries {alpha} saga", saga_entries, *given)
        table.row(
            alpha,
            own["seconds"],
            f"{own['gap']:.1e}",
            own["status"],
            own["passes"],
            own["nonzeros"],
            saga["seconds"],
            f"{saga['gap']:.1e}",
        )


# ---------------------------------------------------------------- 4,096 x 1,000 on the disk


class Anonymous:
    """The largest memory of this process that is not a mapped file, looked at now and then."""

    def __init__(self):
        self.most, self.ended = 0.0, threading.Event()
        self.before = self.now()
        threading.Thread(target=self._look, daemon=True).start()

    @staticmethod
    def now():
        """Return the megabytes of this moment."""
        lines = Path("/proc/self/status").read_text().splitlines()
        return float(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1024

    def _look(self):
        while not self.ended.wait(0.2):
            self.most = max(self.most, self.now())


def large_problem(folder, n, d, classes, f):
    """Return the problem on a map of generated rows of float16, and its strengths."""
    shape = on_disk.FeaturesShape(n_rows=n, n_test=0, n_features=d, n_classes=classes)
    data = on_disk.features_on_disk(folder, shape)
    gradient = np.zeros((d, classes))
    for start in range(0, n, 2048):
        labels = data.y[start : start + 2048]
        derivatives = np.full((len(labels), classes), 1 / classes, dtype=np.float32)
        derivatives[np.arange(len(labels)), labels] -= 1
        gradient += np.asarray(data.X[start : start + 2048], dtype=np.float32).T @ derivatives
    return data.X, data.y, *strengths(gradient / n, f, False)


def own_large(folder, n, d, classes, f, tol, seconds):
    """Run `auto`, from its checkpoint where there is one; passes and epochs are those of all."""
    folder = Path(folder)
    X, y, a, b = large_problem(folder, n, d, classes, f)
    began, memory = time.process_time(), Anonymous()
    result = sa.minimize(
        stated(sa.Multinomial(), X, y, a, b),
        stop=sa.Gap(tol),
        max_passes=1e4,
        max_seconds=seconds,
        checkpoint=folder / f"run-{f}.checkpoint",
        resume=True,
        callback=partial(show_large, began),
    )
    memory.ended.set()
    values = np.linalg.svd(result.x2, compute_uv=False)
    found = shown(result, time.process_time() - began)
    found["MB beyond the map"] = memory.most - memory.before
    return found | {"rank": int((values > 1e-4 * values[0]).sum())}


def show_large(began, record, state):
    """Print where a run is."""
    spent = time.process_time() - began
    print(
        f"{spent:.0f} CPU s, {record.passes} passes, F {record.objective:.6f}, "
        f"gap {record.relative_gap}",
        flush=True,
    )


def large(lines, folder, n, d, classes, shares, hours):
    """Print a row per strength; `seconds` are those of the last process, if there were several."""
    table = Table(
        "n", "d", "C", "f", "CPU s", "passes", "gap", "rank", "MB beyond the map", "status"
    )
    for f in shares:
        label = f"large {n} {d} {classes} {f}"
        place = Path(folder) / f"{n}x{d}x{classes}"
        given = str(place), n, d, classes, f, 1e-3, 3600 * hours
        own = lines.measured(label, own_large, *given, seconds=3600 * hours + 1800)
        table.row(
            n,
            d,
            classes,
            f,
            own["seconds"],
            own["passes"],
            f"{own['gap']:.1e}",
            own["rank"],
            round(own["MB beyond the map"]),
            own["status"],
        )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=["squared", "school", "multinomial", "entries", "large"])
    parser.add_argument("--problems", default=None)
    parser.add_argument("--shares", default="0.1,0.01", help="strengths of multinomial models")
    parser.add_argument("--limit", type=float, default=5.0, help="seconds of one baseline run")
    parser.add_argument("--times", type=float, default=3.0, help="same, in multinomial models")
    parser.add_argument("--store", default=None, help="file of lines that are known")
    for name, most in (("rows", 128_000), ("columns", 4_096), ("classes", 1_000)):
        parser.add_argument(f"--{name}", type=int, default=most, help="of the large problem")
    parser.add_argument("--hours", type=float, default=2.0, help="of the large problem at most")
    parser.add_argument("--folder", default="out/large", help="of its rows and checkpoint")
    arguments = parser.parse_args()
    lines = Lines(arguments.store)
    if arguments.kind == "school":
        school(lines)
    elif arguments.kind == "entries":
        entries(lines, arguments.limit)
    elif arguments.kind == "large":
        size = arguments.rows, arguments.columns, arguments.classes
        shares = [float(f) for f in arguments.shares.split(",")]
        large(lines, arguments.folder, *size, shares, arguments.hours)
    elif arguments.kind == "multinomial":
        names = arguments.problems or ",".join(CLASSES)
        shares = [float(f) for f in arguments.shares.split(",")]
        multinomial(lines, names.split(","), arguments.limit, shares, arguments.times)
    else:
        squared(lines, (arguments.problems or ",".join(SETS)).split(","), arguments.limit)


if __name__ == "__main__":
    main()
