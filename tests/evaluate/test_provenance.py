from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dhpf import __version__
from dhpf.evaluate import provenance


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_is_that_of_the_package_and_marks_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "src" / "dhpf"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(provenance, "PACKAGE", package)
    assert provenance.code_version() == __version__  # no tree

    def git(*words: str) -> str:
        name = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        done = subprocess.run(
            ["git", *name, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    commit = git("rev-parse", "--short", "HEAD")
    assert provenance.code_version() == commit
    (tmp_path / "notes.txt").write_text("not of the package")
    assert provenance.code_version() == commit
    card = package / "assets" / "models" / "birds.json"
    card.parent.mkdir(parents=True)
    card.write_text("{}")
    assert provenance.code_version() == commit  # what a model reaches is no code; its weights are
    card.with_suffix(".safetensors").write_text("")
    assert provenance.code_version() == f"{commit}+"
    card.with_suffix(".safetensors").unlink()
    (package / "new.py").write_text("")
    assert provenance.code_version() == f"{commit}+"
    installed = tmp_path / ".venv" / "dhpf"
    installed.mkdir(parents=True)
    monkeypatch.setattr(provenance, "PACKAGE", installed)
    assert provenance.code_version() == __version__  # somebody else's tree
