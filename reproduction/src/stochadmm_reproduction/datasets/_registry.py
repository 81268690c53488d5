"""The table of real data sets and the function that loads one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from inspect import Parameter, signature
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from stochadmm.datasets import Dataset

from .._names import did_you_mean
from . import _dna, _genes, _images, _tables, _text
from ._scaling import finish
from ._store import checksums


@dataclass(frozen=True)
class Entry:
    """What is known of a data set before it is loaded.

    Attributes
    ----------
    name : str
        Name given to ``load``.
    target : str
        What is predicted.
    rows, features : str
        Sizes, training and test parts apart.
    structure : str
        What the columns or the targets have in common.
    origin : str
        Who made it, and under which terms.
    """

    name: str
    target: str
    rows: str
    features: str
    structure: str
    origin: str
    loader: Callable[..., Dataset] = field(repr=False)

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files within the data folder."""
        return tuple(path for path in checksums() if path.startswith(f"{self.name}/"))

    @property
    def options(self) -> tuple[str, ...]:
        """Options of ``load`` that only this data set takes."""
        return tuple(signature(self.loader).parameters)


_ENTRIES = {
    entry.name: entry
    for entry in (
        Entry(
            "a9a",
            "binary",
            "32,561 + 16,281",
            "123 sparse",
            "none",
            "UCI Adult (Becker, Kohavi), binary coding by J. Platt; CC BY 4.0",
            _tables.load_a9a,
        ),
        Entry(
            "covtype",
            "binary (class 2) or 7 classes",
            "581,012",
            "54",
            "none; badly scaled",
            "UCI Covertype, J. A. Blackard and Colorado State University; CC BY 4.0",
            _tables.load_covtype,
        ),
        Entry(
            "mnist",
            "10 classes or even/odd",
            "60,000 + 10,000",
            "784",
            "28 x 28 grid",
            "Y. LeCun, C. Cortes, C. Burges; CC BY-SA 3.0",
            _images.load_mnist,
        ),
        Entry(
            "protein",
            "binary, 0.9 % positive",
            "72,876 + 72,875",
            "74",
            "none; badly scaled",
            "KDD Cup 2004, R. Caruana, T. Joachims, L. Backstrom, R. Elber; terms not stated",
            _tables.load_protein,
        ),
        Entry(
            "dna-methylation",
            "binary, 17 tasks",
            "500,783; largest task 107,600 + 107,600",
            "164 one-hot",
            "groups of 4, chain, tasks",
            "iDNA-MS, H. Lv et al., iScience 2020; terms not stated",
            _dna.load_methylation,
        ),
        Entry(
            "dna-gue",
            "binary, 6 tasks",
            "47,356 + 5,920; 128,344 + 5,000",
            "280; 404 one-hot",
            "groups of 4, chain, tasks",
            "Genome Understanding Evaluation, Z. Zhou et al., ICLR 2024; Apache-2.0",
            _dna.load_gue,
        ),
        Entry(
            "dna-statlog",
            "3 classes",
            "2,000 + 1,186",
            "180 sparse",
            "groups of 3",
            "UCI Molecular Biology (Splice-junction), Statlog; CC BY 4.0",
            _dna.load_statlog,
        ),
        Entry(
            "20news",
            "4 or 20 classes",
            "16,242; 11,256 + 7,489",
            "100; 1,000 sparse",
            "graph of words, to be estimated",
            "20 Newsgroups of K. Lang, prepared by S. Roweis; terms not stated",
            _text.load_20news,
        ),
        Entry(
            "breast-cancer-graph",
            "binary",
            "150",
            "922",
            "gene network, 386 overlapping pathways",
            "van de Vijver et al., NEJM 2002; graph of Chuang et al. 2007; MIT and Artistic-2.0",
            _genes.load_breast_cancer_graph,
        ),
        Entry(
            "p53-pathways",
            "binary",
            "50",
            "4,301",
            "308 overlapping pathways",
            "A. Subramanian et al., PNAS 2005; GPL-3 copy",
            _genes.load_p53,
        ),
        Entry(
            "school",
            "regression, 139 tasks",
            "15,362",
            "28",
            "tasks",
            "Inner London Education Authority; GPL-2 copy",
            _tables.load_school,
        ),
        Entry(
            "clinc150",
            "150 classes",
            "15,000 + 4,500",
            "words, TF-IDF",
            "many classes",
            "S. Larson et al., EMNLP 2019; CC BY 3.0",
            _text.load_clinc150,
        ),
        Entry(
            "usps",
            "10 classes or even/odd",
            "7,291 + 2,007",
            "256",
            "16 x 16 grid",
            "Y. LeCun et al.; GPL copy",
            _images.load_usps,
        ),
        Entry(
            "coil20",
            "20 classes",
            "1,440",
            "1,024",
            "32 x 32 grid",
            "S. Nene, S. Nayar, H. Murase, 1996; GPL-2 copy",
            _images.load_coil20,
        ),
    )
}


