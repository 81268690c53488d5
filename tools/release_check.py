"""Build what would be published and try it: ``make release-check``.

    python tools/release_check.py [--tests]

1. version, changelog and citation agree;
2. sdist, and a wheel made from it; their metadata passes ``twine check --strict``;
3. the sdist holds every tracked file that belongs into it, and nothing else;
4. wheel and sdist, each in a clean environment: the smoke test, the command line, and mypy
   --strict on a user's file (wheel); with ``--tests`` a part of the sdist's own test suite.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "release"
LEFT_OUT = ("docs/", "benchmarks/", "reproduction/", ".ci/", ".github/", "examples/", "tools/")
"""Folders of the repository that are no part of the sdist."""
ADDED = {"PKG-INFO"}
"""Files of the sdist that are no part of the repository."""
SDIST_TESTS = (
    "tests/structures/test_structures.py",
    "tests/base/test_files.py",
    "tests/cli/test_cli_fit.py",
)


def main() -> None:
    """Run the checks, one line each; the first failure ends them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", action="store_true", help="run the tests of the sdist too")
    options = parser.parse_args()
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    version = check_versions()
    sdist, wheel = build()
    say(f"built {sdist.name} and {wheel.name}")
    check_sdist(sdist, version)
    check_wheel(wheel)
    try_wheel(wheel, version)
    try_sdist(sdist, options.tests)
    print("release-check: everything holds")


def say(text: str) -> None:
    """Print a line at once."""
    print(f"release-check: {text}", flush=True)


def run(*command: object, cwd: Path | None = None, **environment: str) -> str:
    """Return the output of a command; its failure ends the check with the end of its output."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd or ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
        raise SystemExit(f"release-check: {' '.join(map(str, command))} failed\n{tail}")
    return done.stdout


def check_versions() -> str:
    """Return the version, which changelog and citation have to name as well."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = str(project["version"])
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = re.search(r"^## (\S+)", changelog, re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = re.search(r'^version: "?([^"\n]+)', citation, re.MULTILINE)
    found = {"CHANGELOG.md": first and first[1], "CITATION.cff": cited and cited[1]}
    for name, value in found.items():
        if value != version:
            raise SystemExit(f"release-check: {name} says {value}, pyproject.toml {version}")
    say(f"version {version} everywhere")
    return version


def build() -> tuple[Path, Path]:
    """Return the sdist, and the wheel that was made from it."""
    run(sys.executable, "-m", "build", "--outdir", WORK / "dist", ROOT)
    (sdist,) = (WORK / "dist").glob("*.tar.gz")
    (wheel,) = (WORK / "dist").glob("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    return sdist, wheel


def check_sdist(sdist: Path, version: str) -> None:
    """Compare the files of the sdist with those that git knows."""
    with tarfile.open(sdist) as archive:
        prefix = f"stochadmm-{version}/"
        held = {m.name.removeprefix(prefix) for m in archive.getmembers() if m.isfile()}
    tracked = set(run("git", "ls-files").split("\n")) - {""}
    wanted = {name for name in tracked if not name.startswith(LEFT_OUT)}
    optional = {name for name in wanted if "/" not in name}  # files at the top: as configured
    missing, extra = sorted(wanted - optional - held), sorted(held - tracked - ADDED)
    if missing or extra:
        raise SystemExit(f"release-check: sdist lacks {missing[:5]}, has more: {extra[:5]}")
    for name in ("LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "CMakeLists.txt"):
        if name not in held:
            raise SystemExit(f"release-check: sdist lacks {name}")
    say(f"sdist holds {len(held)} files, every tracked one that belongs there")


def check_wheel(wheel: Path) -> None:
    """Look for the compiled kernels and the mark of typed packages."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    if not any(re.search(r"_core\..*(so|pyd)$", name) for name in names):
        raise SystemExit(f"release-check: {wheel.name} has no compiled kernels")
    if "stochadmm/py.typed" not in names:
        raise SystemExit(f"release-check: {wheel.name} has no py.typed")
    strange = [name for name in names if name.split("/")[0].split("-")[0] != "stochadmm"]
    if strange:
        raise SystemExit(f"release-check: {wheel.name} installs {strange[:3]}")
    say(f"wheel holds {len(names)} files, with kernels and types")


def clean(name: str, *packages: object) -> Path:
    """Return the Python of a new environment with some packages."""
    folder = WORK / name
    venv.create(folder, with_pip=True, clear=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(python, "-m", "pip", "install", "-q", *packages)
    return python


def try_wheel(wheel: Path, version: str) -> None:
    """Use the wheel as a user would, outside of the checkout."""
    python = clean("wheel", wheel, "mypy", "scipy-stubs")
    run(python, ROOT / "tests" / "smoke.py", cwd=WORK)
    said = run(python, "-m", "stochadmm", "--version", cwd=WORK).strip()
    if said != f"stochadmm {version}":
        raise SystemExit(f"release-check: the command line says {said!r}")
    shutil.copy(ROOT / "tests" / "user_file.py", WORK / "user_file.py")
    run(python, "user_file.py", cwd=WORK)
    run(python, "-m", "mypy", "--strict", "user_file.py", cwd=WORK)
    say("wheel: smoke test, command line, and mypy --strict on a user's file")


def try_sdist(sdist: Path, tests: bool) -> None:
    """Install from the sdist, and run tests that it brings along."""
    more = (
        "pytest",
        "pytest-timeout",
        "hypothesis",
        "matplotlib",
        "networkx",
        "pandas",
        "pyarrow",
    )
    python = clean("sdist", sdist, *(more if tests else ()))
    run(python, ROOT / "tests" / "smoke.py", cwd=WORK)
    if tests:
        with tarfile.open(sdist) as archive:
            archive.extractall(WORK, filter="data")
        (folder,) = (path for path in WORK.glob("stochadmm-*") if path.is_dir())
        shutil.rmtree(folder / "src")  # the installed package is what is tested
        run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SDIST_TESTS, cwd=folder)
    say(f"sdist: smoke test{' and tests of its own' if tests else ''}")


if __name__ == "__main__":
    main()
