"""Head files, and the import of checkpoints in the published layout."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dhpf import InputError, Matcher, load
from dhpf.model.backbone import ResNet
from dhpf.model.checkpoint import import_published, load_network, read_metadata, save_head
from dhpf.model.network import DHPF

HIDDEN = 32


def published(depth: int, seed: int = 0) -> dict[str, Tensor]:
    """Random tensors with the published code's names and shapes."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator) * 0.1

    def batch_norm(name: str, channels: int) -> dict[str, Tensor]:
        return {
            f"{name}.weight": 1 + random(channels),
            f"{name}.bias": random(channels),
            f"{name}.running_mean": random(channels),
            f"{name}.running_var": 1 + random(channels).abs(),
            f"{name}.num_batches_tracked": torch.tensor(12),
        }

    with torch.device("meta"):
        channels = ResNet(depth).channels
    state: dict[str, Tensor] = {}
    for layer, c in enumerate(channels):
        state[f"reduction_ffns.{layer}.0.weight"] = random(c // 8, c, 1, 1)
        state |= batch_norm(f"reduction_ffns.{layer}.1", c // 8)
        state[f"gumbel_ffns.{layer}.0.weight"] = random(HIDDEN, c, 1, 1)
        state |= batch_norm(f"gumbel_ffns.{layer}.1", HIDDEN)
        state[f"gumbel_ffns.{layer}.3.weight"] = random(2, HIDDEN, 1, 1)
    return state


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("published") / "best_model.pt"
    torch.save(published(50), path)
    return path


@pytest.fixture(scope="module")
def head(checkpoint: Path) -> Path:
    out = checkpoint.with_name("head.safetensors")
    assert import_published(checkpoint, out, "resnet50-msra") == "resnet50-msra"
    return out


def test_names_and_values_survive(checkpoint: Path, head: Path) -> None:
    before, after = torch.load(checkpoint, weights_only=True), load_file(head)
    for layer in range(17):
        for theirs, ours in (("reduction_ffns", "transforms"), ("gumbel_ffns", "gates.perceptrons")):
            for name in ("0.weight", "1.weight", "1.bias", "1.running_mean", "1.running_var"):
                given = before[f"{theirs}.{layer}.{name}"]
                kept = after.pop(f"{ours}.{layer}.{name}")
                assert torch.equal(kept.flatten(), given.flatten())
        kept = after.pop(f"gates.perceptrons.{layer}.3.weight")
        assert torch.equal(kept.flatten(), before[f"gumbel_ffns.{layer}.3.weight"].flatten())
    assert not after
    metadata = read_metadata(head)
    assert (metadata["backbone"], metadata["origin"]) == ("resnet50-msra", "imported from best_model.pt")


@pytest.mark.parametrize(("depth", "backbone"), [(50, "resnet50"), (101, "resnet101")])
def test_the_number_of_layers_tells_the_backbone(tmp_path: Path, depth: int, backbone: str) -> None:
    torch.save(published(depth), tmp_path / "in.pt")
    assert import_published(tmp_path / "in.pt", tmp_path / "out.safetensors") == backbone
    assert read_metadata(tmp_path / "out.safetensors")["backbone"] == backbone


def test_gates_and_transformations_compute_what_the_published_layout_says(
    checkpoint: Path, head: Path
) -> None:
    """1x1 convolutions on pooled features for the gates, on blocks for the transformations."""
    state = torch.load(checkpoint, weights_only=True)
    network = load_network(str(head))
    assert isinstance(network, DHPF)
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    one, other = network.features(images[:1]), network.features(images[1:])

    def convolution_and_norm(name: str, x: Tensor) -> Tensor:
        x = torch.nn.functional.conv2d(x, state[f"{name}.0.weight"])
        norm = [state[f"{name}.1.{part}"] for part in ("running_mean", "running_var", "weight", "bias")]
        return torch.nn.functional.batch_norm(x, *norm).relu()

    on = []
    for layer, (a, b) in enumerate(zip(one.blocks.values(), other.blocks.values(), strict=True)):
        pooled = a.mean((2, 3), keepdim=True) + b.mean((2, 3), keepdim=True)
        scores = torch.nn.functional.conv2d(
            convolution_and_norm(f"gumbel_ffns.{layer}", pooled), state[f"gumbel_ffns.{layer}.3.weight"]
        ).flatten()
        if scores[1] > scores[0]:
            on.append(layer)
        reduced = convolution_and_norm(f"reduction_ffns.{layer}", a)
        torch.testing.assert_close(network.transform(layer, a), reduced, rtol=1e-4, atol=1e-4)
    assert 0 < len(on) < 17
    assert network.match(one, other).layers == (tuple(on),)


def test_an_imported_head_matches(head: Path, photo: Path) -> None:
    matcher: Matcher = load(head, size=64)
    found = matcher.match(photo, photo)
    assert found.model == str(head)
    assert found.layer_probability is not None
    assert found.layers == tuple((found.layer_probability > 0.5).nonzero()[0]) or found.layers == (0,)
    assert found.to_dict()["layer_probability"] == pytest.approx(found.layer_probability.tolist(), abs=1e-6)


def test_the_input_stays_and_no_other_file_appears(checkpoint: Path, head: Path) -> None:
    assert sorted(path.name for path in head.parent.iterdir()) == ["best_model.pt", "head.safetensors"]


def bad(tmp_path: Path, state: dict[str, Tensor]) -> Path:
    torch.save(state, tmp_path / "bad.pt")
    return tmp_path / "bad.pt"


def test_checkpoints_that_are_something_else(tmp_path: Path, checkpoint: Path) -> None:
    out, state = tmp_path / "out.safetensors", published(50)
    with pytest.raises(
        InputError, match=r"bad\.pt is not a published DHPF checkpoint: unknown key conv1\.weight"
    ):
        import_published(bad(tmp_path, {"conv1.weight": torch.zeros(1)}), out)
    with pytest.raises(InputError, match=r"has 1 layers; wanted 17 \(ResNet-50\) or 34 \(ResNet-101\)"):
        import_published(bad(tmp_path, {key: value for key, value in state.items() if ".0.0." in key}), out)
    with pytest.raises(
        InputError, match=r"does not fit resnet50: 1 weights missing, .*transforms\.3\.1\.bias"
    ):
        import_published(
            bad(tmp_path, {k: v for k, v in state.items() if k != "reduction_ffns.3.1.bias"}), out
        )
    with pytest.raises(
        InputError, match=r"transforms\.0\.0\.weight has shape \(9, 64, 1, 1\), wanted \(8, 64, 1, 1\)"
    ):
        import_published(bad(tmp_path, {**state, "reduction_ffns.0.0.weight": torch.zeros(9, 64, 1, 1)}), out)
    with pytest.raises(InputError, match=r"does not fit resnet101: 187 weights missing"):
        import_published(checkpoint, out, "resnet101")
    with pytest.raises(InputError, match=r"unknown backbone 'resnet50-mrsa': did you mean 'resnet50-msra'\?"):
        import_published(checkpoint, out, "resnet50-mrsa")
    with pytest.raises(InputError, match=r"must end in \.safetensors"):
        import_published(checkpoint, tmp_path / "out.pt")
    with pytest.raises(InputError, match=r"there is no folder"):
        import_published(checkpoint, tmp_path / "none" / "out.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.pt"]


def test_tensors_that_share_memory_are_written_apart(tmp_path: Path) -> None:
    shared = torch.arange(6.0)
    save_head(tmp_path / "a.safetensors", {"a": shared, "b": shared[:3]}, {"backbone": "resnet50"})
    assert load_file(tmp_path / "a.safetensors")["b"].tolist() == [0, 1, 2]


def test_unknown_models_name_the_nearest() -> None:
    with pytest.raises(
        InputError, match=r"unknown model 'hpf-resnet5': did you mean 'hpf-resnet50'\? Known: "
    ):
        load("hpf-resnet5")
    with pytest.raises(InputError, match=r"unknown model 'zzz'; known: hpf-resnet50, "):
        load("zzz")


def test_files_that_are_no_heads(tmp_path: Path, checkpoint: Path, head: Path) -> None:
    with pytest.raises(InputError, match=r"no such model file: .*none\.safetensors"):
        load(tmp_path / "none.safetensors")
    with pytest.raises(InputError, match=r"import a published checkpoint first: dhpf import-checkpoint"):
        load(checkpoint)
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(head.read_bytes()[:5000])
    with pytest.raises(InputError, match=r"is not a safetensors file, or it is damaged"):
        load(damaged)
    other = tmp_path / "other.safetensors"
    for metadata, complaint in (
        ({}, "is not a dhpf head"),
        ({"format": "dhpf-head", "version": "9"}, "head version 9; this program reads 1"),
        (
            {"format": "dhpf-head", "version": "1", "backbone": "vgg"},
            "unknown backbone in .* 'vgg'; known: resnet50-msra",
        ),
        (
            {"format": "dhpf-head", "version": "1", "backbone": "resnet101"},
            "does not fit resnet101: 187 weights missing",
        ),
    ):
        save_file(load_file(head), other, metadata)
        with pytest.raises(InputError, match=complaint):
            load(other)


def test_a_head_that_does_not_fit_is_found_before_a_download(
    tmp_path: Path, head: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dhpf.model.weights._fetch", lambda entry: pytest.fail("downloaded"))
    save_head(tmp_path / "a.safetensors", load_file(head), {"backbone": "resnet101"})
    with pytest.raises(InputError, match=r"does not fit resnet101"):
        load(tmp_path / "a.safetensors")
