"""The statement of a problem: what is refused and how, what is kept, what is not copied."""

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.base.protocols import Loss, Operator, Penalty

N, D = 12, 4


def rows(seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N, D)), rng.standard_normal(N)


def linear(loss=None, X=None, y=None, **options):
    """A good statement, except for what a test replaces."""
    good_X, good_y = rows()
    return sa.Problem.linear(
        sa.Squared() if loss is None else loss,
        good_X if X is None else X,
        good_y if y is None else y,
        **options,
    )


def two_block(**parts):
    f2 = sa.FiniteSum(sa.Squared(), *rows())
    good = {"h1": sa.L1(0.1), "A1": sa.Identity(D, scale=-1.0), "A2": sa.Identity(D)}
    return sa.Problem(f2, **(good | parts))


def refused(kind, call, *words):
    """The error is one line that holds every word: the argument and the remedy."""
    with pytest.raises(kind) as error:
        call()
    message = str(error.value)
    assert "\n" not in message.strip()
    assert len(message) < 300
    for word in words:
        assert word in message, message


# ---------------------------------------------------------------- data

signs = np.where(np.arange(N) % 2, 1.0, -1.0)
with_nan, with_inf = rows()[0], rows()[0]
with_nan[5, 1] = np.nan
with_inf[7, 2] = np.inf

