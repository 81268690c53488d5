"""What the automatic solver chooses, and that its shortcuts change the cost, not the answer."""

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.risk.curvature import RowSample, SampledHessian


def logistic(n, d, alpha=1e-3, **options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.where(X[:, :2].sum(axis=1) + rng.standard_normal(n) > 0, 1.0, -1.0)
    return sa.Problem.linear(
        sa.Logistic(), X, y, structure=sa.Differences(d), on_structure=sa.L1(alpha), **options
    )


def test_a_start_on_a_tenth_of_the_rows_saves_reads_and_changes_no_answer():
    problem = logistic(100_000, 6)
    fast = sa.minimize(problem, "sampled-newton", stop=sa.Gap(1e-8))
    slow = sa.minimize(problem, "sampled-newton", stop=sa.Gap(1e-8), start=np.zeros(6))
    assert fast.converged and slow.converged and fast.n_passes < slow.n_passes
    assert abs(fast.objective - slow.objective) <= 2e-8 * slow.objective


def test_a_given_start_is_the_start():
    problem = logistic(100_000, 6)
    found = sa.minimize(problem, "sampled-newton", stop=sa.Gap(1e-8))
    again = sa.minimize(problem, "sampled-newton", stop=sa.Gap(1e-8), start=found)
    first = again.history[0].objective  # before any step
    assert first == pytest.approx(found.objective, rel=1e-15)
    assert again.converged and again.n_epochs <= 2


@pytest.mark.parametrize(
    ("n", "d", "route"),
    [(300, 20, "small"), (30_000, 20, "newton"), (30, 2100, "tied-newton")],
    ids=["small", "tall", "wide"],
)
def test_the_route_follows_the_shape(n, d, route):
    chosen, reason = sa.Auto().choose(logistic(n, d))
    assert chosen == route and (str(d) in reason or route == "small")


@pytest.mark.parametrize(
    ("n", "d", "kind", "route"),
    [
        (300, 1000, np.asarray, "few-columns"),
        (4500, 2000, np.asarray, "few-columns"),
        (4500, 2000, sparse.csr_array, "working-set"),
        (3000, 250, np.asarray, "newton"),
    ],
)
def test_columns_held_one_by_one_are_worked_on_a_few_at_a_time(n, d, kind, route):
    rng = np.random.default_rng(0)
    X, y = kind(rng.standard_normal((n, d))), np.where(rng.random(n) > 0.5, 1.0, -1.0)
    problem = sa.Problem.linear(sa.Logistic(), X, y, on_coefficients=sa.L1(0.01))
    assert sa.Auto().choose(problem)[0] == route


def test_many_coupled_outputs_of_sparse_rows_are_certified():
    rng = np.random.default_rng(0)
    n, d, outputs = 1500, 300, 25
    y = rng.integers(0, outputs, n)
    words = sparse.random_array((n, d), density=0.02, random_state=rng).toarray()
    words[np.arange(n), y] += rng.random(n) < 0.7  # a word of its own for every class
    words[:, 40] += 0.1
    X = sparse.csr_array(words / np.linalg.norm(words, axis=1, keepdims=True))
    norms = sa.Stacked([(sa.L1(1e-3), d), (sa.Nuclear(1e-3), d)])
    problem = sa.Problem.linear(
        sa.Multinomial(outputs),
        X,
        y,
        structure=sa.VStack([sa.Identity(d), sa.Identity(d)]),
        on_structure=norms,
    )
    result = sa.minimize(problem, stop=sa.Gap(1e-5))
    assert result.converged
    outside = sa.certify(problem, result.pair, result.dual, strength="corrected")
    assert outside.gap <= 1e-3 * outside.objective


def test_damping_keeps_the_derivatives_of_coupled_outputs_in_their_domain():
    rng = np.random.default_rng(0)
    f2 = sa.FiniteSum(sa.Multinomial(4), rng.standard_normal((30, 5)), rng.integers(0, 4, 30))
    at = f2.evaluate_exactly(np.zeros((5, 4)))
    hessian = SampledHessian(RowSample(f2, at.predictions, at.derivative), False, damping=0.3)
    change = hessian.derivative_change(rng.standard_normal((5, 4)))
    np.testing.assert_allclose(change.sum(axis=1), 0.0, atol=1e-14)
    assert hessian.damped(0.0).damping == 0.0 and hessian.damping == 0.3


UNPENALIZED = {
    "logistic": (sa.Logistic(), lambda z, rng: np.where(z + rng.logistic(size=len(z)) > 0, 1, -1)),
    "poisson": (sa.Poisson(), lambda z, rng: rng.poisson(np.exp(0.3 * z))),
    "gamma": (sa.Gamma(), lambda z, rng: rng.gamma(2.0, np.exp(0.3 * z))),
    "huber": (sa.Huber(0.3), lambda z, rng: z + rng.standard_t(3, len(z))),
    "classes": (sa.Multinomial(3), lambda z, rng: np.digitize(z + rng.normal(size=600), [-1, 1])),
}


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", UNPENALIZED)
@pytest.mark.parametrize("streamed", [False, True])
def test_problems_without_a_penalty_are_certified_where_rows_live(name, streamed, intercept):
    rng = np.random.default_rng(0)
    loss, targets = UNPENALIZED[name]
    X = rng.standard_normal((600, 4))
    y = targets(X @ np.array([1.0, -1.0, 0.5, 0.0]), rng)
    rows = (sa.data.ArraySource(X, y),) if streamed else (X, y)
    found = sa.minimize(sa.Problem.linear(loss, *rows, intercept=intercept), max_passes=20)
    whole = sa.Problem.linear(loss, X, y, intercept=intercept)
    assert found.converged
    assert np.abs(whole.f2.gradient(found.x2)).max() < 1e-3


def test_hundreds_of_columns_without_a_penalty_take_second_order_steps():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 300))
    y = np.where(X[:, 0] + rng.logistic(size=2000) > 0, 1.0, -1.0)
    problem = sa.Problem.linear(sa.Logistic(), X, y, intercept=True)
    found = sa.minimize(problem, max_passes=20)
    assert found.converged
    assert np.abs(problem.f2.gradient(found.x2)).max() < 1e-4


