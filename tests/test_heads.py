"""Head files, and the import of checkpoints in the published layout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dhpf import InputError, Matcher, load
from dhpf.backbones.resnet import ResNet
from dhpf.backbones.weights import BACKBONES
from dhpf.heads import (
    import_published,
    load_head,
    load_head_for_training,
    read_head,
    read_metadata,
    save_head,
)
from dhpf.methods.dhpf import DHPF, DHPFConfig
from dhpf.methods.hpf import HPF, HPFConfig

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
    method = load_head(head)
    assert isinstance(method, DHPF)
    assert method.config == DHPFConfig(hough="published")
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    one, other = map(method.features, images)

    def convolution_and_norm(name: str, x: Tensor) -> Tensor:
        x = torch.nn.functional.conv2d(x, state[f"{name}.0.weight"])
        norm = [state[f"{name}.1.{part}"] for part in ("running_mean", "running_var", "weight", "bias")]
        return torch.nn.functional.batch_norm(x, *norm).relu()

    on = []
    for layer in range(17):
        a, b = (side.blocks[layer].permute(2, 0, 1)[None] for side in (one, other))
        pooled = a.mean((2, 3), keepdim=True) + b.mean((2, 3), keepdim=True)
        scores = torch.nn.functional.conv2d(
            convolution_and_norm(f"gumbel_ffns.{layer}", pooled), state[f"gumbel_ffns.{layer}.3.weight"]
        ).flatten()
        if scores[1] > scores[0]:
            on.append(layer)
        reduced = convolution_and_norm(f"reduction_ffns.{layer}", a)[0].permute(1, 2, 0)
        torch.testing.assert_close(method.transform(layer, one.blocks[layer]), reduced, rtol=1e-4, atol=1e-4)
    assert 0 < len(on) < 17
    assert method.match(one, other).layers == tuple(on)


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
    with pytest.raises(
        InputError, match=r"has 1 layers that fit no backbone; wanted 17 \(resnet50\), 34 \(resnet101\)"
    ):
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
    negative = {**state, "gumbel_ffns.4.1.running_var": torch.full((32,), -1.0)}
    with pytest.raises(InputError, match=r"bad\.pt computes values that are infinite or no numbers"):
        import_published(bad(tmp_path, negative), out)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.pt"]


def rewritten(head: Path, out: Path, state: dict[str, Tensor] | None = None, **metadata: str) -> Path:
    """A copy with other weights, or that says something else of itself."""
    said = {**read_metadata(head), **metadata}
    save_file(state or load_file(head), out, {key: value for key, value in said.items() if value})
    return out


def test_tensors_that_share_memory_are_written_apart(tmp_path: Path, head: Path) -> None:
    shared = torch.arange(6.0)
    save_head(tmp_path / "a.safetensors", read_head(head), "resnet50", {"a": shared, "b": shared[:3]})
    assert load_file(tmp_path / "a.safetensors")["b"].tolist() == [0, 1, 2]


def test_behaviour_is_saved_with_the_weights(tmp_path: Path, head: Path) -> None:
    config = DHPFConfig(revote=True, epsilon=0.0, gate_power=1)
    changed = DHPF(BACKBONES["resnet50-msra"].build(), config)
    save_head(tmp_path / "a.safetensors", changed, "resnet50-msra", load_file(head))
    assert read_head(tmp_path / "a.safetensors").config == config


def test_a_head_without_weights(tmp_path: Path) -> None:
    """A method that learns nothing can be handed on as well."""
    fixed = HPF(BACKBONES["resnet50-msra"].build(), HPFConfig(layers=(2, 7)))
    save_head(tmp_path / "a.safetensors", fixed, "resnet50-msra", {})
    assert read_head(tmp_path / "a.safetensors").layers == (2, 7)


def test_unknown_models_name_the_nearest() -> None:
    with pytest.raises(
        InputError, match=r"unknown model 'hpf-resnet5': did you mean 'hpf-resnet50'\? Known: "
    ):
        load("hpf-resnet5")
    with pytest.raises(InputError, match=r"unknown model 'banana'; known: dinov2-small, "):
        load("banana")
    with pytest.raises(InputError, match=r"^the model has no name; give one from 'dhpf models', or a head"):
        load("")


SAID = {
    "an unknown method": ({"method": "dhfp"}, r"unknown method 'dhfp': did you mean 'dhpf'\?"),
    "an unknown backbone": ({"backbone": "vgg"}, r"unknown backbone 'vgg'; known: "),
    "another backbone": ({"backbone": "resnet101"}, r"does not fit resnet101: 187 weights missing"),
    "no backbone": ({"backbone": ""}, r"does not say its backbone; train or import it again"),
    "no JSON": ({"config": "{"}, r"its config is missing or not valid JSON; train or import it again"),
    "nested too deep": ({"config": "[" * 10**5}, r"its config is missing or not valid JSON"),
    "no table": ({"config": "[1]"}, r"its config: the content = \[1\]; wanted a table of settings"),
    "an unknown setting": ({"config": '{"gates": 1}'}, r"unknown key in its config 'gates'"),
    "a wrong setting": ({"config": '{"revote": 1}'}, r"its config: revote = 1; wanted true or false"),
    "NaN": ({"config": '{"epsilon": NaN}'}, r"its config: epsilon = nan; wanted a finite number"),
    "out of range": ({"config": '{"epsilon": -1}'}, r"its config: epsilon = -1; wanted from 0 to 1"),
    "an older version": ({"version": "1"}, r"head file of version 1, .* reads 2: train or import it again"),
    "a newer version": ({"version": "9"}, r"head file of version 9, this program reads 2: update dhpf"),
    "another format": ({"format": "x"}, r"is not a dhpf head; make one with 'dhpf import-checkpoint' or by"),
    "a recipe that is none": ({"recipe": '{"model": 3}'}, r"its recipe does not say model.size"),
    "an endless input": (
        {"recipe": '{"model": {"size": [1e999, 1]}}'},
        r"its recipe does not say model.size",
    ),
    "a large input": ({"recipe": '{"model": {"size": [99999, 1]}}'}, r"^size 99999x1: each side must be"),
}


@pytest.mark.parametrize("case", SAID)
def test_heads_that_say_something_wrong(tmp_path: Path, head: Path, case: str) -> None:
    metadata, complaint = SAID[case]
    with pytest.raises(InputError, match=complaint) as raised:
        load(rewritten(head, tmp_path / "wrong.safetensors", **metadata))
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_files_that_are_no_heads(tmp_path: Path, checkpoint: Path, head: Path) -> None:
    with pytest.raises(InputError, match=r"no such model file: .*none\.safetensors"):
        load(tmp_path / "none.safetensors")
    with pytest.raises(InputError, match=r"no such model file"):
        load(tmp_path)
    with pytest.raises(InputError, match=r"import a published checkpoint first: dhpf import-checkpoint"):
        load(checkpoint)
    damaged = tmp_path / "damaged.safetensors"
    for content in (b"", b"\0" * 100, head.read_bytes()[:5000]):
        damaged.write_bytes(content)
        with pytest.raises(InputError, match=r"is not a safetensors file, or it is damaged"):
            load(damaged)
    save_file(load_file(head), damaged)
    with pytest.raises(InputError, match=r"is not a dhpf head"):
        load(damaged)


SPOILT = {
    "a weight that overflows": ("transforms.3.0.weight", 3e38),
    "a weight whose squares overflow": ("transforms.3.0.weight", 1e25),
    "a negative variance": ("transforms.0.1.running_var", -1.0),
    "a negative variance of a gate": ("gates.perceptrons.7.1.running_var", -1.0),
    "a gate that overflows": ("gates.perceptrons.7.0.weight", 3e38),
}


@pytest.mark.parametrize("case", SPOILT)
def test_finite_weights_that_compute_no_numbers(tmp_path: Path, head: Path, case: str) -> None:
    key, value = SPOILT[case]
    state = load_file(head)
    signs = torch.where(torch.arange(state[key].numel()) % 2 == 0, 1.0, -1.0).view_as(state[key])
    state[key] = value * signs.abs() if value < 0 else value * signs  # half of them cancel on a constant
    path = rewritten(head, tmp_path / "spoilt.safetensors", state)
    complaint = r"spoilt\.safetensors computes values that are infinite or no numbers; train or get it again"
    with pytest.raises(InputError, match=complaint):
        load(path)
    with pytest.raises(InputError, match=complaint):
        load_head_for_training(path, "dhpf", "resnet50-msra", DHPFConfig())


def test_a_head_of_another_kind_cannot_be_trained_on(tmp_path: Path, head: Path) -> None:
    with pytest.raises(
        InputError, match=r"head of another kind \(dhpf, resnet50-msra\); wanted dhpf, resnet50;"
    ):
        load_head_for_training(head, "dhpf", "resnet50", DHPFConfig())
    with pytest.raises(
        InputError, match=r"does not fit these settings of the head: 0 weights missing, 85 unk"
    ):
        load_head_for_training(head, "dhpf", "resnet50-msra", DHPFConfig(transform=False))


@pytest.mark.parametrize(
    ("size", "complaint"), [(2**40, "is too large for a head"), (2**29, "is too large for such weights")]
)
def test_a_head_that_is_too_large_is_not_read(tmp_path: Path, head: Path, size: int, complaint: str) -> None:
    """It takes no room on the disc."""
    entry = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    header = json.dumps({"__metadata__": read_metadata(head), "a": entry}).encode()
    path = tmp_path / "large.safetensors"
    with path.open("wb") as stream:
        stream.write(len(header).to_bytes(8, "little") + header)
        stream.truncate(8 + len(header) + size)
    with pytest.raises(InputError, match=complaint):
        load(path)


def test_a_head_that_does_not_fit_is_found_before_a_download(
    tmp_path: Path, head: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dhpf.backbones.weights._fetch", lambda entry: pytest.fail("downloaded"))
    with pytest.raises(InputError, match=r"does not fit resnet101"):
        load(rewritten(head, tmp_path / "a.safetensors", backbone="resnet101"))
