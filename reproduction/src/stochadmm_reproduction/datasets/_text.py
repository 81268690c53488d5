"""Texts as counts or weights of words: 20news, clinc150."""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np
import scipy.sparse as sp

from stochadmm.datasets import Dataset

from ._scaling import Array, signs
from ._store import fetch


def load_20news(*, words: int = 100, binary: str | None = None, sparse: bool = True) -> Dataset:
    """Return 4 classes on 100 words present or not, or 20 classes on counts of 1,000 words.

    ``binary`` names a class to be told from the rest, for example "comp" or "sci.med".
    """
    if words not in (100, 1000):
        raise ValueError(f"words is {words!r}, expected 100 or 1000")
    fields = _read_w100() if words == 100 else _read_w1000()
    if binary is not None:
        names = fields["target_names"]
        if binary not in names:
            raise ValueError(f"binary is {binary!r}, expected one of {', '.join(names)}")
        for key in ("y", "y_test"):
            if key in fields:
                fields[key] = signs(fields[key] == names.index(binary))
        fields["target_names"] = ("other", binary)
    if not sparse:
        fields |= {key: fields[key].toarray() for key in ("X", "X_test") if key in fields}
    return Dataset(name="20news", **fields)


def load_clinc150(*, validation: str = "drop", **vectorizer: Any) -> Dataset:
    """Return the requests as TF-IDF weights learned on the training part.

    ``validation`` says where the 3,000 validation requests go: "drop", "train" or "test". Other
    options go to ``sklearn.feature_extraction.text.TfidfVectorizer``.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    if validation not in ("drop", "train", "test"):
        raise ValueError(f"validation is {validation!r}, expected 'drop', 'train' or 'test'")
    with gzip.open(fetch("clinc150/data_full.json.gz"), "rt", encoding="utf-8") as stream:
        content = json.load(stream)
    parts = {
        part: content[part] + (content["val"] if part == validation else [])
        for part in ("train", "test")
    }
    names = sorted({intent for _, intent in content["train"]})
    code = {intent: k for k, intent in enumerate(names)}
    transform = TfidfVectorizer(**vectorizer)
    X = transform.fit_transform([text for text, _ in parts["train"]])
    X_test = transform.transform([text for text, _ in parts["test"]])
    return Dataset(
        name="clinc150",
        X=sp.csr_array(X),
        y=np.array([code[intent] for _, intent in parts["train"]]),
        X_test=sp.csr_array(X_test),
        y_test=np.array([code[intent] for _, intent in parts["test"]]),
        feature_names=tuple(transform.get_feature_names_out().tolist()),
        target_names=tuple(names),
    )


def _read_w100() -> dict[str, Any]:
    from scipy.io import loadmat

    content = loadmat(fetch("20news/20news_w100.mat"))
    return {
        "X": sp.csr_array(content["documents"].T.astype(np.float64)),
        "y": content["newsgroups"].ravel().astype(np.int64) - 1,
        "feature_names": _strings(content["wordlist"]),
        "target_names": tuple(name.removesuffix(".*") for name in _strings(content["groupnames"])),
    }


def _read_w1000() -> dict[str, Any]:
    from scipy.io import loadmat

    content = loadmat(fetch("20news/20news_w1000.mat"))
    return {
        "X": sp.csr_array(content["trainW"]),
        "y": content["trainC"].toarray().argmax(axis=1),
        "X_test": sp.csr_array(content["testW"]),
        "y_test": content["testC"].toarray().argmax(axis=1),
        # A word stands for its variants; the first one names the column.
        "feature_names": tuple(_strings(variants)[0] for variants in content["vocab"].ravel()),
        "target_names": _strings(content["class_names"]),
    }


def _strings(cells: Array) -> tuple[str, ...]:
    """Return the strings of a MATLAB cell array."""
    return tuple(str(cell.ravel()[0]) for cell in cells.ravel())
