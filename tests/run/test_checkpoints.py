"""Checkpoints: a run taken up from a file ends as one never stopped; bad files are told."""

import errno
import json
import shutil
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.forms.few_columns import ColumnLimits
from stochadmm.run import checkpoint as files
from stochadmm.solvers import FewColumns, State

ROOT = Path(__file__).parents[2]


def logistic(n=200, d=12, dtype=np.float64, alpha=0.02):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)).astype(dtype)
    y = np.where(X[:, :4].sum(axis=1) + rng.standard_normal(n) > 0, 1.0, -1.0)
    return sa.Problem.linear(
        sa.Logistic(), X, y, structure=sa.Differences(d), on_structure=sa.L1(alpha)
    )


def plain(n=120, d=10):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d))
    return sa.Problem.linear(sa.Squared(), X, X[:, 0] + 0.1, on_coefficients=sa.ElasticNet(0.1))


def gram():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((150, 10))
    return sa.Problem.linear(
        sa.Squared(),
        X,
        X[:, :3].sum(axis=1),
        structure=sa.Differences(10),
        on_structure=sa.L1(0.05),
        intercept=True,
    )


def low_rank(curved=False):
    rng = np.random.default_rng(3)
    X, W = rng.standard_normal((200, 15)), np.outer(rng.standard_normal(15), np.arange(5.0))
    Z = X @ W + rng.standard_normal((200, 5))
    loss, Y = (sa.Multinomial(), Z.argmax(axis=1)) if curved else (sa.Squared(), Z)
    return sa.Problem.linear(
        loss, X, Y, on_structure=sa.Nuclear(0.02), on_coefficients=sa.L1(0.01), intercept=curved
    )


def tied():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((30, 100))
    return sa.Problem.linear(
        sa.Logistic(),
        X,
        np.sign(X[:, 20:40].sum(axis=1)),
        structure=sa.GridDifferences((10, 10)),
        on_structure=sa.L1(0.02),
        on_coefficients=sa.L1(0.02),
        intercept=True,
    )


def wide():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((60, 600))
    y = np.sign(X[:, :5].sum(axis=1) + rng.standard_normal(60))
    return sa.Problem.linear(sa.Logistic(), X, y, on_coefficients=sa.L1(0.05))


def text():
    rng = np.random.default_rng(6)
    X = sparse.random_array((300, 80), density=0.05, rng=rng, format="csr")
    y = np.asarray(X[:, :4].todense()).argmax(axis=1)
    return sa.Problem.linear(sa.Multinomial(), X, y, on_coefficients=sa.L1(0.005))


def streamed(loss=None):
    rng = np.random.default_rng(7)
    X = rng.standard_normal((4000, 6))
    y = np.sign(X[:, :3].sum(axis=1) + rng.logistic(size=4000))
    source = sa.data.ArraySource(X, y)
    return sa.Problem.linear(
        loss or sa.Logistic(), source, structure=sa.Differences(6), on_structure=sa.L1(0.01)
    )


def general():
    rng = np.random.default_rng(8)
    X, A1, A2 = (rng.standard_normal(shape) for shape in ((150, 6), (4, 5), (4, 6)))
    f2 = sa.FiniteSum(sa.Logistic(), X, np.sign(X[:, 0] + 0.5 * X[:, 1]))
    return sa.Problem(f2, h1=sa.L1(0.02), A1=A1, A2=A2)


def badly_scaled():
    p = logistic(alpha=0.001)
    return sa.Problem.linear(
        sa.Logistic(),
        p.f2.X * np.geomspace(1e-6, 1e6, 12) + 1e3,
        p.f2.y,
        on_coefficients=sa.L1(1e-3),
        intercept=True,
    )


