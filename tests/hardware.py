"""Run the numerical tests as other processors would: ``make test-hardware``.

OpenBLAS, NumPy and the kernels each choose code by the processor. Each setting below makes them
choose as another model would, in an order and with a hash seed of its own: sums are then rounded
in another way, and a test that depends on it fails here before it fails on somebody's machine.
Models that this build or this processor does not have are skipped, with the reason.

    python tests/hardware.py [--short] [--models Haswell,Prescott] [-- arguments for pytest]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
# files, names, pages and foreign packages: no number in them depends on the processor
OTHER = (
    "claims",
    "cli",
    "cli_fit",
    "configs",
    "datasets",
    "docs",
    "estimators_ecosystem",
    "examples",
    "files",
    "fingerprint",
    "peers",
    "published",
    "report",
    "result",
    "search",
    "tuning",
    "validation",
)
# what most of the rest is made of, within the ten minutes of continuous integration
SHORT = (
    "certificates",
    "dense",
    "driver",
    "equilibrate",
    "exact",
    "finite_sum",
    "general",
    "losses",
    "metrics",
    "operators",
    "penalties",
    "quadratic",
    "resume",
)
PROBE = """
import json, numpy as np
from scipy import linalg
from threadpoolctl import threadpool_info
rng = np.random.default_rng(0)
for dtype in (np.float32, np.float64):
    A = rng.standard_normal((300, 200)).astype(dtype)
    G = A.T @ A
    linalg.cho_factor(G); np.linalg.eigh(G); linalg.blas.dsyrk(1.0, A); G @ A[0, :200]
found = [i["architecture"] for i in threadpool_info() if i["internal_api"] == "openblas"]
print(json.dumps(sorted(set(found))))
"""


@dataclass(frozen=True)
class Setting:
    """Variables that make the libraries choose other code."""

    name: str
    variables: dict[str, str]


MODELS = {
    name: Setting(name, {"OPENBLAS_CORETYPE": name})
    for name in ("Haswell", "SkylakeX", "Zen", "Sandybridge", "Nehalem")
}
# the oldest: nothing wider than 128 bits, in BLAS, in NumPy and in the kernels
MODELS["Prescott"] = Setting(
    "Prescott",
    {
        "OPENBLAS_CORETYPE": "Prescott",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4",
        "STOCHADMM_KERNELS": "base",
    },
)
SHORT_MODELS = ("Sandybridge", "Prescott")


def environment(setting: Setting | None) -> dict[str, str]:
    one = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
    return os.environ | one | ({} if setting is None else setting.variables)


def probe(setting: Setting | None) -> tuple[list[str], str]:
    """Return the kernels that OpenBLAS chooses, or why the setting cannot be tried."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROBE],
        env=environment(setting),
        capture_output=True,
        text=True,
    )
    if run.returncode < 0:
        return [], "this processor lacks its instructions"
    if run.returncode:
        return [], (run.stderr.strip().splitlines() or ["it failed"])[-1]
    return json.loads(run.stdout), ""


def chosen(names: list[str]) -> list[Setting]:
    """Return the settings that make a difference here; say what is left out and why."""
    usual, _ = probe(None)
    print(f"this processor: {', '.join(usual) or 'no OpenBLAS'}")
    taken: dict[tuple[str, ...], str] = {}
    found = []
    for name in names:
        kernels, reason = probe(MODELS[name])
        key = tuple(kernels)
        if not reason and not kernels:
            reason = "NumPy and SciPy do not use OpenBLAS"
        elif not reason and kernels == usual and name not in usual:
            reason = f"not in this build of OpenBLAS, which takes {kernels[0]}"
        elif not reason and key in taken:
            reason = f"the same kernels as {taken[key]}"
        if reason:
            print(f"{name}: skipped, {reason}")
            continue
        taken[key] = name
        found.append(MODELS[name])
    return found


def numerical(short: bool) -> list[str]:
    """Return the test files whose numbers may depend on rounding."""
    # files of different folders may have the same name: all of them count
    named = [(path.stem.removeprefix("test_"), path) for path in sorted(HERE.rglob("test_*.py"))]
    return [str(path) for name, path in named if (name in SHORT if short else name not in OTHER)]


def run(setting: Setting, seed: int, files: list[str], rest: list[str]) -> bool:
    """Run the tests under one setting; return whether all passed."""
    print(f"\n{setting.name}, order and hash seed {seed}", flush=True)
    began = time.perf_counter()
    order = ["--random-order", f"--random-order-seed={seed}"]
    call = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "not slow", *order]
    done = subprocess.run(
        [*call, *files, *rest], env=environment(setting) | {"PYTHONHASHSEED": str(seed)}
    )
    print(
        f"{setting.name}: {'passed' if done.returncode == 0 else 'FAILED'} "
        f"in {time.perf_counter() - began:.0f} s",
        flush=True,
    )
    return done.returncode == 0


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="two models, the basic files")
    parser.add_argument("--models", help=f"of {', '.join(MODELS)}; separated by commas")
    parser.add_argument("--seed", type=int, default=1, help="of the order and of hashes")
    parser.add_argument("rest", nargs="*", help="arguments for pytest, after --")
    given = parser.parse_args()
    names = given.models.split(",") if given.models else list(MODELS)
    if given.short and not given.models:
        names = list(SHORT_MODELS)
    if unknown := [name for name in names if name not in MODELS]:
        parser.error(f"there is no model {unknown[0]!r}; known: {', '.join(MODELS)}")
    settings, files = chosen(names), numerical(given.short)
    if not settings:
        print("no other processor model can be tried here")
        return 0
    results = [
        run(setting, given.seed + k, files, given.rest) for k, setting in enumerate(settings)
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
