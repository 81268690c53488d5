"""A fitted model in a folder: JSON, one ``.npz`` of arrays, coefficients as CSV; no pickle."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.files import CONTROLS, read_arrays, write_arrays, write_rows
from ..base.protocols import Array
from ..losses import FOR_NUMBERS
from ._columns import Table
from ._design import Design
from ._messages import json_text

if TYPE_CHECKING:
    from ._terms import TermDesign

FORMAT = 1


def _checksum(plain: dict[str, Any]) -> str:
    """Return a checksum of plain values as JSON, which does not depend on its layout."""
    return hashlib.sha256(json_text(plain).encode()).hexdigest()


def check_place(folder: Path, overwrite: bool) -> None:
    """Raise where a model could not be written; its parent is made where it is missing."""
    if folder.exists() and not overwrite:
        raise FileExistsError(f"{folder} exists; name another folder, or pass --overwrite")
    if folder.exists() and not (folder / "model.json").is_file():
        raise FileExistsError(f"{folder} exists and is no model; name another folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder.parent):
            pass
    except OSError as error:
        raise OSError(
            f"cannot write to {folder.parent} ({error.strerror}); name another --out"
        ) from error


@dataclass(frozen=True)
class SavedModel:
    """What is needed to predict, and what was found out when it was fitted."""

    design: Design | TermDesign
    coef: Array
    """One row per output."""
    intercept: Array
    targets: list[str]
    loss: str
    classes: list[str] | None
    offset: str | None
    facts: dict[str, Any]
    """Estimator, parameters, status, gap, times: plain values."""

    # ---------------------------------------------------------------- predicting

    def decision(self, table: Table) -> Array:
        """Return the linear predictors of a table, one column per output."""
        z = np.asarray(self.design.rows(table) @ self.coef.T) + self.intercept
        if self.offset is not None:
            z = z + table.numbers(self.offset, "offset")[:, None]
        return z

    def predict(self, table: Table) -> dict[str, Array]:
        """Return columns of predictions by name; for classifiers also probabilities."""
        z = self.decision(table)
        if self.classes is None:
            with np.errstate(over="ignore"):  # an infinite mean is shown as one
                values = FOR_NUMBERS[self.loss]().mean(z)
            return {name: values[:, k] for k, name in enumerate(self.targets)}
        labels = np.array(self.classes)
        if z.shape[1] == 1:
            chosen = labels[(z[:, 0] > 0).astype(int)]
            p = 1 / (1 + np.exp(-np.clip(z[:, 0], -700, 700)))
            shares = np.column_stack([1 - p, p])
        else:
            chosen = labels[z.argmax(axis=1)]
            e = np.exp(z - z.max(axis=1, keepdims=True))
            shares = e / e.sum(axis=1, keepdims=True)
        found: dict[str, Array] = {self.targets[0]: chosen}
        if self.loss == "logistic":
            found |= {f"p({kind})": shares[:, k] for k, kind in enumerate(self.classes)}
        return found

    # ---------------------------------------------------------------- files

    def save(
        self,
        folder: Path,
        report: str | None = None,
        overwrite: bool = False,
        export: Callable[[Path], None] | None = None,
    ) -> None:
        """Write the folder: all of it or nothing; ``export`` writes a rating table."""
        check_place(folder, overwrite)
        made = folder.parent / f".{folder.name}-{uuid.uuid4().hex[:8]}"
        made.mkdir()  # with the user's own permissions, unlike mkdtemp
        try:
            self._write(made, report)
            if export is not None:
                export(made / "table.csv")
            if folder.exists():
                shutil.rmtree(folder)
            os.replace(made, folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def _write(self, folder: Path, report: str | None) -> None:
        plain = {
            "format": FORMAT,
            "targets": self.targets,
            "loss": self.loss,
            "classes": self.classes,
            "offset": self.offset,
            **self.design.as_plain(),
            "facts": self.facts,
        }
        plain = {"checksum": _checksum(plain), **plain}
        (folder / "model.json").write_text(json_text(plain, indent=2) + "\n", encoding="utf-8")
        write_arrays(folder / "model.npz", {"coef": self.coef, "intercept": self.intercept})
        with open(folder / "coefficients.csv", "w", encoding="utf-8", newline="") as file:
            named = zip(self.design.names, self.coef.T.tolist(), strict=True)
            rows = [
                ["(intercept)", *self.intercept.tolist()],
                *([name, *row] for name, row in named),
            ]
            write_rows(file, [["column", *self.outputs], *rows])
        if report is not None:
            text = CONTROLS.sub("", report)
            (folder / "report.html").write_text(text, encoding="utf-8")

    @property
    def outputs(self) -> list[str]:
        """Names of the rows of ``coef``."""
        if self.classes is not None:
            return [self.classes[1]] if len(self.coef) == 1 else list(self.classes)
        return list(self.targets)

    @classmethod
    def load(cls, folder: Path) -> SavedModel:
        """Read a folder written by ``save``."""
        try:
            plain = json.loads((folder / "model.json").read_text(encoding="utf-8"))
            version = plain["format"]
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(
                f"{folder} is not a model (no model.json); make one with `stochadmm fit`"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{folder}/model.json is damaged ({error}); fit again") from error
        if version != FORMAT:
            raise ValueError(
                f"{folder} was written by another version of stochadmm (format {version}, "
                f"expected {FORMAT}); upgrade stochadmm, or fit again"
            )
        if plain.pop("checksum", None) != _checksum(plain):
            raise ValueError(f"{folder}/model.json was changed since it was written; fit again")
        try:
            arrays = read_arrays(folder / "model.npz")
            coef, intercept = arrays["coef"], arrays["intercept"]
            design: Design | TermDesign
            if "terms" in plain:
                from . import _terms

                design = _terms.TermDesign.from_plain(plain)
            else:
                design = Design(plain["sources"], int(plain["n_columns"]), plain.get("from_zero"))
            model = cls(
                design,
                coef,
                intercept,
                plain["targets"],
                plain["loss"],
                plain["classes"],
                plain["offset"],
                plain["facts"],
            )
        except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
            raise ValueError(f"{folder} is damaged ({error}); fit again") from error
        if (
            coef.ndim != 2
            or coef.shape[1] != design.n_columns
            or len(design.names) != coef.shape[1]
        ):
            raise ValueError(
                f"{folder} is damaged (coefficients do not fit the columns); fit again"
            )
        return model
