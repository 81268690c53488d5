"""Time of full passes over the data with one and more threads.

    python benchmarks/threads.py [--threads 1,2] [--repeats 15] [--wait 60] [--small]

Generated rows in the shapes of covtype and MNIST, dense and sparse, one output and ten. For every
kind of pass the least of several repeats, in milliseconds, and the ratio to one thread; a repeat
times all numbers of threads one after the other, and results must be the same bits.

Another job on the cores would spoil the ratio. Before and after each repeat threads take sines of
a few numbers; where that shows a core missing, the repeat is left out. The last column says how
many were kept; for up to ``--wait`` seconds more are made until they are enough. With none kept
all are used. With ``--small``: one shape in growing sizes, which shows where threads begin to pay.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy import sparse

import stochadmm as sa
from stochadmm.linear_algebra import threads

OUTPUTS = 10
SHAPES = (
    ("covtype-like, 300,000 x 54", (300_000, 54), None),
    ("MNIST-like, 60,000 x 784", (60_000, 784), None),
    ("CSR, 300,000 x 1,000, 2 %", (300_000, 1000, 0.02), None),
    (f"multinomial {OUTPUTS}, 300,000 x 54", (300_000, 54), OUTPUTS),
    (f"multinomial {OUTPUTS}, 60,000 x 784", (60_000, 784), OUTPUTS),
    (f"multinomial {OUTPUTS}, CSR", (300_000, 1000, 0.02), OUTPUTS),
)


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
    u, v = f2.evaluate(x).derivative, rng.standard_normal(f2.n_features)
    curvature = rng.random(f2.n_terms)
    sample = np.sort(rng.permutation(f2.n_terms)[: 20 * f2.n_features])
    found = {
        "snapshot": lambda: f2.evaluate(x).gradient,
        "value": lambda: f2.value(x),
        "pull back": lambda: f2.pull_back(u),
    }
    if f2.n_outputs is None:
        found["Gram product"] = lambda: f2.gram_product(v)
        found["Gram matrix"] = lambda: f2.gram(curvature)
        found["sampled Hessian"] = lambda: f2.gram(curvature[sample], sample)
    return found


def milliseconds(call: Callable[[], object], n_threads: int) -> tuple[float, bytes]:
    with sa.use_threads(n_threads):
        start = time.perf_counter()
        result = call()
        return 1e3 * (time.perf_counter() - start), np.asarray(result).tobytes()


def sines() -> None:
    numbers = np.linspace(0.0, 1.0, 1 << 14)
    threads.run(lambda k: np.sin(numbers + k), range(32))


class Clock:
    """Times passes while nobody else uses the cores."""

    def __init__(self, numbers: list[int], repeats: int, wait: float) -> None:
        self.numbers, self.repeats, self.wait = numbers, repeats, wait
        self.alone = min(milliseconds(sines, 1)[0] for _ in range(50))

    def undisturbed(self) -> bool:
        most = max(self.numbers)
        return milliseconds(sines, most)[0] < 1.25 * self.alone / most

    def least(self, call: Callable[[], object]) -> tuple[list[float], int, int]:
        """Return the least time of every number, and how many repeats were kept and made."""
        kept, left_out, bits = [], [], set()
        end = time.perf_counter() + self.wait
        while len(kept) < self.repeats:
            before = self.undisturbed()
            found = [milliseconds(call, number) for number in self.numbers]
            bits |= {result for _, result in found}
            fine = before and self.undisturbed()
            (kept if fine else left_out).append([t for t, _ in found])
            made = len(kept) + len(left_out)
            if made >= self.repeats and time.perf_counter() > end:
                break
            if not fine:
                time.sleep(0.1)
        assert len(bits) == 1, "the number of threads changed a result"
        return np.min(kept or left_out, axis=0).tolist(), len(kept), len(kept) + len(left_out)

    def report(self, name: str, f2: sa.FiniteSum, only: str = "") -> None:
        for kind, call in passes(f2).items():
            if kind != (only or kind):
                continue
            call()
            times, kept, made = self.least(call)
            cells = [f"{t:.2f}" for t in times] + [f"{times[0] / t:.2f}" for t in times[1:]]
            print(f"| {name} | {kind} | {' | '.join(cells)} | {kept} of {made} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--wait", type=float, default=0.0)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    numbers = [int(k) for k in args.threads.split(",")]
    clock = Clock(numbers, args.repeats, args.wait)
    head = [f"{k} thread{'s' * (k > 1)}, ms" for k in numbers] + [f"1 / {k}" for k in numbers[1:]]
    print("| rows | pass | " + " | ".join(head) + " | kept |")
    print("|---|---|" + "--:|" * (len(head) + 1))
    if args.small:
        for n in (5000, 10_000, 20_000, 40_000, 80_000):
            clock.report(f"{n:,} x 54", data(rows(n, 54), None), "snapshot")
        return
    for name, shape, outputs in SHAPES:
        clock.report(name, data(rows(*shape), outputs))


if __name__ == "__main__":
    main()
