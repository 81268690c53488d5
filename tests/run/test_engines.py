"""engine="reference": nothing compiled runs, in no part of a run, and the answer is the same."""

import importlib
import pkgutil

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm import kernels
from stochadmm.kernels.extension import available, engine


class Called(Exception):
    """Compiled code was run."""


@pytest.fixture
def forbid(monkeypatch):
    """Return what lets every call of compiled code fail from then on, wherever it is made.

    A problem is stated before a run, and its rows may be looked at by compiled code there.
    """

    def raising():
        raise Called

    def forbidding():
        names = [found.name for found in pkgutil.iter_modules(kernels.__path__)]
        modules = [importlib.import_module(f"stochadmm.kernels.{name}") for name in names]
        for module in modules:
            if hasattr(module, "core"):  # the way to the extension
                monkeypatch.setattr(module, "core", raising)

    return forbidding


def problem(kind, structure):
    rng = np.random.default_rng(0)
    n, d = 100, 8
    X = rng.standard_normal((n, d))
    if kind == "csr":
        X = sparse.csr_array(np.where(rng.random((n, d)) < 0.5, X, 0.0))
    y = np.where(X @ np.ones(d) + rng.standard_normal(n) > 0, 1.0, -1.0)
    h1 = {
        "differences": sa.L1(0.02),
        "variation": sa.TotalVariation1D(0.02),
        "groups": sa.GroupL2(0.02, [3, 5]),
    }[structure]
    A = sa.Differences(d) if structure == "differences" else sa.Identity(d)
    return sa.Problem.linear(
        sa.Logistic(), X, y, structure=A, on_structure=h1, on_coefficients=sa.Ridge(1e-3)
    )


SOLVERS = ["auto", "acc-sadmm", "svrg-admm", "admm", "sampled-newton", "stoc-admm"]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("structure", ["differences", "variation", "groups"])
def test_the_reference_engine_runs_nothing_compiled(solver, kind, structure, forbid):
    p = problem(kind, structure)
    forbid()
    result = sa.minimize(p, solver, engine="reference", max_passes=2, stop=1e-3)
    assert np.isfinite(result.objective)
    next(sa.iterate(p, solver, engine="reference"))
    sa.minimize(p, solver, resume=result, max_passes=3)


@pytest.mark.skipif(not available(), reason="there is no compiled code here")
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_the_other_engines_do_run_compiled_code(kind, forbid):
    p = problem(kind, "differences")
    forbid()
    with pytest.raises(Called):
        sa.minimize(p, "acc-sadmm")


@pytest.mark.parametrize("solver", ["auto", "acc-sadmm"])
@pytest.mark.parametrize("structure", ["differences", "variation"])
def test_both_engines_give_the_same_answer(solver, structure):
    results = [
        sa.minimize(problem("dense", structure), solver, engine=name, stop=1e-4, max_passes=300)
        for name in ("reference", "auto")
    ]
    a, b = results
    assert a.converged and b.converged
    assert abs(a.objective - b.objective) <= max(a.gap, b.gap) + 1e-12


@pytest.mark.compiled
def test_the_choice_ends_with_its_block_and_cannot_be_widened():
    with engine("reference"):
        with engine("auto"):
            assert not available()
        assert not available()
    assert available()
    with engine("compiled"):
        assert available()


@pytest.mark.compiled
def test_a_run_that_fails_leaves_the_choice_as_it_was():
    def callback(record, state):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError):
        sa.minimize(problem("dense", "groups"), engine="reference", callback=callback)
    assert available()
