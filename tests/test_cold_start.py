"""How long a person waits: for help, for an error, for a match."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dhpf

PACKAGE = Path(dhpf.__file__).parent


def processor_time(arguments: list[str]) -> float:
    """Seconds of a run; those of the processors, as other tests run beside this one."""
    before = os.times()
    ended = subprocess.run([sys.executable, *arguments], capture_output=True)
    assert ended.returncode == 0, ended.stderr
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def is_quick(arguments: list[str], limit: float, beside: str, times: float) -> bool:
    """Within ``limit`` seconds in one of three runs. On a slow machine, within ``times`` as long as merely
    importing ``beside``, timed next to it."""
    for _ in range(3):
        imports, taken = processor_time(["-c", f"import {beside}"]), processor_time(arguments)
        if taken < limit or taken < times * imports:
            return True
    return False


def imported(*arguments: str) -> set[str]:
    """The modules that a run of the program imports."""
    script = (
        "import sys; from dhpf.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True)
    return set(ended.stderr.split())


def test_help() -> None:
    assert is_quick(["-m", "dhpf", "--help"], limit=0.6, beside="typer.rich_utils", times=3)


@pytest.mark.parametrize(
    "arguments", ["--help", "match --help", "ship --help", "--version", "match none.jpg none.jpg"]
)
def test_help_and_bad_input_do_not_wait_for_torch(arguments: str) -> None:
    modules = imported(*arguments.split())
    assert "dhpf.cli.match" in modules
    assert not modules & {"torch", "numba", "scipy"}


def test_a_second_match_is_quick_and_compiles_nothing(matcher: dhpf.Matcher, tmp_path: Path) -> None:
    matcher.match(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"))  # the first, which compiles if it must
    script = (
        "from dhpf.cli import main\n"
        "try: main()\n"
        "finally:\n"
        "    from dhpf.fast import kernels\n"
        "    for name, kernel in vars(kernels).items():\n"
        "        if hasattr(kernel, 'stats'): assert not kernel.stats.cache_misses, name"
    )
    arguments = ["match", "--sample", "cheetahs", "--out", str(tmp_path / "m.png")]
    assert is_quick(["-c", script, *arguments], limit=14, beside="torch, numba, scipy.interpolate", times=2.5)


def kernel_caches(package_parent: Path, cache: Path) -> set[Path]:
    """The folders in which a copy of the package keeps its compiled kernels."""
    script = (
        "from dhpf.fast import kernels\n"
        "for kernel in vars(kernels).values():\n"
        "    if hasattr(kernel, 'stats'): print(kernel.stats.cache_path)"
    )
    environment = {**os.environ, "PYTHONPATH": str(package_parent), "XDG_CACHE_HOME": str(cache)}
    environment.pop("NUMBA_CACHE_DIR", None)
    ended = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return set(map(Path, ended.stdout.split()))


def test_compiled_code_goes_where_the_user_can_write(tmp_path: Path) -> None:
    """Beside the package; if nothing can be written there, to the user's cache folder.

    A file in the place of the folder keeps even the superuser from writing there.
    """
    shutil.copytree(PACKAGE, tmp_path / "dhpf", ignore=shutil.ignore_patterns("assets", "__pycache__"))
    beside = tmp_path / "dhpf" / "fast" / "__pycache__"
    assert kernel_caches(tmp_path, tmp_path / "cache") == {beside}
    shutil.rmtree(beside)
    beside.write_text("")
    (found,) = kernel_caches(tmp_path, tmp_path / "cache")
    assert found.is_relative_to(tmp_path / "cache")
    assert found.is_dir()
