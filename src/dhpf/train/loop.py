"""From a recipe to a trained head: epochs of steps, validation, checkpoints."""

from __future__ import annotations

import copy
import json
import os
import time
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ..backbones.weights import load_backbone
from ..data.pairs import Photo
from ..errors import InputError
from ..evaluate.provenance import code_version
from ..files import cache_folder, check_folder, check_outputs, check_writable, make_folder, write_atomically
from ..heads import load_head_for_training, save_head
from ..matcher import check_device, check_size, round_size
from ..methods import find_method
from ..methods.base import Batch, Method
from ..processes import rank_and_world_size
from ..zoo import find_head, training_images
from .augmentation import Augmentation
from .batches import Batches, EpochPlan, Position
from .checkpoint import BEST, LAST, STATE, Progress, load_state, save_state
from .config import Config
from .features import FeatureStore
from .groups import ImageGroups
from .holdout import spaced
from .optimise import learning_rate, make_optimiser, update_ema
from .report import Reporter
from .sources import Sources, open_sources
from .step import Losses, training_step
from .validate import validate

PREPARING_IMAGES = 64  # that statistics and principal directions are taken from


def train(config: Config, out: Path, resume: bool = False, features: Path | None = None) -> Path:
    """Train and return the best head's file.

    Parameters
    ----------
    out
        The run's folder: ``best.safetensors``, ``last.safetensors``, ``state.safetensors`` to resume from,
        ``history.json``, TensorBoard logs.
    resume
        Resume the run in that folder, exactly where it was; begin if there is none.
    features
        The folder of backbone features, which runs share; by default in the cache folder.
    """
    device = check_device(own_device(config.run.device))
    resumes = (out / STATE).exists()
    if resumes and not resume:
        raise InputError(f"{out} holds a run already; resume it with --resume, or choose another --out")
    if out.is_dir() and config.model.start:
        check_outputs([out / name for name in (BEST, LAST)], [find_head(config.model.start)])
    check_folder(out)
    needs_points = getattr(config.loss, "needs_points", True)
    needs_masks = getattr(config.loss, "needs_masks", False)
    sources = open_sources(config.data, config.run.seed, needs_points, needs_masks)
    _join_processes(device)
    try:
        run = Run(config, sources, out, device, features or cache_folder() / "features")
        make_folder(out)  # only now: bad input leaves nothing behind
        check_writable(out / STATE)  # removes what a killed run left unfinished, too
        run.resume() if resumes else run.begin()
        run.train()
    finally:
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
        device: torch.device,
        features: Path,
    ) -> None:
        self.config, self.sources, self.out = config, sources, out
        self.rank, self.world_size = rank_and_world_size()
        self.progress, self.commit = Progress(), code_version()
        size = check_size(config.model.size)
        self.method = _build(config).to(device)
        backbone = self.method.backbone
        limit = int(config.run.cache_gb * 2**30)
        size = round_size(size, backbone.multiple)
        self.store = FeatureStore(backbone, config.model.backbone, size, features, limit, self.method.layers)
        lengths = [len(part) for part in sources.train]
        groups = None
        if config.data.group_images:
            ends = [[(entry.source, entry.target) for entry in part.entries] for part in sources.train]
            groups = [ImageGroups(own, config.data.group_images) for own in ends]
        self.plan = EpochPlan(lengths, config.run.batch, config.data.per_epoch, config.run.seed, groups)
        if self.plan.batch % self.world_size:  # unequal shares would weigh pairs unequally
            raise InputError(
                f"{self.world_size} processes cannot share batches of {self.plan.batch} equally; "
                f"make run.batch a multiple of {self.world_size}"
            )
        self.batches = Batches(
            sources.train,
            self.plan,
            self.store,
            config.augment,
            negatives=getattr(config.loss, "negatives", False),
            masks=getattr(config.loss, "needs_masks", False),
            rank=self.rank,
            world_size=self.world_size,
        )
        self.head = self.method.head().requires_grad_(True)
        self.ema = copy.deepcopy(self.method, {id(backbone): backbone}).requires_grad_(False)  # one backbone
        self.optimiser = make_optimiser(self.head, config.optimiser)
        self.losses: nn.Module = Losses(self.method, config.loss)
        if self.world_size > 1:
            # A layer that is off for a whole batch has no gradient in it.
            self.losses = DistributedDataParallel(self.losses, find_unused_parameters=True)

    def begin(self) -> None:
        """Set the initial weights, unless they are those of another head."""
        if not self.config.model.start:
            generator = torch.Generator().manual_seed(self.config.run.seed)
            samples = [self.store.get(photo, Augmentation()) for photo in self._preparing_images()]
            self.method.prepare(samples, generator, self.config.model.init)
        self.ema.load_state_dict(self.method.state_dict())

    def resume(self) -> None:
        """Take up the state in the run's folder."""
        self.progress = load_state(self.out, self.config, self._heads(), self.optimiser)

    def train(self) -> None:
        """All epochs that are left."""
        with Reporter(self.out, self._steps_done(), first=self.rank == 0) as reporter:
            if self.sources.left_out:
                what = "masks or boxes" if self.batches.masks else "common points"
                reporter.note(f"{self.sources.left_out} pairs without {what} are left out")
            while self.progress.epoch < self.config.run.epochs:
                self._epoch(reporter)
                self._judge(reporter)

    def _epoch(self, reporter: Reporter) -> None:
        progress = self.progress
        reporter.begin(progress.epoch, self.config.run.epochs, self.plan.steps, progress.step)
        for position, batch in self.batches.epoch(progress.epoch, progress.step):
            begun = time.monotonic()
            terms = self._step(position, batch)
            progress.step = position.step + 1
            progress.seconds += time.monotonic() - begun
            progress.sums = {key: progress.sums.get(key, 0.0) + value for key, value in terms.items()}
            reporter.step(self._steps_done(), terms, self._means())
            if progress.step % self.config.run.save_every == 0 and progress.step < self.plan.steps:
                self._save_state()

    def _step(self, position: Position, batch: Batch) -> dict[str, float]:
        steps = self.plan.steps * self.config.run.epochs
        rate = learning_rate(self.config.optimiser, self._steps_done(), steps)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        try:
            terms = training_step(self.losses, batch, self.optimiser)
        except InputError as error:
            raise InputError(f"epoch {position.epoch + 1}, step {position.step + 1}: {error}") from None
        update_ema(self.ema.head(), self.head, self.config.optimiser.ema)
        return {**terms, "rate": rate}

    def _means(self) -> dict[str, float]:
        """Mean terms of the epoch so far, before a resume and after."""
        return {key: value / self.progress.step for key, value in self.progress.sums.items()}

    def _judge(self, reporter: Reporter) -> None:
        """The end of an epoch: validate the averaged weights, keep the best, save all."""
        progress = self.progress
        begun = time.monotonic()
        scores = validate(self.ema, self.sources.validation, self.store, self.rank, self.world_size)
        progress.seconds += time.monotonic() - begun
        record = {"epoch": progress.epoch, **self._means(), **{f"val {k}": v for k, v in scores.items()}}
        progress.history.append(record)
        better = scores["mean"] > progress.best
        progress.best = max(progress.best, scores["mean"])
        progress.epoch, progress.step, progress.sums = progress.epoch + 1, 0, {}
        reporter.end(self._steps_done(), record, better)
        if self.rank == 0:
            for name in [LAST, *([BEST] if better else [])]:
                self._save_head(self.out / name)
            write_atomically(self.out / "history.json", json.dumps(progress.history, indent=1).encode())
        self._save_state()  # last: what a kill before it loses is done again, with the same result

    def _save_head(self, path: Path) -> None:
        """A head that ``--model`` takes, which says how it was made."""
        about = {
            "recipe": json.dumps(asdict(self.config)),
            "commit": self.commit,
            "metrics": json.dumps(self.progress.history[-1]),
            "hours": f"{self.progress.seconds / 3600:.2f}",
        }
        images = self._training_images()
        if images is not None:
            about["training_images"] = "\n".join(images)
        save_head(path, self.method, self.config.model.backbone, self.ema.head().state_dict(), **about)

    def _save_state(self) -> None:
        if self.rank == 0:
            save_state(self.out, self.config, self.commit, self.progress, self._heads(), self.optimiser)

    def _heads(self) -> dict[str, nn.Module]:
        return {"head": self.head, "ema": self.ema.head()}

    def _training_images(self) -> list[str] | None:
        """All images that the head has learned from, with those of the head it began as; None: not known."""
        before = training_images(self.config.model.start) if self.config.model.start else ()
        return None if before is None else sorted({*before, *self.sources.training_images()})

    def _steps_done(self) -> int:
        return self.progress.epoch * self.plan.steps + self.progress.step

    def _preparing_images(self) -> list[Photo]:
        """Training images, spread over the data sets."""
        each = max(1, PREPARING_IMAGES // len(self.sources.train))
        return [
            source[index].source
            for source in self.sources.train
            for index in spaced(range(len(source)), each)
        ]


def _build(config: Config) -> Method:
    model = config.model
    if model.start:
        return load_head_for_training(find_head(model.start), model.method, model.backbone, config.head)
    return find_method(model.method)(load_backbone(model.backbone), config.head)


def own_device(name: str) -> str:
    """Under torchrun, each process on a machine takes the CUDA device of its own number."""
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if name == "cuda" else name


def _join_processes(device: torch.device) -> None:
    """Under torchrun, meet the others."""
    world_size = rank_and_world_size()[1]
    if world_size == 1:
        return
    backend = "nccl" if device.type == "cuda" else "gloo"
    try:
        torch.distributed.init_process_group(backend, timeout=timedelta(hours=2))
    except (ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{world_size} processes cannot meet ({reason}); start them with torchrun") from None
