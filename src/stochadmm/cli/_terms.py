"""Structure per column: terms from options or a file, and the encoders kept in a model folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stochadmm import terms as known_terms
from stochadmm.base.names import did_you_mean
from stochadmm.base.protocols import Array
from stochadmm.estimators._design import MOST_LEVELS, Part
from stochadmm.estimators._design import Design as TermColumns
from stochadmm.terms import Block, Column, Map
from stochadmm.terms._blocks import Cells, Hats, Levels, Number, OneHot
from stochadmm.terms._columns import of_values

from ._columns import Expected, Table, as_texts, is_number
from ._text import read_edges

KINDS = {
    name.lower(): getattr(known_terms, name)
    for name in (
        "Ordered",
        "Periodic",
        "Nominal",
        "Map",
        "Grid",
        "Group",
        "Sparse",
        "Smooth",
        "Free",
    )
}
"""Terms by their names in files."""


# ---------------------------------------------------------------- terms of options and files


def terms_of(
    table: Table,
    file: str | None,
    named: Mapping[str, list[str]],
    maps: list[str],
    signs: Mapping[str, int],
) -> dict[Any, Any]:
    """Return the term of every column that a file or an option names.

    ``named`` has the columns of each kind, ``maps`` has texts ``column=file of edges``, ``signs``
    the columns along which predictions may only rise (1) or fall (-1).
    """
    found: dict[Any, Any] = {} if file is None else _of_file(table, file)
    source = dict.fromkeys(found, "--terms")

    def add(name: str, option: str, kind: str, value: Any) -> None:
        if name in found:
            raise ValueError(
                f"column {name!r} is named by {source[name]} and by {option}, expected one term; "
                "name it once"
            )
        found[name], source[name] = _term(table, name, kind, value, option), option

    for kind, names in named.items():
        for name in names:
            add(name, f"--{kind}", kind, None)
    for text in maps:
        name, mark, path = text.partition("=")
        if not mark or not path:
            raise ValueError(f"--map is {text!r}, expected column=file, such as zone=edges.csv")
        add(name.strip(), "--map", "map", path.strip())
    for name, sign in signs.items():
        values = table.column(name, "terms of --monotone")
        term = found.get(name, known_terms.Free())
        if isinstance(term, known_terms.Ordered):
            found[name] = replace(term, increasing=sign > 0, decreasing=sign < 0)
        elif isinstance(term, known_terms.Free) and values.dtype != object and not term.levels:
            found[name] = replace(term, bounds=(0.0, None) if sign > 0 else (None, 0.0))
        else:
            raise ValueError(
                f"--monotone names {name!r}, which is no number and has no order; name it in "
                "--ordered too"
            )
    return found


def _of_file(table: Table, file: str) -> dict[Any, Any]:
    """Return the terms of a file: ``{column: kind}`` or ``{column: {kind: options}}``."""
    if not Path(file).is_file():
        raise FileNotFoundError(f"{file} is not a file; name a JSON or YAML file of terms")
    text = Path(file).read_text(encoding="utf-8-sig")
    if Path(file).suffix.lower() in (".yaml", ".yml"):
        try:
            import yaml
        except ImportError:
            raise ValueError(
                f"{file} needs PyYAML; install it with `pip install pyyaml`, or write JSON"
            ) from None
        failure: type[Exception] = yaml.YAMLError
        read = yaml.safe_load
    else:
        failure, read = ValueError, json.loads
    try:
        given = read(text)
    except failure as error:
        raise ValueError(f"{file} cannot be read ({error}); is it JSON or YAML?") from error
    if not isinstance(given, dict) or not given:
        raise ValueError(f"{file} has no terms; expected such as {{age: ordered}}")
    found: dict[Any, Any] = {}
    for key, entry in given.items():
        name = str(key)
        parts = [name] if name in table.columns else [part.strip() for part in name.split(",")]
        if isinstance(entry, dict) and len(entry) == 1:
            ((kind, value),) = entry.items()
        elif isinstance(entry, str):
            kind, value = entry, None
        else:
            raise ValueError(
                f"the term of {name!r} in {file} is {entry!r}, expected a kind, or one kind with "
                "its options, such as {ordered: {increasing: true}}"
            )
        term = _term(table, parts[0], str(kind), value, file)
        for other in parts[1:]:
            table.column(other, f"terms of {file}")
        found[parts[0] if len(parts) == 1 else tuple(parts)] = term
    return found


def _term(table: Table, name: str, kind: str, value: Any, source: str) -> Any:
    """Return one term; ``value`` are its options, or the file of edges of a map."""
    values = table.column(name, f"terms of {source}")
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS, f"expected one of {', '.join(KINDS)}")
        raise ValueError(f"the term of {name!r} in {source} is {kind!r}; {hint}")
    options = {"edges": value} if kind == "map" and isinstance(value, str) else value or {}
    term = KINDS[kind]
    known = [field.name for field in fields(term)]
    wrong = [option for option in options if option not in known] if _is_map(options) else [value]
    if wrong:
        hint = did_you_mean(wrong[0], known, f"it has {', '.join(known)}")
        raise ValueError(f"the term {kind} of {name!r} in {source} has no {wrong[0]!r}; {hint}")
    if term is Map:
        if not isinstance(options.get("edges"), str):
            raise ValueError(
                f"the map of {name!r} in {source} needs a file of edges: {{map: edges.csv}}"
            )
        options = options | {"edges": _edges(options["edges"], name, values)}
    return term(**options)


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


def _edges(path: str, name: str, values: Array) -> list[tuple[Any, Any]]:
    """Return pairs of levels, which are numbers where the column has numbers."""
    levels = set(as_texts(values).tolist())
    pairs = read_edges(path, levels)
    if any(weight != 1 for *_, weight in pairs):
        raise ValueError(f"{path} has weights; a map has none, so leave the third column out")
    if values.dtype == object:
        return [(a, b) for a, b, _ in pairs]
    if len(pairs) > 1 and not any(map(is_number, pairs[0][:2])):
        pairs = pairs[1:]  # a heading above levels that are not all in the data
    for a, b, _ in pairs:
        for level in (a, b):
            if not is_number(level):
                raise ValueError(f"{path} names {level!r}, but column {name!r} has numbers")
    return [(float(a), float(b)) for a, b, _ in pairs]


def frame_of(table: Table, names: list[str], terms: Mapping[Any, Any]) -> Any:
    """Return the columns of a table as a frame, in which empty texts are missing."""
    try:
        import pandas as pd
    except ImportError:
        raise ValueError(
            "terms need pandas; install it with `pip install 'stochadmm[parquet]'`"
        ) from None
    used = {name for key in terms for name in (key if isinstance(key, tuple) else (key,))}
    for name in used - set(names):
        raise ValueError(
            f"column {name!r} has a term, but is the target, a weight, an offset, the exposure or "
            "dropped; name another"
        )
    for name in set(names) - used:
        values = table.columns[name]
        count = len(set(values.tolist())) if values.dtype == object else 0
        if count > MOST_LEVELS:
            raise ValueError(
                f"column {name!r} of {table.path} has {count:,} texts; leave it out with --drop, "
                "or name it in --nominal, --map or --terms"
            )
    return pd.DataFrame({name: _cells(table.columns[name]) for name in names})


def _cells(values: Array) -> Array:
    if values.dtype != object:
        return values
    return np.array([None if value == "" else value for value in values.tolist()], dtype=object)


# ---------------------------------------------------------------- a fitted design


@dataclass(frozen=True)
class TermDesign:
    """How the columns of a table become those of a model with terms."""

    encoded: TermColumns
    texts: frozenset[str]
    """Columns that are text even where all cells of a chunk are numbers."""

    @classmethod
    def of(cls, model: Any, table: Table) -> TermDesign:
        """Return the design of a fitted estimator."""
        used = {name for part in model._design.parts for name in part.columns}
        texts = frozenset(name for name in used if table.columns[name].dtype == object)
        return cls(model._design, texts)

    @property
    def n_columns(self) -> int:
        """Number of encoded columns."""
        return self.encoded.width

    @property
    def names(self) -> list[str]:
        """Names of the encoded columns."""
        return self.encoded.names()

    @property
    def expected(self) -> Expected:
        """What is known of the files that have these columns."""
        return Expected(self.texts)

    def rows(self, table: Table) -> Any:
        """Return the encoded columns of a table."""
        return self.encoded.matrix(self._columns(table))

    def unseen(self, table: Table) -> dict[str, int]:
        """Return how many rows have a level that the model does not know, by column."""
        columns, found = self._columns(table), {}
        for part in self.encoded.parts:
            levels = getattr(part.block.encoder, "levels", None)
            if levels is not None:
                count = int((levels.codes(columns[part.key]) == -1).sum())
                if count:
                    found[part.label] = count
        return found

    def _columns(self, table: Table) -> dict[Any, Column]:
        used = dict.fromkeys(name for part in self.encoded.parts for name in part.columns)
        found = {}
        for name in used:
            values = table.column(name, "model")
            # truths are a flag, as in a frame, not numbers
            cells = values.astype(object) if values.dtype == bool else _cells(values)
            found[name] = of_values(name, cells)
        return found

    def as_plain(self) -> dict[str, Any]:
        """Return what ``from_plain`` reads, as values of JSON."""
        parts = [
            {
                "columns": list(part.columns),
                "names": list(part.block.names),
                "base": part.block.base,
                "left_out": part.left_out,
                "encoder": _plain(part.block.encoder),
            }
            for part in self.encoded.parts
        ]
        return {"terms": parts, "texts": sorted(self.texts)}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> TermDesign:
        """Return the design of a saved model."""
        parts: list[Part] = []
        at = 0
        for own in plain["terms"]:
            names = own["columns"]
            block = Block(_restored(own["encoder"]), tuple(own["names"]), base=own["base"])
            key = names[0] if len(names) == 1 else tuple(names)
            parts.append(Part(key, None, block, at, own["left_out"]))
            at = parts[-1].places.stop
        return cls(TermColumns(tuple(parts)), frozenset(plain["texts"]))


ENCODERS = {kind.__name__: kind for kind in (OneHot, Levels, Number, Hats, Cells)}


def _plain(value: Any) -> Any:
    """Return an encoder as values of JSON; infinity, which JSON lacks, is text."""
    if is_dataclass(value):
        own = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"kind": type(value).__name__, **own}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, Mapping):
        return {"pairs": [[_plain(key), _plain(entry)] for key, entry in value.items()]}
    if isinstance(value, (tuple, list)):
        return [_plain(entry) for entry in value]
    value = value.item() if isinstance(value, np.generic) else value
    return {"number": repr(value)} if value in (np.inf, -np.inf) else value


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_restored, value))
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return np.array(value["array"], dtype=np.float64)
    if "pairs" in value:
        return {_restored(key): _restored(entry) for key, entry in value["pairs"]}
    if "number" in value:
        return float(value["number"])
    own = {name: _restored(entry) for name, entry in value.items() if name != "kind"}
    return ENCODERS[value["kind"]](**own)
