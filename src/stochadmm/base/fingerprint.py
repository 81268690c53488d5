"""A short text that stands for a problem and a method, by content.

Two objects have the same fingerprint when their classes, parameters and arrays are the same,
wherever they live: it is what a result remembers of the problem it belongs to, and what a file may
remember of it. A change of a single entry of an array is noticed with certainty, any other change
but for an accident of probability below 2^-30. Classes and functions from outside the package
count by their code as well, so that a redefined loss is another loss.

Arrays are read once, in their row-major order whatever their layout, at several gigabytes a
second: each chunk of 64-bit words is mixed, multiplied by fixed odd numbers and added up modulo
2^64; only the sums go through a cryptographic hash. Integers alone are used, so that every
processor gives the same text.
"""

from __future__ import annotations

import dataclasses
import enum
import pickle
import types
from collections.abc import Callable
from functools import cached_property, partial, partialmethod
from hashlib import blake2b
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .capabilities import first_of_kind
from .immutable import attributes, field_values

FORMAT = b"stochadmm fingerprint 1"
CHUNK_WORDS = 1 << 14  # 128 kB: a chunk and its products stay in the second-level cache
KNOWN_BY_NAME = ("builtins", "abc", "enum", "typing", "functools", "numpy", "scipy", "stochadmm")
"""Packages whose classes count by name alone; the code of all others is read."""


class Unidentified(TypeError):
    """An object whose content cannot be told."""


def fingerprint(*parts: Any) -> str:
    """Return a text of 32 digits that changes with the content of any of the parts.

    Parameters
    ----------
    *parts : object
        Numbers, texts, arrays, sparse matrices, containers, dataclasses, functions, and objects
        that hold any of these. An object with a method ``__fingerprint__()`` counts as what that
        returns. Numbers count by their value: 1, 1.0 and True are the same.

    Raises
    ------
    Unidentified
        A part can neither be looked into nor pickled.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> from stochadmm.base.fingerprint import fingerprint
    >>> fingerprint(sa.L1(0.5)) == fingerprint(sa.L1(np.float64(0.5)))
    True
    >>> X = np.zeros((1000, 1000))
    >>> before = fingerprint(X)
    >>> X[123, 456] = 1e-300
    >>> fingerprint(X) == before
    False
    """
    reader = _Reader()
    reader.read(parts)
    return reader.hash.hexdigest()


