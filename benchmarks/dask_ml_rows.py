"""What dask-ml does with the rows of `out_of_core.py`: run by the Python that has it.

    PYTHON benchmarks/dask_ml_rows.py FOLDER LIMIT ALPHA SOLVER ITERATIONS

Its logistic regression has an l1 norm and no graph; the sum of the losses that it minimizes is
ours times the number of rows. Rows are read in pieces of 100,000 by two threads; LIMIT in bytes.
One line of JSON: coefficients with the intercept last, seconds, the largest memory of
the process.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from dask_ml.linear_model import LogisticRegression

PIECE = 100_000


def part(path: str, k: int) -> np.ndarray:
    """Read one piece of a file."""
    return np.array(np.load(path, mmap_mode="r")[k * PIECE : (k + 1) * PIECE])


def as_array(path: Path) -> da.Array:
    """Return a Dask array whose pieces are read when they are asked for."""
    whole = np.load(path, mmap_mode="r")
    read = dask.delayed(partial(part, str(path)), pure=True)
    firsts = range(0, len(whole), PIECE)
    shapes = [(min(PIECE, len(whole) - first), *whole.shape[1:]) for first in firsts]
    return da.concatenate(
        [da.from_delayed(read(k), shape, whole.dtype) for k, shape in enumerate(shapes)]
    )


def main() -> None:
    """Fit, and say what came out."""
    folder, limit, alpha = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    solver, iterations = sys.argv[4], int(sys.argv[5])
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    X, y = as_array(folder / "X.npy"), as_array(folder / "y.npy") > 0
    model = LogisticRegression(
        penalty="l1", C=1 / (alpha * len(X)), solver=solver, max_iter=iterations
    )
    began = time.perf_counter()
    with dask.config.set(scheduler="threads", num_workers=2):
        model.fit(X, y)
    seconds = time.perf_counter() - began
    coef = np.append(np.ravel(model.coef_), model.intercept_).tolist()
    status = Path("/proc/self/status").read_text().splitlines()
    peak = 1024 * int(next(line for line in status if line.startswith("VmHWM")).split()[1])
    print(json.dumps({"coef": coef, "seconds": seconds, "memory": peak}))


if __name__ == "__main__":
    main()
