"""Training on another device: a stand-in for a GPU refuses every tensor that is in the wrong place."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from dhpf.backbones.base import Features, extract
from dhpf.backbones.resnet import ResNet
from dhpf.backbones.weights import load_backbone
from dhpf.heads import load_head
from dhpf.methods import dhpf_training
from dhpf.methods.base import TrainingPair
from dhpf.methods.dhpf import DHPF, DHPFConfig, DHPFObjective
from dhpf.processes import sum_over_processes
from dhpf.train import batches, loop
from dhpf.train.config import Config
from dhpf.train.step import Losses, training_step
from tests.train_step.pairs import Learner, as_batch, make_learner, random_pairs

from .conftest import MakeConfig
from .device import DEVICE, Elsewhere, WrongDeviceError, in_stand_in, stand_in
from .double import DoubleStore


@pytest.fixture(scope="module")
def empty_backbone() -> ResNet:
    return ResNet(50)


@pytest.fixture
def double() -> Iterator[None]:
    """In float64 the CPU goes the same way, so that results are equal, and rounding decides nothing."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def pairs(empty_backbone: ResNet) -> list[TrainingPair]:
    """In float64."""
    return [moved(pair, torch.zeros((), dtype=torch.float64)) for pair in random_pairs(empty_backbone, 2)]


