"""Where predictions come from: the code."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .. import __version__

PACKAGE = Path(__file__).resolve().parents[1]
CODE = (".", ":(exclude)assets/models/*.json")  # of it


def code_version() -> str:
    """The commit of the source tree that runs, '+' if the package was changed since; else the version.

    Cards are not code: writing down what a model reaches must not make the next predictions another run's.
    """

    def git(*words: str) -> str:
        try:
            done = subprocess.run(["git", *words], cwd=PACKAGE, capture_output=True, text=True, check=False)
        except OSError:  # no git
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    # A package that was installed somewhere below another project's tree is not of that tree.
    if git("ls-files", "--full-name", "__init__.py") != "src/dhpf/__init__.py":
        return __version__
    return git("describe", "--always") + ("+" if git("status", "--porcelain", "--", *CODE) else "")
