"""Pictures show what they promise: names, masks, the start of a run, groups."""

import numpy as np
import pytest

import stochadmm as sa

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    matplotlib.pyplot.close("all")


def fitted(graph, columns, names=None):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, columns))
    y = X[:, : columns // 2].sum(axis=1)
    if names is not None:
        X = pytest.importorskip("pandas").DataFrame(X, columns=names)
    return sa.GraphFusedRegressor(graph=graph, alpha=0.1).fit(X, y)


def test_convergence_begins_with_the_run_and_ends_at_the_certificate():
    model = fitted([(0, 1), (2, 3)], 4)
    line = model.plot_convergence().lines[0]
    passes, gaps = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    assert passes[0] == 0 and len(passes) == 1 + len(model.history_)
    assert gaps[0] > 0.5  # the null model
    assert gaps[-1] <= model.tol and (gaps >= 0).all()


def test_a_masked_volume_is_drawn_as_slices_with_gaps_outside_the_mask():
    mask = np.ones((3, 4, 4), dtype=bool)
    mask[0, 0, 0] = False
    model = fitted(sa.Grid(mask.shape, mask=mask), int(mask.sum()))
    image = np.ma.filled(model.plot_coef_graph().images[0].get_array(), np.nan)
    assert image.shape == (9, 9)  # two by two slices, one cell between them
    inside = image[np.isfinite(image)]
    assert inside.size == mask.sum()
    np.testing.assert_allclose(np.sort(inside), np.sort(model.coef_))
    assert np.isnan(image[0, 0]) and np.isfinite(image[0, 1])


def test_a_chain_is_drawn_as_steps():
    model = fitted("chain", 4, names=list("abcd"))
    ax = model.plot_coef_graph()
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), model.coef_)
    assert [label.get_text() for label in ax.get_xticklabels()] == list("abcd")
    cut = fitted([("a", "b"), ("c", "d")], 4, names=list("abcd"))
    assert not cut.plot_coef_graph(positions=np.eye(4)[:, :2]).lines


def test_names_of_columns_are_written_beside_the_nodes():
    pytest.importorskip("networkx")
    model = fitted([("a", "b"), ("c", "d")], 4, names=list("abcd"))
    assert {text.get_text() for text in model.plot_coef_graph().texts} == set("abcd")
    own = model.plot_coef_graph(names=["w", "x", "y", "z"])
    assert {text.get_text() for text in own.texts} == set("wxyz")


def test_groups_are_drawn_longest_first_and_zero_ones_left_out():
    from stochadmm.plots import plot_groups

    coef = np.array([3.0, 4.0, 0.0, 1.0])
    ax = plot_groups(coef, {"long": [0, 1], "none": [2], "short": [3]})
    assert [label.get_text() for label in ax.get_yticklabels()] == ["short", "long"]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([1.0, 5.0])


def test_names_beside_nodes_do_not_cover_each_other():
    edges = np.column_stack([np.arange(29), np.arange(1, 30)])
    places = np.column_stack([np.zeros(30), np.linspace(0.0, 0.2, 30)])
    places[-1] = 1.0
    values = np.arange(1.0, 31.0)
    ax = sa.plots.plot_coef_graph(
        values, edges, positions=places, names=[f"gene {j}" for j in range(30)]
    )
    extents = [text.get_window_extent() for text in ax.texts]
    assert {"gene 29", "gene 28"} <= {text.get_text() for text in ax.texts}
    assert 2 <= len(extents) < 20
    assert not any(a.overlaps(b) for k, a in enumerate(extents) for b in extents[:k])
