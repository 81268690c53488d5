"""Arrays at the border: broken sparse matrices, masks, bounds that contradict each other."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

import stochadmm as sa
from stochadmm.base.validation import as_csr, check_sparse
from stochadmm.penalties.bounds import contradiction

N, D = 30, 6


def rows(kind="csr"):
    X = sparse.random_array((N, D), density=0.5, rng=np.random.default_rng(0), format="csr")
    return X.asformat(kind)


def broken(name):
    """Return a sparse matrix that was damaged after it was built, as files and bugs do."""
    kind, _, damage = name.partition(" ")
    X = rows(kind)
    if damage == "beyond":
        X.indices[3] = 10**6
    elif damage == "negative":
        X.indices[3] = -1
    elif damage == "falling":
        X.indptr[4] = X.indptr[5] + 3
    elif damage == "not from zero":
        X.indptr[0] = 1
    elif damage == "endless":
        X.indptr[-1] = 10**6
    elif damage == "short":
        X.indptr = X.indptr[:-1]
    elif damage == "few entries":
        X.data = X.data[:5]
    elif damage == "fractions":
        X.indices = X.indices.astype(float)
    elif damage == "coordinates":
        X.coords[0][2] = 10**6
    elif damage == "lists":
        X.rows[2] = [0, 10**6]
        X.data[2] = [1.0, 1.0]
    return X


BROKEN = [
    *(
        f"{kind} {damage}"
        for kind in ("csr", "csc")
        for damage in (
            "beyond",
            "negative",
            "falling",
            "not from zero",
            "endless",
            "short",
            "few entries",
            "fractions",
        )
    ),
    "bsr beyond",
    "bsr falling",
    "coo coordinates",
    "lil lists",
]

USES = {
    "problem": lambda X: sa.Problem.linear(sa.Squared(), X, np.ones(N)),
    "structure": lambda X: sa.Problem.linear(
        sa.Squared(), np.ones((3, X.shape[1])), np.ones(3), structure=X, on_structure=sa.L1(1.0)
    ),
    "fit": lambda X: sa.LassoRegressor().fit(X, np.arange(N)),
    "predict": lambda X: sa.LassoRegressor().fit(rows(), np.arange(N)).predict(X),
    "classify": lambda X: sa.SparseLogisticClassifier().fit(X, np.arange(N) % 2),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", BROKEN)
def test_broken_sparse_matrices_are_refused_in_one_line(name, use):
    with pytest.raises((ValueError, TypeError)) as error:
        USES[use](broken(name))
    assert "\n" not in str(error.value)


def test_a_wrong_index_does_not_end_the_interpreter():
    # in a process of its own: it was ended by a segmentation fault
    lines = (
        "import numpy as np, stochadmm as sa; from scipy import sparse\n"
        "X = sparse.random_array((20000, 50), density=0.3, rng=np.random.default_rng(0)).tocsr()\n"
        "X.indices[5] = 2**30\n"
        "try: sa.minimize(sa.Problem.linear(sa.Squared(), X, np.ones(20000),\n"
        "                                   on_structure=sa.L1(0.1)), 'acc-sadmm')\n"
        "except ValueError as error: print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", lines],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "expected 0 to 49" in run.stdout and run.stdout.count("\n") == 1


def test_adjacency_matrices_are_checked_too():
    A = sparse.csr_array(np.ones((4, 4)))
    A.indices[2] = 99
    with pytest.raises(ValueError, match="adjacency matrix has entries at the places 0 to 99"):
        sa.structures.from_adjacency(A)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
def test_whole_matrices_pass_and_keep_their_numbers(kind):
    X = rows(kind)
    check_sparse(X, "X")
    made = as_csr(X, "X")
    np.testing.assert_array_equal(made.toarray(), rows().toarray())
    assert made.has_canonical_format
    assert kind != "csr" or np.shares_memory(made.data, X.data)


def test_what_a_matrix_says_about_itself_is_not_believed():
    X = sparse.csr_array((np.ones(4), [0, 1, 1, 0], [0, 2, 4]), shape=(2, 2))
    assert not X.has_canonical_format
    X.has_canonical_format = True
    X.has_sorted_indices = True
    X.indices[:] = [1, 1, 0, 0]
    np.testing.assert_array_equal(as_csr(X, "X").toarray(), [[0, 2], [2, 0]])
    assert as_csr(X, "X").nnz == 2 and X.nnz == 4


def test_room_behind_the_last_row_does_not_count():
    X = rows()
    roomy = sparse.csr_array((N, D))
    roomy.data, roomy.indices = np.append(X.data, [7e9, 7e9]), np.append(X.indices, [0, 10**6])
    roomy.indptr = X.indptr
    f2 = sa.FiniteSum(sa.Squared(), roomy, np.ones(N))
    assert f2.n_entries == X.nnz
    np.testing.assert_allclose(f2.row_norms2, np.square(X.toarray()).sum(axis=1))


# ---------------------------------------------------------------- masks


def masked(values):
    return np.ma.masked_array(values, mask=np.asarray(values) > 0.7)


MASKED = {
    "X": lambda X, y, v: sa.FiniteSum(sa.Squared(), masked(X), y),
    "y": lambda X, y, v: sa.FiniteSum(sa.Squared(), X, masked(y)),
    "sample_weight": lambda X, y, v: sa.FiniteSum(sa.Squared(), X, y, masked(v)),
    "offset": lambda X, y, v: sa.FiniteSum(sa.Squared(), X, y, offset=masked(v)),
    "X of fit": lambda X, y, v: sa.LassoRegressor().fit(masked(X), y),
    "X of predict": lambda X, y, v: sa.LassoRegressor().fit(X, y).predict(masked(X)),
    "y of fit": lambda X, y, v: sa.LassoRegressor().fit(X, masked(y)),
    "y of a classifier": lambda X, y, v: sa.SparseLogisticClassifier().fit(X, masked(v > 0.5)),
    "sample_weight of fit": lambda X, y, v: sa.LassoRegressor().fit(X, y, masked(v)),
    "the matrix": lambda X, y, v: sa.Matrix(masked(X)),
}


@pytest.mark.parametrize("where", MASKED)
def test_masked_entries_are_refused_and_the_remedy_named(where):
    rng = np.random.default_rng(0)
    X, y, v = rng.random((N, D)), rng.random(N), rng.random(N)
    name = where.partition(" of")[0].replace("y of a classifier", "y")
    with pytest.raises(ValueError, match=rf"{name} has \d+ masked entries.*filled") as error:
        MASKED[where](X, y, v)
    assert "\n" not in str(error.value)


def test_masked_arrays_without_masked_entries_are_arrays():
    X = np.random.default_rng(0).random((N, D))
    plain = sa.LassoRegressor(alpha=0.01).fit(X, X[:, 0])
    other = sa.LassoRegressor(alpha=0.01).fit(np.ma.masked_array(X), np.ma.masked_array(X[:, 0]))
    np.testing.assert_array_equal(plain.coef_, other.coef_)


# ---------------------------------------------------------------- bounds


def bounded(h1, h2, structure=None, **options):
    X = np.random.default_rng(0).standard_normal((N, D))
    structure = sa.Identity(D) if structure is None else structure
    return sa.Problem.linear(
        sa.Squared(),
        X,
        X[:, 0],
        structure=structure,
        on_structure=h1,
        on_coefficients=h2,
        **options,
    )


@pytest.mark.parametrize("intercept", [False, True])
def test_bounds_that_contradict_each_other_are_refused(intercept):
    cases = [
        (sa.Box(1, 2), sa.Box(-1, 0), None),
        (sa.Box(1, 2), sa.L1(0.1) + sa.Box(0, 0.5), sa.Differences(D)),
        (sa.Box(-3, -2), sa.NonNegative(), None),
        (sa.Box(lower=np.r_[np.zeros(D - 1), 5]), sa.Box(upper=4), None),
    ]
    for h1, h2, structure in cases:
        with pytest.raises(ValueError, match=r"leave no point .* row \d.*widen") as error:
            bounded(h1, h2, structure, intercept=intercept)
        assert "\n" not in str(error.value)
    bounded(sa.Box(1, 2), sa.Box(0, 1), intercept=intercept)  # they touch
    bounded(sa.Box(1, 2), sa.NonNegative(), sa.Differences(D), intercept=intercept)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_refused_problem_has_no_feasible_point_and_single_rows_are_decided(seed):
    rng = np.random.default_rng(seed)
    q, p, d = rng.integers(1, 4, 3)

    def box(n):
        low = rng.integers(-3, 3, n) + 0.0
        high = low + rng.integers(0, 3, n)
        low[rng.random(n) < 0.2], high[rng.random(n) < 0.2] = -np.inf, np.inf
        return sa.Box(low, high)

    A1, A2 = (rng.integers(-2, 3, (q, n)) + 0.0 for n in (p, d))
    h1, h2, b = box(p), box(d), rng.integers(-4, 5, q) + 0.0
    row = contradiction(sa.Matrix(A1), h1, (p,), sa.Matrix(A2), h2, (d,), b)
    limits = np.column_stack([np.r_[h1.lower, h2.lower], np.r_[h1.upper, h2.upper]])
    found = linprog(np.zeros(p + d), A_eq=np.hstack([A1, A2]), b_eq=b, bounds=limits)
    if row is not None:
        assert found.status == 2
    elif q == 1 and np.isfinite(limits).any():
        assert (
            found.status == 0
            or not (np.isfinite(h1.lower) | np.isfinite(h1.upper)).any()
            or (not (np.isfinite(h2.lower) | np.isfinite(h2.upper)).any())
        )


@pytest.mark.parametrize(
    "solver", ["auto", "acc-sadmm", "admm", "svrg-admm", "sdca-admm", "sampled-newton"]
)
def test_a_problem_without_a_feasible_point_never_converges(solver):
    turned = np.vstack([np.tri(D), np.ones(D)])  # partial sums at most 0, whole sum at least 1
    h1 = sa.Box(np.r_[np.full(D, -np.inf), 1.0], np.r_[np.zeros(D), np.inf])
    p = bounded(h1, sa.Box(-1, 1), turned)
    result = sa.minimize(p, solver, max_passes=50, max_seconds=5)
    assert not result.converged
    assert result.objective == np.inf and (result.gap is None or result.gap == np.inf)
    assert "nan" not in result.message
    assert not any(
        np.isnan(r.objective) or (r.gap is not None and np.isnan(r.gap)) for r in result.history
    )


# ---------------------------------------------------------------- numbers that are none


def stated(**parts):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    A1, A2 = rng.standard_normal((3, 4)), rng.standard_normal((3, D))
    return sa.Problem(sa.FiniteSum(sa.Squared(), X, X[:, 0]), h1=sa.L1(0.1), A1=A1, A2=A2, **parts)


NO_NUMBERS = {
    "b complex": lambda: stated(b=np.ones(3) + 1j),
    "b masked": lambda: stated(b=masked(np.arange(3.0))),
    "b text": lambda: stated(b=["a", "b", "c"]),
    "sample_weight complex": lambda: sa.FiniteSum(
        sa.Squared(), np.eye(2), np.ones(2), np.ones(2) * 1j
    ),
    "offset complex": lambda: sa.FiniteSum(
        sa.Squared(), np.eye(2), np.ones(2), offset=np.ones(2) * 1j
    ),
    "start complex": lambda: sa.minimize(stated(), start=np.ones(D) * 1j),
    "start.x2 masked": lambda: sa.minimize(
        stated(), start=sa.Pair(np.ones(4), masked(np.ones(D)))
    ),
    "weights complex": lambda: sa.L1(0.1, weights=np.ones(2) * 1j),
    "alpha text": lambda: sa.L1("0.1"),
    "alpha nothing": lambda: sa.Nuclear(None),
    "alpha complex": lambda: sa.Ridge(1 + 0j),
    "alpha two numbers": lambda: sa.L1(np.array([0.1, 0.2])),
    "l1_ratio text": lambda: sa.ElasticNet(0.1, "a"),
    "delta text": lambda: sa.Huber("a"),
    "level nothing": lambda: sa.Quantile(None),
    "max_prediction text": lambda: sa.Poisson("a"),
    "max_passes text": lambda: sa.minimize(stated(), max_passes="a"),
    "max_seconds text": lambda: sa.minimize(stated(), max_seconds="a"),
}


@pytest.mark.parametrize("where", NO_NUMBERS)
def test_what_is_no_real_number_is_refused_by_name(where):
    with pytest.raises(ValueError, match=rf"^{where.split()[0]} ") as error:
        NO_NUMBERS[where]()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1.7e308])
def test_weights_of_any_size_are_the_same_weights(size):
    rng = np.random.default_rng(0)
    X, share = rng.standard_normal((N, D)), np.ones(N)
    share[::2] = 0.5 if size > 1e-320 else 1.0
    plain, extreme = (
        sa.FiniteSum(sa.Logistic(), X, np.sign(X[:, 0]), weight)
        for weight in (share, share * size)
    )
    np.testing.assert_allclose(extreme.weight, plain.weight, rtol=1e-15)
    problem = sa.Problem(extreme, h2=sa.L1(0.01))
    assert sa.minimize(problem).converged
