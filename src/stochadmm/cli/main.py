"""The command ``stochadmm``: the commands it has, and how errors are told."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from stochadmm.cli import bench, demo, fit, info, path, predict


class OneLineErrors(TyperGroup):
    """A group of commands that tells bad usage and bad input in one line, with exit code 2."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line; exceptions pass through unless in standalone mode."""
        run = partial(
            super().main,
            args,
            prog_name,
            complete_var,
            standalone_mode=False,
            windows_expand_args=windows_expand_args,
            **extra,
        )
        if not standalone_mode:
            return run()
        try:
            code = run()
        except typer.Abort:
            code = 130
        except OSError as error:
            code = _failed(_message_of_files(error))
        except Exception as error:
            message = _message(error)
            if message is None:
                raise
            code = _failed(message)
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    name="stochadmm",
    cls=OneLineErrors,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: one line per option
    help="Structured sparse and low-rank linear models, with certified optimality.",
)
for name, does, command in (
    ("demo", "Fit two models, compare methods, draw the answers.", demo.demo),
    ("fit", "Fit a structured linear model to a table.", fit.fit),
    ("predict", "Predict the target of every row of a table.", predict.predict),
    ("path", "Fit for many strengths and write the coefficients.", path.path),
    ("bench", "Compare the methods on one problem.", bench.bench),
    ("info", "Describe a data file, a model or the installation.", info.info),
):
    app.command(name, short_help=does)(command)


def _version(asked: bool) -> None:
    if asked:
        from stochadmm import __version__

        typer.echo(f"stochadmm {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line."""
    app(prog_name="stochadmm")


def _message(error: Exception) -> str | None:
    """Return the line for an error that the user can mend, None for any other error."""
    format_message = getattr(error, "format_message", None)
    if format_message is not None:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "stochadmm"
        text = " ".join(format_message().split()).rstrip(".")
        return f"{text}; see `{command} --help`"
    return _in_one_line(error) if isinstance(error, ValueError) else None


def _message_of_files(error: OSError) -> str:
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return _in_one_line(error)
    what = error.filename or "the answer"
    return f"no space is left to write {what}; make room, or name another --out"


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _failed(message: str) -> int:
    """Print what went wrong; return the exit code."""
    print(f"stochadmm: {message}", file=sys.stderr)
    return 2
