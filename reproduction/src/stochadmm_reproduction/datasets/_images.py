"""Images on a grid of pixels: mnist, usps, coil20."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from stochadmm.datasets import Dataset

from ._scaling import Array, signs
from ._store import Arrays, fetch, parsed

_DIGITS = tuple("0123456789")


def load_mnist(*, task: str = "digits") -> Dataset:
    """Return the digits with grey values in [0, 1]; ``task`` is "digits" or "even-odd"."""
    X, digit, X_test, digit_test = (
        _read_idx(fetch(f"mnist/{part}-ubyte.gz"))
        for part in (
            "train-images-idx3",
            "train-labels-idx1",
            "t10k-images-idx3",
            "t10k-labels-idx1",
        )
    )
    return _digits(
        "mnist", _flat(X) / 255.0, digit, _flat(X_test) / 255.0, digit_test, (28, 28), task
    )


def load_usps(*, task: str = "digits") -> Dataset:
    """Return the digits with grey values in [-1, 1]; ``task`` is "digits" or "even-odd"."""
    files = ["usps/zip.train.csv.gz", "usps/zip.test.csv.gz"]
    arrays = parsed("usps", files, _read_usps)
    train, test = arrays["train"], arrays["test"]
    return _digits("usps", train[:, 1:], train[:, 0], test[:, 1:], test[:, 0], (16, 16), task)


def load_coil20() -> Dataset:
    """Return the objects with grey values in [0, 1]."""
    from scipy.io import loadmat

    content = loadmat(fetch("coil20/COIL20.mat"))
    # The file holds the pixels column by column; a grid here is in C order.
    images = content["X"].reshape(-1, 32, 32).transpose(0, 2, 1)
    return Dataset(
        name="coil20",
        X=_flat(images),
        y=content["Y"].ravel().astype(np.int64) - 1,
        target_names=tuple(f"object {k + 1}" for k in range(20)),
        grid=(32, 32),
    )


def _digits(
    name: str,
    X: Array,
    digit: Array,
    X_test: Array,
    digit_test: Array,
    grid: tuple[int, int],
    task: str,
) -> Dataset:
    if task not in ("digits", "even-odd"):
        raise ValueError(f"task is {task!r}, expected 'digits' or 'even-odd'")
    binary = task == "even-odd"

    def target(values: Array) -> Array:
        values = values.astype(np.int64)
        return signs(values % 2 == 0) if binary else values

    return Dataset(
        name=name,
        X=X,
        y=target(digit),
        X_test=X_test,
        y_test=target(digit_test),
        target_names=("odd", "even") if binary else _DIGITS,
        grid=grid,
    )


def _flat(images: Array) -> Array:
    return np.ascontiguousarray(images.reshape(len(images), -1), dtype=np.float64)


def _read_idx(path: Path) -> Array:
    """Return the array of an idx file: two zeros, type, dimensions, sizes, bytes."""
    with gzip.open(path) as stream:
        content = stream.read()
    n_axes = content[3]
    shape = np.frombuffer(content, ">i4", n_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


def _read_usps(train: Path, test: Path) -> Arrays:
    return {
        "train": np.loadtxt(train, delimiter=","),
        "test": np.loadtxt(test, delimiter=","),
    }
