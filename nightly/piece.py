"""What every piece of the nightly program does alike: trials with numbers, in processes.

A trial is a function of a random generator that is made from (seed, number). It returns None, or
says in one line what went wrong. A failure is its number: the same seed and number repeat it.
Trials run in forked processes, so that a crash, an endless loop or an allocation without end is
seen and the next trial runs.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

Trial = Callable[[np.random.Generator], str | None]
SEEDS = Path(__file__).with_name("seeds.json")
"""Failures of the past, which the ordinary tests run ever after."""


def arguments(description: str, count: int) -> argparse.Namespace:
    """Read the options that all pieces have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--count", type=int, default=count, help="trials")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    return parser.parse_args()


def run(
    name: str,
    trial: Trial,
    asked: argparse.Namespace,
    *,
    seconds: float = 20.0,
    memory: float = 4e9,
    batch: int = 200,
) -> int:
    """Run trials, print a line per failure and the counts; return the exit code.

    ``seconds`` of processor time and ``memory`` in bytes are what one trial may take.
    """
    began, failures, number = time.perf_counter(), [], asked.first
    last = asked.first + asked.count
    while number < last:
        for done, wrong in _batch(
            trial, asked.seed, number, min(number + batch, last), seconds, memory
        ):
            if wrong is not None:
                failures.append({"piece": name, "seed": asked.seed, "number": done, "what": wrong})
                print(f"{name} --seed {asked.seed} --first {done} --count 1: {wrong}", flush=True)
            number = done + 1
    report(name, asked.count, failures, time.perf_counter() - began)
    return 1 if failures else 0


def report(name: str, trials: int, failures: list[dict[str, object]], seconds: float) -> None:
    """Print the last line of a piece, which the program reads."""
    counts = {"trials": trials, "failures": failures[:100], "seconds": round(seconds, 1)}
    print(f"{name}: {trials} trials, {len(failures)} failures, {seconds:.0f} s")
    print("counts: " + json.dumps(counts), flush=True)


def _batch(
    trial: Trial, seed: int, first: int, last: int, seconds: float, memory: float
) -> list[tuple[int, str | None]]:
    """Run some trials in one process; a trial that ends it is the last of the batch."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        faulthandler.disable()  # the parent says which trial it was
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
        resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 2)  # what libraries print about damaged input
        for number in range(first, last):
            signal.setitimer(signal.ITIMER_PROF, seconds)
            try:
                wrong = trial(np.random.default_rng([seed, number]))
            except BaseException as error:  # a defect, whatever it is
                wrong = f"raised {type(error).__name__}: {str(error)[:200]!r}"
            signal.setitimer(signal.ITIMER_PROF, 0)
            os.write(theirs, (json.dumps([number, wrong]) + "\n").encode())
        os._exit(0)
    os.close(theirs)
    text = bytearray()
    while chunk := _read(ours):
        text += chunk
    os.close(ours)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    done = [tuple(json.loads(line)) for line in text.decode().splitlines()]
    if len(done) < last - first:
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        why = f"used {seconds:g} s of processor time" if name == "SIGPROF" else f"died: {name}"
        done.append((first + len(done), why))
    return done


def _read(pipe: int) -> bytes:
    select.select([pipe], [], [])
    return os.read(pipe, 1 << 16)


def main(name: str, trial: Trial, description: str, count: int, **limits: float) -> None:
    """Run a piece from the command line."""
    sys.exit(run(name, trial, arguments(description, count), **limits))