BAD_DATA = {
    "X of one dimension": (dict(X=np.ones(N)), ("X", "2", "reshape")),
    "X of three dimensions": (dict(X=np.ones((N, D, 2))), ("X", "3 dimension")),
    "X without rows": (dict(X=np.ones((0, D)), y=np.ones(0)), ("X", "at least one row")),
    "X without columns": (dict(X=np.ones((N, 0))), ("X", "one column")),
    "X of text": (dict(X=np.full((N, D), "a")), ("X", "encode")),
    "X complex": (dict(X=np.ones((N, D), complex)), ("X", "complex", "split")),
    "X with NaN": (dict(X=with_nan), ("X", "NaN", "row 5", "impute")),
    "X with inf": (dict(X=with_inf), ("X", "infinite", "row 7", "impute")),
    "CSR with NaN": (dict(X=sparse.csr_array(with_nan)), ("X", "NaN", "row 5")),
    "X that overflows": (dict(X=np.full((N, D), 1e200)), ("X", "overflow", "rescale")),
    "y too short": (dict(y=np.ones(N - 1)), ("y", f"({N},)", "one target per row")),
    "y of three dimensions": (dict(y=np.ones((N, 1, 1))), ("y", "one target per row")),
    "y a scalar": (dict(y=3.0), ("y", "one target per row")),
    "y with NaN": (dict(y=np.r_[np.nan, np.ones(N - 1)]), ("y", "NaN", "drop")),
    "y with inf": (dict(y=np.r_[np.inf, np.ones(N - 1)]), ("y", "infinity", "drop")),
    "y of text": (dict(y=np.full(N, "a")), ("y", "numbers")),
    "labels 0 and 1": (dict(loss=sa.Logistic(), y=np.arange(N) % 2), ("y", "-1 and +1", "2*y-1")),
    "labels 1, 2, 3": (
        dict(loss=sa.SquaredHinge(), y=1.0 + np.arange(N) % 3),
        ("y", "-1 and +1", "classifier"),
    ),
    "class beyond n_classes": (
        dict(loss=sa.Multinomial(2), y=np.arange(N) % 3),
        ("y", "n_classes"),
    ),
    "fractions as classes": (
        dict(loss=sa.Multinomial(), y=np.full(N, 0.5)),
        ("y", "labels 0, 1", "return_inverse"),
    ),
    "negative counts": (dict(loss=sa.Poisson(), y=-np.ones(N)), ("y", "negative", "0 or more")),
    "counts above the range": (
        dict(loss=sa.Poisson(1.0), y=np.full(N, 50.0)),
        ("y", "max_prediction", "for_targets"),
    ),
    "negative weight": (
        dict(sample_weight=np.r_[-1.0, np.ones(N - 1)]),
        ("sample_weight", "negative", ">= 0"),
    ),
    "NaN weight": (dict(sample_weight=np.full(N, np.nan)), ("sample_weight", "NaN")),
    "weights of the wrong length": (
        dict(sample_weight=np.ones(N + 1)),
        ("sample_weight", f"({N},)", "one weight per row"),
    ),
    "weights per entry of a vector": (
        dict(sample_weight=np.ones((N, 2))),
        ("sample_weight", f"({N},)"),
    ),
    "weights per entry of classes": (
        dict(loss=sa.Multinomial(3), y=np.arange(N) % 3, sample_weight=np.ones((N, 3))),
        ("sample_weight", f"({N},)"),
    ),
    "weights all zero": (dict(sample_weight=np.zeros(N)), ("sample_weight", "zero", "> 0")),
    "offset of the wrong length": (
        dict(offset=np.ones(N - 2)),
        ("offset", f"({N},)", "one number per prediction"),
    ),
    "offset of the wrong shape": (
        dict(y=np.ones((N, 2)), offset=np.ones(N)),
        ("offset", f"({N}, 2)"),
    ),
    "offset with NaN": (dict(offset=np.full(N, np.nan)), ("offset", "finite")),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_are_refused_in_one_line(name):
    options, words = BAD_DATA[name]
    refused(ValueError, lambda: linear(**options), *words)


# ---------------------------------------------------------------- structure and constraint

BAD_STRUCTURE = {
    "too many columns": (
        dict(structure=np.ones((3, D + 1)), on_structure=sa.L1(1.0)),
        ("structure", f"{D + 1} columns", f"expected {D}"),
    ),
    "intercept counted": (
        dict(structure=np.ones((3, D + 1)), on_structure=sa.L1(1.0), intercept=True),
        ("structure", "without the intercept"),
    ),
    "structure without penalty": (
        dict(structure=np.ones((3, D))),
        ("structure", "on_structure=sa.L1"),
    ),
    "structure with NaN": (
        dict(structure=np.full((3, D), np.nan), on_structure=sa.L1(1.0)),
        ("structure", "NaN"),
    ),
    "structure of one dimension": (
        dict(structure=np.ones(D), on_structure=sa.L1(1.0)),
        ("structure", "two dimensions"),
    ),
    "groups that do not fill the structure": (
        dict(structure=np.ones((3, D)), on_structure=sa.GroupL2(1.0, [2, 2])),
        ("on_structure", "groups", "4 rows", "3"),
    ),
    "weights that do not fit the coefficients": (
        dict(on_coefficients=sa.L1(1.0, weights=np.ones(D + 1))),
        ("h2", "weights", "one number per row"),
    ),
    "weights that do not fit, with an intercept": (
        dict(on_coefficients=sa.L1(1.0, weights=np.ones(D + 1)), intercept=True),
        ("on_coefficients", "weights", "one number per row"),
    ),
    "nuclear norm of a vector": (
        dict(on_coefficients=sa.Nuclear(1.0)),
        ("Nuclear", "matrix", "L1"),
    ),
}


@pytest.mark.parametrize("name", BAD_STRUCTURE)
def test_bad_structures_are_refused_in_one_line(name):
    options, words = BAD_STRUCTURE[name]
    refused(ValueError, lambda: linear(**options), *words)


def test_structure_of_an_unknown_kind_is_refused():
    refused(
        TypeError,
        lambda: linear(structure="chain", on_structure=sa.L1(1.0)),
        "structure",
        "operator",
        "str",
    )


BAD_CONSTRAINTS = {
    "A1 alone": (dict(A2=None), ("A2 is missing", "both")),
    "A2 alone": (dict(A1=None), ("A1 is missing", "both")),
    "columns of A2": (
        dict(A2=np.ones((D, D + 1))),
        ("A2", f"{D + 1} columns", "pad or transpose"),
    ),
    "rows of A1 and A2": (dict(A1=sa.Identity(D + 1)), ("A1", "A2", "one row per constraint")),
    "length of b": (dict(b=np.ones(D + 1)), ("b has shape", f"({D},)", "one number per row")),
    "b with NaN": (dict(b=np.full(D, np.nan)), ("b contains NaN", "replace")),
    "h1 without a constraint": (dict(A1=None, A2=None), ("h1", "A1 and A2", "h2")),
    "b without a constraint": (
        dict(A1=None, A2=None, h1=None, b=np.ones(D)),
        ("b is given without A1 and A2",),
    ),
    "penalty that does not fit A1": (
        dict(h1=sa.L1(0.1, weights=np.ones(D + 2))),
        ("h1", "weights", "one number per row"),
    ),
}


@pytest.mark.parametrize("name", BAD_CONSTRAINTS)
def test_constraints_that_do_not_fit_are_refused_in_one_line(name):
    parts, words = BAD_CONSTRAINTS[name]
    refused(ValueError, lambda: two_block(**parts), *words)


# ---------------------------------------------------------------- parts without a member


class ValueOnly:
    def value(self, x):
        return 0.0


class LossWithoutDerivative:
    curvature_bound = 1.0

    def value(self, z, y, weight=None):
        return 0.0


class SmoothWithoutLipschitz:
    def value(self, x):
        return 0.0

    def gradient(self, x):
        return 0 * x


def test_parts_that_lack_a_member_are_refused_by_its_name():
    prox = ("has no `prox`", "ValueOnly", "`value`, `prox`")
    refused(TypeError, lambda: linear(on_coefficients=ValueOnly()), "h2", *prox)
    refused(
        TypeError,
        lambda: linear(on_coefficients=ValueOnly(), intercept=True),
        "on_coefficients",
        *prox,
    )
    refused(TypeError, lambda: linear(on_structure=ValueOnly()), "on_structure", *prox)
    refused(TypeError, lambda: two_block(h1=ValueOnly()), "h1", *prox)
    refused(TypeError, lambda: two_block(h2=ValueOnly()), "h2", *prox)
    refused(
        TypeError,
        lambda: linear(loss=LossWithoutDerivative()),
        "loss (LossWithoutDerivative)",
        "`derivative`",
    )
    refused(
        TypeError,
        lambda: two_block(f1=SmoothWithoutLipschitz()),
        "f1",
        "has no `lipschitz`",
        "gradient",
    )
    refused(TypeError, lambda: sa.Problem(object()), "f2", "`n_terms`")


def test_the_library_s_parts_have_what_the_protocols_ask_for():
    for loss in (sa.Squared(), sa.Logistic(), sa.Multinomial(3), sa.Huber(), sa.Poisson()):
        assert isinstance(loss, Loss)
    for penalty in (sa.L1(1.0), sa.Nuclear(1.0), sa.Box(0, 1), sa.Zero(), sa.L2Ball(1.0)):
        assert isinstance(penalty, Penalty)
    for operator in (sa.Identity(3), sa.Differences(3), sa.as_operator(np.eye(3))):
        assert isinstance(operator, Operator)


# ---------------------------------------------------------------- solvers, engines, starts


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("acc-sadm", "did you mean acc-sadmm?"),
        ("svrg", "did you mean svrg-admm?"),
        ("ADMM", "did you mean admm?"),
        ("xyz", "'xyz'; sa.solvers.names()"),  # nothing is near
    ],
)
def test_an_unknown_solver_lists_the_nearest_names(name, near):
    words = (f"unknown solver {name!r}", near, "sa.solvers.names()")
    refused(ValueError, lambda: sa.minimize(linear(), name), *words)