def moved(pair: TrainingPair, like: torch.Tensor) -> TrainingPair:
    """All of a pair in the type of a tensor, and where it is."""
    sides = []
    for side in (pair.source, pair.target):
        blocks, pooled = ({n: t.to(like) for n, t in part.items()} for part in (side.blocks, side.pooled))
        sides.append(Features(blocks, pooled, side.grid))
    return TrainingPair(sides[0], sides[1], pair.source_points.to(like), pair.target_points.to(like))


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """The device is there, for a whole training, and in the thread that reads batches."""

    class Pool(ThreadPoolExecutor):
        def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:  # type: ignore[override]
            return super().submit(in_stand_in(work), *arguments)

    monkeypatch.setattr(batches, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(loop, "check_device", torch.device)
    with stand_in() as device:
        yield device


def ten() -> torch.Tensor:
    return torch.arange(10.0)


REFUSED: dict[str, Callable[[torch.Tensor], object]] = {
    "sum": lambda x: x + ten(),
    "in place": lambda x: x.mul_(ten()),
    "onto the CPU": lambda x: ten().add_(x),
    "product": lambda x: x @ ten(),
    "side by side": lambda x: torch.cat([x, ten()]),
    "stacked": lambda x: torch.stack([x, ten()]),
    "read of the CPU": lambda x: ten()[x.long()],
    "index_select": lambda x: x.index_select(0, torch.tensor([1])),
    "where": lambda x: torch.where(ten() > 3, x, 0.0),
    "random numbers": lambda x: x.uniform_(generator=torch.Generator()),
    "new random numbers": lambda x: torch.rand(3, device=x.device, generator=torch.Generator()),
    "NumPy": lambda x: x.numpy(),
    "detached NumPy": lambda x: x.detach().numpy(),
}
ALLOWED: dict[str, Callable[[torch.Tensor], object]] = {
    "a number": lambda x: (x * 2).tolist() == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18],
    "a single value": lambda x: (x + torch.tensor(1.0)).sum().item() == 55,
    "indices": lambda x: x[torch.tensor([1, 3])].tolist() == x[[1, 3]].tolist() == [1, 3],
    "there and back": lambda x: torch.equal(x.cpu(), ten()) and torch.equal(ten().to(x).cpu(), ten()),
    "copied": lambda x: (
        torch.zeros_like(x).copy_(ten()).tolist() == ten().copy_(x).tolist() == ten().tolist()
    ),
    "made there": lambda x: torch.tensor([1.0, 2.0], device=x.device).tolist() == [1, 2],
    "a view": lambda x: x.view(2, 5)[1].add_(1) is not None and x.tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_gpu_refuses(name: str) -> None:
    with stand_in() as device:
        x = ten().to(device)
        assert (x.device, type(x)) == (DEVICE, Elsewhere)
        with pytest.raises(RuntimeError, match=r"CPU|numpy"):
            REFUSED[name](x)


@pytest.mark.parametrize("name", ALLOWED)
def test_what_a_gpu_allows(name: str) -> None:
    with stand_in() as device:
        assert ALLOWED[name](ten().to(device))


def there(backbone: ResNet, config: DHPFConfig, objective: DHPFObjective) -> Learner:
    """The learner of the other tests, on the device."""
    learner = make_learner(copy.deepcopy(backbone), config, objective)
    learner.method.to(DEVICE).head().requires_grad_(True)
    assert all(isinstance(part, Elsewhere) for part in learner.method.state_dict().values())
    return learner


def taken(learner: Learner, pairs: list[TrainingPair]) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss, and all gradients on the CPU."""
    loss, _ = Losses(*learner)(as_batch(pairs))
    torch.autograd.backward(loss)
    weights = learner.method.head().named_parameters()
    return loss.item(), {name: weight.grad.cpu() for name, weight in weights if weight.grad is not None}


BN_MODES = ("all", "gates", "none")
CASES = {
    f"{name}, {mode}": (DHPFConfig(), DHPFObjective(name, bn_mode=mode))
    for name in ("strong", "weak")
    for mode in BN_MODES
}
CASES |= {
    "ours": (DHPFConfig(gate_power=1, revote=True), DHPFObjective(target_sigma=1.0, dropout=0.1)),
    "weak, power 1": (DHPFConfig(gate_power=1), DHPFObjective("weak", dropout=0.1)),
    "sigmoid": (DHPFConfig(gating="sigmoid"), DHPFObjective(l1=1.0)),
    "all layers": (DHPFConfig(gating="none"), DHPFObjective()),
    "without transform": (DHPFConfig(transform=False), DHPFObjective()),
    "without Hough": (DHPFConfig(hough="none"), DHPFObjective()),
}


@pytest.mark.parametrize("name", CASES)
def test_a_step_is_that_of_the_cpu(
    empty_backbone: ResNet, pairs: list[TrainingPair], double: None, name: str
) -> None:
    loss, gradients = taken(make_learner(empty_backbone, *CASES[name]), pairs)
    with stand_in():
        found, theirs = taken(there(empty_backbone, *CASES[name]), pairs)
    assert found == pytest.approx(loss, rel=1e-10)
    assert theirs.keys() == gradients.keys()
    largest = max(gradient.abs().max() for gradient in gradients.values())
    for key, gradient in gradients.items():
        assert (theirs[key] - gradient).abs().max() <= 1e-10 * largest, key


def test_low_rank_updates_on_the_device(double: None) -> None:
    """Half of an image's layers are seen anew on the device; the others come from the CPU."""
    config = DHPFConfig(gating="none", perceptron=8, readout="soft-argmax", lora_blocks=2, lora_rank=2)
    backbone = load_backbone("dinov2-vits14").double()
    generator = torch.Generator().manual_seed(0)
    seen = [extract(backbone, torch.randn(3, 56, 56, generator=generator)) for _ in range(3)]
    points = torch.tensor([[20.0, 30.0], [41.0, 8.0]])
    pairs = [TrainingPair(seen[0], other, points, points.flip(0)) for other in seen[1:]]
    both = backbone, copy.deepcopy(backbone)
    learners = [Learner(DHPF(part, config), DHPFObjective(noise=0.3)) for part in both]
    for learner in learners:
        learner.method.prepare(seen, torch.Generator().manual_seed(1))
        learner.method.head().requires_grad_(True)
    loss, gradients = taken(learners[0], pairs)
    with stand_in():
        learners[1].method.to(DEVICE)
        learners[1].method.head().requires_grad_(True)
        found, theirs = taken(learners[1], pairs)
    assert found == pytest.approx(loss, rel=1e-10)
    assert "lora.blocks.0.qkv.up" in gradients and theirs.keys() == gradients.keys()
    for key, gradient in gradients.items():
        assert (theirs[key] - gradient).abs().max() <= 1e-9 * max(1.0, gradient.abs().max()), key


def test_a_batch_on_the_device(empty_backbone: ResNet, pairs: list[TrainingPair], double: None) -> None:
    """Whoever makes batches may put all of it there."""
    loss, _ = taken(make_learner(empty_backbone, *CASES["ours"]), pairs)
    with stand_in():
        batch = [moved(pair, torch.zeros((), device=DEVICE)) for pair in pairs]
        found, _ = taken(there(empty_backbone, *CASES["ours"]), batch)
    assert found == pytest.approx(loss, rel=1e-10)


@pytest.mark.parametrize("init", DHPF.inits)
def test_initial_weights_are_those_of_the_cpu(
    empty_backbone: ResNet, pairs: list[TrainingPair], double: None, init: str
) -> None:
    states = []
    with stand_in():
        for learner in (make_learner(empty_backbone), there(empty_backbone, DHPFConfig(), DHPFObjective())):
            samples = [side for pair in pairs for side in pair[:2]]
            learner.method.prepare(samples, torch.Generator().manual_seed(1), init)
            states.append({key: value.cpu() for key, value in learner.method.head().state_dict().items()})
    for key, value in states[0].items():
        torch.testing.assert_close(states[1][key], value, rtol=1e-10, atol=1e-10, msg=key)


def test_processes_reduce_on_the_device(
    empty_backbone: ResNet, pairs: list[TrainingPair], double: None, tmp_path: Path
) -> None:
    cases = {name: case for name, case in CASES.items() if name.split(", ")[-1] in BN_MODES}
    losses = {name: taken(make_learner(empty_backbone, *case), pairs)[0] for name, case in cases.items()}
    where = f"file://{tmp_path / 'store'}"
    torch.distributed.init_process_group("gloo", init_method=where, rank=0, world_size=1)
    try:
        with stand_in():
            assert type(sum_over_processes(ten().to(DEVICE))) is Elsewhere
            with pytest.raises(WrongDeviceError, match="tensors of the CPU are reduced"):
                sum_over_processes(ten())  # which NCCL does not do
            for name, case in cases.items():
                learner = there(empty_backbone, *case)
                optimiser = torch.optim.AdamW(learner.method.head().parameters())
                together = DistributedDataParallel(Losses(*learner), find_unused_parameters=True)
                terms = training_step(together, as_batch(pairs), optimiser)
                assert terms["loss"] == pytest.approx(losses[name], rel=1e-10)
    finally:
        torch.distributed.destroy_process_group()


def brief(small: MakeConfig, **run: Any) -> Config:
    """Two steps and their validation."""
    head = {"gate_power": 1, "revote": True}
    return small(run={"epochs": 1, **run}, data={"per_epoch": 4}, head=head)


def test_a_whole_training(
    small: MakeConfig, features: Path, tmp_path: Path, elsewhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a recipe to heads that work on the CPU, without an interruption and with one."""
    config = brief(small, device=str(DEVICE))
    loop.train(config, tmp_path / "whole", features=features)
    steps = itertools.count()

    def interrupted(*arguments: Any) -> dict[str, float]:
        if next(steps) == 1:
            raise KeyboardInterrupt
        return training_step(*arguments)

    monkeypatch.setattr(loop, "training_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.train(config, tmp_path / "parts", features=features)
    loop.train(config, tmp_path / "parts", resume=True, features=features)
    parts, whole = (json.loads((tmp_path / name / "history.json").read_text()) for name in ("parts", "whole"))
    assert parts == whole
    heads = [
        load_head(tmp_path / name / "best.safetensors").head().state_dict() for name in ("parts", "whole")
    ]
    assert heads[0].keys() == heads[1].keys()
    assert all(torch.equal(value, heads[1][key]) for key, value in heads[0].items())


def test_a_training_is_that_of_the_cpu(
    small: MakeConfig,
    features: Path,
    tmp_path: Path,
    elsewhere: None,
    double: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "FeatureStore", DoubleStore)
    for device in (str(DEVICE), "cpu"):
        loop.train(brief(small, device=device, epochs=2), tmp_path / device, features=features)
    there, here = (
        json.loads((tmp_path / name / "history.json").read_text()) for name in (str(DEVICE), "cpu")
    )
    assert len(there) == len(here) == 2
    for mine, theirs in zip(there, here, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-9)


def channels_of_the_cpu(method: DHPF, layer: int, *_: object) -> torch.Tensor:
    return torch.ones(method.transforms[layer].get_parameter("0.weight").shape[0])


MISPLACED: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "features": (dhpf_training, "_stacked", lambda blocks, device: torch.stack([*blocks]).float()),
    "features in validation": (Features, "to", lambda features, device: features),
    "channels that are left out": (dhpf_training, "_kept_channels", channels_of_the_cpu),
    "noise": (
        dhpf_training,
        "gumbel_noise",
        lambda shape, generator: torch.rand(shape, device=DEVICE, generator=generator),
    ),
}


@pytest.mark.parametrize("name", MISPLACED)
def test_a_misplaced_tensor_stops_a_training(
    small: MakeConfig,
    features: Path,
    tmp_path: Path,
    elsewhere: None,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.setattr(*MISPLACED[name])
    with pytest.raises(WrongDeviceError):
        loop.train(brief(small, device=str(DEVICE)), tmp_path, features=features)
