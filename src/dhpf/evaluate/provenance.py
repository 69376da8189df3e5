"""Where predictions come from: the code, and the images that a model was trained on."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .. import __version__
from ..model.checkpoint import read_metadata
from ..model.models import MODELS

PACKAGE = Path(__file__).resolve().parents[1]


def code_version() -> str:
    """The commit of the source tree that runs, '+' if the package was changed since; else the version."""

    def git(*words: str) -> str:
        try:
            done = subprocess.run(["git", *words], cwd=PACKAGE, capture_output=True, text=True, check=False)
        except OSError:  # no git
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    # A package that was installed somewhere below another project's tree is not of that tree.
    if git("ls-files", "--full-name", "__init__.py") != "src/dhpf/__init__.py":
        return __version__
    return git("describe", "--always") + ("+" if git("status", "--porcelain", "--", ".") else "")


def training_images(model: str) -> tuple[str, ...] | None:
    """The images that a model was trained on, by name; None if it does not say.

    Fixed layers are not trained, but may have been searched on images. A head file names its images in the
    metadata under ``training_images``, one a line.
    """
    path = Path(model)
    if model in MODELS:
        head = MODELS[model].head
        if head is None:
            return MODELS[model].fitted_to
        path = head
    if not path.is_file():
        return None
    names = read_metadata(path).get("training_images")
    return None if names is None else tuple(names.splitlines())