OTHERS = {
    "katyusha": (plain, "katyusha"),
    "gram": (gram, sa.Auto("gram")),
    "newton": (lambda: logistic(3000, 30), sa.Auto("newton")),
    "newton in float32": (lambda: logistic(20000, 30, np.float32), sa.Auto("newton")),
    "low-rank-gram": (low_rank, "low-rank-gram"),
    "low-rank-newton": (lambda: low_rank(curved=True), "low-rank-newton"),
    "tied-newton": (tied, "tied-newton"),
    "working-set": (wide, "working-set"),
    "few-columns": (wide, FewColumns(ColumnLimits(first=4, work=3e4))),
    "coordinate-newton": (text, "coordinate-newton"),
    "streamed-newton": (streamed, "auto"),
    "streamed-gram": (lambda: streamed(sa.Squared()), "auto"),
    "acc-sadmm over files": (streamed, "acc-sadmm"),
    "svrg-admm over files": (streamed, "svrg-admm"),
    "asvrg-admm over files": (streamed, "asvrg-admm"),
    "general constraint": (general, "auto"),
    "general constraint, acc-sadmm": (general, "acc-sadmm"),
    "bad units": (badly_scaled, "auto"),
    "bad units, svrg-admm": (badly_scaled, "svrg-admm"),
}
FOR_LOGISTIC = [
    name
    for name in sa.solvers.names()
    if name
    not in {
        "katyusha",
        "gram",
        "coordinate-newton",
        "low-rank-gram",
        "low-rank-newton",
        "streamed-newton",
        "working-set",
        "tied-newton",
        "few-columns",
    }
]
CASES = {name: (logistic, name) for name in FOR_LOGISTIC} | OTHERS


def bits(result):
    """Return everything a result says but for times."""
    arrays = [result.coef, result.x1, result.x2, result.dual, np.asarray(result.intercept, float)]
    arrays += [] if result.ergodic is None else [result.ergodic.x1, result.ergodic.x2]
    numbers = [
        [None if v is None else float(v) for k, v in vars(r).items() if not k.startswith("sec")]
        for r in result.history
    ]
    names = (
        "objective",
        "feasibility",
        "gap",
        "relative_gap",
        "kkt_residual",
        "status",
        "message",
        "n_epochs",
        "n_passes",
        "n_gradients",
    )
    said = {k: v for k, v in result.info.items() if not k.startswith("seconds")}
    told = [float(v) if isinstance(v := getattr(result, name), float) else v for name in names]
    return [array.tobytes() for array in arrays], repr(numbers), repr(told), repr(said)


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """Copies of all checkpoints that runs have written."""
    copies, write = [], files.Checkpoint.write

    def spy(self, *run):
        write(self, *run)
        copies.append(tmp_path / f"copy {len(copies)}")
        shutil.copy(self.path, copies[-1])

    monkeypatch.setattr(files.Checkpoint, "write", spy)
    return copies


