"""Several outputs over rows that are read again in every pass: classes, other losses, low rank."""

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.data import ArraySource, _protocol, spill
from stochadmm.risk.passes import Sample
from stochadmm.risk.sampling import Coin
from stochadmm.risk.streamed import StreamedSum, first_pass
from stochadmm.risk.tangent import WithRests, tangent_term

ROWS, COLUMNS, CLASSES = 4000, 9, 3
LOSSES = {
    "multinomial": sa.Multinomial(CLASSES),
    "huber": sa.Huber(0.5),
    "logistic": sa.Logistic(),
    "poisson": sa.Poisson(),
    "hinge": sa.SquaredHinge(),
}


def generated(loss="multinomial", n=ROWS, seed=0):
    """Rows with a rare column, sorted by their targets, with weights and offsets."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, COLUMNS)) / np.sqrt(COLUMNS)
    X[:, -1] = rng.random(n) < 0.02
    X[:, :4] *= rng.random((n, 4)) < 0.5
    z = X @ np.repeat(2 * rng.standard_normal((3, CLASSES)), COLUMNS // 3, axis=0)
    y = {
        "multinomial": np.argmax(z + rng.gumbel(size=z.shape), axis=1),
        "huber": z + rng.standard_t(2, size=z.shape),
        "poisson": rng.poisson(np.exp(0.3 * z)).astype(float),
    }.get(loss, np.sign(z + rng.logistic(size=z.shape)))
    order = np.argsort(y if y.ndim == 1 else y[:, 0], kind="stable")
    return X[order], y[order], rng.uniform(0.5, 2.0, n), 0.3 * rng.standard_normal(z.shape)


def stated(loss, rows, y=None, intercept=True, penalty="fused", **more):
    parts = {
        "fused": {
            "structure": sa.Differences(COLUMNS),
            "on_structure": sa.L1(2e-3),
            "on_coefficients": sa.Ridge(1e-2),
        },
        "rows": {"on_coefficients": sa.RowsL21(5e-3)},
        "low rank": {"on_coefficients": sa.Nuclear(2e-2)},
    }[penalty]
    return sa.Problem.linear(LOSSES[loss], rows, y, intercept=intercept, **parts, **more)


def checked(found, truth, atol):
    """Compare a streamed answer with one of rows in memory."""
    assert found.converged and found.info["route"] == "streamed-newton"
    size = 1e-8 * (1 + abs(truth.objective))
    assert abs(found.objective - truth.objective) <= size
    slack = 1e-12 * (1 + abs(truth.objective))
    assert found.objective - found.gap <= truth.objective + slack  # the bound is one
    np.testing.assert_allclose(found.coef, truth.coef, rtol=0, atol=atol)


@pytest.mark.parametrize("penalty", ["fused", "rows", "low rank"])
@pytest.mark.parametrize("loss", LOSSES)
def test_streamed_answers_are_those_of_rows_in_memory(loss, penalty):
    X, y, weight, offset = generated(loss)
    intercept = penalty != "rows"
    found = sa.minimize(
        stated(loss, ArraySource(X, y, weight, offset), None, intercept, penalty),
        stop=sa.Gap(1e-9),
        memory="4MiB",
    )
    truth = sa.minimize(
        stated(loss, X, y, intercept, penalty, sample_weight=weight, offset=offset),
        stop=sa.Gap(1e-11),
        max_passes=100,
    )
    assert len(found.coef) == COLUMNS and found.n_passes <= 12
    checked(found, truth, 2e-3)


def source_of(kind, X, y, weight, offset, folder):
    if kind == "array":
        return ArraySource(X, y.astype(float), weight, offset)
    if kind in ("npy", "raw csr"):
        rows = sparse.csr_array(X) if kind == "raw csr" else X
        return spill(ArraySource(rows, y, weight, offset), folder)
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    columns = {f"x{j}": X[:, j] for j in range(COLUMNS)}
    table = pa.table({**columns, "y": y, "w": weight})
    size = -(-ROWS // 3) if len(_protocol.cuts(ROWS, COLUMNS * 8)) > 1 else ROWS
    parquet.write_table(table, folder / "t.parquet", row_group_size=size)
    return sa.open(folder / "t.parquet", "y", weight="w", scratch=folder)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("kind", ["array", "npy", "raw csr", "parquet"])
def test_any_source_of_the_same_rows_gives_the_same_answer(kind, shards, tmp_path, monkeypatch):
    monkeypatch.setattr(StreamedSum, "sample_rows", 1500)
    X, y, weight, offset = generated()
    offset = None if kind == "parquet" else offset  # one column there
    reference = sa.minimize(
        stated("multinomial", ArraySource(X, y, weight, offset)), stop=sa.Gap(1e-10)
    )
    bytes_ = (0.8 * 12 if kind == "raw csr" else 8) * COLUMNS * ROWS
    if shards > 1:
        made = _protocol.Sharding(shard_bytes=int(bytes_ / 2.5))
        monkeypatch.setattr(_protocol, "SHARDING", made)
    source = source_of(kind, X, y, weight, offset, tmp_path)
    assert len(source.shards) == shards
    answers = [
        sa.minimize(
            stated("multinomial", source), stop=sa.Gap(1e-10), cluster=sa.cluster.Local(workers)
        )
        for workers in (1, 3)
    ]
    assert answers[0].coef.tobytes() == answers[1].coef.tobytes()
    checked(answers[0], reference, 1e-8)
    # one number more in all intercepts changes no probability
    found, wanted = (each.intercept - each.intercept.mean() for each in (answers[0], reference))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-8)


@pytest.mark.parametrize("loss", ["multinomial", "poisson"])
def test_the_tangent_of_the_rest_lies_below_and_touches(loss):
    X, y, weight, offset = generated(loss, n=500)
    f2 = StreamedSum(LOSSES[loss], ArraySource(X, y, weight, offset), intercept=True)
    rng = np.random.default_rng(2)
    x = 0.3 * rng.standard_normal((COLUMNS + 1, CLASSES))
    sums = f2.run(x, coin=Coin(3, 0.2))
    rows = Sample.joined(sums.sample)
    assert 50 < len(rows.y) < 200
    below = tangent_term(f2, rows, sums, x, first_pass(f2))
    assert isinstance(below.loss, WithRests)
    assert below.n_terms == len(rows.y) + CLASSES
    assert below.value(x) == pytest.approx(f2.value(x), rel=1e-12)
    np.testing.assert_allclose(below.gradient(x), f2.gradient(x), atol=1e-12)
    for _ in range(20):
        other = x + rng.standard_normal(x.shape)
        assert below.value(other) <= f2.value(other) + 1e-12


@pytest.mark.parametrize("loss", ["multinomial", "huber"])
def test_conjugates_of_the_rest_hold_for_one_share_of_all_its_derivatives(loss):
    """Derivatives t on all rows of the rest bound its losses from below; any other are refused."""
    X, y, weight, _ = generated(loss, n=400)
    f2 = StreamedSum(LOSSES[loss], ArraySource(X, y, weight))
    rng = np.random.default_rng(3)
    x = rng.standard_normal((COLUMNS, CLASSES))
    sums = f2.run(x, coin=Coin(3, 0.2))
    rows = Sample.joined(sums.sample)
    below = tangent_term(f2, rows, sums, x, first_pass(f2))
    u = below.loss.derivative(below.predict(x), below.y)
    q = below.weight

    def rest_at(x):
        few = sa.FiniteSum(f2.loss, rows.rows.X, rows.y, rows.weight)
        own = rows.weight.sum()
        return (f2.value(x) * sums.weight - few.value(x) * own) / sums.weight

    for t in (0.0, 0.3, 1.0):
        derivatives = np.where(np.arange(len(u))[:, None] < len(rows.y), u, t * u)
        found = below.loss.conjugate(derivatives, below.y)
        assert np.isfinite(found).all()
        cost = float(q[-CLASSES:] @ found[-CLASSES:]) / q.sum()
        pull = below.X[-CLASSES:].T @ (q[-CLASSES:, None] * derivatives[-CLASSES:]) / q.sum()
        for _ in range(10):
            other = x + rng.standard_normal(x.shape)
            assert np.vdot(pull, other) - cost <= rest_at(other) + 1e-12
    for bad in (1.5, -0.5):
        derivatives = np.where(np.arange(len(u))[:, None] < len(rows.y), u, bad * u)
        assert np.isinf(below.loss.conjugate(derivatives, below.y)[-CLASSES:]).all()
    uneven = u.copy()
    uneven[-1] *= 0.5
    assert np.isinf(below.loss.conjugate(uneven, below.y)[-CLASSES:]).all()
    assert np.isinf(below.loss.conjugate(u[:-1], below.y[:-1])[-CLASSES + 1 :]).all()


@pytest.mark.parametrize("method", ["acc-sadmm", "svrg-admm"])
def test_stochastic_methods_serve_classes_in_files(method, tmp_path):
    X, y, weight, offset = generated()
    source = spill(ArraySource(X, y, weight, offset), tmp_path)
    found = sa.minimize(
        stated("multinomial", source), method, stop=sa.Gap(1e-4), memory="4MiB", max_passes=300
    )
    truth = sa.minimize(
        stated("multinomial", X, y, sample_weight=weight, offset=offset), stop=sa.Gap(1e-10)
    )
    assert found.converged
    assert found.objective - truth.objective <= found.gap + 1e-10
    assert found.objective - truth.objective <= 1.1e-4 * truth.objective


def test_what_several_outputs_need_is_said():
    X, y, _, offset = generated(n=300)
    with pytest.raises(ValueError, match="number of classes"):
        sa.Problem.linear(sa.Multinomial(), ArraySource(X, y), on_coefficients=sa.L1(0.1))
    with pytest.raises(ValueError, match="one label per row"):
        stated("multinomial", ArraySource(X, np.column_stack([y, y])))
    with pytest.raises(ValueError, match="one per prediction"):
        sa.minimize(stated("multinomial", ArraySource(X, y, None, offset[:, 0])))
    with pytest.raises(ValueError, match="label"):
        sa.minimize(stated("multinomial", ArraySource(X, y + 1)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_maps_under_a_loss_of_classes_are_worked_on_in_place(tmp_path, monkeypatch, dtype):
    monkeypatch.setattr("stochadmm.problem.BUDGET", 1 << 10)
    X, y, *_ = generated(n=500)
    np.save(tmp_path / "X.npy", X.astype(dtype))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    problem = sa.Problem.linear(sa.Multinomial(), mapped, y, on_coefficients=sa.L1(0.01))
    assert isinstance(problem.f2, sa.FiniteSum) and np.shares_memory(problem.f2.X, mapped)
    assert sa.minimize(problem, stop=sa.Gap(1e-3)).converged
