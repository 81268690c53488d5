"""A limit in epochs is kept by every method, and the method's own last point is returned."""

from itertools import islice

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.solvers import Unsuitable


def problem(solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    y = np.where(X[:, 0] + rng.standard_normal(60) > 0, 1.0, -1.0)
    if solver == "katyusha":
        return sa.Problem.linear(sa.Logistic(), X, y, on_coefficients=sa.L1(0.02))
    A = sa.VStack([sa.Differences(6), sa.Identity(6)])
    return sa.Problem.linear(sa.Logistic(), X, y, structure=A, on_structure=sa.L1(0.02))


STEPPED = sorted(
    set(sa.solvers.names())
    & {
        *("acc-sadmm", "svrg-admm", "sag-admm", "sdca-admm", "asvrg-admm", "stoc-admm"),
        *("opg-admm", "rda-admm", "opt-sadmm", "admm", "linearized-admm", "ladm-ne", "aadmm"),
        *("vr-pddy", "spdhg", "katyusha", "fast-ladmm", "ladmpsap", "inertial-admm"),
    }
)


@pytest.mark.parametrize("solver", STEPPED)
def test_a_method_runs_so_many_epochs_and_gives_its_own_last_point(solver):
    p = problem(solver)
    for epochs in (1, 4):
        found = sa.minimize(p, solver, stop=sa.Never(), max_epochs=epochs, random_state=3)
        known = next(islice(sa.iterate(p, solver, 3), epochs - 1, None)).output
        assert (found.status, found.n_epochs) == (sa.Status.MAX_EPOCHS, epochs)
        assert found.as_frame()["epoch"].iloc[-1] == epochs
        np.testing.assert_array_equal(found.output.x1, known.x1)
        np.testing.assert_array_equal(found.output.x2, known.x2)


@pytest.mark.parametrize("solver", sorted(set(sa.solvers.names()) - set(STEPPED)))
def test_no_method_runs_more_epochs_than_asked_for(solver):
    try:
        found = sa.minimize(problem(solver), solver, stop=sa.Never(), max_epochs=1)
    except Unsuitable:
        pytest.skip("the method cannot serve the problem")
    assert found.n_epochs == 1


def test_a_hundred_reads_are_no_limit_where_epochs_are():
    p = problem("acc-sadmm")
    found = sa.minimize(p, sa.AccSADMM.paper(0.3, 10), stop=sa.Never(), max_epochs=50)
    assert found.n_epochs == 50
    assert found.n_passes == pytest.approx(150)
    both = sa.minimize(
        p, sa.AccSADMM.paper(0.3, 10), stop=sa.Never(), max_epochs=50, max_passes=30
    )
    assert (both.status, both.n_epochs) == (sa.Status.MAX_PASSES, 10)


def test_the_output_of_the_papers_method_is_that_of_the_page():
    p, b, S = problem("acc-sadmm"), 8, 12
    found = sa.minimize(
        p,
        sa.AccSADMM.paper(0.2, b),
        stop=sa.Never(),
        max_epochs=S,
        random_state=np.random.default_rng(4),
    )
    page = sa.paper.acc_sadmm(p, 0.2, 15, b, S, rng=np.random.default_rng(4))
    np.testing.assert_allclose(found.output.x1, page.outputs[-1][0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.output.x2, page.outputs[-1][1], rtol=0, atol=1e-10)
    assert found.objective <= p.objective(p.feasible(found.output)) + 1e-12


@pytest.mark.parametrize("limit", [0, -1, 2.5, "3"])
def test_a_limit_that_is_no_number_of_epochs_is_refused(limit):
    with pytest.raises(ValueError, match="max_epochs is"):
        sa.minimize(problem("acc-sadmm"), max_epochs=limit)


def test_a_saved_result_keeps_the_output(tmp_path):
    found = sa.minimize(problem("acc-sadmm"), "acc-sadmm", max_epochs=3, stop=sa.Never())
    again = sa.Result.load(found.save(tmp_path / "result"))
    np.testing.assert_array_equal(again.output.x1, found.output.x1)
    np.testing.assert_array_equal(again.output.x2, found.output.x2)
