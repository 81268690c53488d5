"""What all methods share: the state, the choice of engine, the registry of names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ..base.capabilities import fact, has_members, lacks, require
from ..base.clock import NEVER, Deadline
from ..base.immutable import copied, field_values
from ..base.names import did_you_mean
from ..base.protocols import Array
from ..base.validation import Unsuitable, real_array
from ..base.workspace import Workspace
from ..data import Source, decodes, in_parts
from ..problem import Pair, Problem
from ..risk import Evaluation, StreamedSum

ENGINES = ("auto", "compiled", "reference")
PROXES = {"h1": ("prox",), "h2": ("prox",)}
GRADIENT_CHANGES = ("gradient", "gradient_change", "lipschitz_max", "lipschitz_mean")
"""What most methods need of the penalties, and variance-reduced ones of the loss."""


@dataclass
class State:
    """Everything that changes while a method runs; saving it and the generator resumes a run.

    Methods add fields of their own: pairs, arrays, numbers, or ``None``.
    """

    x: Pair
    output: Pair
    """The point that the method returns if it stops now."""
    dual: Array
    """The multiplier estimate that belongs to ``output``."""
    beta: float
    ergodic: Pair | None = None
    n_epochs: int = 0
    n_passes: float = 0.0
    """Rows read / n."""
    n_gradients: float = 0.0
    """Component gradients / n, the unit of the papers."""
    engine: str = "reference"
    target: float | None = None
    """Relative gap that the run asks for; set by the driver."""
    bound: float | None = None
    """Lower bound on the optimal value, where the method finds its own."""
    own_bound: bool = False
    """Whether no certificate but the method's own is to be tried: another would cost more."""
    one_step: bool = False
    """Whether the first epoch should end the run, so that nothing is said of the start."""
    settled: bool = False
    """Whether rounding is what is left: an accepted answer is not worth more epochs."""
    exact: bool = False
    """Whether zeros and ties of the output are exact, so that none need be looked for."""
    cache: Evaluation | None = field(default=None, repr=False)
    """A pass over the data at ``output``, where the method has made one; never saved."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What was chosen and why, in words and numbers."""
    workspace: Workspace = field(default_factory=Workspace, repr=False)
    """What this run, and others beside it, have computed and may use again; never saved."""
    deadline: Deadline = NEVER
    """When inner loops should end; set by the driver."""

    def copy(self) -> State:
        """Return a state whose arrays are its own; what two fields share is copied once."""
        return copied(self)


S = TypeVar("S", bound=State)


def own_state(state: State, kind: type[S]) -> S:
    """Return a state as that of one method; raise where it is another's."""
    if not isinstance(state, kind):
        raise TypeError(
            f"the state is a {type(state).__name__}, expected a {kind.__name__}; go on with the "
            "method that made it"
        )
    return state


StateT = TypeVar("StateT", bound=State)


