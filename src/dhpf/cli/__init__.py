"""The command line: parses and calls; holds no logic. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import io
import sys

import typer

from .. import __version__
from ..errors import InputError
from . import analyse, compare, data, evaluate, match, models, score, train, web

app = typer.Typer(
    name="dhpf",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Find which point of one photo belongs to which point of another photo of the same kind of thing.",
    epilog="Start with:  dhpf match --sample cheetahs   then:  dhpf match YOUR_A.jpg YOUR_B.jpg",
)
app.command("match")(match.match)
app.command("match-many")(match.match_many)
app.command("models")(models.models)
app.command("ship")(models.ship)
app.command("import-checkpoint")(models.import_checkpoint)
app.add_typer(data.app, name="data")
app.command("predict")(evaluate.predict)
app.command("score")(score.score)
app.command("compare")(compare.compare)
app.command("evaluate")(evaluate.evaluate)
app.command("beam-search")(evaluate.beam_search)
app.command("train")(train.train)
app.command("web")(web.web)
app.command("analyse")(analyse.analyse)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"dhpf {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options of the program itself."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run a command; what a person gave wrongly becomes one line on stderr and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name may hold bytes that are no text
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except InputError as error:
        code = _complain(str(error))
    except typer.TyperException as error:
        code = _complain(error.format_message())
    except OSError as error:
        code = _complain(str(error))
    except (typer.Abort, KeyboardInterrupt):
        code = _complain("interrupted", code=130)
    sys.exit(code)


def _complain(message: str, code: int = 2) -> int:
    line = " ".join(message.split())
    print(f"dhpf: error: {line}", file=sys.stderr)
    return code