@pytest.mark.parametrize("case", CASES)
def test_a_run_from_any_checkpoint_ends_with_the_same_bits(case, kept, tmp_path):
    make, solver = CASES[case]
    problem, asked = make(), {"stop": sa.Gap(1e-9), "max_passes": 10}
    whole = sa.minimize(problem, solver, **asked)
    path = tmp_path / "run.ckpt"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none could not be written
        seen = sa.minimize(problem, solver, checkpoint=path, checkpoint_every=0, **asked)
    assert bits(seen) == bits(whole)
    assert len(kept) >= 2
    some = list(kept)
    for copy in {some[0], some[1], some[len(some) // 2], some[-1]}:
        again = sa.minimize(make(), solver, resume=copy, **asked)
        assert bits(again) == bits(whole)
    assert sorted(p.name for p in tmp_path.iterdir() if "copy" not in p.name) == [
        "run.ckpt",
        "run.ckpt.old",
    ]


def test_the_data_is_not_written(kept, tmp_path):
    problem = logistic(20000, 30, np.float32)
    sa.minimize(problem, sa.Auto("newton"), checkpoint=tmp_path / "a", checkpoint_every=0)
    assert max(copy.stat().st_size for copy in kept) < problem.f2.X.nbytes / 4


def test_a_longer_run_goes_on_with_another_rule(tmp_path):
    path, p = tmp_path / "run", logistic()
    first = sa.minimize(p, "acc-sadmm", stop=1e-2, checkpoint=path)
    more = sa.minimize(p, "acc-sadmm", stop=1e-6, max_passes=1000, resume=str(path))
    at_once = sa.minimize(p, "acc-sadmm", stop=1e-6, max_passes=1000)
    assert more.converged and more.n_epochs > first.n_epochs
    np.testing.assert_array_equal(more.coef, at_once.coef)
    assert more.seconds > first.seconds


def test_resume_true_begins_and_goes_on(tmp_path):
    path, p, passes = tmp_path / "run", logistic(), []

    def count(record, state):
        passes.append(record.epoch)

    asked = {"stop": sa.Never(), "checkpoint": path, "resume": True, "callback": count}
    sa.minimize(p, "acc-sadmm", max_passes=6, **asked)
    sa.minimize(p, "acc-sadmm", max_passes=12, **asked)
    assert passes == sorted(set(passes))
    ended = sa.minimize(p, "acc-sadmm", max_passes=12, **asked)  # nothing is left to do
    assert passes[-1] == ended.n_epochs == len(passes)


@pytest.mark.parametrize("kind", ["MT19937", "Philox", "SFC64"])
def test_any_generator_of_numpy_goes_on(kind, tmp_path):
    def generator():
        return np.random.Generator(getattr(np.random, kind)(3))

    p, asked = logistic(), {"stop": sa.Never()}
    whole = sa.minimize(p, "svrg-admm", max_passes=10, random_state=generator(), **asked)
    short = sa.minimize(
        p, "svrg-admm", max_passes=4, random_state=generator(), checkpoint=tmp_path / "a", **asked
    )
    assert bits(sa.minimize(p, "svrg-admm", max_passes=10, resume=short, **asked)) == bits(whole)
    again = sa.minimize(p, "svrg-admm", max_passes=10, resume=tmp_path / "a", **asked)
    assert bits(again) == bits(whole)


# ---------------------------------------------------------------- methods of users


@dataclass
class OwnState(State):
    pull: np.ndarray = field(kw_only=True)
    tail: object = None


class Own:
    """Gradient steps with momentum, in a state of its own."""

    name = "own"

    def __init__(self, tail=None):
        self.tail = tail

    def __fingerprint__(self):
        return "own"

    def start(self, problem, x=None, dual=None):
        x = problem.zeros()
        return OwnState(
            x=x,
            output=x,
            dual=problem.zeros_dual(),
            beta=1.0,
            pull=np.zeros(problem.shape2),
            tail=self.tail,
        )

    def epoch(self, problem, state, rng):
        noise = 1e-3 * rng.standard_normal(problem.shape2)
        state.pull = 0.9 * state.pull - 0.1 * problem.f2.gradient(state.x.x2) + noise
        x2 = state.x.x2 + state.pull
        state.x = state.output = problem.feasible(sa.Pair(state.x.x1, x2))
        state.n_epochs, state.n_passes = state.n_epochs + 1, state.n_passes + 1.0


def test_methods_of_users_with_states_of_their_own_go_on(tmp_path):
    p, asked = logistic(), {"stop": sa.Never()}
    whole = sa.minimize(p, Own(), max_passes=9, **asked)
    sa.minimize(p, Own(), max_passes=4, checkpoint=tmp_path / "a", **asked)
    assert bits(sa.minimize(p, Own(), max_passes=9, resume=tmp_path / "a", **asked)) == bits(whole)


def test_a_state_that_cannot_be_written_is_named_and_the_run_goes_on(tmp_path):
    with pytest.warns(RuntimeWarning, match=r"state\.tail is a .*function.*goes on"):
        result = sa.minimize(
            logistic(), Own(lambda: 0), stop=sa.Never(), max_passes=4, checkpoint=tmp_path / "a"
        )
    assert result.n_epochs == 4
    assert not (tmp_path / "a").exists()


# ---------------------------------------------------------------- bad files


def saved(folder, **options):
    path = folder / "run.ckpt"
    asked = {"stop": sa.Never(), "max_passes": 6, "checkpoint": path, "checkpoint_every": 0}
    sa.minimize(logistic(), "acc-sadmm", **asked | options)
    return path


def message_of(path, problem=None, solver="acc-sadmm"):
    with pytest.raises((ValueError, OSError)) as error:
        sa.minimize(problem or logistic(), solver, resume=path)
    text = str(error.value)
    assert "\n" not in text and path.name in text
    return text


def test_damage_anywhere_is_noticed(tmp_path):
    path = saved(tmp_path)
    files.older(path).unlink()
    good = path.read_bytes()
    places = np.unique(np.linspace(0, len(good) - 1, 60).astype(int))
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 1 + place % 255
        path.write_bytes(bytes(bad))
        assert any(word in message_of(path) for word in ("damaged", "no checkpoint", "newer"))
    for length in places:
        path.write_bytes(good[:length])
        assert any(word in message_of(path) for word in ("damaged", "no checkpoint"))
    path.write_bytes(good + b"x")
    assert "damaged" in message_of(path)


def test_the_last_good_one_is_used(tmp_path):
    path = saved(tmp_path)
    whole = sa.minimize(logistic(), "acc-sadmm", stop=sa.Never(), max_passes=12)
    for bad in (b"", path.read_bytes()[:-9], b"something else"):
        path.unlink()  # the one before it may be the same file by another name
        path.write_bytes(bad)
        with pytest.warns(RuntimeWarning, match=r"goes on from the one before it, .*\.old"):
            again = sa.minimize(
                logistic(), "acc-sadmm", stop=sa.Never(), max_passes=12, resume=path
            )
        assert bits(again) == bits(whole)


def test_what_is_no_checkpoint_is_told(tmp_path):
    path = tmp_path / "a.npz"
    sa.minimize(logistic(), "acc-sadmm", max_passes=4).save(path)
    assert "saved result" in message_of(path)
    path.write_bytes(np.random.default_rng(0).bytes(1000))
    assert "no checkpoint" in message_of(path)
    assert "there is no checkpoint" in message_of(tmp_path / "missing")


def test_a_newer_format_is_told(tmp_path):
    path = saved(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"checkpoint 1\n", b"checkpoint 2\n", 1))
    assert "newer" in message_of(path)  # and the older one is not used in its stead


def test_another_problem_or_method_is_refused(tmp_path):
    path = saved(tmp_path)
    assert "another problem or method" in message_of(path, logistic(alpha=0.03))
    assert "another problem or method" in message_of(path, logistic(), "svrg-admm")
    with pytest.raises(ValueError, match="another problem or method"):
        sa.minimize(logistic(alpha=0.03), "acc-sadmm", checkpoint=path, resume=True)


def rewritten(path, change):
    """Change the text of a checkpoint and make its sum right again."""
    meta, arrays = files.read(path)
    change(meta)
    files._write(path, meta, arrays)


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "subprocess:Popen",
        "stochadmm.run.loop:Run.to_the_end",
        "builtins:eval",
        "stochadmm.nothing:X",
    ],
)
def test_no_class_of_others_and_no_function_is_made(name, tmp_path):
    path = saved(tmp_path)

    def change(meta):
        meta["run"]["state"].update(object=name)

    rewritten(path, change)
    assert "no class of this version" in message_of(path)