def test_solvers_and_rules_of_the_wrong_kind_are_refused():
    problem = linear()
    refused(TypeError, lambda: sa.minimize(problem, 3), "solver (int)", "`start`", "pass a name")
    refused(ValueError, lambda: sa.minimize(problem, engine="gpu"), "engine", "'gpu'", "compiled")
    refused(TypeError, lambda: sa.minimize(problem, stop="soon"), "stop", "'soon'", "sa.Gap(1e-6)")
    refused(ValueError, lambda: sa.minimize(problem, stop=-1.0), "tol", ">= 0")
    refused(ValueError, lambda: sa.minimize(problem, max_passes=0), "max_passes", "> 0")
    refused(ValueError, lambda: sa.minimize(problem, max_seconds=-1.0), "max_seconds", "> 0")


@pytest.mark.parametrize("solver", ["auto", "acc-sadmm", "svrg-admm", "admm"])
def test_starts_that_do_not_fit_are_refused(solver):
    problem = two_block()
    good, zero = np.zeros(D), problem.zeros()

    def start(value):
        return lambda: sa.minimize(problem, solver, start=value)

    refused(ValueError, start(np.zeros(D + 1)), "start", f"({D + 1},)", f"({D},)", "fits")
    refused(ValueError, start(np.full(D, np.nan)), "start", "NaN", "finite")
    refused(ValueError, start(sa.Pair(np.zeros(D + 1), good)), "start.x1", "fits")
    refused(ValueError, start(sa.Pair(good, np.zeros(2))), "start.x2", "fits")
    refused(ValueError, start((zero, np.zeros(D - 1))), "dual", "fits")
    refused(ValueError, start((zero, np.full(D, np.inf))), "dual", "finite")


