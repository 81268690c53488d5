"""Damaged files: every reader ends with an answer, or with one line that names the file.

    python -m nightly.fuzz [--count 200000] [--seed 0]

A sound file of some format is changed: bits, bytes, a piece cut out, doubled or filled, the end
cut off, a number replaced by an extreme one, a word of a text by another. It is then opened and
fitted, loaded, or predicted from. Allowed are an answer with finite numbers, and an error of the
kinds that readers document, whose message is one line and names the file.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import stochadmm as sa
from nightly import piece

ROWS, COLUMNS = 40, 3
ALLOWED = (ValueError, OSError, sa.CheckpointError)
WORDS = (
    b"nan",
    b"inf",
    b"-",
    b"1e999",
    b'"',
    b",",
    b"\n",
    b"\x00",
    b"0:0",
    b"99999999999:1",
    b"#",
)


def problem(X: Any, y: Any = None) -> sa.Problem:
    """Return a small problem."""
    return sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(0.05))


def fit(path: Any, target: Any = None) -> None:
    """Read rows of a file: all of them, several times."""
    found = sa.minimize(problem(sa.open(path, target=target)), max_passes=5, max_seconds=2)
    if not np.isfinite(found.coef).all():
        raise AssertionError("coefficients that are not finite")


def resume(path: Path) -> None:
    """Go on from a checkpoint."""
    X, y = table()
    sa.minimize(problem(X, y), "acc-sadmm", resume=path, max_passes=5)


def predict(path: Path) -> None:
    """Predict by a model of the command line."""
    from typer.testing import CliRunner

    from stochadmm.cli.main import app

    done = CliRunner().invoke(app, ["predict", str(path.parent), str(path.with_name("rows.csv"))])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if done.exit_code != 0:
        raise OSError(done.stderr.strip())
    if len(done.stdout.splitlines()) != ROWS + 1:
        raise AssertionError("predictions of other rows")


@cache
def table() -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that the files hold."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, COLUMNS))
    return X, X[:, 0] + 0.1 * rng.standard_normal(ROWS)


@cache
def samples() -> dict[str, tuple[Path, str, Callable[[Path], None]]]:
    """Return for each format a folder, the file in it that is damaged, and what reads it."""
    X, y = table()
    base = Path(tempfile.mkdtemp(prefix="fuzz-"))
    made: dict[str, tuple[Path, str, Callable[[Path], None]]] = {}

    def add(name: str, file: str, read: Callable[[Path], None]) -> Path:
        folder = base / name
        folder.mkdir()
        made[name] = (folder, file, read)
        return folder

    lines = "".join(
        f"{y[i]:.6f} " + " ".join(f"{j + 1}:{X[i, j]:.6f}" for j in range(COLUMNS)) + "\n"
        for i in range(ROWS)
    )
    (add("libsvm", "rows.svm", fit) / "rows.svm").write_text(lines)
    folder = add("libsvm-gz", "rows.svm.gz", fit)
    (folder / "rows.svm.gz").write_bytes(gzip.compress(lines.encode()))
    text = "a,b,c,y\n" + "".join(
        ",".join(f"{v:.6f}" for v in (*X[i], y[i])) + "\n" for i in range(ROWS)
    )
    (add("csv", "rows.csv", lambda p: fit(p, "y")) / "rows.csv").write_text(text)
    folder = add("npy", "X.npy", lambda p: fit(p, p.with_name("y.npy")))
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    np.savez(add("npz", "rows.npz", fit) / "rows.npz", X=X, y=y)
    folder = add("npz-csr", "rows.npz", fit)
    S = sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0))
    parts = {"data": S.data, "indices": S.indices, "indptr": S.indptr, "shape": np.array(S.shape)}
    np.savez(folder / "rows.npz", **parts, format=np.array(b"csr"), y=y)
    for file in ("data", "indices", "indptr"):
        folder = add(f"csr-{file}", f"{file}.npy", lambda p: fit(p.parent))
        for name in ("data", "indices", "indptr"):
            np.save(folder / f"{name}.npy", parts[name])
        np.save(folder / "y.npy", y)
    try:
        import pyarrow as pa
        from pyarrow import feather, parquet
    except ImportError:
        pass
    else:
        rows = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
        parquet.write_table(rows, add("parquet", "r.parquet", lambda p: fit(p, "y")) / "r.parquet")
        folder = add("arrow", "r.arrow", lambda p: fit(p, "y"))
        feather.write_feather(rows, folder / "r.arrow", compression="uncompressed")
    found = sa.minimize(problem(X, y), max_passes=5)
    found.save(add("result", "r.npz", sa.Result.load) / "r.npz")
    folder = add("checkpoint", "run.ckpt", resume)
    sa.minimize(
        problem(X, y),
        "acc-sadmm",
        max_passes=4,
        checkpoint=folder / "run.ckpt",
        checkpoint_every=0,
    )
    model(add("model-numbers", "model.npz", predict), text)
    model(add("model-text", "model.json", predict), text)
    return made


def model(folder: Path, text: str) -> None:
    """Write a model of the command line."""
    from typer.testing import CliRunner

    from stochadmm.cli.main import app

    rows = folder / "rows.csv"
    rows.write_text(text)
    asked = ["fit", str(rows), "--target", "y", "--alpha", "0.1", "--out", str(folder / "model")]
    done = CliRunner().invoke(app, asked)
    if done.exit_code != 0:
        raise RuntimeError(done.output)
    for file in (folder / "model").iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    shutil.rmtree(folder / "model")


def damage(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with one to three changes."""
    for _ in range(rng.integers(1, 4)):
        size = len(content)
        if size == 0:
            return content
        place = int(rng.integers(size))
        length = int(min(rng.geometric(0.05), size - place))
        changed = bytearray(content)
        kind = int(rng.integers(8))
        if kind == 0:
            changed[place] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            changed[place : place + length] = rng.bytes(length)
        elif kind == 2:
            del changed[place:]
        elif kind == 3:
            del changed[place : place + length]
        elif kind == 4:
            changed[place:place] = changed[place : place + length]
        elif kind == 5:
            changed[place : place + length] = bytes([int(rng.choice([0, 255, 48]))]) * length
        elif kind == 6:
            width = int(rng.choice([1, 2, 4, 8]))
            extremes = (0, 1, 2 ** (8 * width) - 1, 2 ** (8 * width - 1), 2 ** (8 * width - 2))
            extreme = extremes[int(rng.integers(len(extremes)))]
            changed[place : place + width] = extreme.to_bytes(width, "little")
        else:
            changed[place : place + length] = WORDS[int(rng.integers(len(WORDS)))]
        content = bytes(changed)
    return content


def trial(rng: np.random.Generator) -> str | None:
    """Damage one file and read it."""
    names = list(samples())
    name = names[int(rng.integers(len(names)))]
    folder, file, read = samples()[name]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        copy = Path(place) / "files"
        shutil.copytree(folder, copy)
        path = copy / file
        path.write_bytes(damage(path.read_bytes(), rng))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                read(path)
            except ALLOWED as error:
                message = str(error)
                if type(error).__module__.split(".")[0] not in ("builtins", "stochadmm"):
                    return f"{name}: raw {type(error)}: {message[:120]!r}"
                if str(copy) not in message and file not in message:
                    return f"{name}: the message names no file: {message[:160]!r}"
                if "\n" in message.strip():
                    return f"{name}: a message of several lines: {message[:160]!r}"
            except Exception as error:
                return f"{name}: raw {type(error).__name__}: {str(error)[:160]!r}"
    return None


if __name__ == "__main__":
    samples()
    piece.main("fuzz", trial, __doc__.splitlines()[0], 2000)