@dataclass(frozen=True)
class Solver(Generic[StateT]):
    """A method: parameters that never change, ``start`` and ``epoch`` on a state of its own type.

    ``needs`` names what each part of a problem must offer, ``why_not`` says what else is in the
    way; ``check`` raises before a run.
    """

    name: ClassVar[str] = ""
    has_kernel: ClassVar[bool] = False
    """Whether the method has a compiled loop."""
    draws_from_files: ClassVar[bool] = False
    """Whether batches may come from windows of rows in files."""
    needs_no_rows: ClassVar[bool] = False
    """Whether sums of products of rows in files serve as well as the rows, for a squared loss."""
    needs: ClassVar[dict[str, tuple[str, ...]]] = {}

    def start(
        self,
        problem: Problem,
        x: Pair | None = None,
        dual: Array | None = None,
        workspace: Workspace | None = None,
        deadline: Deadline = NEVER,
    ) -> StateT:
        """Return the state before the first epoch; nothing of the start is changed.

        It carries the workspace that it is given, or a new one; loops on the way to it end at the
        deadline.
        """
        point, multiplier = start_point(problem, x, dual)
        return self.begin(problem, point, multiplier, workspace or Workspace())

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> StateT:
        """Return the state before the first epoch, at a point and a multiplier of its own."""
        raise TypeError(f"{type(self).__name__} does not define `begin`")

    def epoch(self, problem: Problem, state: StateT, rng: np.random.Generator) -> None:
        """Advance the state by one epoch."""
        raise TypeError(f"{type(self).__name__} does not define `epoch`")

    def why_not(self, problem: Problem, workspace: Workspace | None = None) -> str | None:
        """Return in words why this method cannot serve a problem, None where it may."""
        return None

    def check(self, problem: Problem) -> None:
        """Raise `Unsuitable` when the problem lacks something this method needs."""
        reason = self.why_not(problem)
        if reason is not None:
            raise Unsuitable(f"{self.name} cannot serve this problem: {reason}; use 'auto'")
        streamed = problem.f2 if isinstance(problem.f2, StreamedSum) else None
        if streamed is not None and any(lacks(streamed, m) for m in self.needs.get("f2", ())):
            raise self._draws_rows()
        parts = field_values(problem)
        for part, members in self.needs.items():
            value = parts[part]
            for member in members:
                if lacks(value, member):
                    raise Unsuitable(
                        f"{self.name} needs `{member}` of {part} ({type(value).__name__}), which "
                        "it does not offer; choose another solver or add the method"
                    )
        if streamed is not None and "gradient_change" in self.needs.get("f2", ()):
            self._check_source(streamed.source)

    def serves(self, problem: Problem) -> bool:
        """Say whether `check` lets a problem pass."""
        try:
            self.check(problem)
        except Unsuitable:
            return False
        return True

    def _draws_rows(self) -> Unsuitable:
        return Unsuitable(
            f"{self.name} keeps numbers of every row, or draws rows one by one; over files "
            "use 'auto', 'acc-sadmm' or 'svrg-admm'"
        )

    def _check_source(self, source: Source) -> None:
        """Raise unless batches can be drawn from a source of rows."""
        if not self.draws_from_files:
            raise self._draws_rows()
        if not in_parts(source) and not decodes(source):
            raise Unsuitable(
                f"{self.name} draws rows at random, but {type(source).__name__} can only be "
                "read from beginning to end; use 'auto', or make fast files of it with "
                "stochadmm.data.spill(source, folder)"
            )


def _is_light(problem: Problem) -> bool:
    """Say whether a run keeps nothing per row and has several outputs.

    The readable loop then holds fewer arrays, and multiplies blocks of rows by BLAS.
    """
    return not fact(problem.f2, "keeps_rows") and len(problem.shape2) > 1


def choose_engine(
    problem: Problem, engine: str, has_kernel: bool = True, workspace: Workspace | None = None
) -> str:
    """Return "compiled" or "reference"; raise when the compiled one is demanded and impossible."""
    if engine not in ENGINES:
        raise ValueError(f"engine is {engine!r}, expected one of {', '.join(ENGINES)}")
    if engine == "reference" or (engine == "auto" and _is_light(problem)):
        return "reference"
    reason: str | None = "this method has no compiled loop"
    if has_kernel:
        from ..forms import compiled as views  # the extension is loaded on first use

        reason = views.why_not(problem, workspace)
    if reason is None:
        return "compiled"
    if engine == "compiled":
        raise ValueError(f"engine='compiled' is not possible: {reason}; use engine='auto'")
    return "reference"


def start_point(problem: Problem, x: Any, dual: Any) -> tuple[Pair, Array]:
    """Return copies of a start as given (nothing, an array x2, or a pair) and its multiplier."""
    if x is None:
        pair = problem.zeros()
    elif isinstance(x, Pair):
        pair = Pair(
            _shaped(x.x1, problem.shape1, problem, "start.x1"),
            _shaped(x.x2, problem.shape2, problem, "start.x2"),
        )
    else:
        x2 = _shaped(x, problem.shape2, problem, "start")
        pair = problem.feasible(Pair(problem.zeros().x1, x2)).copy()
    multiplier = (
        problem.zeros_dual()
        if dual is None
        else (_shaped(dual, problem.shape_dual, problem, "dual"))
    )
    return pair, multiplier


