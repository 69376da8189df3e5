"""The command line: parses and calls; holds no logic. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from pathlib import Path
from types import FrameType

import typer

from .. import __version__
from ..errors import InputError
from . import analyse, annotate, compare, convert, data, evaluate, match, models, score, train, web

# How torch says it, and the system where a library does not fit
NO_MEMORY = re.compile("out of memory|allocate memory|failed to map segment")


def _version(show: bool) -> None:
    if show:
        typer.echo(f"dhpf {__version__}")
        raise typer.Exit


def _options(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    _help(context)


def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app = typer.Typer(
    name="dhpf",
    callback=_options,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # markup would swallow square brackets
    help="Find which point of one photo belongs to which point of another photo of the same kind of object.",
    epilog="Start with:  dhpf match --sample cheetahs   then:  dhpf match YOUR_A.jpg YOUR_B.jpg",
)
app.command("match")(match.match)
app.command("match-many")(match.match_many)
app.command("annotate")(annotate.annotate)
app.command("convert")(convert.convert)
app.command("models")(models.models)
app.command("ship")(models.ship)
app.command("import-checkpoint")(models.import_checkpoint)
app.add_typer(data.app, name="data", callback=_help, invoke_without_command=True, no_args_is_help=False)
app.command("predict")(evaluate.predict)
app.command("score")(score.score)
app.command("compare")(compare.compare)
app.command("evaluate")(evaluate.evaluate)
app.command("beam-search")(evaluate.beam_search)
app.command("train")(train.train)
app.command("web")(web.web)
app.command("analyse")(analyse.analyse)


def main() -> None:
    """Run a command; what a person gave wrongly becomes one line on stderr and exit code 2."""
    signal.signal(signal.SIGTERM, _terminate)
    if sys.stderr is None:  # closed by the shell: 2>&-
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    if sys.stdout is None:
        sys.exit(_complain("standard output is closed; give it a file, or /dev/null"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name may hold bytes that are no text
    code = _run()
    try:
        sys.stdout.flush()
    except OSError as error:  # a reader that stopped early, a full disc
        code = code or _complain(f"cannot write to standard output: {error.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or it is tried again at the end
    sys.exit(code)


def _run() -> int:
    """The exit code of the command."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("dhpf", sys.argv[1:]) as context:
            command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except InputError as error:
        return _complain(str(error))
    except typer.TyperException as error:
        return _complain(error.format_message())
    except BrokenPipeError:
        return _complain("cannot write to standard output: its reader has stopped")
    except OSError as error:
        return _complain(str(error))
    except (typer.Abort, KeyboardInterrupt):
        return _complain("interrupted", code=130)
    except (MemoryError, RuntimeError, ImportError) as error:
        if not isinstance(error, MemoryError) and not NO_MEMORY.search(str(error)):
            raise
        code = _complain("out of memory; choose a smaller --size, --cache or number of --workers")
        raise SystemExit(code) from error
    return 0


def _complain(message: str, code: int = 2) -> int:
    line = " ".join(message.split())
    print(f"dhpf: error: {line}", file=sys.stderr)
    return code


def _terminate(number: int, frame: FrameType | None) -> None:
    """Leave in order, so that temporary files are removed."""
    sys.exit(128 + number)
