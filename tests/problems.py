"""Small problems with names, in one place: losses x penalties x shapes x where the rows live.

A test takes one by name, ``problems.make("logistic-fused")``, or all of them, ``problems.NAMES``.
Each is made anew on every call, from its own seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import sparse

import stochadmm as sa

MAKERS: dict[str, Callable[[np.random.Generator], sa.Problem]] = {}


def make(name: str) -> sa.Problem:
    """Return a problem by name."""
    return MAKERS[name](np.random.default_rng(sum(name.encode())))


def named(maker):
    """Make a problem known by the name of its function."""
    MAKERS[maker.__name__.replace("_", "-")] = maker
    return maker


def rows(rng, n=200, d=12, scale=1.0):
    """Return rows with correlated columns, and predictions by a piecewise constant vector."""
    X = rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((n, 1))
    w = np.repeat(rng.standard_normal(d // 3 + 1), 3)[:d]
    return X, scale * X @ w / np.sqrt(d)


def signs(z, rng):
    return np.where(z + rng.logistic(size=z.shape) > 0, 1.0, -1.0)


LOSSES = {
    "squared": (sa.Squared, lambda z, rng: z + 0.3 * rng.standard_normal(z.shape)),
    "logistic": (sa.Logistic, signs),
    "poisson": (sa.Poisson, lambda z, rng: rng.poisson(np.exp(z)).astype(float)),
    "gamma": (sa.Gamma, lambda z, rng: rng.gamma(2.0, np.exp(z) / 2)),
    "huber": (lambda: sa.Huber(0.3), lambda z, rng: z + 0.3 * rng.standard_t(2, z.shape)),
    "quantile": (
        lambda: sa.Quantile(0.3, 0.2),
        lambda z, rng: z + 0.5 * rng.standard_normal(z.shape),
    ),
    "multinomial": (
        lambda: sa.Multinomial(3),
        lambda z, rng: np.digitize(z + rng.logistic(size=z.shape), [-0.7, 0.7]),
    ),
}


def model(rng, loss, n=200, d=12, **parts):
    X, z = rows(rng, n, d)
    build, targets = LOSSES[loss]
    return sa.Problem.linear(build(), X, targets(z, rng), **parts)


# ---------------------------------------------------------------- seven losses, three penalties


def _of_loss(loss):
    def l1(rng):
        return model(rng, loss, on_coefficients=sa.L1(0.02), intercept=True)

    def fused(rng):
        return model(rng, loss, structure=sa.Differences(12), on_structure=sa.L1(0.01))

    def free(rng):
        return model(rng, loss, n=120, d=5, intercept=True)

    return {f"{loss}-l1": l1, f"{loss}-fused": fused, f"{loss}-unpenalized": free}


for _loss in LOSSES:
    MAKERS |= _of_loss(_loss)


# ---------------------------------------------------------------- other penalties and structures


@named
def squared_elastic_net(rng):
    return model(rng, "squared", on_coefficients=sa.ElasticNet(0.03, 0.6), intercept=True)


@named
def logistic_groups(rng):
    groups = sa.GroupL2(0.03, [3, 4, 2, 3])
    return model(rng, "logistic", on_coefficients=groups, intercept=True)


@named
def poisson_nonnegative_trend(rng):
    parts = {"structure": sa.Differences(12, order=2), "on_structure": sa.L1(0.02)}
    return model(rng, "poisson", on_coefficients=sa.NonNegative(), **parts)


@named
def squared_box(rng):
    return model(rng, "squared", on_coefficients=sa.Box(-0.2, 0.3), intercept=True)


@named
def squared_graph(rng):
    edges = [(i, j) for i in range(12) for j in range(i + 1, 12) if (i * j) % 5 == 1]
    return model(rng, "squared", structure=sa.Incidence(edges, 12), on_structure=sa.L1(0.02))


@named
def logistic_fused_and_sparse(rng):
    both = sa.VStack([sa.Differences(12), sa.Identity(12)])
    return model(rng, "logistic", structure=both, on_structure=sa.L1(0.01), intercept=True)


@named
def huber_total_variation(rng):
    return model(rng, "huber", on_coefficients=sa.TotalVariation1D(0.02))


@named
def logistic_weighted_l1(rng):
    """Two columns carry no penalty."""
    weights = np.r_[0.0, 0.0, np.full(10, 0.03)]
    return model(rng, "logistic", on_coefficients=sa.L1(1.0, weights), intercept=True)


# ---------------------------------------------------------------- weights, offsets, targets


@named
def logistic_sample_weights(rng):
    X, z = rows(rng)
    weight = rng.random(200) + (rng.random(200) > 0.2)
    weight[:20] = 0.0
    parts = {"on_coefficients": sa.L1(0.02), "intercept": True}
    return sa.Problem.linear(sa.Logistic(), X, signs(z, rng), sample_weight=weight, **parts)


@named
def poisson_exposure(rng):
    X, z = rows(rng)
    exposure = rng.normal(size=200)
    y = rng.poisson(np.exp(z + exposure)).astype(float)
    return sa.Problem.linear(
        sa.Poisson(), X, y, offset=exposure, on_coefficients=sa.L1(0.05), intercept=True
    )


@named
def squared_several_outputs(rng):
    X, z = rows(rng)
    Y = z[:, None] * np.array([1.0, -0.5, 0.0]) + 0.3 * rng.standard_normal((200, 3))
    return sa.Problem.linear(
        sa.Squared(), X, Y, structure=sa.Differences(12), on_structure=sa.L1(0.02)
    )


@named
def huber_several_outputs_groups(rng):
    X, z = rows(rng)
    Y = z[:, None] * np.array([1.0, -0.5]) + 0.3 * rng.standard_normal((200, 2))
    return sa.Problem.linear(sa.Huber(0.5), X, Y, on_coefficients=sa.RowsL21(0.03), intercept=True)


# ---------------------------------------------------------------- shapes and storage


@named
def logistic_wide(rng):
    X, z = rows(rng, 40, 90)
    return sa.Problem.linear(
        sa.Logistic(), X, signs(z, rng), structure=sa.Differences(90), on_structure=sa.L1(0.02)
    )


@named
def squared_wide(rng):
    X, z = rows(rng, 40, 90)
    return sa.Problem.linear(sa.Squared(), X, z, on_coefficients=sa.L1(0.05), intercept=True)


@named
def logistic_tall(rng):
    """Enough rows that a sample makes the Hessian, and a tenth of them the start."""
    return model(rng, "logistic", 25_000, 15, on_coefficients=sa.L1(0.002), intercept=True)


@named
def poisson_tall(rng):
    return model(
        rng, "poisson", 25_000, 12, structure=sa.Differences(12), on_structure=sa.L1(0.003)
    )


@named
def logistic_rare_columns(rng):
    """A column with twelve entries in twenty thousand rows, which a uniform sample would miss."""
    X, z = rows(rng, 20_000, 8)
    rare = np.zeros((20_000, 2))
    rare[rng.choice(20_000, 12, replace=False), 0] = 5.0
    rare[rng.choice(20_000, 40, replace=False), 1] = -3.0
    y = signs(z + rare.sum(axis=1), rng)
    return sa.Problem.linear(
        sa.Logistic(), np.hstack([X, rare]), y, on_coefficients=sa.L1(1e-4), intercept=True
    )


@named
def logistic_csr(rng):
    X = sparse.random_array((400, 60), density=0.1, random_state=rng, format="csr")
    y = signs(5 * (X @ rng.standard_normal(60)), rng)
    return sa.Problem.linear(
        sa.Logistic(), X, y, structure=sa.Differences(60), on_structure=sa.L1(0.002)
    )


@named
def squared_csr_l1(rng):
    X = sparse.random_array((400, 60), density=0.1, random_state=rng, format="csr")
    y = X @ rng.standard_normal(60) + 0.1 * rng.standard_normal(400)
    return sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(0.001), intercept=True)


@named
def logistic_float32(rng):
    X, z = rows(rng, 400)
    parts = {"structure": sa.Differences(12), "on_structure": sa.L1(0.01), "intercept": True}
    return sa.Problem.linear(sa.Logistic(), X.astype("f4"), signs(z, rng).astype("f4"), **parts)


@named
def squared_float32(rng):
    X, z = rows(rng, 400)
    y = (z + 0.3 * rng.standard_normal(400)).astype("f4")
    return sa.Problem.linear(sa.Squared(), X.astype("f4"), y, on_coefficients=sa.L1(0.02))


# ---------------------------------------------------------------- curvature that misleads


@named
def logistic_separable(rng):
    X, z = rows(rng)
    return sa.Problem.linear(sa.Logistic(), X, np.sign(z), on_coefficients=sa.L1(1e-4))


@named
def logistic_flat_start(rng):
    """Every row begins far into its flat tail: H has no curvature there."""
    X, z = rows(rng)
    far = np.full(200, 300.0)
    return sa.Problem.linear(
        sa.Logistic(), X, signs(z, rng), offset=far, on_coefficients=sa.L1(0.02), intercept=True
    )


@named
def poisson_large_counts(rng):
    """The first step overshoots: exp at its end is far above the model."""
    X, z = rows(rng)
    z = 5.0 * z / np.abs(z).max()
    return sa.Problem.linear(
        sa.Poisson(), X, rng.poisson(np.exp(z)).astype(float), on_coefficients=sa.L1(0.05)
    )


@named
def quantile_pieces(rng):
    """Rows with straight pieces: the curvature at the start says little of that at the end."""
    X, y = rng.standard_normal((25, 6)), 2 * rng.standard_t(2, 25)
    X[rng.random(X.shape) < 0.5] = 0
    both = sa.VStack([sa.Identity(6), sa.Differences(6)])
    return sa.Problem.linear(
        sa.Quantile(0.5, 0.02), X, y, structure=both, on_structure=sa.L1(0.01)
    )


# ---------------------------------------------------------------- rows that are read from a source


def _streamed(loss, **more):
    def build(rng):
        X, z = rows(rng, 1500, 8)
        kind, targets = LOSSES[loss]
        source = sa.data.ArraySource(X, targets(z, rng))
        parts = {"structure": sa.Differences(8), "on_structure": sa.L1(0.01)} | more
        return sa.Problem.linear(kind(), source, **parts)

    return build


MAKERS |= {
    "streamed-squared": _streamed("squared"),
    "streamed-logistic": _streamed("logistic"),
    "streamed-poisson": _streamed("poisson", intercept=True),
    "streamed-huber": _streamed("huber"),
    "streamed-multinomial": _streamed("multinomial"),
}


@named
def streamed_small_memory(rng):
    """The sample holds a part of the rows only: tangents stand for the others."""
    X, z = rows(rng, 40_000, 10)
    source = sa.data.ArraySource(X, signs(z, rng))
    parts = {"structure": sa.Differences(10), "on_structure": sa.L1(0.002)}
    problem = sa.Problem.linear(sa.Logistic(), source, **parts)
    return replace(problem, f2=problem.f2.with_memory(1 << 22))


NAMES = tuple(MAKERS)