def names() -> list[str]:
    """Return the names of the real data sets.

    Examples
    --------
    >>> from stochadmm_reproduction import datasets
    >>> "covtype" in datasets.names()
    True
    """
    return list(_ENTRIES)


def describe(name: str) -> Entry:
    """Return what is known of a data set without loading it.

    Parameters
    ----------
    name : str
        One of ``names()``.

    Examples
    --------
    >>> from stochadmm_reproduction import datasets
    >>> datasets.describe("usps").structure
    '16 x 16 grid'
    """
    if name in _ENTRIES:
        return _ENTRIES[name]
    hint = did_you_mean(name, _ENTRIES, f"known are {', '.join(_ENTRIES)}")
    raise ValueError(f"there is no data set {name!r}; {hint}")


def load(
    name: str, *, unit_rows: bool = False, dtype: DTypeLike = np.float64, **options: Any
) -> Dataset:
    """Load a real data set.

    Parameters
    ----------
    name : str
        One of ``names()``.
    unit_rows : bool
        Scale every row to unit Euclidean norm, after everything else.
    dtype : float32 or float64
        Type of the rows and of real targets.
    **options : dict
        Choices of one data set, listed by ``describe(name).options``:

        * ``sparse`` (a9a, 20news, dna sets): CSR, the default, or dense;
        * ``binary`` (covtype): class 2 against the rest, the default, or seven classes;
          (20news): the name of the class to separate from the rest;
        * ``split`` and ``seed`` (covtype, protein): two random halves in random order, the default
          for protein; otherwise all rows in the order of the file;
        * ``standardize`` (covtype, protein, gene sets): columns of mean 0 and deviation 1 on the
          training rows, only the ten quantitative ones for covtype;
        * ``task`` (mnist, usps): "digits" or "even-odd"; (dna-methylation, dna-gue): the name of
          a task, or "all" and "tf" for several with the task of each row;
        * ``validation`` (dna-gue, clinc150): "drop", "train" or "test";
        * ``words`` (20news): 100 or 1000;
        * ``target``, ``merge_probes`` (breast-cancer-graph): "er" or "metastasis"; one column per
          gene instead of per probe;
        * anything that TfidfVectorizer takes (clinc150).

    Returns
    -------
    Dataset
        Fresh arrays: they may be changed freely.

    Examples
    --------
    >>> from stochadmm_reproduction import datasets
    >>> datasets.load("usps", task="even-odd", unit_rows=True)  # doctest: +SKIP
    Dataset('usps', X=7291x256 float64, y=7291 float64, X_test=2007x256 float64, grid: 16x16)
    """
    entry = describe(name)
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype is {dtype!r}, expected float32 or float64")
    parameters = signature(entry.loader).parameters
    takes_any = any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())
    unknown = [option for option in options if option not in parameters]
    if unknown and not takes_any:
        allowed = ["unit_rows", "dtype", *parameters]
        raise TypeError(f"{name} has no option {unknown[0]!r}; it takes {', '.join(allowed)}")
    data = finish(entry.loader(**options), unit_rows, dtype)
    return replace(data, description=f"{name}: {entry.target}. {entry.origin}.")
