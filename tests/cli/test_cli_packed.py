"""Text files that are compressed are read as they are."""

import bz2
import gzip
import json
import lzma

import numpy as np
import pytest
from typer.testing import CliRunner

from stochadmm.cli.main import app

PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def texts():
    """The same rows as CSV, TSV and libsvm text."""
    rows = np.random.default_rng(0).standard_normal((40, 3)).round(4).tolist()
    return {
        "csv": "y,a,b\n" + "".join(f"{y},{a},{b}\n" for y, a, b in rows),
        "tsv": "y\ta\tb\n" + "".join(f"{y}\t{a}\t{b}\n" for y, a, b in rows),
        "svm": "".join(f"{y} 1:{a} 2:{b}\n" for y, a, b in rows),
    }


@pytest.mark.parametrize("packed", list(PACKERS))
@pytest.mark.parametrize("kind", ["csv", "tsv", "svm"])
def test_packed_text_is_read_as_it_is(run, tmp_path, texts, kind, packed):
    name = f"t.{kind}"
    (tmp_path / name).write_text(texts[kind])
    (tmp_path / f"{name}.{packed}").write_bytes(PACKERS[packed](texts[kind].encode()))
    for data, out in ((name, "plain"), (f"{name}.{packed}", "unpacked")):
        done = run("fit", data, "--alpha", "0.01", "--out", out)
        assert done.exit_code == 0, done.stderr
    shown = [run("predict", out, f"{name}.{packed}").stdout for out in ("plain", "unpacked")]
    assert shown[0] == shown[1] and shown[0].count("\n") == 41
    assert json.loads(run("info", f"{name}.{packed}", "--json").stdout)["file"]["rows"] == 40


@pytest.mark.parametrize("packed", list(PACKERS))
@pytest.mark.parametrize("kind", ["csv", "svm"])
@pytest.mark.parametrize("damage", ["cut", "not packed"])
def test_packed_text_that_is_damaged_is_one_line(run, tmp_path, texts, kind, packed, damage):
    name, whole = f"t.{kind}.{packed}", PACKERS[packed](texts[kind].encode())
    (tmp_path / name).write_bytes(whole[:200] if damage == "cut" else texts[kind].encode())
    done = run("fit", name, "--alpha", "0.01")
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    assert f"stochadmm: {name} cannot be read" in done.stderr


def test_packed_rows_beyond_memory_are_refused(run, tmp_path):
    digits = np.random.default_rng(0).integers(0, 10, 400_000)
    text = "y,a\n" + "".join(f"{k % 7},{digit}\n" for k, digit in enumerate(digits))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    done = run("fit", "t.csv.gz", "--loss", "squared", "--alpha", "0.01", "--memory", "4MiB")
    assert done.exit_code == 2 and "unpack it first" in done.stderr
    (tmp_path / "t.parquet.gz").write_bytes(gzip.compress(b"PAR1"))
    assert "text may be packed" in run("fit", "t.parquet.gz", "--alpha", "0.01").stderr