class _Reader:
    """Feeds objects to a hash; every piece begins with its kind and its length."""

    def __init__(self, inside: list[int] | None = None) -> None:
        self.hash = blake2b(FORMAT, digest_size=16)
        self.inside: list[int] = [] if inside is None else inside
        """Objects that are being read: one that holds itself counts by its depth."""

    def put(self, kind: str, content: bytes = b"") -> None:
        self.hash.update(b"%b:%d:%b" % (kind.encode(), len(content), content))

    def read(self, value: Any) -> None:
        if self._plain(value):
            return
        if id(value) in self.inside:
            self.put("cycle", str(len(self.inside) - self.inside.index(id(value))).encode())
            return
        self.inside.append(id(value))
        self._read(value)
        self.inside.pop()

    def _plain(self, value: Any) -> bool:
        kind = type(value)
        if kind is float or kind is int:  # the usual kinds first: they are many
            self.put("number", _number(value))
        elif kind is str:
            self.put("text", _text(value))
        elif value is None:
            self.put("constant", b"None")
        elif kind in USUAL:
            return False
        else:
            found = first_of_kind(PLAIN, value)
            if found is None:
                return False
            self.put(found[0], found[1](value))
        return True

    def _read(self, value: Any) -> None:
        usual = USUAL.get(type(value))
        own = getattr(type(value), "__fingerprint__", None)
        if usual is not None:
            usual(self, value)
        elif own is not None:
            self.read(own(value))
        elif sparse.issparse(value):
            self._sparse(value)
        else:
            (first_of_kind(CONTENT, value) or _Reader._object)(self, value)

    def _sequence(self, value: Any) -> None:
        self.put("sequence", str(len(value)).encode())
        if value and all(map(_is_number, set(map(type, value)))):  # they are many: all at once
            self.put("numbers", b" ".join(map(_number, value)))
            return
        for item in value:
            self.read(item)

    def _set(self, value: Any) -> None:
        self._unordered("set", value)

    def _steps(self, value: Any) -> None:
        self.put(type(value).__name__)
        self.read((value.start, value.stop, value.step))

    def _mapping(self, value: dict[Any, Any]) -> None:
        if not set(map(type, value)) <= {str}:
            self._unordered("mapping", value.items())
            return
        self.put("names", str(len(value)).encode())
        for name in sorted(value):
            self.put("name", name.encode("utf-8", "surrogatepass"))
            self.read(value[name])

    def _unordered(self, kind: str, items: Any) -> None:
        """Read items whose order means nothing, such as that of a dict."""
        found = []
        for item in items:
            reader = _Reader(self.inside)
            reader.read(item)
            found.append(reader.hash.hexdigest())
        self.put(kind, "".join(sorted(found)).encode())

    # ---------------------------------------------------------------- arrays

    def _array(self, array: NDArray[Any]) -> None:
        self.put("array", f"{_kind(array.dtype)}{array.shape}".encode())
        if array.dtype.hasobject:
            self.read(array.ravel().tolist())
        else:
            self.put("sums", _sums(array).astype("<u8").tobytes())

    def _masked(self, array: Any) -> None:
        self.put("array", f"{_kind(array.dtype)}{array.shape}".encode())
        self.read((np.ma.getmaskarray(array), array.data))

    def _sparse(self, matrix: Any) -> None:
        self.put("sparse", f"{matrix.format}{matrix.shape}".encode())
        if matrix.format in ("csr", "csc", "bsr"):
            self.read((matrix.indptr, matrix.indices, matrix.data))
        elif matrix.format == "dia":
            self.read((matrix.offsets, matrix.data))
        else:
            entries = matrix.tocoo()
            self.read((*entries.coords, entries.data))

    # ---------------------------------------------------------------- objects and code

    def _object(self, value: Any) -> None:
        self.read(type(value))
        own = attributes(value)
        if dataclasses.is_dataclass(value):  # its fields alone: what is computed may be kept too
            held = field_values(value)
            self.read({f.name: held[f.name] for f in dataclasses.fields(value) if f.compare})
        elif own is not None and not hasattr(type(value), "__slots__"):
            self.read(own)
        else:
            self.put("pickle", _pickled(value))

    def _class(self, cls: type) -> None:
        self.put("class", f"{cls.__module__}.{cls.__qualname__}".encode())
        for base in cls.__mro__:
            if base.__module__.partition(".")[0] in KNOWN_BY_NAME:
                continue
            for name in sorted(vars(base)):
                self._member(name, vars(base)[name])

    def _builtin(self, value: Any) -> None:
        self.read((getattr(value, "__module__", None), value.__name__))

    def _member(self, name: str, member: Any) -> None:
        inside = first_of_kind(WRAPPED, member)
        for part in [member] if inside is None else inside(member):
            kind = first_of_kind(MEMBERS, part)
            if kind == "method":
                self.put(kind, name.encode())
                self._code(part.__code__)
            elif kind == "attribute" and not name.startswith("__"):
                self.put(kind, name.encode())
                self.read(part)

    def _method(self, value: types.MethodType) -> None:
        self.read((value.__self__, value.__name__))

    def _function(self, value: types.FunctionType) -> None:
        self.put("function", f"{value.__module__}.{value.__qualname__}".encode())
        self._code(value.__code__)
        cells = [cell.cell_contents for cell in value.__closure__ or () if _full(cell)]
        self.read((value.__defaults__, value.__kwdefaults__, cells))

    def _code(self, code: types.CodeType) -> None:
        self.put("code", code.co_code)
        self.read((code.co_names, code.co_varnames, code.co_consts))


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _constant(value: Any) -> bytes:
    return repr(value).encode()


def _named(value: enum.Enum) -> bytes:
    return f"{type(value).__qualname__}.{value.name}".encode()


def _is_number(kind: type) -> bool:
    return issubclass(kind, (Real, np.bool_)) and not issubclass(kind, enum.Enum)


def _number(value: Any) -> bytes:
    """Return a number by its value: that of a double where it is one, all digits otherwise."""
    try:
        double = float(value)
        if double == value or double != double:
            return double.hex().encode()
    except OverflowError:
        pass
    return repr(value).encode()


