"""Rows that are read again in every pass: the same answers as from memory, and sound bounds."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.base.workspace import Workspace
from stochadmm.data import ArraySource, DenseRows, spill
from stochadmm.problem import at_strength
from stochadmm.risk.passes import Sample
from stochadmm.risk.sampling import Coin
from stochadmm.risk.streamed import StreamedSum, as_bytes, first_pass
from stochadmm.risk.tangent import WithRest, tangent_term
from stochadmm.run.loop import Request
from stochadmm.run.minimize import solve

SMALL = "4MiB"
LOSSES = {
    "logistic": sa.Logistic(),
    "squared": sa.Squared(),
    "huber": sa.Huber(),
    "poisson": sa.Poisson(),
}


def generated(loss="logistic", n=6000, d=12, seed=0):
    """Rows with a rare column, sorted by target, with weights and offsets."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    X[:, -1] = rng.random(n) < 0.01
    z = X @ np.repeat([2.0, 0.0, -2.0], d // 3)
    y = {
        "logistic": np.sign(z + rng.logistic(size=n)),
        "squared": z + rng.standard_normal(n),
        "huber": z + rng.standard_t(2, size=n),
        "poisson": rng.poisson(np.exp(0.5 * z)).astype(float),
    }[loss]
    order = np.argsort(y, kind="stable")
    return X[order], y[order], rng.uniform(0.5, 2.0, n), 0.3 * rng.standard_normal(n)


def stated(loss, source, y=None, d=12, intercept=True, **more):
    structure = sa.VStack([sa.Differences(d), sa.Identity(d)])
    return sa.Problem.linear(
        LOSSES[loss],
        source,
        y,
        structure=structure,
        on_structure=sa.L1(2e-3),
        intercept=intercept,
        **more,
    )


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_streamed_answers_are_those_of_rows_in_memory(loss, intercept):
    X, y, weight, offset = generated(loss)
    problem = stated(loss, ArraySource(X, y, weight, offset), intercept=intercept)
    found = sa.minimize(problem, stop=sa.Gap(1e-7), memory=SMALL)
    truth = sa.minimize(
        stated(loss, X, y, intercept=intercept, sample_weight=weight, offset=offset),
        stop=sa.Gap(1e-12),
        max_passes=500,
    )
    route = "streamed-gram" if loss == "squared" else "streamed-newton"
    assert found.converged and found.info["route"] == route
    assert found.objective - truth.objective <= 1e-7 * abs(truth.objective) * 1.01
    slack = 1e-12 * (1 + abs(truth.objective))
    assert found.objective - found.gap <= truth.objective + slack  # the bound is one
    assert found.n_passes <= 12


@pytest.mark.parametrize("loss", ["logistic", "huber"])
@pytest.mark.parametrize("columns", ["far from zero", "in any units"])
def test_a_small_file_is_fitted_whatever_the_units_of_its_columns(loss, columns):
    """Against the same rows centred, or in units of their own, in memory."""
    X, y, weight, offset = generated(loss, 250)
    scale, mean = np.ones(12), np.zeros(12)
    if columns == "in any units":
        scale = 2.0 ** np.linspace(-20, 20, 12).round()
    else:
        X, mean = np.round(X, 6), np.full(12, 1e6)
    given = {"on_coefficients": sa.L1(2e-3, weights=scale), "intercept": True}
    source = ArraySource(X * scale + mean, y, weight, offset)
    found = sa.minimize(sa.Problem.linear(LOSSES[loss], source, **given), max_passes=20)
    given["on_coefficients"] = sa.L1(2e-3)
    exact = (X * scale + mean - mean) / scale
    plain = sa.Problem.linear(LOSSES[loss], exact, y, sample_weight=weight, offset=offset, **given)
    best = sa.minimize(plain, stop=1e-10).objective
    assert found.converged
    assert -1e-9 * best <= found.objective - best <= found.gap + 1e-9 * best


def test_coefficients_that_may_not_be_negative_are_certified_over_a_file():
    """Rough models lead outside: they are worth what the point inside is."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((154, 11))
    y = np.sign(X @ rng.standard_normal(11) + rng.standard_normal(154))
    given = {
        "structure": sa.VStack([sa.Differences(11), sa.Identity(11)]),
        "intercept": True,
        "on_structure": sa.L1(1e-3),
        "on_coefficients": sa.NonNegative(),
    }
    found = sa.minimize(sa.Problem.linear(sa.Logistic(), ArraySource(X, y), **given))
    best = sa.minimize(sa.Problem.linear(sa.Logistic(), X, y, **given), "acc-sadmm", stop=1e-7)
    assert found.converged and found.n_passes <= 10
    assert found.objective <= best.objective + found.gap


@pytest.mark.parametrize("kind", ["csr", "npy", "raw csr", "float32", "parquet", "csv"])
def test_any_source_of_the_same_rows_gives_the_same_coefficients(kind, tmp_path):
    X, y, weight, _ = generated()
    X, y, weight = X.round(4), y, weight.round(4)
    reference = sa.minimize(
        stated("logistic", ArraySource(X, y, weight)), stop=sa.Gap(1e-10), memory=SMALL
    )
    if kind == "csr":
        source = ArraySource(sparse.csr_array(X), y, weight)
    elif kind == "npy":
        source = spill(ArraySource(X, y, weight), tmp_path)
    elif kind == "raw csr":
        source = spill(ArraySource(sparse.csr_array(X), y, weight), tmp_path)
    elif kind == "float32":
        source = ArraySource(X.astype(np.float32).astype(np.float64), y, weight)
    else:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.csv
        import pyarrow.parquet

        table = pa.table({**{f"x{j}": X[:, j] for j in range(X.shape[1])}, "y": y, "w": weight})
        if kind == "csv":
            pyarrow.csv.write_csv(table, tmp_path / "t.csv")
        else:
            pyarrow.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=999)
        source = sa.open(tmp_path / f"t.{kind}", "y", weight="w")
    found = sa.minimize(stated("logistic", source), stop=sa.Gap(1e-10), memory=SMALL)
    assert found.converged
    accuracy = 1e-5 if kind == "float32" else 1e-10
    np.testing.assert_allclose(found.coef, reference.coef, atol=accuracy)


class Cut:
    """A source whose rows are cut into other shards."""

    def __init__(self, source, count):
        from stochadmm.data._arrays import ArrayShard

        edges = np.linspace(0, source.n_rows, count + 1).astype(int)
        self.shards = [
            ArrayShard(int(a), int(b - a), source.X, source.y, source.weight, source.offset)
            for a, b in pairwise(edges)
        ]
        for name in ("n_rows", "n_columns", "dtype", "names", "fingerprint"):
            setattr(self, name, getattr(source, name))


class Served:
    """A shard that counts the rows it hands out."""

    def __init__(self, shard, count):
        self.shard, self.count = shard, count
        self.first, self.n_rows = shard.first, shard.n_rows

    def part(self, first, n_rows):
        return Served(self.shard.part(first, n_rows), self.count)

    def blocks(self, max_bytes):
        for block in self.shard.blocks(max_bytes):
            self.count.append(len(block))
            yield block


def serving(source):
    """Return a source that counts, and its counts."""
    counted, count = Cut(source, 3), []
    counted.shards = [Served(shard, count) for shard in counted.shards]
    return counted, count


@pytest.mark.parametrize("h2", [None, sa.L1(1e-3)])
@pytest.mark.parametrize("method", ["auto", "acc-sadmm", "svrg-admm"])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_passes_are_what_was_read_of_a_source_in_truth(loss, method, h2):
    X, y, weight, offset = generated(loss)
    source, count = serving(ArraySource(X, y, weight, offset))
    problem = stated(loss, source, on_coefficients=h2)
    found = sa.minimize(problem, method, stop=sa.Gap(1e-3), memory=SMALL)
    assert found.n_passes == pytest.approx(sum(count) / len(X), rel=1e-12)
    # the last look at the answer may read once more, and comes after the last record
    assert found.n_passes - 2 <= found.history[-1].passes <= found.n_passes


def test_strengths_of_a_path_count_the_reads_that_they_share_once():
    X, y, weight, _ = generated("squared")
    source, count = serving(ArraySource(X, y, weight))
    unit, workspace, said = stated("squared", source), Workspace(), []
    for strength in (1.0, 0.5):
        problem = at_strength(unit, strength)
        said.append(solve(problem, "auto", Request(), workspace.same_rows()).n_passes)
    assert sum(said) == pytest.approx(sum(count) / len(X), rel=1e-12) and said[1] == 1


def test_shards_and_sizes_of_blocks_do_not_matter():
    X, y, weight, offset = generated()
    whole = ArraySource(X, y, weight, offset)
    reference = sa.minimize(stated("logistic", whole), stop=sa.Gap(1e-9))
    for count in (1, 3, 8):
        found = sa.minimize(stated("logistic", Cut(whole, count)), stop=sa.Gap(1e-9))
        np.testing.assert_allclose(found.coef, reference.coef, atol=1e-10)


def test_bits_do_not_depend_on_the_number_of_workers():
    X, y, weight, offset = generated()
    problem = stated("logistic", Cut(ArraySource(X, y, weight, offset), 7))
    found = [
        sa.minimize(problem, stop=sa.Gap(1e-7), memory=SMALL, cluster=sa.cluster.Local(workers))
        for workers in (1, 2, 5)
    ]
    for other in found[1:]:
        assert other.coef.tobytes() == found[0].coef.tobytes()
        assert (other.objective, other.gap) == (found[0].objective, found[0].gap)


def test_processes_give_the_same_bits(tmp_path):
    X, y, weight, offset = generated(n=2000)
    source = spill(ArraySource(X, y, weight, offset), tmp_path)
    problem = stated("logistic", source)
    here = sa.minimize(problem, stop=sa.Gap(1e-6), memory=SMALL)
    there = sa.minimize(problem, stop=sa.Gap(1e-6), memory=SMALL, cluster=sa.cluster.Processes(2))
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown()  # other tests ask for processes of another kind
    assert here.coef.tobytes() == there.coef.tobytes()


@pytest.mark.parametrize("frame", [False, True])
def test_dask_collections_are_read_partition_by_partition(frame):
    pytest.importorskip("dask")
    import dask.array as da

    X, y, weight, _ = generated(n=3000)
    arrays = [da.from_array(X, chunks=(700, -1)), da.from_array(y, chunks=700)]
    weights = da.from_array(weight, chunks=700)
    if frame:
        dd = pytest.importorskip("dask.dataframe")
        arrays[0] = dd.from_dask_array(arrays[0], columns=[f"x{j}" for j in range(12)])
    problem = stated("logistic", *arrays, sample_weight=weights)
    assert isinstance(problem.f2, StreamedSum) and len(problem.f2.source.shards) == 5
    found = sa.minimize(problem, stop=sa.Gap(1e-8), memory=SMALL)
    reference = sa.minimize(
        stated("logistic", ArraySource(X, y, weight)), stop=sa.Gap(1e-8), memory=SMALL
    )
    np.testing.assert_allclose(found.coef, reference.coef, atol=1e-8)


def test_the_tangent_of_the_rest_lies_below_and_touches():
    X, y, weight, offset = generated("poisson", n=500)
    f2 = StreamedSum(sa.Poisson(), ArraySource(X, y, weight, offset), intercept=True)
    rng = np.random.default_rng(2)
    x = 0.3 * rng.standard_normal(13)
    sums = f2.run(x, coin=Coin(3, 0.2))
    rows = Sample.joined(sums.sample)
    assert 50 < len(rows.y) < 200
    below = tangent_term(f2, rows, sums, x, first_pass(f2))
    assert isinstance(below.loss, WithRest)
    assert below.value(x) == pytest.approx(f2.value(x), rel=1e-12)
    np.testing.assert_allclose(below.gradient(x), f2.gradient(x), atol=1e-12)
    for _ in range(20):
        other = x + rng.standard_normal(13)
        assert below.value(other) <= f2.value(other) + 1e-12


def test_a_sample_is_the_same_for_every_cut_and_sees_rare_columns():
    coin = Coin(5, 0.05, np.array([1.0, 1e-4]))
    assert np.array_equal(np.r_[coin.toss(0, 40), coin.toss(40, 60)], coin.toss(0, 100))
    X = np.zeros((1000, 2))
    X[:, 0], X[::100, 1] = 1.0, 1.0
    p = coin.probabilities(DenseRows(X))
    assert (p[::100] == 1.0).all() and 0.02 < p[1] < 0.06
    tossed = Coin(1, 0.5).toss(0, 100_000)
    assert abs(tossed.mean() - 0.5) < 0.005 and tossed.min() >= 0 and tossed.max() < 1


def test_missing_values_are_told_with_their_row(tmp_path):
    X, y, *_ = generated(n=300)
    X[123, 4] = np.nan
    source = spill(ArraySource(X, y), tmp_path)
    with pytest.raises(sa.DataError, match="row 123"):
        sa.minimize(stated("logistic", source))


def test_targets_outside_the_domain_of_the_loss_are_refused():
    X, y, *_ = generated(n=300)
    with pytest.raises(ValueError, match=r"-1|label"):
        sa.minimize(stated("logistic", ArraySource(X, (y > 0).astype(float))))


class Plain:
    """A user's loss without a conjugate."""

    curvature_bound = 1.0
    value = derivative = values = curvature = staticmethod(lambda z, y, weight=None: z)


class Single(Plain):
    """One with all that a single output needs."""

    conjugate = dual_step_limit = staticmethod(lambda u, *rest: u)


def test_what_a_source_cannot_serve_is_said_before_the_run():
    X, y, *_ = generated(n=300)
    source = ArraySource(X, y)
    with pytest.raises(ValueError, match="has its own"):
        stated("logistic", source, y)
    with pytest.raises(TypeError, match="cannot be streamed"):
        sa.Problem.linear(Plain(), source, on_coefficients=sa.L1(0.1))
    with pytest.raises(TypeError, match="2 outputs cannot be streamed"):
        several = ArraySource(X, np.column_stack([y, y]))
        sa.Problem.linear(Single(), several, on_coefficients=sa.L1(0.1))
    with pytest.raises(sa.solvers.Unsuitable, match="rows in files"):
        sa.minimize(stated("logistic", X, y), "streamed-newton")


@pytest.fixture
def wide_file(tmp_path):
    """Rows that take 19 MB in their file, and 38 in float64."""
    rng = np.random.default_rng(0)
    n, d = 120_000, 40
    X = rng.standard_normal((n, d)).astype(np.float32)
    y = np.sign(X[:, 0] + rng.logistic(size=n))
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    return sa.open(tmp_path / "X.npy", tmp_path / "y.npy")


@pytest.mark.parametrize("structure", ["columns", "chain"])
def test_rows_on_disk_are_never_all_in_memory(wide_file, structure):
    import tracemalloc

    penalty = (
        {"on_coefficients": sa.L1(1e-3)}
        if structure == "columns"
        else {"structure": sa.Differences(40), "on_structure": sa.L1(1e-3)}
    )
    problem = sa.Problem.linear(sa.Logistic(), wide_file, **penalty)
    tracemalloc.start()
    found = sa.minimize(problem, stop=sa.Gap(1e-6), memory="8MB", cluster=sa.cluster.Local(1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.converged and peak < 8e6


def test_samples_are_kept_in_the_type_of_the_rows(wide_file):
    f2 = StreamedSum(sa.Logistic(), wide_file, memory=1 << 22)
    sample = first_pass(f2).sample
    assert sample.rows.dtype == np.float32 and sample.y.dtype == np.float64
    assert f2.of_sample(sample, sample.weight).dtype == np.float64


@pytest.mark.parametrize(("text", "bytes_"), [("8MB", 8_000_000), (10_000_000, 10_000_000)])
def test_memory_is_read_as_people_write_it(text, bytes_):
    assert as_bytes(text) == bytes_


@pytest.mark.parametrize("text", ["much", "2 GBit", "1KB", -3])
def test_memory_without_meaning_is_refused(text):
    with pytest.raises(ValueError, match="memory is"):
        as_bytes(text)


@pytest.mark.parametrize("method", ["auto", "acc-sadmm", "streamed-newton"])
@pytest.mark.parametrize("loss", [sa.Squared(), sa.Huber(1.0), sa.Quantile(0.5, 0.1)], ids=str)
def test_a_large_mean_of_targets_does_not_excuse_a_bad_fit(loss, method):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 4))
    y = X @ np.array([1.0, -2.0, 0.0, 1.0]) + 0.3 * rng.standard_normal(3000)
    options = {"on_structure": sa.L1(0.03), "intercept": True}
    best = sa.minimize(sa.Problem.linear(loss, X, y, **options), stop=1e-8)
    far = sa.Problem.linear(loss, ArraySource(X, y + 1e6), **options)
    found = sa.minimize(far, method, memory=SMALL, max_passes=20)
    assert found.gap >= found.objective - best.objective - 1e-8 * best.objective
    if method == "auto":
        assert found.converged and found.n_passes <= 5
    if found.converged:
        assert found.objective <= best.objective * (1 + 2e-6)
        np.testing.assert_allclose(found.coef, best.coef, atol=2e-3)


def test_a_column_of_ones_is_as_honest_as_an_intercept():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 3)) + np.array([0.0, 0.0, 1e3])
    y = X @ np.array([1.0, -1.0, 0.0]) + 0.3 * rng.standard_normal(2000)
    best = sa.minimize(
        sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(0.05), intercept=True)
    ).objective
    rows = np.column_stack([X, np.ones(len(X))])
    for mean in (1e6, 1e8):
        source = ArraySource(rows, y + mean)
        free = sa.L1(0.05, np.array([1.0, 1.0, 1.0, 0.0]))
        problem = sa.Problem.linear(sa.Squared(), source, on_coefficients=free)
        found = sa.minimize(problem, max_passes=5 if mean > 1e6 else 100)
        assert found.gap >= found.objective - best - 1e-6 * best
        assert found.converged or mean > 1e6
        assert found.objective <= best * (1 + 2e-6) or not found.converged


def test_offsets_that_take_all_rows_far_out_are_undone_by_the_intercept():
    X, y, weight, offset = generated("logistic")
    plain = sa.minimize(stated("logistic", ArraySource(X, y, weight, offset)))
    found = sa.minimize(stated("logistic", ArraySource(X, y, weight, offset + 1e3)))
    assert found.converged and found.objective == pytest.approx(plain.objective, rel=1e-5)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_offsets_of_another_shape_are_refused_in_a_line(loss):
    X, y, weight, offset = generated(loss)
    source = ArraySource(X, y, weight, np.column_stack([offset, offset]))
    with pytest.raises(ValueError, match="one per prediction"):
        sa.minimize(stated(loss, source))
