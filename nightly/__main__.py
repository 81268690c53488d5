"""The attacks of one night, piece by piece, with a report.

    python -m nightly [--seed N] [--scale 1.0] [--only fuzz kills ...] [--out build/nightly]

A piece is one command of at most about 20 minutes on a core, and runs by itself too. What has
ended is kept in the folder: a second call with the same seed goes on where the first was stopped,
and another seed begins a new night. The seed is today's date unless it is given: fixed seeds stand
in the ordinary tests, fresh ones are for the night. Failures are printed with the command that
repeats them; `python -m nightly.keep FOLDER` adds them to `nightly/seeds.json`, which the ordinary
tests run ever after. `report.html` says what ran, how long, what failed, and what the last night
counted.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from string import Template

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Piece:
    """One command; ``{seed}``, ``{count}``, ``{out}`` and ``{first}`` are filled in."""

    name: str
    promise: str
    command: Sequence[str]
    count: int = 1
    """Trials of the whole night."""
    parts: int = 1
    """Into how many pieces they are cut."""


PYTHON = "{python}"
PIECES = (
    Piece(
        "soundness",
        "no gap is smaller than the distance to the optimum, no status is wrong",
        (
            PYTHON,
            "benchmarks/soundness.py",
            "--count",
            "{count}",
            "--seed",
            "{start}",
            "--out",
            "{out}",
        ),
        16_000,
        8,
    ),
    Piece(
        "near",
        "the same with columns that nearly repeat",
        (
            PYTHON,
            "benchmarks/soundness.py",
            "--near",
            "--count",
            "{count}",
            "--seed",
            "{start}",
            "--out",
            "{out}",
        ),
        4000,
        2,
    ),
    Piece(
        "general",
        "two-block problems agree with a conic solver, for every method",
        (
            PYTHON,
            "benchmarks/general.py",
            "--problems",
            "{count}",
            "--first",
            "{start}",
            "--out",
            "{out}/runs.csv",
        ),
        200,
        2,
    ),
    Piece(
        "map",
        "random combinations of loss, structure and shape are certified in 10 CPU seconds",
        (
            PYTHON,
            "benchmarks/map.py",
            "--count",
            "{count}",
            "--seed",
            "{seed}",
            "--resume",
            "{out}/map.jsonl",
        ),
        300,
    ),
    Piece(
        "lassos",
        "badly scaled lassos are solved, beside conic and quadratic solvers",
        (PYTHON, "-m", "nightly.lassos", "--count", "{count}", "--seed", "{seed}"),
        400,
    ),
    Piece(
        "fuzz",
        "damaged files end in an answer or in one line that names the file",
        (
            PYTHON,
            "-m",
            "nightly.fuzz",
            "--count",
            "{count}",
            "--first",
            "{first}",
            "--seed",
            "{seed}",
        ),
        200_000,
        10,
    ),
    Piece(
        "kills",
        "a killed run that is resumed gives the same bits",
        (
            PYTHON,
            "benchmarks/kills.py",
            "--small",
            "--moments",
            "{count}",
            "--out",
            "{out}/kills.json",
        ),
        500,
    ),
    Piece(
        "interrupts",
        "Ctrl-C is answered soon, by a result that is true",
        (PYTHON, "-m", "nightly.interrupts", "--count", "{count}", "--seed", "{seed}"),
        200,
    ),
    Piece(
        "faults",
        "a disk that fails leaves the old file or the new one",
        (PYTHON, "-m", "nightly.faults", "--count", "{count}", "--seed", "{seed}"),
        5000,
    ),
    Piece(
        "workers",
        "Dask workers that are killed change no bit, or are named",
        (
            PYTHON,
            "benchmarks/dask_fit.py",
            "kills",
            "--moments",
            "{count}",
            "--rows",
            "200000",
            "--out",
            "{out}/kills.json",
        ),
        50,
    ),
    Piece(
        "cold",
        "processes that start at once all give the same bits",
        (PYTHON, "-m", "nightly.cold", "--count", "{count}", "--seed", "{seed}"),
        32,
    ),
    Piece(
        "soak",
        "memory, descriptors and threads do not grow",
        (PYTHON, "-m", "nightly.soak", "--count", "{count}", "--seed", "{seed}"),
        400_000,
        6,
    ),
    Piece(
        "mutants",
        "small changes of the numerical rules are noticed by the tests",
        (
            PYTHON,
            "-m",
            "nightly.mutants",
            "--count",
            "{count}",
            "--seed",
            "{seed}",
            "--out",
            "{out}",
        ),
        300,
        3,
    ),
    Piece("slow", "the slow tests pass", (PYTHON, "-m", "pytest", "-q", "-n", "2", "-m", "slow")),
    Piece("hardware", "the tests pass as other processors round", ("make", "test-hardware")),
    Piece(
        "oldest",
        "a part of the tests passes with the oldest requirements",
        ("make", "test-oldest"),
    ),
    Piece("sdist", "tests pass from the source distribution", ("make", "test-sdist")),
    Piece("release", "wheel and source distribution install and work", ("make", "release-check")),
    Piece("sanitizers", "no undefined behaviour, no access out of bounds", ("make", "asan")),
    Piece("docs", "the documentation builds, its whole gallery runs", ("make", "docs")),
)


@dataclass
class Ended:
    """How a part of a piece ended."""

    code: int
    seconds: float
    trials: int
    failures: list[dict[str, object]]
    last: str


def run(piece: Piece, part: int, seed: int, scale: float, out: Path) -> Ended:
    """Run one part of a piece; its output goes to a file."""
    count = max(1, round(piece.count * scale / piece.parts))
    folder = out / f"{piece.name}-{part}"
    folder.mkdir(parents=True, exist_ok=True)
    filled = {
        "python": sys.executable,
        "count": str(count),
        "seed": str(seed + part),
        # numbers of problems of generators that have no seed beside them
        "start": str((seed % 100_000) * 100_000 + part * count),
        "first": str(part * count),
        "out": str(folder),
    }
    command = [word.format(**filled) for word in piece.command]
    began, log = time.perf_counter(), folder / "output.txt"
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with log.open("w", encoding="utf-8") as file:
        code = subprocess.run(
            command,
            cwd=ROOT,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | one,
            check=False,
        ).returncode
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    told = next((line for line in reversed(lines) if line.startswith("counts: ")), None)
    counts = json.loads(told.removeprefix("counts: ")) if told else {}
    words = [line for line in lines if line.strip() and not line.startswith("counts: ")]
    failures = counts.get("failures", [])
    if code != 0 and not failures:
        failures = [
            {"piece": piece.name, "what": " ".join(words[-1:])[:300] or f"exit code {code}"}
        ]
    return Ended(
        code,
        time.perf_counter() - began,
        counts.get("trials", count),
        failures,
        words[-1][:200] if words else "",
    )


def page(night: dict[str, object], before: dict[str, object] | None) -> str:
    """Return the report as a page."""
    rows = []
    ended: dict[str, dict[str, object]] = night["parts"]  # type: ignore[assignment]
    past: dict[str, dict[str, object]] = before["parts"] if before else {}  # type: ignore[assignment]
    for piece in PIECES:
        own = [
            ended[f"{piece.name}-{k}"] for k in range(piece.parts) if f"{piece.name}-{k}" in ended
        ]
        old = [
            past[f"{piece.name}-{k}"] for k in range(piece.parts) if f"{piece.name}-{k}" in past
        ]
        bad = [failure for part in own for failure in part["failures"]]  # type: ignore[attr-defined]
        state = "not run" if not own else "red" if bad or any(p["code"] for p in own) else "green"
        cells = [
            piece.name,
            piece.promise,
            state,
            f"{len(own)} of {piece.parts}",
            f"{sum(int(p['trials']) for p in own):,}",  # type: ignore[call-overload]
            f"{len(bad)}" if own else "",
            f"{sum(float(p['seconds']) for p in own) / 60:.1f}",  # type: ignore[arg-type]
            f"{sum(int(p['trials']) for p in old):,} / {sum(len(p['failures']) for p in old)}"
            if old
            else "",  # type: ignore[call-overload, arg-type]
        ]
        rows.append(
            f"<tr class='{state.replace(' ', '-')}'>"
            + "".join(f"<td>{html.escape(c)}</td>" for c in cells)
            + "</tr>"
        )
        rows += [
            f"<tr><td></td><td colspan=7><code>{html.escape(json.dumps(failure))}</code></td></tr>"
            for failure in bad[:20]
        ]
    headings = (
        "piece",
        "promise",
        "state",
        "parts",
        "trials",
        "failures",
        "minutes",
        "last night",
    )
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    return Template((ROOT / "nightly" / "report.html").read_text(encoding="utf-8")).substitute(
        seed=night["seed"],
        about=html.escape(
            f"Commit {night['commit']}, Python {platform.python_version()}, {machine}; "
            f"begun {night['begun']}, trials at {night['scale']} times the full count."
        ),
        head="".join(f"<th>{heading}</th>" for heading in headings),
        rows="\n".join(rows),
    )


def main() -> int:
    """Run what is missing, and write the report after every piece."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    today = int(datetime.now(UTC).strftime("%Y%m%d"))
    parser.add_argument("--seed", type=int, default=today, help="today's date by default")
    parser.add_argument("--scale", type=float, default=1.0, help="times the full counts")
    parser.add_argument("--only", nargs="*", choices=[p.name for p in PIECES], help="pieces")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "nightly")
    asked = parser.parse_args()
    out = asked.out.resolve() / str(asked.seed)
    out.mkdir(parents=True, exist_ok=True)
    state = out / "night.json"
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    night = {
        "seed": asked.seed,
        "scale": asked.scale,
        "commit": commit,
        "begun": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "parts": {},
    }
    if state.exists():
        night = json.loads(state.read_text(encoding="utf-8"))
        if (night["scale"], night["commit"]) != (asked.scale, commit):
            print(
                f"{out} is a night of {night['commit']} at scale {night['scale']}; "
                "give another --seed or --out"
            )
            return 2
    earlier = sorted(p for p in asked.out.glob("*/night.json") if p != state)
    before = json.loads(earlier[-1].read_text(encoding="utf-8")) if earlier else None
    print(f"night {asked.seed}: report in {out / 'report.html'}", flush=True)
    for piece in PIECES:
        if asked.only and piece.name not in asked.only:
            continue
        for part in range(piece.parts):
            name = f"{piece.name}-{part}"
            if name not in night["parts"]:
                ended = run(piece, part, asked.seed, asked.scale, out)
                night["parts"][name] = asdict(ended)
                fresh = state.with_suffix(".part")
                fresh.write_text(json.dumps(night, indent=1), encoding="utf-8")
                fresh.replace(state)
                (out / "report.html").write_text(page(night, before), encoding="utf-8")
            found = night["parts"][name]
            word = "red  " if found["code"] else "green"
            counts = re.sub(r"^[a-z]+: ", "", found["last"])
            print(f"{word} {name:14} {found['seconds']:7.0f} s  {counts}", flush=True)
            for failure in found["failures"][:20]:
                print(f"      {json.dumps(failure)}", flush=True)
    return 1 if any(part["code"] for part in night["parts"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