def _shaped(values: Any, shape: tuple[int, ...], problem: Problem, name: str) -> Array:
    array = real_array(values, name, problem.dtype)
    if array.shape != shape:
        raise ValueError(
            f"{name} has shape {array.shape}, expected {shape}; pass an array that fits"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinite values; start from finite numbers")
    return array


AnySolver = Solver[Any]
SolverClass = TypeVar("SolverClass", bound=type[AnySolver])
_registry: dict[str, Callable[..., AnySolver]] = {}


PARAMETER = re.compile(r"^ {4}(\w+) : .*(?:\n {8}.*)*", re.MULTILINE)
"""A parameter in the docstring of a class, and what is said of it."""


def register(cls: SolverClass) -> SolverClass:
    """Make a method known under its ``name``.

    Its docstring describes the parameters of its own; those that it shares with others are taken
    from the docstrings of its bases.
    """
    _registry[cls.name] = cls
    known: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        known |= {found[1]: found[0] for found in PARAMETER.finditer(base.__doc__ or "")}
    listed = "\n".join(known[each.name] for each in fields(cls) if each.name in known)
    head, examples, tail = (cls.__doc__ or "").partition("\n\n    Examples\n")
    if listed and examples:  # without docstrings (python -OO) there is nothing to complete
        summary = head.partition("\n\n    Parameters\n")[0]
        head = f"{summary}\n\n    Parameters\n    ----------\n{listed}"
        cls.__doc__ = head + examples + tail
    return cls


def register_as(name: str, make: Callable[..., AnySolver]) -> None:
    """Make a method known under a name, by what makes it with these parameters."""
    _registry[name] = make


def names() -> list[str]:
    """Return the names of all methods."""
    return sorted(_registry)


def get(name: str) -> Callable[..., AnySolver]:
    """Return what makes a method, by name; a wrong name lists the nearest ones."""
    if name not in _registry:
        hint = did_you_mean(name, _registry).replace("?", "? ")
        raise ValueError(f"unknown solver {name!r}; {hint}sa.solvers.names() lists all of them")
    return _registry[name]


def as_solver(solver: Any) -> AnySolver:
    """Return a solver object from an object, a class or a name."""
    if isinstance(solver, str):
        return get(solver)()
    if isinstance(solver, type):
        solver = solver()
    if isinstance(solver, Solver):
        return solver
    remedy = f"pass a name such as {names()[0]!r} or a solver object"
    require(solver, "solver", "start", "epoch", remedy=remedy)
    return OwnSolver(solver)


@dataclass(frozen=True)
class OwnSolver(Solver[State]):
    """A method of the user's own making: any object with ``start`` and ``epoch``."""

    method: Any

    def __fingerprint__(self) -> Any:
        return self.method

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the method, or of its class."""
        return str(getattr(self.method, "name", type(self.method).__name__))

    @property
    def has_kernel(self) -> bool:  # type: ignore[override]
        """Whether the method says that it has a compiled loop."""
        return bool(fact(self.method, "has_kernel"))

    def start(
        self,
        problem: Problem,
        x: Pair | None = None,
        dual: Array | None = None,
        workspace: Workspace | None = None,
        deadline: Deadline = NEVER,
    ) -> State:
        """Return the state before the first epoch."""
        state: State = self.method.start(problem, x, dual)
        return state

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Advance the state by one epoch."""
        self.method.epoch(problem, state, rng)

    def check(self, problem: Problem) -> None:
        """Ask the method, where it says something about that."""
        if has_members(self.method, "check"):
            self.method.check(problem)
