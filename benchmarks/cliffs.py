"""Classes of problems that were slow or uncertified, each beside a baseline in the same process.

One function per row of the table; each yields its cases. A case is a fit, to a relative gap, and
what it is compared with: another fit, another library, or a number of seconds. Times are processor
seconds, so that the load of the machine matters little; a fit is interrupted at its limit.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/cliffs.py [--only WORDS]
    ... --prototypes FOLDER      # where split.py and wide.py of the design notes are
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from map import Watch, operator, target
from scipy import sparse

import stochadmm as sa
from stochadmm.problem import at_strength
from stochadmm.run.path import alpha_max

CPU_LIMIT = 30.0
"""Processor seconds after which a fit is interrupted."""


@dataclass
class Case:
    """A fit, and what its time is compared with."""

    name: str
    fit: Callable[[], Any]
    """Returns a result with ``relative_gap``, or a gap."""
    limit: float
    """Times the baseline, or processor seconds where there is none."""
    baseline: Callable[[], Any] | None = None
    """Returns a gap, or None where it has none."""
    tol: float = 1e-4


ROWS: list[Callable[[argparse.Namespace], Iterator[Case]]] = []


def row(cases: Callable[[argparse.Namespace], Iterator[Case]]) -> Any:
    """Add a row of the table."""
    ROWS.append(cases)
    return cases


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Return processor seconds and the gap of a call."""
    watch, found = Watch(CPU_LIMIT), None
    try:
        with watch:
            found = call()
    except KeyboardInterrupt:
        return watch.seconds, np.inf
    gap = getattr(found, "relative_gap", found)
    return watch.seconds, np.inf if gap is None else float(gap)


def minimize(problem: sa.Problem, tol: float = 1e-4) -> Callable[[], sa.Result]:
    """Return a fit of a problem."""
    return lambda: sa.minimize(problem, stop=sa.Gap(tol), max_passes=1e9)


