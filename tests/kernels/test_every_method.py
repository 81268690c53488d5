"""Every method beside its readable loop, whatever loss, penalties, storage and type: iterates."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import stochadmm as sa
from stochadmm.solvers._base import get

pytestmark = pytest.mark.compiled

LOSSES = {
    "logistic": sa.Logistic(),
    "squared": sa.Squared(),
    "twice": sa.Squared(half=False),
    "huber": sa.Huber(0.5),
    "quantile": sa.Quantile(0.7, 0.3),
    "hinge": sa.SquaredHinge(),
    "poisson": sa.Poisson(2.0),
    "gamma": sa.Gamma(2.0),
    "tweedie": sa.Tweedie(1.4, 20.0),
    "negative_binomial": sa.NegativeBinomial(0.7, 30.0),
    "multinomial": sa.Multinomial(4),
    "several": sa.Huber(0.5),
}
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
ON_STRUCTURE = ("l1", "ridge", "groups", "sparse groups", "box")
ON_COEFFICIENTS = ("nothing", "elastic net", "box", "total variation")


def penalty(name, rows):
    sizes = [rows // 2, rows - rows // 2]
    return {
        "nothing": None,
        "l1": sa.L1(0.05),
        "ridge": sa.Ridge(0.2),
        "box": sa.Box(-0.3, 0.4),
        "elastic net": sa.ElasticNet(0.05, 0.5),
        "groups": sa.GroupL2(0.1, sizes),
        "sparse groups": sa.SparseGroupNorm(0.1, sizes, 0.4),
        "total variation": sa.TotalVariation1D(0.1),
    }[name]


def targets(rng, loss, n):
    if loss == "multinomial":
        return rng.integers(4, size=n)
    if loss in ("logistic", "hinge"):
        return np.where(rng.random(n) < 0.5, -1.0, 1.0)
    if loss in ("poisson", "negative_binomial", "tweedie"):
        return rng.poisson(1.0, n).astype(float)
    if loss == "gamma":
        return rng.exponential(1.0, n) + 0.1
    return rng.standard_normal((n, 3) if loss == "several" else n)


@st.composite
def problems(draw, constrained):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    loss, dtype = draw(st.sampled_from(list(LOSSES))), draw(st.sampled_from(["f8", "f8", "f4"]))
    storage, rich = draw(st.sampled_from(["dense", "int32", "int64"])), draw(st.booleans())
    n, d = draw(st.integers(9, 40)), draw(st.integers(2, 19))
    X = 0.5 * rng.standard_normal((n, d)).astype(dtype)
    if storage != "dense":
        X = sparse.csr_array(np.where(rng.random((n, d)) < 0.5, X, 0).astype(dtype))
        kind = np.int32 if storage == "int32" else np.int64
        X.indices, X.indptr = X.indices.astype(kind), X.indptr.astype(kind)
    y = targets(rng, loss, n)
    weight = rng.random(n) * (rng.random(n) < 0.8) + np.eye(n)[0] if rich else None
    free = draw(st.sampled_from(ON_COEFFICIENTS))
    columns = d + (rich and free == "total variation")  # which counts every row of the variable
    A = sa.VStack([sa.Differences(d), sa.Identity(d)]) if constrained else None
    h1 = penalty(draw(st.sampled_from(ON_STRUCTURE)), 2 * d - 1) if constrained else None
    return sa.Problem.linear(
        LOSSES[loss],
        X,
        y,
        structure=A,
        on_structure=h1,
        on_coefficients=None if columns > d else penalty(free, d),
        intercept=rich,
        sample_weight=weight,
    )


def arrays(state):
    """Return the arrays that the method has reached, by name."""
    found = {"dual": state.dual}
    for name in ("x", "output", "ergodic"):
        pair = getattr(state, name)
        if pair is not None:
            found |= {f"{name}.x1": pair.x1, f"{name}.x2": pair.x2}
    for name in ("derivatives", "residual", "pull", "lead", "ahead", "snapshot"):
        value = getattr(state, name, None)
        if isinstance(value, np.ndarray):
            found[name] = value
    return found


def solver_of(name, sampling):
    solver = get(name)()
    known = {field.name for field in dataclasses.fields(solver)}
    given_ = {"batch_size": 4, "beta": 0.1, "sampling": sampling, "warm_start_passes": 0}
    return dataclasses.replace(solver, **{k: v for k, v in given_.items() if k in known})


@pytest.mark.parametrize("name", METHODS)
@given(more=st.data())
@settings(max_examples=18, deadline=None, derandomize=True)
def test_compiled_iterates_are_the_readable_ones(name, more):
    problem = more.draw(problems(constrained=name != "katyusha"))
    solver = solver_of(name, more.draw(st.sampled_from(["rows", "blocks"])))
    try:
        solver.check(problem)
    except ValueError:  # a penalty that the method does not take: said in words, tested elsewhere
        return
    states = [solver.start(problem), solver.start(problem)]
    generators = [np.random.default_rng(5), np.random.default_rng(5)]
    unit = 1e-9 if problem.dtype == np.float64 else 4e-3
    for _ in range(2):
        for state, kind, rng in zip(states, ("reference", "compiled"), generators, strict=True):
            state.engine = kind
            solver.epoch(problem, state, rng)
        readable, compiled = (arrays(state) for state in states)
        assert readable.keys() == compiled.keys()
        for key, expected in readable.items():
            assert expected.dtype == compiled[key].dtype == problem.dtype, key
            size = 1 + float(np.abs(expected).max(initial=0.0))
            assert np.isfinite(size), key
            np.testing.assert_allclose(
                compiled[key], expected, rtol=0, atol=unit * size, err_msg=key
            )
        assert states[0].n_passes == states[1].n_passes
