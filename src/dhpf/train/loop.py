"""From a recipe to a trained head: epochs of steps, validation, checkpoints."""

from __future__ import annotations

import copy
import json
import os
import time
from datetime import timedelta
from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ..errors import InputError
from ..evaluate.provenance import code_version, training_images
from ..files import cache_folder, check_writable, write_atomically
from ..matcher import check_device, check_size
from ..memory import keep_freed_memory
from ..model.checkpoint import load_head_for_training
from ..model.network import DHPF, HeadKind
from ..model.weights import load_backbone
from ..processes import rank_and_world_size
from .batches import Batches, EpochPlan
from .checkpoint import BEST, LAST, STATE, Progress, load_state, save_state, save_trained
from .config import Config
from .features import FeatureStore
from .initial import prepare
from .optimise import follow, learning_rate, make_optimiser
from .report import Reporter
from .sources import Sources, open_sources
from .step import Learner
from .validate import validate

PREPARING_PHOTOS = 64  # that statistics and principal directions are taken from


def train(config: Config, out: Path, resume: bool = False, features: Path | None = None) -> Path:
    """Train and return the best head's file.

    Parameters
    ----------
    out
        The run's folder: ``best.safetensors``, ``last.safetensors``, ``state.safetensors`` to go on from,
        ``history.json``, TensorBoard logs.
    resume
        Go on with the run in that folder, exactly where it was; begin if there is none.
    features
        The folder of backbone features, which runs share; by default in the cache folder.
    """
    device = check_device(own_device(config.run.device))
    size = check_size(config.model.size)
    going_on = _goes_on(out, resume)
    sources = open_sources(config.data, config.run.seed, needs_points=config.loss.objective == "strong")
    keep_freed_memory()
    rank, world = _join_processes(device)
    run = Run(config, sources, out, (rank, world), device, size, features or cache_folder() / "features")
    _make_folder(out)  # only now: bad input leaves nothing behind
    if going_on:
        run.go_on()
    else:
        run.begin()
    run.train()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    return out / BEST