def rows_of(n: int, d: int, loss: str, outputs: int = 1, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return rows of neighbors that are alike, their loss and targets with few coefficients."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    w = np.repeat(rng.standard_normal((d // 50 + 1, outputs)), 50, axis=0)[:d]
    w[rng.random(d) < 0.8] = 0.0
    z = X @ w
    z = z / z.std() + 0.5 * rng.standard_normal(z.shape)
    return X, *target(loss, z if outputs > 1 else z[:, 0], rng)


# ---------------------------------------------------------------- structures of full row rank


@row
def trend_filters(given: argparse.Namespace) -> Iterator[Case]:
    """Pure trend filters of few rows, beside a plain lasso in the changed variables."""
    for n, d, loss, strength in (
        (150, 1500, "squared", 0.1),
        (150, 1500, "squared", 0.001),
        (150, 1500, "huber", 0.01),
        (400, 4000, "squared", 0.1),
        (400, 4000, "squared", 0.01),
        (400, 4000, "squared", 0.001),
        (30, 300, "logistic", 0.01),
        (500, 500, "logistic", 0.01),
    ):
        X, f, y = rows_of(n, d, loss)
        unit = sa.Problem.linear(
            f, X, y, structure=sa.Differences(d, order=2), on_structure=sa.L1(1.0)
        )
        alpha = strength * alpha_max(unit)

        def lasso(X: Any = X, f: Any = f, y: Any = y, alpha: float = alpha) -> sa.Result:
            Z = X[:, ::-1]
            for _ in range(2):
                Z = np.cumsum(Z, axis=1)  # X C, columns of free polynomials last
            Z = np.ascontiguousarray(Z[:, ::-1])
            Z = np.concatenate([X @ polynomials(X.shape[1]), Z[:, 2:]], axis=1)
            Q = np.linalg.qr(Z[:, :2])[0]
            Z = np.concatenate([np.sqrt(len(X)) * Q, Z[:, 2:] - Q @ (Q.T @ Z[:, 2:])], axis=1)
            l1 = sa.Stacked([(sa.Zero(), 2), (sa.L1(alpha), Z.shape[1] - 2)])
            return minimize(sa.Problem.linear(f, Z, y, on_coefficients=l1))()

        fit = minimize(at_strength(unit, alpha))
        yield Case(f"trend filter, {loss}, {n} x {d}, {strength:g}", fit, 1.5, lasso)


def polynomials(d: int) -> np.ndarray:
    """Return orthonormal lines along d columns."""
    return np.linalg.qr(np.stack([np.ones(d), np.linspace(-1, 1, d)], axis=1))[0]


# ---------------------------------------------------------------- few rows


@row
def few_rows(given: argparse.Namespace) -> Iterator[Case]:
    """Few rows with a dense operator of 60 rows, and with a grid for 8 targets."""
    for n, d, loss, kind, outputs, limit in (
        (400, 4000, "squared", "dense operator", 1, 1.5),
        (150, 1500, "huber", "dense operator", 1, 1.5),
        (400, 4000, "squared", "grid", 8, 1.0),
    ):
        X, f, y = rows_of(n, d, loss, outputs)
        A, _ = operator(kind, d, np.random.default_rng(1))
        unit = sa.Problem.linear(f, X, y, structure=A, on_structure=sa.L1(1.0))
        gradient = unit.f2.gradient(unit.zeros().x2)
        mu = 0.05 * float(np.abs(gradient).max())
        problem = sa.Problem.linear(
            f, X, y, structure=A, on_structure=sa.L1(mu), on_coefficients=sa.L1(mu)
        )
        name = f"{kind} + l1, {loss}, {n} x {d} x {outputs}, 0.05"
        baseline = None
        if given.prototypes is not None and loss == "squared":
            import wide

            D = A if isinstance(A, np.ndarray) else A.tosparse()

            def baseline(X=X, y=y, loss=loss, D=D, mu=mu) -> float:
                return wide.fit(X, y, loss, D, mu, mu, limit=CPU_LIMIT)["gap"]

        yield Case(name, minimize(problem), limit if baseline else CPU_LIMIT, baseline)


# ---------------------------------------------------------------- a few thousand columns


@row
def thousands_of_columns(given: argparse.Namespace) -> Iterator[Case]:
    """3,000 x 2,500 with any structure; the prototype keeps one metric and renews the gradient."""
    n, d = 3000, 2500
    for loss in ("squared", "huber", "logistic"):
        X, f, y = rows_of(n, d, loss)
        for kind in ("graph", "grid", "trend 1", "dense operator"):
            A, _ = operator(kind, d, np.random.default_rng(1))
            unit = sa.Problem.linear(f, X, y, structure=A, on_structure=sa.L1(1.0))
            mu = 0.02 * float(np.abs(unit.f2.gradient(unit.zeros().x2)).max())
            problem = sa.Problem.linear(
                f, X, y, structure=A, on_structure=sa.L1(mu), on_coefficients=sa.L1(mu)
            )
            baseline = None
            if given.prototypes is not None and loss != "huber":  # the prototype's delta is 1
                import split

                D = A if isinstance(A, np.ndarray) else sparse.csr_matrix(A.tosparse())

                def baseline(X=X, y=y, loss=loss, D=D, mu=mu) -> float:
                    pen = split.Penalty(np.full(D.shape[0] + D.shape[1], mu))
                    return split.fit(X, y, loss, D, pen, D.shape[1], limit=CPU_LIMIT)["gap"]

            limit = 1.5 if baseline else CPU_LIMIT
            yield Case(f"{kind} + l1, {loss}, {n} x {d}", minimize(problem), limit, baseline)


# ---------------------------------------------------------------- several classes


def smooth_curves(outputs: int = 5) -> tuple[Any, Any, Any]:
    """Return 3,340 smooth curves of 256 points, in five classes."""
    rng = np.random.default_rng(0)
    X = np.cumsum(np.cumsum(rng.standard_normal((3340, 256)), axis=1), axis=1)
    X /= np.abs(X).max(axis=1, keepdims=True)
    w = np.repeat(rng.standard_normal((16, outputs)), 16, axis=0)
    z = X @ w
    return X, sa.Multinomial(outputs), (z / z.std() * 3 + rng.gumbel(size=z.shape)).argmax(axis=1)


@row
def classes_on_a_chain(given: argparse.Namespace) -> Iterator[Case]:
    """Five classes of smooth curves on a chain, with an intercept: three strengths."""
    X, f, y = smooth_curves()
    given_ = {"structure": sa.Differences(256), "on_structure": sa.L1(1.0)}
    unit = sa.Problem.linear(f, X, y, intercept=True, **given_)
    largest = alpha_max(unit)
    for strength in (0.1, 0.01, 0.001):
        fit = minimize(at_strength(unit, strength * largest))
        yield Case(f"five classes, chain, intercept, 3,340 x 256, {strength:g}", fit, 5.0)


@row
def classes_of_many_columns(given: argparse.Namespace) -> Iterator[Case]:
    """Multinomial on a chain, grid and graph with 1,200 to 1,500 columns."""
    for kind, n, d in (("chain", 3000, 1500), ("grid", 3000, 1225), ("graph", 3000, 1200)):
        X, f, y = rows_of(n, d, "multinomial", 3)
        A, _ = operator(kind, d, np.random.default_rng(1))
        unit = sa.Problem.linear(f, X, y, structure=A, on_structure=sa.L1(1.0))
        mu = 0.1 * float(np.abs(unit.f2.gradient(unit.zeros().x2)).max())
        yield Case(f"three classes, {kind}, {n} x {d}", minimize(at_strength(unit, mu)), 10.0)


@row
def free_columns(given: argparse.Namespace) -> Iterator[Case]:
    """Unpenalized and collinear columns: a second each."""
    for loss, outputs, penalty, collinear in (
        ("multinomial", 3, sa.L1(1.0), True),
        ("multinomial", 3, sa.L1(1.0), False),
        ("squared hinge", 1, sa.L1(1.0), False),
        ("multinomial", 4, sa.Nuclear(1.0), False),
        ("logistic", 1, sa.L1(1.0), True),
    ):
        X, f, y = rows_of(2000, 40, loss, outputs)
        X = np.concatenate([X, X[:, :1] if collinear else X[:, :1] + 1.0], axis=1)
        all_of_them = sa.Problem.linear(f, X, y, intercept=True, on_coefficients=penalty)
        alpha = 0.05 * alpha_max(all_of_them)
        some = sa.Stacked([(penalty, 39), (sa.Zero(), 2)])
        problem = sa.Problem.linear(f, X, y, intercept=True, on_coefficients=some.scaled(alpha))
        name = f"{'collinear' if collinear else 'free'} columns, {loss}, {type(penalty).__name__}"
        yield Case(name, minimize(problem), 1.0)


# ---------------------------------------------------------------- tolerances


@row
def below_rounding(given: argparse.Namespace) -> Iterator[Case]:
    """A tolerance below rounding beside one above it."""
    for loss, n, d, kind in (
        ("logistic", 2000, 100, "chain"),
        ("poisson", 1000, 10, "chain"),
        ("squared", 150, 1500, "grid"),
        ("huber", 2000, 300, "trend 1"),
    ):
        X, f, y = rows_of(n, d, loss)
        A, _ = operator(kind, d, np.random.default_rng(1))
        unit = sa.Problem.linear(f, X, y, structure=A, on_structure=sa.L1(1.0), intercept=True)
        problem = at_strength(unit, 0.05 * alpha_max(unit))
        name = f"tol 1e-12, {loss}, {kind}, {n} x {d}"
        yield Case(name, minimize(problem, 1e-12), 3.0, minimize(problem, 1e-8), tol=1e-8)


# ---------------------------------------------------------------- small and plain problems


def repeated(call: Callable[[], Any], times: int) -> Callable[[], Any]:
    """Return a call made so often that its time is well above the clock's step."""

    def run() -> Any:
        for _ in range(times):
            found = call()
        return found

    return run


@row
def several_small_targets(given: argparse.Namespace) -> Iterator[Case]:
    """Rows of groups for two targets, 50 x 20: a path of 10, and searches; 20 times each."""
    from sklearn.linear_model import MultiTaskLasso, MultiTaskLassoCV

    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((50, 20)), np.zeros((20, 2))
    W[:5] = rng.standard_normal((5, 2))
    Y = X @ W + 0.5 * rng.standard_normal((50, 2))
    alphas = np.sqrt(((X.T @ Y) ** 2).sum(axis=1)).max() / 50 * np.geomspace(1, 0.01, 10)
    settings: dict[str, Any] = {"groups": [[j] for j in range(20)], "tol": 1e-4}

    def path() -> float:
        model = sa.OverlappingGroupRegressor(fit_intercept=False, **settings)
        return float(model.path(X, Y, alphas=alphas).gaps.max())

    def fits() -> None:
        model = MultiTaskLasso(fit_intercept=False, tol=1e-5, warm_start=True, max_iter=10_000)
        for alpha in alphas:
            model.set_params(alpha=alpha).fit(X, Y)

    def search(**more: Any) -> Callable[[], float]:
        model = sa.OverlappingGroupRegressorCV(**settings, **more)
        return lambda: model.fit(X, Y).dual_gap_

    def peer(**more: Any) -> Callable[[], None]:
        model = MultiTaskLassoCV(tol=1e-5, max_iter=10_000, **more)
        return lambda: model.fit(X, Y) and None

    yield Case("path of 10, 50 x 20 x 2", repeated(path, 20), 10.0, repeated(fits, 20))
    for name, more in (("10 strengths", {"alphas": alphas}), ("default strengths", {})):
        fit, baseline = repeated(search(**more), 20), repeated(peer(**more), 20)
        yield Case(f"cross-validation, {name}, 50 x 20 x 2", fit, 10.0, baseline)


@row
def plain_l1_of_sparse_rows(given: argparse.Namespace) -> Iterator[Case]:
    """Sparse rows beside scikit-learn; the bar is one of the median, see sparse_columns.py."""
    from sparse_columns import SHAPES, SHARES, peers, rows

    rng = np.random.default_rng(0)
    for n, d, density in SHAPES:
        X, y = rows(n, d, density, rng)
        for loss, f in (("squared", sa.Squared()), ("logistic", sa.Logistic())):
            for share in SHARES:
                gradient = np.abs(X.T @ y).max() / n / (2 if loss == "logistic" else 1)
                alpha = share * gradient
                problem = sa.Problem.linear(f, X, y, on_coefficients=sa.L1(alpha))
                best = sa.minimize(problem, stop=sa.Gap(1e-6), max_passes=1e9).objective

                def peer(X=X, y=y, loss=loss, f=f, alpha=alpha, best=best) -> Callable[[], float]:
                    for model in peers(loss, alpha, len(y)):

                        def fit(model: Any = model) -> float:
                            w = np.ravel(model.fit(X, y).coef_)
                            value = f.values(X @ w, y).mean() + alpha * np.abs(w).sum()
                            return (value - best) / best

                        if fit() <= 1e-4:
                            break
                    return fit

                name = f"l1, {loss}, {n:,} x {d:,} sparse, {share:g}"
                times = 8 if X.nnz < 1e5 or share == 0.3 else 1  # the short ones take 2 ms
                yield Case(name, repeated(minimize(problem), times), 2.0, repeated(peer(), times))


@row
def tariff_without_penalty(given: argparse.Namespace) -> Iterator[Case]:
    """163,212 claims, 134 one-hot columns, Poisson, no penalty; benchmarks/tariff.py has more."""
    import os

    import tariff
    from glum import GeneralizedLinearRegressor

    folder = Path(os.environ.get("STOCHADMM_DATA", ""))
    if not (folder / "beMTPL97").is_dir():
        return
    frame, _ = tariff.claims(folder)
    y, own = frame["nclaims"].to_numpy(), frame["expo"].to_numpy()
    chains = {
        name: tariff.T.Free(levels=True, lower=term.lower, upper=term.upper)
        for name, term in tariff.CHAINS.items()
    }
    terms = chains | tariff.FREE | {"coverage": tariff.T.Free()}
    model = sa.StructuredRegressor(0.0, terms=terms, tol=1e-8, remainder="drop", loss="poisson")

    def peer() -> None:
        X = frame[["coverage", *tariff.CHAINS, *tariff.TWO_LEVELS]].copy()
        for name, term in tariff.CHAINS.items():
            X[name] = X[name].clip(term.lower, term.upper)
        GeneralizedLinearRegressor(
            family="poisson", alpha=0, drop_first=True, gradient_tol=1e-8, max_iter=200
        ).fit(X.astype("category"), y / own, sample_weight=own)

    def fit() -> sa.Result:
        return model.fit(frame, y, exposure=own).result_

    yield Case("no penalty, Poisson, 163,212 x 134 one-hot", fit, 2.0, peer, tol=1e-8)


# ---------------------------------------------------------------- the table


def main() -> int:
    """Measure and show; the exit code is 1 where a row is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="rows whose name or function has these words")
    parser.add_argument("--prototypes", type=Path, help="folder of split.py and wide.py")
    given = parser.parse_args()
    if given.prototypes is not None:
        sys.path.insert(0, str(given.prototypes))
    minimize(sa.Problem.linear(sa.Squared(), np.eye(3), np.ones(3)))()  # what the first call costs
    print(f"{'':52} {'seconds':>8} {'gap':>8} {'baseline':>9} {'gap':>8} {'ratio':>6} {'bar':>6}")
    failed = 0
    for cases in ROWS:
        if not given.only or given.only in cases.__name__:
            for case in cases(given):
                failed += show(case)
    print(f"\n{failed} above their bar or without a certificate")
    return int(failed > 0)


def show(case: Case) -> bool:
    """Measure a case and print its line; say whether it is above its bar."""
    seconds, gap = timed(case.fit)
    base, base_gap = (np.nan, np.nan) if case.baseline is None else timed(case.baseline)
    ratio = seconds if case.baseline is None else seconds / max(base, 0.01)
    bad = not (gap <= case.tol and ratio <= case.limit)
    unit = "s" if case.baseline is None else "x"
    print(
        f"{case.name:52} {seconds:8.2f} {gap:8.1e} {base:9.2f} {base_gap:8.1e} {ratio:5.1f}{unit} "
        f"{case.limit:5g}{unit}{' *' if bad else ''}",
        flush=True,
    )
    return bad


if __name__ == "__main__":
    sys.exit(main())