def test_fields_of_another_version_are_told(tmp_path):
    path = saved(tmp_path)
    rewritten(path, lambda meta: meta["run"]["state"]["fields"].pop("x_tilde"))
    assert "other fields" in message_of(path)


# ---------------------------------------------------------------- disks and names


def test_a_full_disk_loses_neither_the_run_nor_the_last_checkpoint(tmp_path, monkeypatch):
    path, whole, save = saved(tmp_path), None, files.save_arrays
    before = path.read_bytes()
    whole = sa.minimize(logistic(), "acc-sadmm", stop=sa.Never(), max_passes=12)

    def full(file, arrays):
        file.write(b"x" * 1000)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "save_arrays", full)
    asked = {"stop": sa.Never(), "max_passes": 12, "checkpoint": path, "checkpoint_every": 0}
    with pytest.warns(RuntimeWarning, match=r"No space left.*goes on.*last good one stays"):
        again = sa.minimize(logistic(), "acc-sadmm", resume=True, **asked)
    assert bits(again) == bits(whole)
    assert path.read_bytes() == before
    assert {p.name for p in tmp_path.iterdir()} == {"run.ckpt", "run.ckpt.old"}
    monkeypatch.setattr(files, "save_arrays", save)
    assert bits(sa.minimize(logistic(), "acc-sadmm", resume=True, **asked)) == bits(whole)