PLAIN: tuple[tuple[Any, tuple[str, Callable[[Any], bytes]]], ...] = (
    ((types.NoneType, types.EllipsisType, types.NotImplementedType), ("constant", _constant)),
    (enum.Enum, ("enum", _named)),
    ((Real, np.bool_), ("number", _number)),
    (str, ("text", _text)),
    ((bytes, bytearray), ("bytes", bytes)),
    (np.dtype, ("dtype", _constant)),
    (complex, ("complex", _constant)),
)
"""Values that are one piece: the first kind that fits gives the word before it, and its bytes."""

CONTENT: tuple[tuple[Any, Callable[[_Reader, Any], None]], ...] = (
    (np.ma.MaskedArray, _Reader._masked),
    (np.ndarray, _Reader._array),
    ((tuple, list), _Reader._sequence),
    (dict, _Reader._mapping),
    ((set, frozenset), _Reader._set),
    ((slice, range), _Reader._steps),
    (types.CodeType, _Reader._code),
    (type, _Reader._class),
    (types.FunctionType, _Reader._function),
    (types.MethodType, _Reader._method),
    ((types.BuiltinFunctionType, np.ufunc), _Reader._builtin),
)
"""Values that hold others: the first kind that fits says how they are read."""

USUAL: dict[type, Callable[[_Reader, Any], None]] = {
    np.ndarray: _Reader._array,
    tuple: _Reader._sequence,
    list: _Reader._sequence,
    dict: _Reader._mapping,
    type: _Reader._class,
}
"""The same for exactly these types, of which there are many: found without asking in turn."""

WRAPPED: tuple[tuple[Any, Callable[[Any], list[Any]]], ...] = (
    ((staticmethod, classmethod), lambda member: [member.__func__]),
    (property, lambda member: [member.fget, member.fset]),
    ((cached_property, partial, partialmethod), lambda member: [member.func]),
)
"""Members of a class that hold functions, and how these are taken out."""

MEMBERS: tuple[tuple[Any, str], ...] = (
    (types.FunctionType, "method"),
    ((Real, str, tuple, np.ndarray), "attribute"),
)
"""Members of a class that count, by what they count as."""


def _kind(dtype: np.dtype[Any]) -> str:
    return dtype.str if dtype.names is None else str(dtype.descr)


def _sums(array: NDArray[Any]) -> NDArray[np.uint64]:
    """Return one number per chunk; a change of one 64-bit word always changes its number.

    A word w counts as odd * (w ^ w >> 32), and both maps are one-to-one. The shift brings the
    high half down: floating-point numbers such as 0, 1, 2 differ in their highest bits only, which
    a product modulo 2^64 would push out.
    """
    flat: Any = array.reshape(-1) if array.flags.c_contiguous else array.flat
    length = max(1, 8 * CHUNK_WORDS // max(array.dtype.itemsize, 1))
    sums = np.zeros(-(-array.size // length), dtype=np.uint64)
    mixed = np.empty(CHUNK_WORDS, dtype=np.uint64)
    for k in range(sums.size):
        words = _words(np.asarray(flat[k * length : (k + 1) * length]))
        product = mixed[: words.size]
        np.right_shift(words, np.uint64(32), out=product)
        np.bitwise_xor(product, words, out=product)
        np.multiply(product, ODD[: words.size], out=product)
        sums[k] = np.add.reduce(product)
    return sums


def _words(chunk: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the bytes of a chunk as 64-bit words, the last filled up with zeros."""
    if chunk.nbytes % 8 == 0:
        return chunk.view(np.uint8).view("<u8")
    filled = np.zeros(-(-chunk.nbytes // 8) * 8, dtype=np.uint8)
    filled[: chunk.nbytes] = chunk.view(np.uint8)
    return filled.view("<u8")


def _odd_numbers(n: int) -> NDArray[np.uint64]:
    """Return the first odd numbers of a fixed sequence without a pattern (a mixed counter)."""
    z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)


ODD = _odd_numbers(CHUNK_WORDS)


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=4)
    except Exception as error:
        raise Unidentified(
            f"{type(value).__module__}.{type(value).__qualname__} cannot be compared "
            f"({error}); give it a method __fingerprint__ that returns its parameters"
        ) from error


def _full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # not yet assigned
        return False
