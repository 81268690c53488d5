"""Objects as JSON and arrays, and back, without pickle.

Numbers, texts, containers, arrays and sparse matrices are written as they are; objects of known
packages by class and fields; parts of *roots*, objects that the reader has too, by their place in
them. Objects with a recipe (``__recipe__`` returns arguments, the class method ``__made__`` takes
them and a workspace) are made again from its arguments, and what is inside of them counts as their
part. What is held twice is written once. Reading calls no code but recipes.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .capabilities import has_members
from .clock import NEVER, Deadline
from .immutable import attributes
from .workspace import Workspace

OWN = "stochadmm"
SIMPLE = (types.NoneType, bool, int, float, str)
"""What JSON keeps as it is, by exact type."""
SPARSE = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "coo": ("data", "coords"),
    "dia": ("data", "offsets"),
}
"""The arrays of sparse matrices by format."""
MATRICES = (
    sparse.csr_array,
    sparse.csr_matrix,
    sparse.csc_array,
    sparse.csc_matrix,
    sparse.coo_array,
    sparse.coo_matrix,
    sparse.dia_array,
    sparse.dia_matrix,
)


CACHE = {"written": False}
"""Metadata of fields that are computed again with the same bits: their default is read."""


def is_simple(value: object) -> bool:
    """Say whether JSON keeps a value as it is."""
    return type(value) in SIMPLE


class Unwritable(TypeError):
    """An object that can neither be written nor made again."""


class Writer:
    """Describes objects by what JSON can hold, arrays apart.

    Parameters
    ----------
    roots : dict
        Objects by name that the reader will have, with the same content.
    trusted : tuple of str
        Modules whose classes may be named beside those of the package.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.base.serialize import Reader, Writer
    >>> data = np.arange(6.0)
    >>> writer = Writer({"data": [data]})
    >>> text = writer.describe({"rows": data, "half": data / 2, "seen": (1, None)})
    >>> len(writer.arrays)
    1
    >>> Reader({"data": [data]}, writer.arrays).value(text)["rows"] is data
    True
    """

    def __init__(self, roots: Mapping[str, Any], trusted: tuple[str, ...] = ()) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self._trusted = trusted
        self._known: dict[int, Any] = {}
        """Descriptions of objects that need not be written again."""
        self._held: list[Any] = []
        """The objects themselves: no other may get their number."""
        self._count = 0
        for name, root in roots.items():
            self._register(root, ["root", name])

    def describe(self, value: Any, place: str = "") -> Any:
        """Return what JSON can hold of a value; ``place`` names it in messages."""
        if is_simple(value):
            return value
        found = _constant(value)
        if found is not None:
            return found
        if id(value) in self._known:
            return {"at": self._known[id(value)]}
        self._count += 1
        number = self._count
        self._known[id(value)] = ["made", number]
        self._held.append(value)
        return {"no": number, **self._content(value, place)}

    def _register(self, top: Any, at: list[Any]) -> None:
        """Let a root and all that is inside of it be known by place."""
        waiting = [(top, at)]
        while waiting:
            value, place = waiting.pop()
            if is_simple(value) or id(value) in self._known or _constant(value) is not None:
                continue
            self._known[id(value)] = place
            self._held.append(value)
            waiting += [(child, [*place, *step]) for step, child in _children(value)]

    def _content(self, value: Any, place: str) -> dict[str, Any]:
        if sparse.issparse(value):
            matrix: Any = value
            if matrix.format not in SPARSE:
                raise Unwritable(
                    f"{place or 'a matrix'} has the format {matrix.format}, expected CSR"
                )
            parts = [self.describe(getattr(matrix, name), place) for name in SPARSE[matrix.format]]
            return {"sparse": type(matrix).__name__, "shape": list(matrix.shape), "parts": parts}
        match value:
            case np.ndarray():
                return {"array": self._array(value, place), "fixed": not value.flags.writeable}
            case list() | tuple():
                parts = [self.describe(part, f"{place}[{k}]") for k, part in enumerate(value)]
                if type(value) in (list, tuple):
                    return {type(value).__name__: parts}
                return {"named": self._class(type(value), place), "items": parts}
            case dict():
                pairs = value.items()
                return {
                    "dict": [
                        [self.describe(k, place), self.describe(v, f"{place}[{k!r}]")]
                        for k, v in pairs
                    ]
                }
            case frozenset():  # in an order that does not depend on hashes
                parts = [self.describe(part, place) for part in sorted(value, key=str)]
                return {"frozenset": parts}
            case bytes():
                return {"bytes": self._array(np.frombuffer(value, np.uint8), place)}
            case slice():
                ends = (value.start, value.stop, value.step)
                return {"slice": [self.describe(end, place) for end in ends]}
            case types.MethodType():
                return {"method": value.__name__, "of": self.describe(value.__self__, place)}
            case _:
                return self._object(value, place)

    def _array(self, value: NDArray[Any], place: str) -> str:
        """Put an array beside the text, and return its name."""
        if value.dtype.hasobject:
            raise Unwritable(f"{place or 'an array'} holds Python objects, expected numbers")
        name = f"a{len(self.arrays)}"
        self.arrays[name] = np.asarray(value)
        return name

    def _class(self, cls: type, place: str) -> str:
        """Return the name of a class; raise where its objects cannot be made again."""
        if not _is_known(cls, self._trusted):
            raise Unwritable(
                f"{place or 'the state'} is a {cls.__module__}.{cls.__qualname__}, which cannot "
                "be written"
            )
        return f"{cls.__module__}:{cls.__qualname__}"

    def _object(self, value: Any, place: str) -> dict[str, Any]:
        name = self._class(type(value), place)
        if has_members(value, "__recipe__"):
            parts = value.__recipe__()
            made_of = [self.describe(part, f"{place}({k})") for k, part in enumerate(parts)]
            inside = self._known[id(value)]
            for step, child in _children(value):
                self._register(child, [*inside, *step])
            return {"made": name, "of": made_of}
        caches = _caches(type(value))
        held = {k: v for k, v in _fields(value).items() if k not in caches}
        return {
            "object": name,
            "fields": {k: self.describe(v, f"{place}.{k}") for k, v in held.items()},
        }


class Reader:
    """Makes objects of the descriptions of a `Writer`.

    Parameters
    ----------
    roots : dict
        Objects by name, with the content of those of the writer.
    arrays : dict
        The writer's.
    workspace : Workspace, optional
        What stands for all workspaces.
    trusted : tuple of str
        Modules whose classes may be made beside those of the package.
    """

    def __init__(
        self,
        roots: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        workspace: Workspace | None = None,
        trusted: tuple[str, ...] = (),
    ) -> None:
        self._roots, self._arrays, self._trusted = roots, arrays, trusted
        self._workspace = workspace or Workspace()
        self._made: dict[int, Any] = {}

    def value(self, text: Any) -> Any:
        """Return the object of a description; `ValueError` where it is none."""
        if is_simple(text):
            return text
        if type(text) is not dict:
            raise ValueError("a description is missing")
        if "at" in text:
            return self._place(text["at"])
        if "no" not in text:
            return self._constant(text)
        made = self._made[text["no"]] = self._content(text, text["no"])
        return made

    def _place(self, place: list[Any]) -> Any:
        kind, name, *steps = place
        found = self._roots[name] if kind == "root" else self._made[name]
        for how, step in zip(steps[::2], steps[1::2], strict=True):
            found = found[step] if how == "item" else getattr(found, step)
        return found

    def _constant(self, text: dict[str, Any]) -> Any:
        if "scalar" in text:
            return np.dtype(text["scalar"]).type(text["value"])
        if "dtype" in text:
            return np.dtype(text["dtype"])
        if "workspace" in text:
            return self._workspace.shared if text["workspace"] == "leaf" else self._workspace
        if "deadline" in text:
            return NEVER
        if "enum" in text:
            return self._class(text["enum"])[text["value"]]
        raise ValueError("a description without a number")

    def _class(self, name: str) -> Any:
        module, _, path = name.partition(":")
        found: Any = sys.modules.get(module)
        for part in path.split("."):
            found = vars(found).get(part) if found is not None else None
        if not isinstance(found, type) or not _is_known(found, self._trusted):
            raise ValueError(f"{name!r} is no class of this version")
        return found

    def _content(self, text: dict[str, Any], number: int) -> Any:
        """Return a new object; one that may hold itself is known before it is filled."""
        match text:
            case {"array": name, "fixed": fixed}:
                array = self._arrays[name]
                if fixed:
                    array.flags.writeable = False
                return array
            case {"bytes": name}:
                return self._arrays[name].tobytes()
            case {"sparse": kind, "shape": shape, "parts": parts}:
                make: Any = {cls.__name__: cls for cls in MATRICES}.get(kind)
                if make is None:
                    raise ValueError(f"{kind!r} is no sparse matrix")
                return make(tuple(map(self.value, parts)), shape=tuple(shape))
            case {"list": parts}:
                items = self._made[number] = list[Any]()
                items.extend(map(self.value, parts))
                return items
            case {"tuple": parts}:
                return tuple(map(self.value, parts))
            case {"frozenset": parts}:
                return frozenset(map(self.value, parts))
            case {"dict": pairs}:
                table = self._made[number] = dict[Any, Any]()
                table.update((self.value(k), self.value(v)) for k, v in pairs)
                return table
            case {"slice": ends}:
                return slice(*map(self.value, ends))
            case {"method": name, "of": of}:
                owner = self.value(of)
                if not isinstance(getattr(type(owner), name, None), types.FunctionType):
                    raise ValueError(f"{name!r} is no method of a {type(owner).__name__}")
                return getattr(owner, name)
            case {"made": name, "of": parts}:
                make = getattr(self._class(name), "__made__", None)
                if make is None:
                    raise ValueError(f"{name!r} has no recipe in this version")
                return make(*map(self.value, parts), workspace=self._workspace)
            case {"named": name, "items": parts}:
                cls, values = self._class(name), [self.value(part) for part in parts]
                if not issubclass(cls, tuple) or len(values) != len(getattr(cls, "_fields", ())):
                    raise ValueError(f"{name!r} has other fields in this version")
                return tuple.__new__(cls, values)
            case {"object": name, "fields": parts}:
                cls = self._class(name)
                caches = _caches(cls)
                if dataclasses.is_dataclass(cls):
                    own = {field.name for field in dataclasses.fields(cls) if field.init}
                    if not own - set(caches) <= set(parts):
                        raise ValueError(f"{name!r} has other fields in this version")
                made = self._made[number] = object.__new__(cls)
                for field, empty in caches.items():
                    object.__setattr__(made, field, empty)
                for field, part in parts.items():
                    object.__setattr__(made, field, self.value(part))
                return made
            case _:
                raise ValueError(f"a description of the unknown kind {sorted(text)[0]!r}")


def _constant(value: Any) -> dict[str, Any] | None:
    """Return the description of a value that is told by itself, None where it has content."""
    match value:
        case np.generic():
            known = value.dtype.kind in "biuf"
            return {"scalar": value.dtype.str, "value": value.item()} if known else None
        case np.dtype():
            return {"dtype": value.str}
        case Workspace():
            return {"workspace": "leaf" if value.shared is value else "run"}
        case Deadline():
            return {"deadline": "none"}
        case enum.Enum():
            cls = type(value)
            return {"enum": f"{cls.__module__}:{cls.__qualname__}", "value": value.name}
        case _:
            return None


def _children(value: Any) -> Iterator[tuple[tuple[str, Any], Any]]:
    """Yield the parts of an object and how they are reached; none of what is not looked into."""
    is_sparse: bool = sparse.issparse(value)
    if type(value) in (list, tuple):
        for k, part in enumerate(value):
            yield ("item", k), part
    elif type(value) is dict:
        for name, part in value.items():
            if is_simple(name):
                yield ("item", name), part
    elif is_sparse:
        for name in SPARSE.get(value.format, ()):
            yield ("attribute", name), getattr(value, name)
    elif type(value).__module__.partition(".")[0] == OWN:
        for name, part in _fields(value).items():
            yield ("attribute", name), part


def _fields(value: Any) -> dict[str, Any]:
    """Return what an object holds, slots included."""
    slots = [name for cls in type(value).__mro__ for name in vars(cls).get("__slots__", ())]
    held = {name: getattr(value, name) for name in slots if has_members(value, name)}
    return held | (attributes(value) or {})


def _caches(cls: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that are not written, and what they are without content."""
    every = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return {f.name: f.default for f in every if f.metadata == CACHE}


def _is_known(cls: type, trusted: tuple[str, ...]) -> bool:
    return cls.__module__.partition(".")[0] == OWN or cls.__module__ in trusted