@pytest.mark.parametrize("solver", ["auto", "acc-sadmm", "svrg-admm", "admm", "sdca-admm"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_start_is_never_changed(solver, loss):
    rng = np.random.default_rng(3)
    X, y = rows()
    part = sa.Squared() if loss == "squared" else sa.Logistic()
    f2 = sa.FiniteSum(part, X, y if loss == "squared" else np.sign(y))
    problem = sa.Problem(
        f2, h1=sa.L1(0.05), A1=sa.Identity(D - 1, scale=-1.0), A2=sa.Differences(D)
    )
    x2 = rng.standard_normal(D)
    pair = sa.Pair(rng.standard_normal(D - 1), x2)
    dual = rng.standard_normal(D - 1)
    kept = x2.copy(), pair.copy(), dual.copy()
    for start in (x2, pair, (pair, dual)):
        sa.minimize(problem, solver, start=start, max_passes=10)
        sa.minimize(problem, solver, start=start, max_passes=10, engine="reference")
    np.testing.assert_array_equal(x2, kept[0])
    np.testing.assert_array_equal(pair.x1, kept[1].x1)
    np.testing.assert_array_equal(pair.x2, kept[1].x2)
    np.testing.assert_array_equal(dual, kept[2])
    result = sa.minimize(problem, solver, max_passes=10)
    before = [getattr(result, name).copy() for name in ("coef", "x1", "x2", "dual")]
    sa.minimize(problem, solver, start=result, max_passes=10)
    for name, values in zip(("coef", "x1", "x2", "dual"), before, strict=True):
        np.testing.assert_array_equal(getattr(result, name), values)


# ---------------------------------------------------------------- copies and conversions


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_in_good_order_are_not_copied(dtype):
    X, y = rows()
    X = X.astype(dtype)
    assert np.shares_memory(sa.FiniteSum(sa.Squared(), X, y).X, X)
    S = sparse.csr_array(X)
    f2 = sa.FiniteSum(sa.Squared(), S, y)
    assert np.shares_memory(f2.X.data, S.data) and np.shares_memory(f2.X.indices, S.indices)
    assert not f2.notes
    assert f2.dtype == dtype


def test_conversions_are_noted_and_reach_the_result():
    X, y = rows()
    fortran = sa.FiniteSum(sa.Squared(), np.asfortranarray(X), y)
    assert fortran.notes == ["X copied to row-major order"] and fortran.X.flags.c_contiguous
    whole = sa.FiniteSum(sa.Squared(), np.arange(N * D).reshape(N, D), y)
    assert whole.dtype == np.float64 and "int64 to float64" in whole.notes[0]
    columns = sa.FiniteSum(sa.Squared(), sparse.csc_array(X), y)
    assert columns.X.format == "csr" and "csc to CSR" in columns.notes[0]
    flags = sa.FiniteSum(sa.Squared(), X > 0, y)
    assert flags.dtype == np.float64 and "bool" in flags.notes[0]
    result = sa.minimize(sa.Problem(columns, h2=sa.L1(0.1)))
    assert result.info["data"] == columns.notes


def test_duplicate_entries_are_summed_in_a_copy():
    X, y = rows()
    good = sparse.csr_array(X)
    S = sparse.csr_array(
        (np.repeat(good.data / 2, 2), np.repeat(good.indices, 2), 2 * good.indptr), shape=X.shape
    )
    kept = S.data.copy()
    f2 = sa.FiniteSum(sa.Squared(), S, y)
    np.testing.assert_allclose(f2.X.toarray(), X)
    np.testing.assert_array_equal(S.data, kept)
    assert "duplicate" in f2.notes[0]


def test_data_are_not_changed_by_solving():
    X, y = rows()
    weight, offset = np.ones(N), np.zeros(N)
    kept = X.copy(), y.copy()
    problem = linear(X=X, y=y, sample_weight=weight, offset=offset, on_coefficients=sa.L1(0.1))
    sa.minimize(problem, "acc-sadmm", max_passes=20)
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(y, kept[1])
    assert (weight == 1).all() and (offset == 0).all()


# ---------------------------------------------------------------- values and feasible points


def test_pairs_add_scale_and_copy():
    a, b = sa.Pair(np.ones(2), np.arange(3.0)), sa.Pair(np.full(2, 2.0), np.ones(3))
    both = 2 * a + b - b / 2
    np.testing.assert_array_equal(both.x1, [3, 3])
    np.testing.assert_array_equal(both.x2, [0.5, 2.5, 4.5])
    other = a.copy()
    other.x1[:] = 7
    assert (a.x1 == 1).all()


def test_objective_and_constraint_by_hand():
    X, y = rows()
    rng = np.random.default_rng(1)
    A, b = rng.standard_normal((3, D)), rng.standard_normal(3)
    problem = sa.Problem(
        sa.FiniteSum(sa.Squared(), X, y),
        h1=sa.L1(0.3),
        h2=sa.Ridge(0.2),
        A1=sa.Identity(3, scale=2.0),
        A2=A,
        b=b,
    )
    x = sa.Pair(rng.standard_normal(3), rng.standard_normal(D))
    np.testing.assert_allclose(problem.constraint(x), 2 * x.x1 + A @ x.x2 - b)
    expected = np.mean((X @ x.x2 - y) ** 2) / 2 + 0.3 * np.abs(x.x1).sum() + 0.1 * np.sum(x.x2**2)
    assert problem.objective(x) == pytest.approx(expected)
    near = problem.feasible(x)
    np.testing.assert_array_equal(near.x2, x.x2)
    np.testing.assert_allclose(problem.constraint(near), 0, atol=1e-14)
    at_zero = sa.Pair(b / 2, np.zeros(D))
    assert problem.objective_at_zero == pytest.approx(problem.objective(at_zero))


def test_an_intercept_is_the_last_row_and_seen_by_no_penalty():
    X, y = rows()
    problem = linear(
        structure=sa.Differences(D),
        on_structure=sa.L1(0.1),
        on_coefficients=sa.NonNegative(),
        intercept=True,
    )
    assert problem.intercept and problem.shape2 == (D + 1,) and problem.shape1 == (D - 1,)
    x2 = np.r_[np.ones(D), -5.0]
    point = problem.feasible(sa.Pair(np.zeros(D - 1), x2))
    assert problem.penalty(point) == 0
    assert problem.objective(point) == pytest.approx(np.mean((X.sum(axis=1) - 5 - y) ** 2) / 2)


def test_feasible_moves_into_the_domain_of_h2_and_keeps_x1_where_a2_is_the_identity():
    problem = linear(on_structure=sa.L1(0.1), on_coefficients=sa.NonNegative())
    x = problem.feasible(sa.Pair(np.zeros(D), np.array([-1.0, 2.0, -3.0, 4.0])))
    np.testing.assert_array_equal(x.x2, [0, 2, 0, 4])
    np.testing.assert_array_equal(x.x1, x.x2)
    f2 = sa.FiniteSum(sa.Squared(), *rows())
    A1 = np.random.default_rng(0).standard_normal((D, 2))
    turned = sa.Problem(f2, h1=sa.L1(0.1), A1=A1, A2=sa.Identity(D))
    assert turned.reducible
    z = turned.feasible(sa.Pair(np.array([1.0, -2.0]), np.zeros(D)))
    np.testing.assert_allclose(turned.constraint(z), 0, atol=1e-15)
    general = sa.Problem(f2, h1=sa.L1(0.1), A1=A1, A2=sa.Differences(D).tosparse()[[0, 1, 2, 2]])
    assert not general.reducible


def test_other_penalties_share_the_data():
    problem = linear(on_structure=sa.L1(0.1))
    other = problem.with_penalties(sa.L1(0.2), None)
    assert other.f2 is problem.f2 and other.A2 is problem.A2 and other.h1.alpha == 0.2


def test_the_scale_of_tolerances_is_finite_where_zero_is_not_allowed():
    problem = two_block(h1=sa.Box(0.5, 1.0))
    assert problem.objective(problem.zeros()) == np.inf
    assert problem.objective_at_zero == pytest.approx(np.mean(rows()[1] ** 2) / 2)
    result = sa.minimize(problem, stop=1e-6, max_passes=500)
    assert result.converged and np.isfinite(result.objective)
    assert (result.coef >= 0.5).all() and (result.coef <= 1.0).all()
