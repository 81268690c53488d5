"""Many processes that start at once: each imports, fits and ends with the same bits.

python -m nightly.cold [--count 32] [--seed 0]
"""

from __future__ import annotations

import subprocess
import sys
import time

from nightly import piece

FIT = """
import numpy as np, stochadmm as sa
rng = np.random.default_rng({seed})
X = rng.standard_normal((500, 20))
model = sa.FusedLassoRegressor(alpha=0.05).fit(X, X[:, 0])
assert model.status_ is sa.Status.CONVERGED
print(model.coef_.tobytes().hex())
"""


def main() -> int:
    """Start all, wait for all, compare."""
    asked, began = piece.arguments(__doc__.splitlines()[0], 32), time.perf_counter()
    code = FIT.format(seed=asked.seed)
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdout=-1, stderr=-1, text=True)
        for _ in range(asked.count)
    ]
    ends = [(process.communicate(), process.returncode) for process in started]
    first, failures = ends[0][0][0], []
    for number, ((out, err), code_) in enumerate(ends):
        if code_ != 0 or out != first or err:
            what = f"exit code {code_}, {err.strip()[-200:]!r}" if code_ or err else "other bits"
            failures.append({"piece": "cold", "seed": asked.seed, "number": number, "what": what})
    piece.report("cold", asked.count, failures, time.perf_counter() - began)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
