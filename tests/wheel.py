"""``python -m tests.wheel``: the built wheel is complete, and works in an empty environment elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
LICENCES = ("LICENSE", "NOTICE")
LARGEST = 100 * 10**6  # the package index takes no larger wheel
NO_NETWORK = """
import socket
def refused(*given, **named):
    raise OSError("this test has no network")
socket.socket.connect = socket.getaddrinfo = refused
"""  # sitecustomize.py of the environment: read by all that runs in it
IN_PYTHON = """
import dhpf, pathlib, sys
assert pathlib.Path(dhpf.__file__).is_relative_to(sys.prefix), dhpf.__file__
match = dhpf.load(size=64).match(dhpf.sample("lion"), dhpf.sample("chelsea"))
assert match.transfer([[10, 20]]).shape == (1, 2)
"""


def run(*command: object, folder: Path) -> str:
    """Run a command in a folder, without the settings of the calling environment; its output."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    ended = subprocess.run(list(map(str, command)), cwd=folder, env=clean, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"wheel: {' '.join(map(str, command))} failed\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def build(folder: Path) -> Path:
    """The wheel, built from the source archive: what is missing there would be missing for others too."""
    run(sys.executable, "-m", "build", "--outdir", folder, REPOSITORY, folder=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def check_contents(wheel: Path) -> None:
    """Exit with a message if something is missing or does not belong there."""
    size = wheel.stat().st_size
    if size >= LARGEST:
        sys.exit(f"wheel: {size / 1e6:.1f} MB; wanted: less than {LARGEST / 1e6:.0f} MB")
    with zipfile.ZipFile(wheel) as archive:
        inside = {Path(name) for name in archive.namelist()}
    (information,) = {path.parts[0] for path in inside if path.parts[0].endswith(".dist-info")}
    source = REPOSITORY / "src"
    files = {path.relative_to(source) for path in (source / "dhpf").rglob("*") if path.is_file()}
    code = {
        path
        for path in files
        if not any(part == "__pycache__" or part.startswith(".") for part in path.parts)
    }
    missing = (code | {Path(information, "licenses", name) for name in LICENCES}) - inside
    foreign = {path for path in inside if path.parts[0] != information} - code
    if missing or foreign:
        sys.exit(f"wheel: missing {sorted(map(str, missing))}, foreign {sorted(map(str, foreign))}")


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        wheel = build(folder)
        check_contents(wheel)
        environment = folder / "environment"
        venv.create(environment, with_pip=True)
        programs = environment / ("Scripts" if os.name == "nt" else "bin")
        constraints = REPOSITORY / "constraints.txt"
        run(programs / "pip", "install", "--quiet", "--constraint", constraints, wheel, folder=folder)
        (packages,) = environment.rglob("site-packages")
        (packages / "sitecustomize.py").write_text(NO_NETWORK)
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        run(programs / "dhpf", "match", "--sample", "cheetahs", "--json", "match.json", folder=elsewhere)
        layers = json.loads((elsewhere / "match.json").read_text())["layers"]
        run(programs / "python", "-c", IN_PYTHON, folder=elsewhere)
        print(f"wheel: ok ({wheel.name}, {wheel.stat().st_size / 1e6:.0f} MB, layers {layers})")


if __name__ == "__main__":
    main()
