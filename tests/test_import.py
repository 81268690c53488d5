"""What ``import stochadmm`` loads, and that names loaded on demand are there like any other."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import stochadmm as sa


def run(code):
    """Return what a new interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def shown_to_type_checkers():
    """Return what is imported under ``TYPE_CHECKING`` by name, estimators left out."""
    tree = ast.parse(inspect.getsource(sa))
    (block,) = (n for n in tree.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n))
    imports = [
        part
        for part in block.body
        if isinstance(part, ast.ImportFrom) and part.names[0].name != "*"
    ]
    found = {}
    exec(compile(ast.Module(imports, []), "imports", "exec"), {"__package__": "stochadmm"}, found)
    return found


def test_importing_the_package_loads_parts_and_nothing_that_works_on_them():
    heavy = ("_core", "certificates", "cluster", "data", "datasets", "problem", "risk", "run")
    loaded = run("import sys, stochadmm; print(*(m for m in sys.modules))")
    assert not {f"stochadmm.{name}" for name in (*heavy, "solvers")} & set(loaded)
    assert "sklearn" not in loaded
    assert {"stochadmm.losses", "stochadmm.operators", "stochadmm.penalties"} <= set(loaded)


def test_help_of_the_command_line_loads_no_solver_and_no_rows():
    code = (
        "import sys\nfrom stochadmm.cli.main import app\n"
        "app(['--help'], prog_name='stochadmm', standalone_mode=False)\n"
        "print('loaded', *sys.modules)"
    )
    printed = run(code)
    assert {"demo", "fit", "predict"} <= set(printed)
    loaded = set(printed[printed.index("loaded") :])
    assert not {"stochadmm.data", "stochadmm.risk", "stochadmm.solvers", "sklearn"} & loaded


def test_every_public_name_is_found_and_stays_the_same_object():
    assert set(sa.__all__) <= set(dir(sa))
    for name in sa.__all__:
        assert getattr(sa, name) is getattr(sa, name)


def test_a_new_process_finds_every_public_name_by_a_from_import():
    run(f"from stochadmm import ({', '.join(sa.__all__)})")
    run("from stochadmm import *; minimize, FusedLassoRegressor, Problem, L1, solvers.get")


def test_an_import_of_all_names_keeps_the_built_in_open():
    run("from stochadmm import *; import builtins; assert open is builtins.open")
    assert sa.open is sa.data.open_source and "open" in dir(sa)


def test_type_checkers_are_shown_the_objects_that_are_loaded():
    shown = shown_to_type_checkers()
    assert shown == {name: getattr(sa, name) for name in shown}
    at_once = run("import stochadmm as sa; print(*vars(sa))")
    assert set(shown) == set(sa.__all__) - set(at_once) - set(sa.estimators.__all__)


def test_every_room_is_an_attribute_of_the_package():
    folder = Path(sa.__file__).parent
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    packages |= {path.stem for path in folder.glob("[a-z]*.py")}
    packages -= {"cli"}  # a program
    lines = "; ".join(f"sa.{package}.__name__" for package in sorted(packages))
    run(f"import stochadmm as sa; {lines}")


def test_threads_may_ask_for_names_at_the_same_time():
    run(
        "import stochadmm as sa\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    list(pool.map(lambda name: getattr(sa, name), sa.__all__ * 3))"
    )


def test_an_object_travels_to_a_process_that_has_asked_for_nothing():
    code = (
        "import pickle, sys, stochadmm as sa\n"
        "problem = sa.Problem.linear(sa.Squared(), [[1.0], [2.0]], [1.0, 2.0])\n"
        "print(pickle.dumps(problem).hex())"
    )
    (sent,) = run(code)
    code = f"import pickle; print(pickle.loads(bytes.fromhex({sent!r})).f2.n_terms)"
    (rows,) = run(code)
    assert int(rows) == 2


def test_a_name_that_there_is_not_is_answered_with_one_that_there_is():
    with pytest.raises(AttributeError, match="no attribute 'minimise'; did you mean minimize"):
        _ = sa.minimise
    with pytest.raises(ImportError):
        from stochadmm import nothing_like_this  # noqa: F401
