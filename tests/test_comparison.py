"""Methods compared on one problem: what is measured, what is tuned, who has won."""

from itertools import islice

import numpy as np
import pytest

import stochadmm as sa
from stochadmm import comparison


@pytest.fixture(scope="module")
def rows():
    data = sa.datasets.make_graph_fused(300, 8, n_levels=3, random_state=0)
    structure = sa.Incidence(data.graph, 8)
    return data.X, data.y, structure


@pytest.fixture(scope="module")
def problem(rows):
    X, y, structure = rows
    return sa.Problem.linear(sa.Logistic(), X, y, structure=structure, on_structure=sa.L1(1e-2))


@pytest.fixture(scope="module")
def found(problem):
    methods = {"acc": "acc-sadmm", "svrg": sa.SVRGADMM(beta=0.01), "auto": "auto"}
    return sa.compare(problem, methods, max_reads=12, seeds=2)


def objective(rows, w):
    X, y, structure = rows
    return np.mean(np.logaddexp(0.0, -y * (X @ w))) + 1e-2 * np.abs(structure.matvec(w)).sum()


def test_the_point_that_is_judged_is_the_output_of_the_method(found, problem, rows):
    for label, solver in (("acc", "acc-sadmm"), ("svrg", sa.SVRGADMM(beta=0.01))):
        for curve in found.curves[label]:
            steps = sa.iterate(problem, solver, curve.seed)
            for k, state in enumerate(islice(steps, len(curve.epoch) - 1), start=1):
                assert curve.objective[k] == pytest.approx(objective(rows, state.output.x2), 1e-12)
                assert curve.reads[k] == state.n_passes
                assert curve.gradients[k] == state.n_gradients


def test_gaps_are_to_an_optimum_that_others_find(found, problem, rows):
    cvxpy = pytest.importorskip("cvxpy")
    X, y, structure = rows
    w = cvxpy.Variable(8)
    loss = cvxpy.sum(cvxpy.logistic(-cvxpy.multiply(y, X @ w))) / len(y)
    D = structure.tosparse()
    model = cvxpy.Problem(cvxpy.Minimize(loss + 1e-2 * cvxpy.norm1(D @ w)))
    model.solve(solver="CLARABEL")
    assert found.value == pytest.approx(objective(rows, w.value), abs=1e-7)
    assert found.floor < 1e-6 * found.value
    for curves in found.curves.values():
        for c in curves:
            away = np.maximum(c.objective - found.value, found.floor)
            np.testing.assert_array_equal(c.gap, away)
            assert c.gap[0] == pytest.approx(np.log(2) - found.value)


def test_the_frame_is_tidy(found):
    frame = found.as_frame()
    assert list(frame) == [
        "method", "seed", "epoch", "reads", "gradients", "seconds", "objective", "gap",
    ]  # fmt: skip
    ends = frame.groupby(["method", "seed"]).last()
    assert len(ends) == 6
    assert (ends.loc["acc", "reads"] >= 12).all()
    assert (ends["seconds"] > 0).all()
    assert not frame.duplicated(["method", "seed", "epoch"]).any()


def test_a_method_that_needs_less_work_has_won_and_its_rival_has_lost(found):
    table = found.table(of="acc").set_index("against")
    assert list(table.index) == ["svrg", "auto"]
    assert table.loc["svrg", "reads"] == table.loc["svrg", "gradients"] == "won"
    assert table.loc["svrg", "times_reads"] > 1.26
    against = found.table(of="svrg").set_index("against")
    assert against.loc["acc", "reads"] == "lost"
    assert against.loc["acc", "times_reads"] == pytest.approx(1 / table.loc["svrg", "times_reads"])
    with pytest.raises(ValueError, match="no method 'sag'; known: acc, svrg, auto"):
        found.table(of="sag")


def test_one_seed_decides_nothing_and_is_drawn_dashed(problem):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    alone = sa.compare(problem, ["acc-sadmm", "auto"], max_reads=6, seeds=[7])
    assert list(alone.table()["reads"]) == ["one seed"]
    figure = alone.plot()
    assert [len(panel.lines) for panel in figure.axes] == [2, 2, 2]
    assert {line.get_linestyle() for line in figure.axes[0].lines} == {"--"}
    assert "n = 300, d = 8" in figure.get_suptitle() and "1 seed" in figure.get_suptitle()
    with pytest.raises(ValueError, match="no axis 'passes'"):
        alone.plot(["passes"])


def test_tuning_lowers_the_area_and_says_what_is_at_an_edge(problem):
    plain = sa.compare(problem, ["svrg-admm"], max_reads=9, seeds=[1000])
    tuned = sa.compare(problem, {"svrg": "svrg-admm"}, max_reads=9, seeds=[1000], tune=6)
    chosen = tuned.tuned["svrg"]
    assert chosen.n_candidates == 6
    assert set(chosen.values) == {"curvature", "beta"}
    assert chosen.area < plain.curves["svrg-admm"][0].area(9)
    assert chosen.area == tuned.curves["svrg"][0].area(9)  # the seed of tuning was asked for
    assert tuned.solvers["svrg"].beta == chosen.values["beta"]
    # six settings are too few to have neighbours of the choice on all four sides
    assert chosen.at_edge
    one = sa.compare(problem, {"svrg": sa.SVRGADMM(beta=0.01, curvature=0.3)}, max_reads=6, tune=6)
    assert one.tuned["svrg"].values == {} and one.tuned["svrg"].n_candidates == 1


def test_two_solvers_of_one_name_are_told_apart(problem):
    labels = comparison._labelled(["svrg-admm", sa.SVRGADMM(beta=2.0)])
    assert list(labels) == ["svrg-admm", "svrg-admm (beta=2.0)"]


@pytest.mark.parametrize(
    ("methods", "options", "message"),
    [
        ([], {}, "methods is empty"),
        (["acc-sdmm"], {}, "did you mean acc-sadmm"),
        (["acc-sadmm", "acc-sadmm"], {}, "named twice; give a dict"),
        (["acc-sadmm"], {"seeds": []}, "seeds is"),
        (["acc-sadmm"], {"seeds": 0}, "seeds is 0"),
        (["acc-sadmm"], {"max_reads": 0}, "max_reads is 0"),
        (["acc-sadmm"], {"tune": 0}, "tune is 0"),
        (["sampled-newton", "low-rank-newton"], {}, "cannot serve"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_line(problem, methods, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        sa.compare(problem, methods, **options)
    assert "\n" not in str(caught.value)


def run(rate, status="reads"):
    work = np.arange(0.0, 42.0, 2.0)
    gap = np.maximum(10.0 ** (-rate * work), 1e-12)
    return comparison.Curve(0, work, work, work, work / 10, gap, gap, 1e-12, status)


def test_a_rate_twice_as_high_needs_half_the_work():
    fast, slow = run(0.2), run(0.1)
    # gaps beyond the end of the slow run count as reached there, which favours it
    assert 1.4 < comparison.speed_up(fast, slow, "reads") <= 2.0
    # 0.1 powers of ten per unit of work, on average over 2 to 40
    assert comparison.advantage(fast, slow, "reads") == pytest.approx(2.1, rel=1e-6)
    assert comparison.advantage(fast, slow, "reads", at_end=True) == pytest.approx(4.0)
    product = comparison.speed_up(fast, slow, "seconds") * comparison.speed_up(
        slow, fast, "seconds"
    )
    assert product == pytest.approx(1.0)
    assert comparison.speed_up(run(0.2), run(0.2, "diverged"), "reads") > 1.0
