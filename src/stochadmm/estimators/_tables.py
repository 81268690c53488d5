"""The answer of a structured model: tables of merged levels, exports, summaries, figures."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ..base.capabilities import Has, offers
from ..base.files import write_rows
from ..base.protocols import Array
from ..plots import Panel
from ..run.result import Result
from ..terms import Smooth
from ..terms._blocks import bin_name
from ..terms._columns import as_frame
from ..terms._terms import Fused
from ._design import Part

_SHOWN = 12  # classes of a term in a summary


class Tables:
    """How structured models are read: by classes of levels."""

    @property
    def table_(self: Any) -> Any:
        """One row per merged class of levels, in a frame of the library of the fit.

        Columns: ``term``, ``class``, ``levels`` (how many), ``exposure`` (or weight, or rows),
        ``target`` (its weighted sum; of two labels the weight of rows with the second),
        ``coefficient`` and ``relativity`` (its exponential: the ratio of means for losses with a
        log link, of odds for the logistic loss) against the base, ``standard_error`` (with
        ``refit=True``) and ``is_base``. A number has one row, with its derivative.
        """
        check_is_fitted(self)
        rows = _rows(self)
        columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
        backend: Any = (self._backend or "pandas").rsplit(".", 1)[-1].lower()
        try:
            importlib.import_module(backend)
        except ImportError:
            return columns
        return nw.from_dict(columns, backend=backend).to_native()

    @property
    def level_map_(self: Any) -> dict[Any, dict[str, str]]:
        """For every factor: the class of each level."""
        check_is_fitted(self)
        found = {}
        for part, labels in zip(self._design.parts, self._one_output(), strict=True):
            if part.block.base is not None:
                names = class_names(part, labels)
                pairs = zip(part.block.names, labels, strict=True)
                found[part.key] = {level: names[label] for level, label in pairs}
        return found

    def _one_output(self: Any) -> list[Array]:
        """Return the classes of the levels of every term, of models with one output."""
        if any(labels.ndim == 2 for labels in self._classes):
            raise ValueError("tables are for one output; use coef_ and get_feature_names_out()")
        return list(self._classes)

    def simplify(self: Any, X: Any) -> Any:
        """Return a frame in which the levels of factors are replaced by their classes.

        Parameters
        ----------
        X : frame
            Rows; columns of the model that are no factors, and other columns, stay as they are.

        Returns
        -------
        frame
            Of the same library; classes are texts.
        """
        check_is_fitted(self)
        frame = as_frame(X)
        if frame is None:
            raise ValueError("simplify needs a frame of pandas, polars or Arrow")
        columns = self._columns(X, reset=False)
        for part, labels in zip(self._design.parts, self._one_output(), strict=True):
            levels = getattr(part.block.encoder, "levels", None)
            if levels is None:
                continue
            names = class_names(part, labels)
            (name,) = part.columns
            codes = levels.codes(columns[name])
            texts = [names[labels[code]] if code >= 0 else None for code in codes.tolist()]
            series = nw.new_series(name, texts, nw.String, backend=frame.implementation)
            frame = frame.with_columns(series)
        return frame.to_native()

    def export(self: Any, path: Any, kind: str | None = None) -> None:
        """Write the rating table for use elsewhere.

        Parameters
        ----------
        path : path
            File to write.
        kind : {"csv", "json", "sql"}, optional
            By default as the name ends. "csv" is ``table_``; "json" has intercept, classes and
            coefficients of every level; "sql" is one expression of the linear predictor, with a
            ``CASE`` per factor.
        """
        check_is_fitted(self)
        kind = kind or Path(path).suffix.lstrip(".").lower()
        if kind not in ("csv", "json", "sql"):
            raise ValueError(f"kind is {kind!r}, expected csv, json or sql")
        with open(path, "w", encoding="utf-8", newline="") as file:
            if kind == "csv":
                rows = _rows(self)
                write_rows(file, [list(rows[0]), *(row.values() for row in rows)])
            elif kind == "json":
                json.dump(self._as_json(), file, indent=1, default=str)
            else:
                file.write(self._as_sql() + "\n")

    def _as_json(self: Any) -> dict[str, Any]:
        terms = []
        for part, labels in zip(self._design.parts, self._one_output(), strict=True):
            coef = part.spread(_flat(self.coef_))
            entry: dict[str, Any] = {
                "columns": list(part.columns),
                "term": type(part.term).__name__,
            }
            if part.block.base is None:
                entry["derivative"] = float(coef[0])
            else:
                names = class_names(part, labels)
                entry["levels"] = [
                    {"level": level, "class": names[label], "coefficient": float(value)}
                    for level, label, value in zip(part.block.names, labels, coef, strict=True)
                ]
            terms.append(entry)
        link = "log" if _relative(self) else "identity"
        return {"intercept": float(np.ravel(self.intercept_)[0]), "link": link, "terms": terms}

    def _as_sql(self: Any) -> str:
        lines = [repr(float(np.ravel(self.intercept_)[0]))]
        for part in self._design.parts:
            coef = part.spread(_flat(self.coef_))
            quoted = ['"' + str(name).replace('"', '""') + '"' for name in part.columns]
            levels = getattr(part.block.encoder, "levels", None)
            if part.block.base is None:
                lines.append(f"{float(coef[0])!r} * {quoted[0]}")
                continue
            if levels is None:
                raise ValueError(
                    f"the term of {part.label} has no levels to write as SQL; use kind='json'"
                )
            lines.append(_case(quoted[0], levels, coef))
        return "\n+ ".join(lines)

    def plot_terms(self: Any, axes: Any = None) -> Any:
        """Draw one panel per term: relativities, with the exposure behind them (matplotlib).

        Steps of ordered factors, points of others, images of interactions, and maps of
        ``Map.from_points``. Small points are the levels before they were refitted.

        Parameters
        ----------
        axes : sequence of matplotlib axes, optional
            Where to draw, one per term with levels.

        Returns
        -------
        list of matplotlib axes
        """
        from ..plots import plot_terms

        check_is_fitted(self)
        return plot_terms(self._panels(), _relative(self), axes)

    def _panels(self: Any) -> list[Panel]:
        """Return what is drawn of every term with levels."""
        self._one_output()
        panels = []
        for part in self._design.parts:
            if part.block.base is None:
                continue
            coef, block = _relative_to_base(part, _flat(self.coef_)), part.block
            if len(part.columns) > 1:
                names = [one.levels.names for one in (block.encoder.first, block.encoder.second)]
                cells = coef.reshape(len(names[0]), len(names[1]))
                panels.append(Panel(part.label, names[0], cells, others=names[1]))
                continue
            before = getattr(self, "penalized_coef_", None)
            dots = None if before is None else _relative_to_base(part, _flat(before))
            bent = getattr(part.term, "order", 1) == 2 or isinstance(part.term, Smooth)
            panel = Panel(part.label, block.names, coef, block.joined, not bent, dots, block.mass)
            points = getattr(part.term, "points", None)
            if points is not None:
                nowhere = (np.nan, np.nan)
                places = [points.get(level, nowhere) for level in block.encoder.levels.values]
                panel = panel._replace(
                    coef=coef[: len(places)],
                    places=np.array(places),
                    edges=part.term._pairs(block.encoder.levels),
                )
            panels.append(panel)
        return panels

    def _found(self: Any) -> list[str]:
        """Return what the summary says of every term."""
        found = list(super()._found())  # type: ignore[misc]
        if any(labels.ndim == 2 for labels in self._classes):
            return found
        rows = _rows(self)
        for part in self._design.parts:
            own = [row for row in rows if row["term"] == part.label]
            if part.block.base is None:
                found.append(f"{part.label}: a number, derivative {own[0]['coefficient']:.4g}")
                continue
            k = len(part.block.names)
            value = "relativity" if _relative(self) else "coefficient"
            labels = is_classifier(self)
            target = f"label {self.classes_[1]}" if labels else "target"
            called = "odds ratio" if labels and _relative(self) else value
            heads, noun = (
                f"{self._mass}, {target}, {called}",
                "class" if len(own) == 1 else "classes",
            )
            found.append(f"{part.label}: {k} levels in {len(own)} {noun} ({heads})")
            for row in own[:_SHOWN]:
                base = " (base)" if row["is_base"] else ""
                found.append(
                    f"    {row['class']:<28.28} {row['exposure']:>12,.6g} "
                    f"{row['target']:>12,.6g} {row[value]:>8.3f}{base}"
                )
            if len(own) > _SHOWN:
                found.append(f"    and {len(own) - _SHOWN} more, see table_")
        fused = [
            labels.any()
            for part, labels in zip(self._design.parts, self._classes, strict=True)
            if isinstance(part.term, Fused)
        ]
        if fused and not any(fused):
            found.append(
                "This alpha merges all levels: a smaller one tells some apart, and "
                f"{type(self).__name__.removesuffix('CV')}CV chooses one"
            )
        return found


def _flat(coef: Array) -> Array:
    return coef[0] if coef.ndim == 2 else coef


def _relative(model: Any) -> bool:
    """Say whether exponentials of coefficients are ratios: of means, or of odds."""
    return offers(model._loss, Has.PROBABILITY) or model._loss.exposure is not None


def _relative_to_base(part: Part, coef: Array) -> Array:
    own = part.spread(coef)
    return own - own[part.block.base] if part.block.base is not None else own


def class_names(part: Part, labels: Array) -> list[str]:
    """Return the names of merged classes: ranges of ordered levels, or lists.

    A list of many is the first of them and how many more there are.
    """
    names = []
    cuts: Any = getattr(getattr(part.block.encoder, "levels", None), "cuts", None)
    for label in range(int(labels.max()) + 1):
        members = np.flatnonzero(labels == label)
        levels = [part.block.names[code] for code in members]
        whole = len(members) == members[-1] - members[0] + 1
        if part.block.joined and whole and len(members) > 1:
            binned = cuts is not None and members[-1] <= len(cuts)
            span = f"{levels[0]}..{levels[-1]}"
            names.append(bin_name(cuts, members[0], members[-1]) if binned else span)
        elif len(levels) > 6:
            names.append(", ".join(levels[:5]) + f" and {len(levels) - 5} more")
        else:
            names.append(", ".join(levels))
    return names


def _rows(model: Any) -> list[dict[str, Any]]:
    """Return the rows of the table."""
    rows: list[dict[str, Any]] = []
    coef, ratio = _flat(model.coef_), _relative(model)
    parts = model._design.parts
    all_errors = model._errors or [None] * len(parts)
    each = zip(parts, model._one_output(), model._observed, all_errors, strict=True)
    for part, labels, totals, errors in each:
        own = _relative_to_base(part, coef)
        base = part.block.base
        names = [part.label] if base is None else class_names(part, labels)
        for label, name in enumerate(names):
            members = np.flatnonzero(labels == label) if base is not None else np.array([0])
            mass = np.nan if part.block.mass is None else float(part.block.mass[members].sum())
            value = float(own[members[0]])
            row: dict[str, Any] = {
                "term": part.label,
                "class": name,
                "levels": len(members) if base is not None else 0,
                "exposure": mass,
                "target": float(totals[members].sum()) if base is not None else np.nan,
                "coefficient": value,
                "relativity": float(np.exp(value)) if ratio else np.nan,
                "is_base": base is not None and bool(labels[base] == label),
            }
            row["standard_error"] = np.nan if errors is None else float(errors[members[0]])
            rows.append(row)
    return rows


def _case(column: str, levels: Any, coef: Array) -> str:
    """Return the coefficient of a level as an SQL expression."""
    values = [repr(float(value)) for value in coef]
    missing = [f" WHEN {column} IS NULL THEN {values[-1]}"] if levels.own_missing else []
    if levels.cuts is not None:
        cuts = [
            f" WHEN {column} < {cut!r} THEN {v}"
            for cut, v in zip(levels.cuts.tolist(), values, strict=False)
        ]
        return "CASE" + "".join(missing + cuts) + f" ELSE {values[len(levels.cuts)]} END"
    when = []
    for value, result in zip(levels.values, values, strict=False):
        text = (
            repr(value)
            if isinstance(value, (int, float))
            else "'" + str(value).replace("'", "''") + "'"
        )
        test = f"{column} = {text}"
        if value == levels.values[0] and np.isfinite(levels.lower):
            test = f"{column} <= {text}"
        if value == levels.values[-1] and np.isfinite(levels.upper):
            test = f"{column} >= {text}"
        when.append(f" WHEN {test} THEN {result}")
    return "CASE" + "".join(missing + when) + " END"


def standard_errors(
    fitting: Any, basis: Any, second: Result, parts: Sequence[Part]
) -> list[Array]:
    """Return for every term the standard errors of its levels against the base after a refit.

    They are those of the observed information; classes that were found on the same rows are taken
    as given.
    """
    if not basis.shape[1]:  # the null model
        return [np.zeros(len(part.block.names)) for part in parts]
    data, basis = fitting.data, sparse.csr_array(basis)
    Z: Any = sparse.csr_array(sparse.csr_array(data.X) @ basis)
    inner = second.coef
    if data.intercept:
        Z = sparse.hstack([Z, sparse.csr_array(np.ones((Z.shape[0], 1)))], format="csr")
        inner = np.append(second.coef, second.intercept)
    z = Z @ inner + (0.0 if data.offset is None else data.offset)
    weight = np.ones(len(z)) if data.weight is None else data.weight
    curvature = weight * data.loss.curvature(z, data.y)
    H = (Z.T @ (sparse.diags_array(curvature) @ Z)).toarray()
    covariance = np.linalg.pinv(H, hermitian=True) * _dispersion(data, z, weight, Z.shape[1])
    covariance = covariance[: basis.shape[1], : basis.shape[1]]
    coordinates, found = basis.toarray() / data.scale[:, None], []
    for part in parts:
        own = part.spread(coordinates)
        own = own if part.block.base is None else own - own[part.block.base]
        variance = np.einsum("ij,jk,ik->i", own, covariance, own)
        found.append(np.sqrt(np.maximum(variance, 0.0)))
    return found


def _dispersion(data: Any, z: Array, weight: Array, parameters: int) -> float:
    """Return Pearson's estimate, one where the distribution has none, NaN for other losses."""
    loss = data.loss
    if loss.name in ("poisson", "negative_binomial", "logistic"):
        return 1.0
    if loss.name not in ("squared", "gamma", "tweedie"):
        return float("nan")
    used = weight > 0
    expected = np.exp((2.0 - loss.power) * z) if loss.name == "tweedie" else np.ones_like(z)
    pearson = float((weight * loss.derivative(z, data.y) ** 2 / expected)[used].sum())
    return pearson / max(int(used.sum()) - parameters, 1)
