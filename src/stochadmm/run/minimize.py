"""The public calls: minimize a problem, or step through it epoch by epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..base.capabilities import Has, offers
from ..base.validation import generator
from ..base.workspace import Workspace
from ..certificates.repair import wide
from ..cluster import Engine, EngineLost, use
from ..forms.equilibrate import equilibrated
from ..forms.summary import summarized
from ..kernels import extension
from ..problem import Problem
from ..risk import loss_of_rows
from ..risk.passes import counted_reads
from ..risk.streamed import StreamedSum, as_bytes
from ..solvers import State, as_solver
from .answer import result_of, start_in, start_without_rows, summary_result
from .loop import Callback, Request, Run, begin, epochs, go_on
from .monitor import infeasibility
from .result import Result
from .stopping import Rule, as_rule


def iterate(
    problem: Problem,
    solver: Any = "auto",
    random_state: Any = 0,
    *,
    start: Any = None,
    engine: str = "auto",
) -> Iterator[State]:
    """Run a method epoch by epoch, and yield its state after each, without end.

    Nothing is measured or certified: use it to look at the iterates of a method.

    Parameters
    ----------
    problem : Problem
        What to minimize.
    solver : str or solver object, default="auto"
        As in ``minimize``.
    random_state : int or Generator, default=0
        Seed of the random choices of the method.
    start : array, Pair, (Pair, dual), Result or State, optional
        Where to begin, as in ``minimize``; at zero by default. A state, of the same problem and
        method, is gone on with as if there had been no end, given the generator of then: one that
        was yielded, or ``solver.start(problem)``. It is changed; ``state.copy()`` keeps it.
        Both can be pickled.
    engine : {"auto", "compiled", "reference"}
        As in ``minimize``.

    Yields
    ------
    State
        Iterate ``x``, ``output`` (the point the method would return), dual variable ``dual``, and
        the counts ``n_epochs``, ``n_passes``. It is the same object every time: copy what you
        keep.

    Examples
    --------
    >>> from itertools import islice
    >>> import numpy as np, stochadmm as sa
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), np.eye(4), np.arange(4.0), on_coefficients=sa.L1(0.1)
    ... )
    >>> [state.n_epochs for state in islice(sa.iterate(problem, "acc-sadmm"), 3)]
    [1, 2, 3]
    """
    method = as_solver(solver)
    with extension.engine(engine):
        if isinstance(start, State):
            state = go_on(problem, method, start, engine)
        else:
            state = begin(problem, method, start, engine, Workspace())
    yield from epochs(problem, method, state, generator(random_state), engine)


def minimize(
    problem: Problem,
    solver: Any = "auto",
    *,
    stop: Rule | float | None = None,
    max_epochs: int | None = None,
    max_passes: float | None = None,
    max_seconds: float | None = None,
    start: Any = None,
    resume: Result | str | Path | bool | None = None,
    callback: Callback | None = None,
    random_state: Any = 0,
    engine: str = "auto",
    verbose: bool = False,
    resumable: bool = True,
    memory: int | str | None = None,
    cluster: Engine | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = 60.0,
) -> Result:
    """Minimize a problem to a certified duality gap.

    Ctrl-C ends the run and returns the best point measured so far, or the start if there is none,
    with the status ``INTERRUPTED``. A certificate of that point may still be computed; a second
    Ctrl-C skips it.

    Parameters
    ----------
    problem : Problem
        What to minimize.
    solver : str or solver object, default="auto"
        A name from ``solvers.names()`` or an object such as ``AccSADMM(beta=0.1)``.
    stop : stopping rule or float, optional
        ``Gap(1e-6)`` by default; a number is a relative gap.
    max_epochs : int, optional
        Limit in epochs of the method; none by default. With ``stop=Never()`` it runs exactly so
        many, and ``result.output`` is its last point.
    max_passes : float, optional
        Limit in reads (rows read / n); by default 100, and none where ``max_epochs`` is given.
    max_seconds : float, optional
        Limit in seconds of wall time; none by default. A certificate that would outlast it is not
        begun: the gap may then be infinite.
    start : array, Pair, (Pair, dual) or Result, optional
        Where to begin: x2 (coefficients, the intercept last), or both blocks, with a dual variable
        or without; it is copied. At zero by default.
    resume : Result, path or True, optional
        Continue the run that returned the result or wrote the checkpoint, as if it had not
        stopped. Problem and method must have the same content; stopping rule, limits and engine
        may differ. True continues from ``checkpoint`` if that exists, and otherwise begins a new
        run (at ``start``, if given).
    callback : callable, optional
        ``callback(record, state)`` is called after every measurement; the run stops if it returns
        true. It may look at the state, not change it.
    random_state : int or Generator, default=0
        Seed of the random choices of methods: mini-batches, samples of rows.
    engine : {"auto", "compiled", "reference"}
        "auto" uses compiled loops if every part allows them, "compiled" raises an error that
        names the part which does not, "reference" uses readable Python and NumPy only.
    verbose : bool, default=False
        Show a progress bar: passes, objective, gap, estimated time left.
    resumable : bool, default=True
        Let the result be resumed. It then holds a copy of the method's state, and rows in memory
        are read once more before the run, for their fingerprint.
    memory : int or str, optional
        Memory that the run may use in addition to the data, in bytes or as in ``"2GB"``; 256 MiB
        by default for rows that are read from a source. With rows in memory, methods with
        snapshots keep the derivatives of all rows if they fit (by default always), and otherwise
        compute those of a batch again.
    cluster : Engine, optional
        Where passes over a source run: ``stochadmm.cluster.Local()``, ``Processes(4)``,
        ``Dask(client)``, ``Ray()``; threads of this process by default.
    checkpoint : path, optional
        File to which the run is written between epochs and at its end, so that it can be resumed
        after a crash. It is replaced only when the next one is complete, and the one before is
        kept as ``NAME.old``. If the disk is full, there is a warning.
    checkpoint_every : float, default=60
        Seconds between two checkpoints; 0 writes one before every epoch.

    Returns
    -------
    Result
        The best certified point; ``status`` says how the run ended.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 0.0, 0.0, -0.5])
    >>> problem = sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(0.25))
    >>> sa.minimize(problem).coef.round(6)
    array([2., 0., 0., 0.])
    """
    if max_passes is None:
        max_passes = Request.max_passes if max_epochs is None else math.inf
    asked = Request(
        stop,
        max_passes,
        max_seconds,
        max_epochs,
        start,
        resume,
        callback,
        random_state,
        engine,
        verbose,
        resumable,
        checkpoint,
        checkpoint_every,
    )
    f2: Any = problem.f2
    if rows := loss_of_rows(f2):
        rows.check()  # arrays may have been changed in place
    if memory is not None and offers(f2, Has.MEMORY):
        problem = replace(problem, f2=f2.with_memory(as_bytes(memory)))
    with nullcontext() if cluster is None else use(cluster):
        return solve(problem, solver, asked, Workspace())


def solve(problem: Problem, solver: Any, asked: Request, workspace: Workspace) -> Result:
    """Solve a problem with what other runs have left in the workspace.

    Paths and folds hand the same one to all their runs; the answer does not depend on it.
    """
    method, rule, start = as_solver(solver), as_rule(asked.stop), asked.start
    try:
        # 1. Sums of products in place of rows that are read from files, where they will do
        whole = None
        if method.needs_no_rows and isinstance(problem.f2, StreamedSum):
            with counted_reads() as reads:
                whole = summarized(problem, workspace)
        if whole is not None:
            inside = replace(asked, start=start_without_rows(whole, start))
            found = solve(whole.problem, solver, inside, workspace)
            return summary_result(whole, found, rule, reads.rows / problem.f2.n_terms)
        if not problem.reducible:
            _check_solvable(problem, rule, workspace)
        # 2. Better units of the columns, and of the constraint where the method can have that
        units = equilibrated(problem, workspace=workspace)
        if units is not None and not method.serves(units.problem) and method.serves(problem):
            units = equilibrated(problem, rows=False, workspace=workspace)
            units = units if units is not None and method.serves(units.problem) else None
        if units is not None:
            problem, start = units.problem, start_in(units, start)
        # 3. The epochs, and the answer in the units of the user
        result = Run(problem, method, rule, asked, start, workspace).to_the_end()
        return result if units is None else result_of(units, result, rule)
    except EngineLost as error:
        path = asked.checkpoint
        remedy = "with checkpoint=PATH a run can be taken up again"
        if path is not None:
            remedy = f"it was lost before there was a checkpoint in {path}"
            if Path(path).exists():
                remedy = f"go on with resume='{path}' where there are workers again"
        raise EngineLost(f"{error}; {remedy}") from error


def _check_solvable(problem: Problem, rule: Rule, workspace: Workspace) -> None:
    """Refuse a constraint whose nearest pair misses it by more than the rule allows."""
    if problem.affine_set(workspace).inverse is None:
        return
    wanted = rule.wanted_gap()
    allowed = max(0.0 if wanted is None else wanted.tol, float(np.finfo(problem.dtype).eps) ** 0.5)
    missing = infeasibility(problem, problem.feasible(wide(problem.zeros()), workspace))[1]
    if missing > allowed:
        raise ValueError(
            f"A1 x1 + A2 x2 = b has no solution: the nearest pair has feasibility {missing:.2e}; "
            "change b, or leave out rows that contradict others"
        )
