"""Data sets and problems of the experiments."""

import dataclasses

import numpy as np
import pytest
from reproduction.tests.tiny import TINY, from_text
from scipy import sparse

import stochadmm as sa
from stochadmm_reproduction import config, problems, starts
from stochadmm_reproduction.datasets import on_disk, scale_columns
from stochadmm_reproduction.methods import Setting

pytest.importorskip("yaml")


def test_columns_are_scaled_before_rows():
    spec = config.DataSpec("generated", 50, rows=150)
    raw, scaled = (problems.sample(spec, True, kind).data.X for kind in ("raw", "columns"))
    spread = [np.ptp(np.log(np.square(X).mean(axis=0))) for X in (raw, scaled)]
    assert spread[1] < 0.5 * spread[0]
    np.testing.assert_allclose(np.square(scaled).sum(axis=1), 1.0)


def test_scaling_columns_keeps_sparse_rows_sparse_and_zeros_zero():
    X = sparse.csr_array(np.array([[2.0, 0.0, 0.0], [4.0, 0.0, 1.0]]))
    scaled, test = scale_columns(X, X[:1])
    root = np.sqrt(10.0)
    np.testing.assert_allclose(scaled.toarray(), [[2 / root, 0, 0], [4 / root, 0, 2**0.5]])
    np.testing.assert_allclose(test.toarray(), [[2 / root, 0, 0]])
    dense, _ = scale_columns(X.toarray(), None)
    np.testing.assert_allclose(dense, scaled.toarray())


@pytest.mark.parametrize("kind", ["dna", "features"])
def test_data_on_the_disk_are_the_same_whatever_the_interrupts(tmp_path, kind):
    def made(folder, say=lambda done, all: None):
        if kind == "dna":
            shape = on_disk.DnaShape(300, 60, 48, 3, 8, piece=64)
            return on_disk.dna_on_disk(folder, shape, say)
        return on_disk.features_on_disk(
            folder, on_disk.FeaturesShape(300, 60, 16, 5, 4, distance=5.0, piece=64), say
        )

    def stop(done, all):
        if done == 3:
            raise KeyboardInterrupt

    whole, calls = made(tmp_path / "whole"), []
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "cut", stop)
    again = made(tmp_path / "cut", lambda done, all: calls.append(done))
    assert calls == [4, 5, 6]
    for name in ("X", "X_test"):
        a, b = (getattr(d, name) for d in (whole, again))
        a, b = (x.toarray() if kind == "dna" else np.asarray(x) for x in (a, b))
        np.testing.assert_array_equal(a, b)
        norms = np.square(a.astype(float)).sum(axis=1)
        np.testing.assert_allclose(norms, 1.0, rtol=1e-3)
    np.testing.assert_array_equal(whole.y, again.y)
    made(tmp_path / "cut", lambda done, all: pytest.fail("made again"))
    on_disk.remove(tmp_path / "cut")
    assert list((tmp_path / "cut").iterdir()) == []


@pytest.mark.parametrize("n_features", [160, 320])
def test_classes_of_generated_features_overlap_whatever_the_number_of_features(
    tmp_path, n_features
):
    def error(distance):
        shape = on_disk.FeaturesShape(4000, 1000, n_features, 20, 8, 1.0, distance)
        data = on_disk.features_on_disk(tmp_path / f"{distance}", shape)
        X, X_test = (np.asarray(rows, dtype=float) for rows in (data.X, data.X_test))
        kinds = np.eye(20)[data.y]
        guess = np.argmax(X_test @ np.linalg.lstsq(X, kinds - 0.05, rcond=None)[0], axis=1)
        return np.mean(guess != data.y_test)

    assert error(None) < 0.1
    assert 0.3 < error(4.0) < 0.6


def test_a_disk_that_is_too_small_is_told_before_anything_is_written(tmp_path, monkeypatch):
    usage = on_disk.shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(on_disk.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OSError, match=r"0\.0 GB left, expected .* STOCHADMM_CACHE"):
        on_disk.dna_on_disk(tmp_path, on_disk.DnaShape(300, 60, 48, 3, 8, piece=64))
    assert not list(tmp_path.rglob("*.npy"))


@pytest.mark.parametrize(
    ("problem", "data"),
    [
        ("overlap", "overlapping-groups"),
        ("rows-and-rank", "digits"),
        ("smooth", "generated"),
        ("multitask", "digits"),
        ("lasso", "generated"),
    ],
)
def test_every_problem_has_a_certified_optimum(problem, data):
    text = TINY.replace("problem: fused", f"problem: {problem}").replace(
        "name: generated", f"name: {data}"
    )
    experiment = config._build(config.Experiment, from_text(text), "tiny")
    spec, variant = experiment.datasets[0], experiment.variants[0]
    rows = problems.sample(spec, quick=True)
    built = problems.build(experiment, spec, variant, rows)
    best = problems.optimum(built, 20)
    assert best.certified
    assert best.gap <= 1e-6 * best.value
    loss, _ = problems.test_losses(problems.held_out(experiment, rows), built.zeros().x2)
    assert loss > 0


def test_the_automatic_solver_starts_on_every_route():
    """What is tuned is a factor of a method's curvature, which its states need not have."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 800)), np.where(rng.random(60) > 0.5, 1.0, -1.0)
    structure = sa.VStack([sa.Differences(800), sa.Identity(800)])
    wide = sa.Problem.linear(sa.Logistic(), X, y, structure=structure, on_structure=sa.L1(1e-3))
    solver, state = starts.start("auto", wide, 10, Setting(), 5.0, rng)
    assert state.notes["route"] == "tied-newton"
    state = next(sa.iterate(wide, solver, rng, start=state))
    assert np.isfinite(wide.objective(state.output))


def test_a_column_in_no_group_is_a_group_by_itself():
    experiment = config.load("overlap", quick=True)
    spec, variant = experiment.datasets[0], experiment.variants[0]
    rows = problems.sample(spec, quick=True)
    first = dict([next(iter(rows.data.groups.items()))])
    few = dataclasses.replace(rows, data=dataclasses.replace(rows.data, groups=first))
    built = problems.build(experiment, spec, variant, few)
    seen = abs(built.A2.tosparse()).sum(axis=0)
    assert seen.tolist() == [1.0] * rows.data.X.shape[1]
    x = np.ones(built.shape2)  # no column is free
    assert built.h1.value(built.A2.matvec(x)) == pytest.approx(experiment.mu * len(x))


def test_an_optimum_that_is_known_well_enough_is_not_searched_for_ever(problem, monkeypatch):
    asked = []
    real = problems.minimize

    def coarse(*arguments, stop, max_seconds, **more):  # as if rounding allowed no more
        found = real(*arguments, stop=stop, max_seconds=max_seconds, **more)
        asked.append((stop.tol, max_seconds))
        return dataclasses.replace(found, gap=5e-9 * abs(found.objective))

    monkeypatch.setattr(problems, "minimize", coarse)
    best = problems.optimum(problem, 1000)
    assert [tol for tol, _ in asked] == [1e-8, 1e-10]
    assert asked[0][1] == 1000
    assert asked[1][1] < 100
    assert best.certified
    assert best.gap == pytest.approx(5e-9 * best.value)
