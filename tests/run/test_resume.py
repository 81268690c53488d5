"""Resuming: only the same problem by the same method; data that was changed in place."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa

N, D = 60, 5


def rows(kind="dense", dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)).astype(dtype)
    y = np.where(X @ np.array([1.0, 1.0, -1.0, 0.0, 0.0]) + rng.standard_normal(N) > 0, 1.0, -1.0)
    return (sparse.csr_array(X) if kind == "csr" else X), y


def problem(X, y, alpha=0.02, loss=None, **options):
    return sa.Problem.linear(
        sa.Logistic() if loss is None else loss,
        X,
        y,
        structure=sa.Differences(D),
        on_structure=sa.L1(alpha),
        **options,
    )


def changes():
    X, y = rows()
    other = X.copy()
    other[17, 3] *= 1 + 1e-15
    assert (other != X).sum() == 1
    flipped = y.copy()
    flipped[5] *= -1
    return {
        "alpha": problem(X, y, 0.04),
        "one entry of X": problem(other, y),
        "one target": problem(X, flipped),
        "other rows": problem(X[::-1], y[::-1]),
        "fewer rows": problem(X[:-1], y[:-1]),
        "loss": problem(X, y, loss=sa.SquaredHinge()),
        "weights": problem(X, y, sample_weight=np.linspace(1, 2, N)),
        "offset": problem(X, y, offset=np.ones(N)),
        "penalty": problem(X, y, on_coefficients=sa.Ridge(0.1)),
        "structure": replace(problem(X, y), A2=sa.Differences(D) * 2.0),
        "right-hand side": replace(problem(X, y), b=np.full(D - 1, 0.1)),
        "float32": problem(X.astype(np.float32), y),
    }


@pytest.mark.parametrize("solver", ["auto", "acc-sadmm", "admm", "sdca-admm"])
@pytest.mark.parametrize("change", changes())
def test_a_changed_problem_is_refused(solver, change):
    result = sa.minimize(problem(*rows()), solver, stop=1e-3)
    with pytest.raises(ValueError, match=r"another problem or method.*start=result") as error:
        sa.minimize(changes()[change], solver, resume=result)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "other", ["svrg-admm", "auto", sa.AccSADMM(beta=0.3), sa.AccSADMM(batch_size=2)], ids=str
)
def test_another_method_is_refused(other):
    p = problem(*rows())
    result = sa.minimize(p, "acc-sadmm", max_passes=5)
    with pytest.raises(ValueError, match=r"another problem or method.*start=result"):
        sa.minimize(p, other, resume=result)
    again = sa.minimize(p, other, start=result, max_passes=5)
    assert again.objective <= result.objective


def test_the_same_problem_built_anew_is_resumed():
    first = sa.minimize(problem(*rows()), "acc-sadmm", max_passes=5, stop=sa.Never())
    X, y = rows()
    again = problem(np.asfortranarray(X), y.astype(int).tolist())
    a = sa.minimize(again, sa.AccSADMM(), resume=first, max_passes=20, stop=sa.Never())
    b = sa.minimize(problem(*rows()), "acc-sadmm", max_passes=20, stop=sa.Never())
    np.testing.assert_array_equal(a.coef, b.coef)
    np.testing.assert_array_equal(a.dual, b.dual)


def test_rule_limits_and_engine_may_change():
    p = problem(*rows())
    first = sa.minimize(p, "acc-sadmm", stop=1e-2)
    second = sa.minimize(
        p, "acc-sadmm", stop=1e-7, max_passes=5000, engine="reference", resume=first
    )
    assert second.converged and second.relative_gap <= 1e-7
    assert second.info["engine"] == "reference"


def test_what_is_not_a_result_of_a_run_is_refused(tmp_path):
    p = problem(*rows())
    result = sa.minimize(p, "acc-sadmm", max_passes=5)
    with pytest.raises(TypeError, match=r"resume is a ndarray.*start="):
        sa.minimize(p, "acc-sadmm", resume=result.coef)
    loaded = sa.Result.load(result.save(tmp_path / "a"))
    with pytest.raises(ValueError, match=r"file keeps no state.*start=result"):
        sa.minimize(p, "acc-sadmm", resume=loaded)
    short = sa.minimize(p, "acc-sadmm", max_passes=5, resumable=False)
    assert short.state is None
    np.testing.assert_array_equal(short.coef, result.coef)
    with pytest.raises(ValueError, match=r"resumable=False.*start=result"):
        sa.minimize(p, "acc-sadmm", resume=short)


class Opaque(sa.Squared):
    """A loss of which nobody can tell whether it is the same one."""

    def __init__(self):
        object.__setattr__(self, "lock", threading.Lock())

    def __fingerprint__(self):
        return self.lock


def test_parts_that_cannot_be_identified_run_but_do_not_resume():
    X, y = rows()
    p = problem(X, y, loss=Opaque())
    result = sa.minimize(p, "acc-sadmm", max_passes=20)
    assert np.isfinite(result.objective)
    with pytest.raises(ValueError, match=r"cannot be identified.*__fingerprint__.*start=result"):
        sa.minimize(p, "acc-sadmm", resume=result)


# ---------------------------------------------------------------- data changed in place


def changed_in_place(p, factor=3.0):
    """Change the data of a problem where it lives; return the same problem built from a copy."""
    X, y = p.f2.X, p.f2.y
    values = X.data if sparse.issparse(X) else X
    values *= factor
    values[: values.size // 2] *= -1 if values.ndim == 1 else 1
    y[:7] *= -1
    return problem(X.copy(), y.copy())


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("solver", ["auto", "acc-sadmm", "svrg-admm", "sdca-admm", "vr-pddy"])
def test_a_run_after_a_change_in_place_is_one_on_the_new_data(solver, kind):
    p = problem(*rows(kind))
    sa.minimize(p, solver, max_passes=10, stop=sa.Never())  # everything that is kept is made
    anew = changed_in_place(p)
    after = sa.minimize(p, solver, max_passes=10, stop=sa.Never())
    fresh = sa.minimize(anew, solver, max_passes=10, stop=sa.Never())
    np.testing.assert_array_equal(after.coef, fresh.coef)
    np.testing.assert_array_equal(after.dual, fresh.dual)
    assert (after.objective, after.gap) == (fresh.objective, fresh.gap)
    assert after.info.get("beta") == fresh.info.get("beta")


def test_a_change_before_the_first_run_is_seen():
    p = problem(*rows())
    anew = changed_in_place(p, 100.0)
    a, b = (sa.minimize(q, "acc-sadmm", max_passes=10, stop=sa.Never()) for q in (p, anew))
    np.testing.assert_array_equal(a.coef, b.coef)


def test_problems_that_share_data_all_see_the_change():
    p = problem(*rows())
    q = p.with_penalties(sa.L1(0.05), None)
    for each in (p, q):
        sa.minimize(each, "acc-sadmm", max_passes=5)
    fresh = changed_in_place(p).with_penalties(sa.L1(0.05), None)
    sa.minimize(p, "acc-sadmm", max_passes=5)
    a, b = (sa.minimize(each, "acc-sadmm", max_passes=5) for each in (q, fresh))
    np.testing.assert_array_equal(a.coef, b.coef)
    assert (a.objective, a.gap, a.relative_gap) == (b.objective, b.gap, b.relative_gap)


def test_resuming_after_a_change_in_place_is_refused():
    p = problem(*rows())
    result = sa.minimize(p, "acc-sadmm", max_passes=5)
    p.f2.X[3, 2] = np.nextafter(p.f2.X[3, 2], 1)
    with pytest.raises(ValueError, match="another problem or method"):
        sa.minimize(p, "acc-sadmm", resume=result)
    p.f2.X[3, 2] = rows()[0][3, 2]
    assert sa.minimize(p, "acc-sadmm", resume=result, max_passes=50).n_passes > result.n_passes


def test_bad_numbers_written_into_the_data_are_named():
    p = problem(*rows())
    sa.minimize(p, max_passes=5)
    p.f2.X[11, 0] = np.nan
    with pytest.raises(ValueError, match=r"X contains NaN.*row 11"):
        sa.minimize(p, max_passes=5)
    p.f2.X[11, 0] = 0.0
    p.f2.y[4] = 0.5
    with pytest.raises(ValueError, match="y"):
        sa.minimize(p, max_passes=5)


def test_a_run_that_is_resumed_takes_no_start(tmp_path):
    X, y = rows()
    p, file = problem(X, y), tmp_path / "run"
    first = sa.minimize(p, "acc-sadmm", max_passes=3, checkpoint=file)
    for before in (first, file):
        with pytest.raises(ValueError, match="resume and start are both given"):
            sa.minimize(p, "acc-sadmm", resume=before, start=np.ones(D))
    # True begins at the start where there is no checkpoint yet
    sa.minimize(p, "acc-sadmm", resume=True, checkpoint=file, start=np.ones(D), max_passes=4)
