"""Files: whole or absent, whatever happens; archives that lie are refused before they cost."""

import io
import os
import struct
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

from stochadmm.base.files import read_arrays, replacing, write_arrays, write_text

posix = pytest.mark.skipif(os.name != "posix", reason="modes, links and pipes of POSIX")


def left_over(folder):
    return [path.name for path in folder.iterdir() if path.suffix == ".part"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_fails_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error), replacing(path) as temporary:
        temporary.write_text("half of the n")
        raise error
    assert path.read_text() == "old" and not left_over(tmp_path)
    with pytest.raises(error), replacing(tmp_path / "b.txt"):
        raise error
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_killed_process_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    lines = (
        "import sys, time; from stochadmm.base.files import replacing\n"
        "with replacing(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('half'); print('ready', flush=True); time.sleep(600)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", lines, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": ":".join(sys.path)},
    )
    assert child.stdout.readline() == "ready\n"
    child.kill()
    child.communicate()
    assert path.read_text() == "old"
    assert write_text(path, "new").read_text() == "new"


def test_readers_see_the_old_or_the_new_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with open(path) as reader, replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and reader.closed


@posix
def test_modes_and_links_stay(tmp_path):
    path, link = tmp_path / "a.txt", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_text(link, "new")
    assert link.is_symlink() and path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    mask = os.umask(0o027)
    try:
        assert write_text(tmp_path / "b.txt", "").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(mask)


@posix
def test_devices_are_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    write_text(pipe, "through")
    assert reader.communicate(timeout=60)[0] == "through"
    assert pipe.is_fifo()
    with pytest.raises(IsADirectoryError, match="name a file"):
        write_text(tmp_path, "x")


def test_two_writers_do_not_meet(tmp_path):
    path = tmp_path / "a.txt"
    with replacing(path) as first, replacing(path) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first" and not left_over(tmp_path)


# ---------------------------------------------------------------- archives


ARRAYS = {
    "a": np.arange(6.0).reshape(2, 3),
    "by_column": np.asfortranarray(np.arange(6.0, dtype="f4").reshape(2, 3)),
    "number": np.array(3.0),
    "nothing": np.zeros((0, 4)),
    "bytes": np.frombuffer(b"abc", np.uint8),
}


def test_arrays_come_back(tmp_path):
    write_arrays(tmp_path / "a.npz", ARRAYS)
    found = read_arrays(tmp_path / "a.npz")
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype and found[name].flags.writeable


def member(shape, dtype="<f8", content=b"", version=1):
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode() + b"\n"
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + content


def archive(path, content, name="coef.npy", kind=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", kind) as file:
        file.writestr(name, content)
    return path


LIES = {
    "huge": member((10**12,)),
    "huge by product": member((10**6, 10**6, 10**6)),
    "negative": member((-1,)),
    "more than it has": member((5,), content=b"\0" * 32),
    "less than it has": member((3,), content=b"\0" * 32),
    "objects": member((1,), "|O", b"\0" * 8),
    "no header": b"\x93NUMPY\x01\x00\xff\xff{",
    "header of four gigabytes": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}",
    "code in the header": b"\x93NUMPY\x01\x00" + struct.pack("<H", 22) + b"__import__('os').abort",
    "unknown version": member((0,), version=9),
    "text": b"hello",
    "unclosed": b"\x93NUMPY\x01\x00" + struct.pack("<H", 8) + b"{'descr'",
    "deep": b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000,
}


@pytest.mark.parametrize("lie", LIES)
def test_members_that_lie_are_refused_without_taking_memory(tmp_path, lie):
    path = archive(tmp_path / "a.npz", LIES[lie])
    tracemalloc.start()
    try:
        with pytest.raises(ValueError):
            read_arrays(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


def test_compressed_doubled_and_foreign_members_are_refused(tmp_path):
    whole = member((10**6,), content=b"\0" * 8 * 10**6)
    with pytest.raises(ValueError, match=r"declares more|no plain array"):
        read_arrays(archive(tmp_path / "a.npz", whole, kind=zipfile.ZIP_DEFLATED))
    with pytest.raises(ValueError, match="no plain array"):
        read_arrays(archive(tmp_path / "b.npz", b"print(1)", "evil.py"))
    with zipfile.ZipFile(tmp_path / "c.npz", "w") as file, pytest.warns(UserWarning):
        file.writestr("a.npy", member((0,)))
        file.writestr("a.npy", member((0,)))
    with pytest.raises(ValueError, match="twice"):
        read_arrays(tmp_path / "c.npz")


def test_damage_anywhere_is_noticed_or_harmless(tmp_path):
    write_arrays(tmp_path / "a.npz", {"a": np.arange(4.0), "b": np.ones(2, "f4")})
    whole, rng = (tmp_path / "a.npz").read_bytes(), np.random.default_rng(0)
    for cut in range(0, len(whole), 7):
        (tmp_path / "b.npz").write_bytes(whole[:cut])
        with pytest.raises(ValueError):
            read_arrays(tmp_path / "b.npz")
    for place in rng.permutation(len(whole))[:300]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "b.npz").write_bytes(damaged)
        try:
            found = read_arrays(tmp_path / "b.npz")
        except ValueError:
            continue
        # dates, names and the like: the numbers are guarded by check sums
        for array in found.values():
            assert array.tobytes() in (np.arange(4.0).tobytes(), np.ones(2, "f4").tobytes())


def test_numpy_reads_what_is_written(tmp_path):
    write_arrays(tmp_path / "a.npz", ARRAYS)
    with np.load(io.BytesIO((tmp_path / "a.npz").read_bytes()), allow_pickle=False) as file:
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(file[name], array)