class OnlyValue:
    """The l1 norm times 0.01 as a user's penalty without a conjugate."""

    def value(self, x):
        return 0.01 * float(np.abs(x).sum())

    def prox(self, v, step, out=None):
        return np.sign(v) * np.maximum(np.abs(v) - 0.01 * step, 0.0)


@pytest.mark.parametrize("loss", [sa.Logistic(), sa.Squared()], ids=["logistic", "squared"])
def test_penalties_without_a_conjugate_are_served_by_acc_sadmm(loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 12))
    y = np.sign(X @ np.repeat([1.0, 0.0, -1.0], 4) + rng.logistic(size=2000))

    def stated(penalty):
        return sa.Problem.linear(loss, X, y, structure=sa.Differences(12), on_structure=penalty)

    found = sa.minimize(stated(OnlyValue()))
    assert found.converged and found.gap is None and found.info["route"] == "acc-sadmm"
    assert "conjugate" in found.info["reason"]
    best = sa.minimize(stated(sa.L1(0.01)), stop=sa.Gap(1e-10))
    assert found.objective <= best.objective * (1 + 1e-8)
    with pytest.raises(sa.solvers.Unsuitable, match="conjugate"):
        sa.minimize(stated(OnlyValue()), "sampled-newton")


def test_classes_of_few_dense_rows_and_many_columns_are_swept_column_by_column():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 1500))
    z = X[:, :20] @ rng.standard_normal((20, 4))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    problem = sa.Problem.linear(
        sa.Multinomial(4), X, y, intercept=True, on_coefficients=sa.L1(0.02)
    )
    found = sa.minimize(problem, stop=sa.Gap(1e-6), max_passes=500)
    assert found.converged
    assert found.info["route"] == "coordinate-newton"
    other = sa.minimize(problem, "working-set", stop=sa.Gap(1e-4), max_passes=500)
    assert found.objective == pytest.approx(other.objective, rel=1e-4)
    assert found.objective - found.gap <= other.objective
