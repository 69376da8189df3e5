"""Freed memory goes back to the system when a server asks for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A block at the end of the heap keeps the freed ones before it from being given back by themselves.
PROGRAM = """
from pathlib import Path
{imports}

def megabytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

def work():
    global kept, held
    blocks = [b"x" * 100_000 for _ in range(2000)]
    kept, held = blocks[-1], megabytes()

{run}
print(held - megabytes())
"""

KINDS = {
    "left alone": ("", "work()"),
    "asked for": ("from dhpf.memory import return_freed_memory", "work(); return_freed_memory()"),
    "after a job of the page": (
        "import asyncio; from dhpf.web.jobs import Jobs",
        "jobs = Jobs(1); asyncio.run(jobs.run('', work)); jobs.close()",
    ),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc has it")
@pytest.mark.parametrize("kind", KINDS)
def test_freed_memory_goes_back_when_asked_for(kind: str) -> None:
    imports, run = KINDS[kind]
    program = PROGRAM.format(imports=imports, run=run)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    given_back = float(done.stdout)
    if kind == "left alone":
        assert given_back < 20
    else:
        assert given_back > 150