def test_files_of_others_are_not_replaced(tmp_path):
    path = tmp_path / "thesis.tex"
    path.write_text("years of work")
    with pytest.raises(FileExistsError, match=r"thesis\.tex exists and is no checkpoint"):
        sa.minimize(logistic(), checkpoint=path)
    assert path.read_text() == "years of work"


def test_bad_arguments_are_told_before_the_run(tmp_path):
    p = logistic()
    with pytest.raises(FileNotFoundError, match="no folder"):
        sa.minimize(p, checkpoint=tmp_path / "missing" / "a")
    with pytest.raises(IsADirectoryError, match="name a file"):
        sa.minimize(p, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="checkpoint_every is -1"):
        sa.minimize(p, checkpoint=tmp_path / "a", checkpoint_every=-1)
    with pytest.raises(ValueError, match="checkpoint=PATH"):
        sa.minimize(p, resume=True)


def test_what_a_killed_process_left_half_written_is_removed(tmp_path):
    path = saved(tmp_path)
    mine, other = (tmp_path / f".{name}.{'0' * 32}.part" for name in ("run.ckpt", "run"))
    mine.write_text("half")
    other.write_text("of another")
    sa.minimize(logistic(), "acc-sadmm", max_passes=3, checkpoint=path)
    assert not mine.exists()
    assert other.exists()


def test_killed_processes_are_taken_up_with_the_same_bits(tmp_path):
    """Twenty moments of ``benchmarks/kills.py``, a third of them inside of a write."""
    out = tmp_path / "kills.json"
    command = [sys.executable, "benchmarks/kills.py", "--moments", "20", "--small", "--out", out]
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert len(found) == 20
    assert all(trial["same"] for trial in found)
    assert sum(trial["while writing"] for trial in found) >= 4


# ---------------------------------------------------------------- estimators and command line


def test_a_fit_that_was_killed_goes_on(tmp_path, kept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 30))
    y = X[:, :5].sum(axis=1) + rng.standard_normal(3000) > 0
    path = tmp_path / "model.ckpt"

    def model():
        return sa.FusedLassoClassifier(alpha=1e-3, solver=sa.Auto("newton"), standardize=True)

    whole = model().fit(X, y)
    seen = model().fit(X, y, checkpoint=path)
    again = model().fit(X, y, checkpoint=path)
    for each in (seen, again):
        np.testing.assert_array_equal(each.coef_, whole.coef_)
        assert each.n_iter_ == whole.n_iter_
    with pytest.raises(sa.CheckpointError, match="another problem or method"):
        model().set_params(alpha=2e-3).fit(X, y, checkpoint=path)


def test_the_command_line_goes_on(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from stochadmm.cli.main import app

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5))
    rows = np.column_stack([X, X[:, 0] + 0.1 * rng.standard_normal(400)])
    np.savetxt("t.csv", rows, delimiter=",", header="a,b,c,d,e,y", comments="")
    asked = ["fit", "t.csv", "--target", "y", "--loss", "squared", "--json", "--overwrite"]
    for name, streams in {"inside": False, "outside": True}.items():
        monkeypatch.setattr(
            "stochadmm.cli._stream.why_streamed", lambda *_, s=streams: "beyond" if s else None
        )
        call = [*asked, "--alpha", "0.01", "--checkpoint", name]
        first, second = (CliRunner().invoke(app, call) for _ in range(2))
        assert first.exit_code == second.exit_code == 0, first.output + second.output
        assert Path(name).exists()
    refused = CliRunner().invoke(app, [*asked, "--checkpoint", "run"])
    assert refused.exit_code == 2
    assert "--alpha" in refused.output
