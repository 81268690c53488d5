"""Epochs that are left in the middle end with the bits of those that are not."""

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.base.workspace import Workspace
from stochadmm.run import checkpoint
from stochadmm.run.answer import Resumable
from stochadmm.run.loop import begin, epochs, generator_of
from stochadmm.run.measured import Memory

METHODS = {
    "stoc-admm": sa.StocADMM(batch_size=7, n_inner=20),
    "opt-sadmm": sa.OptSADMM(batch_size=7, n_inner=20),
    "svrg-admm": sa.SVRGADMM(batch_size=7, n_inner=20),
    "acc-sadmm": sa.AccSADMM.paper(batch_size=7),
    "acc-sadmm, reset": sa.AccSADMM(batch_size=7, n_inner=20, metric="none", restart=1),
}


def problem(memory=0):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 8)).astype(np.float16)
    y = np.argmax(X[:, :4] + 0.5 * rng.standard_normal((90, 4)), axis=1)
    made = sa.Problem.linear(
        sa.Multinomial(4), X, y, on_structure=sa.Nuclear(0.01), on_coefficients=sa.L1(0.01)
    )
    return sa.Problem(made.f2.with_memory(memory), h1=made.h1, h2=made.h2, A1=made.A1, A2=made.A2)


def run(p, solver, few, path=None):
    """Return the state after three epochs; with a path it is written and read at every stop."""
    rng, workspace = np.random.default_rng(3), Workspace()
    state = begin(p, solver, None, "auto", workspace)
    state.few, stops = few, 0
    while state.n_epochs < 3:
        next(epochs(p, solver, state, rng))
        stops += state.part is not None
        if path is not None:
            kept = Resumable(
                state, rng.bit_generator.state, None, Memory(), "auto", (0.0, 0.0, 0.0), [], "x"
            )
            checkpoint.Checkpoint(path, 0.0).write(kept, p, solver)
            read = checkpoint.load(path, "x", p, solver, workspace)
            state, rng = read.state, generator_of(read.generator)
            state.workspace = workspace
    return state, stops


@pytest.mark.parametrize("name", METHODS)
def test_an_epoch_that_is_cut_gives_the_same_bits(name, tmp_path):
    p, solver = problem(), METHODS[name]
    whole, none = run(p, solver, None)
    cut, stops = run(p, solver, 6)
    taken_up, again = run(p, solver, 6, tmp_path / "run")
    assert none == 0
    assert stops == again >= 9
    for other in (cut, taken_up):
        for field in ("x1", "x2"):
            np.testing.assert_array_equal(
                getattr(other.output, field), getattr(whole.output, field)
            )
        np.testing.assert_array_equal(other.dual, whole.dual)
        assert (other.n_epochs, other.n_gradients) == (whole.n_epochs, whole.n_gradients)


def test_compiled_epochs_are_not_cut():
    p, solver = problem(None), METHODS["svrg-admm"]
    state, stops = run(p, solver, 6)
    assert (state.engine, stops) in {("compiled", 0), ("reference", 9)}
