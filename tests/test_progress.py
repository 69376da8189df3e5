"""What the terminal shows is what was written, square brackets included."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys

import pytest
from rich.table import Table

from dhpf.progress import plain_console, shown


def test_square_brackets_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    plain_console().print("pip install 'dhpf[train]' [bold]:smile:[/bold] [/x]")
    table = Table("a [red]column[/red]", title="[b]title")
    table.add_row("a [link=x]cell")
    plain_console(stderr=True).print(table)
    out, err = capsys.readouterr()
    assert out == "pip install 'dhpf[train]' [bold]:smile:[/bold] [/x]\n"
    assert all(text in err for text in ("[b]title", "a [red]column[/red]", "a [link=x]cell"))


def test_without_a_terminal_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(shown(iter("abc"), "counting", 3)) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")


def in_a_terminal(program: str) -> tuple[str, str]:
    """Standard output, and what the terminal shows of standard error."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=pipe, stderr=theirs, env=environment
    ) as run:
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # the answer of a terminal whose last writer has gone
            while chunk := os.read(ours, 4096):
                seen += chunk
        os.close(ours)
        return run.communicate()[0].decode(), seen.decode()


def test_a_bar_in_a_real_terminal() -> None:
    program = "from dhpf.progress import shown; print(*shown('abc', 'set [test]', 3, hidden={}))"
    out, seen = in_a_terminal(program.format(False))
    assert out == "a b c\n"
    assert "set [test]" in seen
    assert "100%" in seen
    assert in_a_terminal(program.format(True)) == ("a b c\n", "")
