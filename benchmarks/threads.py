"""Time of full passes over the data with one and more threads.

    python benchmarks/threads.py [--threads 1,2] [--repeats 15] [--small]

Generated rows in the shapes of covtype and MNIST, dense and sparse, one output and ten. For every
kind of pass the least of several repeats, in milliseconds, and the ratio to one thread; the
repeats of the numbers of threads alternate, so that all meet the same machine. The first line
takes sines without any data: what the cores could give at that moment. Results must be the same
bits. With ``--small``: one shape in growing sizes, which shows where threads begin to pay.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy import sparse

import stochadmm as sa
from stochadmm import threads

OUTPUTS = 10


def rows(n: int, d: int, density: float | None = None):
    rng = np.random.default_rng(0)
    if density is None:
        return rng.standard_normal((n, d))
    return sparse.random_array((n, d), density=density, format="csr", rng=rng)


def data(X, outputs: int | None) -> sa.FiniteSum:
    rng = np.random.default_rng(1)
    if outputs is None:
        return sa.FiniteSum(sa.Logistic(), X, np.where(rng.random(X.shape[0]) < 0.5, -1.0, 1.0))
    return sa.FiniteSum(sa.Multinomial(outputs), X, rng.integers(outputs, size=X.shape[0]))


def passes(f2: sa.FiniteSum) -> dict[str, Callable[[], object]]:
    """Return what is timed, by name."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal(f2.shape) / np.sqrt(f2.n_features)
    u, v = f2.snapshot(x).slopes, rng.standard_normal(f2.n_features)
    curvature = rng.random(f2.n_terms)
    sample = np.sort(rng.permutation(f2.n_terms)[: 20 * f2.n_features])
    found = {
        "snapshot": lambda: f2.snapshot(x).gradient,
        "value": lambda: f2.value(x),
        "pull back": lambda: f2.pull_back(u),
    }
    if f2.n_outputs is None:
        found["Gram product"] = lambda: f2._gram_product(v)
        if f2.n_features <= 1000:
            found["Gram matrix"] = lambda: f2.gram(curvature)
            found["sampled Hessian"] = lambda: f2.gram(curvature[sample], sample)
    return found


def sines() -> float:
    numbers, total = np.linspace(0.0, 1.0, 1 << 14), []
    threads.run(lambda k: float(np.sin(numbers + k).sum()), range(128), total.append)
    return sum(total)


def least(call: Callable[[], object], numbers: list[int], repeats: int) -> list[float]:
    """Return the least milliseconds for every number of threads."""
    best, bits = [np.inf] * len(numbers), set()
    for _ in range(repeats):
        for k, number in enumerate(numbers):
            with sa.use_threads(number):
                start = time.perf_counter()
                result = call()
                best[k] = min(best[k], 1e3 * (time.perf_counter() - start))
            bits.add(np.asarray(result).tobytes())
    assert len(bits) == 1, "the number of threads changed a result"
    return best


def report(name: str, f2: sa.FiniteSum, numbers: list[int], repeats: int, only: str = "") -> None:
    for kind, call in passes(f2).items():
        if only and kind != only:
            continue
        call()
        times = least(call, numbers, repeats)
        show(name, kind, times)


def show(name: str, kind: str, times: list[float]) -> None:
    cells = " | ".join(f"{t:.2f}" for t in times)
    ratios = " | ".join(f"{times[0] / t:.2f}" for t in times[1:])
    print(f"| {name} | {kind} | {cells} | {ratios} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    numbers = [int(k) for k in args.threads.split(",")]
    head = [f"{k} thread{'s' * (k > 1)}, ms" for k in numbers] + [f"1 / {k}" for k in numbers[1:]]
    print("| rows | pass | " + " | ".join(head) + " |")
    print("|---|---|" + "--:|" * len(head))
    show("no rows", "sines", least(sines, numbers, args.repeats))
    if args.small:
        for n in (2500, 5000, 10_000, 20_000, 40_000, 80_000):
            report(f"{n:,} x 54", data(rows(n, 54), None), numbers, 10 * args.repeats, "snapshot")
        return
    for name, shape, outputs in (
        ("covtype-like, 300,000 x 54", (300_000, 54), None),
        ("MNIST-like, 60,000 x 784", (60_000, 784), None),
        ("CSR, 300,000 x 1,000, 2 %", (300_000, 1000, 0.02), None),
        (f"multinomial {OUTPUTS}, 300,000 x 54", (300_000, 54), OUTPUTS),
        (f"multinomial {OUTPUTS}, 60,000 x 784", (60_000, 784), OUTPUTS),
        (f"multinomial {OUTPUTS}, CSR", (300_000, 1000, 0.02), OUTPUTS),
    ):
        report(name, data(rows(*shape), outputs), numbers, args.repeats)


if __name__ == "__main__":
    main()
