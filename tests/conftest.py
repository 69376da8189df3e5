"""What the tests share: photos, one loaded model, the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray
from PIL import Image

import dhpf
from dhpf import cli, zoo

# Threads that wait must not keep a processor busy, where tests share it with others. Read when torch loads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

settings.register_profile("dhpf", deadline=None)  # a busy machine is not a wrong answer
settings.load_profile("dhpf")


class Ran(NamedTuple):
    """What a run of the program did."""

    code: int
    out: str
    err: str


def texture(width: int, height: int, seed: int = 0) -> NDArray[np.uint8]:
    """A generated photo (H, W, 3): smooth, without symmetry, different for every seed."""
    coarse = np.random.default_rng(seed).integers(
        0, 256, (max(2, height // 8), max(2, width // 8), 3), np.uint8
    )
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


zoo.models()  # in their order, before a test takes another default


@pytest.fixture(autouse=True)
def quick_default(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands take a model that is several times as fast as the default, unless a test asks for that."""
    if request.node.get_closest_marker("default_model") is None:
        monkeypatch.setattr(zoo, "DEFAULT_MODEL", "resnet50-spair")


@pytest.fixture(scope="session")
def matcher() -> dhpf.Matcher:
    """The default model, as a user gets it."""
    return dhpf.load("hpf-resnet50")


@pytest.fixture(scope="session")
def quick(matcher: dhpf.Matcher) -> dhpf.Matcher:
    """The same on small inputs, for tests that do not look at the quality of matches."""
    return dhpf.Matcher(matcher.method, matcher.name, size=64, calibration=matcher.calibration)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """The last bits of results depend on the number of threads; here they are to be equal."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """A photo of 60 x 40 pixels."""
    path = tmp_path / "photo.png"
    Image.fromarray(texture(60, 40)).save(path)
    return path


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run the program as the shell would, without starting another interpreter."""

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr("sys.argv", ["dhpf", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        code = stopped.value.code or 0
        assert isinstance(code, int)
        return Ran(code, *capfd.readouterr())

    return run