class Run:
    """Everything of a run that lives longer than a step."""

    def __init__(
        self,
        config: Config,
        sources: Sources,
        out: Path,
        share: tuple[int, int],
        device: torch.device,
        size: tuple[int, int],
        features: Path,
    ) -> None:
        self.config, self.sources, self.out, self.share = config, sources, out, share
        self.progress, self.commit = Progress(), code_version()
        self.network = _build(config).to(device)
        limit = int(config.run.cache_gb * 2**30)
        backbone = self.network.backbone
        self.store = FeatureStore(backbone, config.model.backbone, size, features, limit, device)
        self.plan = EpochPlan(
            [len(part) for part in sources.train], config.run.batch, config.data.per_epoch, config.run.seed
        )
        if self.plan.batch % share[1]:  # unequal shares would weigh pairs unequally
            raise InputError(
                f"{share[1]} processes cannot share batches of {self.plan.batch} equally; "
                f"make run.batch a multiple of {share[1]}"
            )
        self.batches = Batches(
            sources.train,
            self.plan,
            self.store,
            config.augment,
            negatives=config.loss.objective == "weak",
            share=share,
        )
        self.head = self.network.head().requires_grad_(True)
        self.average = copy.deepcopy(self.head).requires_grad_(False)
        self.optimiser = make_optimiser(self.head, config.optimiser)
        learner = Learner(
            self.network,
            config.loss,
            size,
            seed=config.run.seed,
            statistics=config.optimiser.statistics,
            mixed_precision=config.run.mixed_precision and device.type == "cuda",
            share=share,
        )
        self.learner: nn.Module = learner
        if share[1] > 1:
            # A layer that is off for a whole batch has no gradient in it.
            self.learner = DistributedDataParallel(
                learner, broadcast_buffers=False, find_unused_parameters=True
            )

    def begin(self) -> None:
        """Set the initial weights, unless they are those of another head."""
        if not self.config.model.start:
            self._prepare()
        self.average.load_state_dict(self.head.state_dict())

    def go_on(self) -> None:
        """Take up the state in the run's folder."""
        modules = {"head": self.head, "average": self.average}
        self.progress = load_state(self.out, self.config, modules, self.optimiser)

    def train(self) -> None:
        """All epochs that are left."""
        epochs = self.config.run.epochs
        reporter = Reporter(self.out, self._steps_done(), first=self.share[0] == 0)
        with reporter:
            if self.sources.left_out:
                reporter.note(f"{self.sources.left_out} pairs without common points are left out")
            while self.progress.epoch < epochs:
                self._epoch(reporter)
                self._judge(reporter)

    def _epoch(self, reporter: Reporter) -> None:
        progress = self.progress
        reporter.begin(progress.epoch, self.config.run.epochs, self.plan.steps, progress.step)
        for position, samples in self.batches.epoch(progress.epoch, progress.step):
            begun = time.monotonic()
            terms = self._step(position, samples)
            progress.step = position.step + 1
            progress.seconds += time.monotonic() - begun
            reporter.step(self._steps_done(), terms)
            if progress.step % self.config.run.save_every == 0 and progress.step < self.plan.steps:
                self._save_state()

    def _step(self, position, samples) -> dict[str, float]:  # type: ignore[no-untyped-def]
        rate = learning_rate(
            self.config.optimiser, self._steps_done(), self.plan.steps * self.config.run.epochs
        )
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        self.optimiser.zero_grad()
        result = self.learner(position, samples)
        result.loss.backward()
        self.optimiser.step()
        if not all(weights.sum().isfinite() for weights in self.head.parameters()):
            raise InputError(  # before it is saved
                f"epoch {position.epoch + 1}, step {position.step + 1}: weights are infinite or no number, "
                f"the loss is {result.loss.item()}; lower optimiser.rate"
            )
        follow(self.average, self.head, self.config.optimiser.average)
        return {**result.terms, "loss": result.loss.item(), "rate": rate}

    def _judge(self, reporter: Reporter) -> None:
        """The end of an epoch: validate the averaged weights, keep the best, save all."""
        progress = self.progress
        begun = time.monotonic()
        judged = copy.copy(self.network)
        judged._modules = dict(self.network._modules) | dict(self.average.named_children())
        scores = validate(judged, self.sources.validation, self.store, self.share)
        progress.seconds += time.monotonic() - begun
        record = {
            "epoch": progress.epoch,
            **reporter.averages(),
            **{f"val {k}": v for k, v in scores.items()},
        }
        progress.history.append(record)
        better = scores["mean"] > progress.best
        progress.best = max(progress.best, scores["mean"])
        progress.epoch, progress.step = progress.epoch + 1, 0
        reporter.end(self._steps_done(), record, better)
        if self.share[0] == 0:
            images = self._training_images()
            for name in [LAST, *([BEST] if better else [])]:
                save_trained(
                    self.out / name, self.network, self.average, self.config, self.commit, progress, images
                )
            write_atomically(self.out / "history.json", json.dumps(progress.history, indent=1).encode())
        self._save_state()  # last: what a kill before it loses is done again, with the same result

    def _save_state(self) -> None:
        if self.share[0] == 0:
            modules = {"head": self.head, "average": self.average}
            save_state(self.out, self.config, self.commit, self.progress, modules, self.optimiser)

    def _training_images(self) -> list[str] | None:
        """All photos that the head has learned from, with those of the head it began as; None: not known."""
        before = training_images(self.config.model.start) if self.config.model.start else ()
        return None if before is None else sorted({*before, *self.sources.training_images()})

    def _steps_done(self) -> int:
        return self.progress.epoch * self.plan.steps + self.progress.step

    def _prepare(self) -> None:
        """Initial weights and statistics from training photos, spread over the data sets."""
        photos = []
        each = max(1, PREPARING_PHOTOS // len(self.sources.train))
        for source in self.sources.train:
            for index in range(0, len(source), max(1, len(source) // each)):
                photos.append(source[index].source)
        prepare(
            self.network,
            photos[: 2 * PREPARING_PHOTOS],
            self.store,
            self.config.model.init,
            self.config.run.seed,
        )


def _build(config: Config) -> DHPF:
    model = config.model
    kind = HeadKind(model.gating, model.transform, model.hough, model.once, model.motion, model.closer)
    if model.start:
        return load_head_for_training(model.start, model.backbone, kind)
    return DHPF(load_backbone(model.backbone), kind)


def _goes_on(out: Path, resume: bool) -> bool:
    """Whether there is a run to go on with; an error if there is one and nobody asked for that."""
    there = (out / STATE).exists()
    if there and not resume:
        raise InputError(f"{out} holds a run already; go on with --resume, or choose another --out")
    return there


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {out}: {error.strerror}") from None
    check_writable(out / STATE)


def own_device(name: str) -> str:
    """Under torchrun, each process on a machine takes the CUDA device of its own number."""
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if name == "cuda" else name


def _join_processes(device: torch.device) -> tuple[int, int]:
    rank, world = rank_and_world_size()
    if world > 1:
        backend = "nccl" if device.type == "cuda" else "gloo"
        torch.distributed.init_process_group(backend, timeout=timedelta(hours=2))
    return rank, world
