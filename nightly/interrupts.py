"""Ctrl-C at random moments: the run ends soon, with a result that is true or a KeyboardInterrupt.

python -m nightly.interrupts [--count 200] [--seed 0]
"""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np

import stochadmm as sa
from nightly import piece

ANSWER = 1.5
"""Seconds of processor time within which a run must answer."""


def problem(rng: np.random.Generator) -> tuple[sa.Problem, str]:
    """Return a problem that takes about a second, and a method."""
    n, d = int(rng.choice([2000, 20_000])), int(rng.choice([30, 200]))
    X = rng.standard_normal((n, d))
    y = np.where(X[:, 0] + rng.logistic(size=n) > 0, 1.0, -1.0)
    loss = [sa.Logistic(), sa.Squared()][int(rng.integers(2))]
    parts = [
        {"structure": sa.Differences(d), "on_structure": sa.L1(1e-3)},
        {"on_coefficients": sa.L1(1e-3)},
    ]
    method = ["auto", "acc-sadmm", "svrg-admm", "sampled-newton"][int(rng.integers(4))]
    return sa.Problem.linear(loss, X, y, **parts[int(rng.integers(2))]), method


def trial(rng: np.random.Generator) -> str | None:
    """Interrupt one run and judge what it returns."""
    p, method = problem(rng)
    begun, sent = time.process_time(), [0.0]
    delay = float(rng.exponential(0.15))

    def strike() -> None:
        time.sleep(delay)
        sent[0] = time.process_time()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=strike)
    found = None
    try:
        thread.start()
        found = sa.minimize(p, method, stop=sa.Never(), max_passes=10_000, max_seconds=60)
        thread.join()  # an interrupt after the end belongs to the caller
        time.sleep(0.05)  # and may come a moment after it was sent
    except KeyboardInterrupt:
        pass
    took = time.process_time() - (sent[0] or begun)
    thread.join()
    if took > ANSWER:
        return f"{method}: answered after {took:.1f} s"
    if found is None or found.status is not sa.Status.INTERRUPTED:
        return None
    value = p.objective(p.feasible(sa.Pair(p.zeros().x1, found.coef)))
    if not np.isclose(value, found.objective, rtol=1e-9):
        return f"{method}: objective {found.objective!r} is reported, {value!r} is true"
    best = sa.minimize(p, stop=sa.Gap(1e-9), max_seconds=20).objective
    if found.gap is not None and found.gap < found.objective - best - 1e-9 * abs(best):
        return f"{method}: gap {found.gap!r}, but {found.objective - best!r} is left"
    return None


if __name__ == "__main__":
    piece.main("interrupts", trial, __doc__.splitlines()[0], 20, batch=20, seconds=90.0)
