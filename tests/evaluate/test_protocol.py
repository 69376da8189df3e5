from __future__ import annotations

import pytest

from dhpf.errors import InputError
from dhpf.evaluate.protocol import PRESETS, Protocol, protocol_for


def test_defaults_are_the_papers() -> None:
    thresholds = {name: protocol_for(name).threshold for name in ("pf-pascal", "pf-willow", "spair-71k")}
    assert thresholds == {"pf-pascal": "image", "pf-willow": "keypoints", "spair-71k": "box"}
    assert {protocol_for(name).average for name in thresholds} == {"image"}


def test_fingerprint_names_every_field_in_one_line() -> None:
    wanted = "pck[threshold=image frame=square240 average=image compare=<= direction=source-to-target]"
    assert protocol_for("pf-pascal").fingerprint() == wanted
    assert protocol_for("caltech-101").fingerprint("polygons") == (
        "masks[frame=square240 direction=source-to-target]"
    )


def test_presets_differ_in_what_they_say() -> None:
    legacy, paper = protocol_for("pf-willow", "dhpf-legacy"), protocol_for("pf-willow", "dhpf")
    assert (legacy.threshold, paper.threshold) == ("legacy-padded", "keypoints")
    assert legacy.fingerprint() == paper.fingerprint().replace("keypoints", "legacy-padded")
    assert protocol_for("pf-pascal", "dhpf-legacy").fingerprint() == protocol_for("pf-pascal").fingerprint()
    per_point = protocol_for("spair-71k", "per-point")
    assert (per_point.threshold, per_point.frame, per_point.average) == ("box", "original", "point")
    nc_net = protocol_for("pf-pascal", "nc-net")
    assert (nc_net.side, nc_net.direction) == (224, "target-to-source")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_built_and_is_named(name: str) -> None:
    assert protocol_for("pf-pascal", name).name == name


def test_single_fields_can_be_changed() -> None:
    changed = protocol_for("pf-pascal", changes=["compare=<", "frame=square64", "average=point"])
    assert changed == Protocol("image", "square64", "point", "<", "source-to-target", name="custom")
    assert changed.side == 64


def test_another_data_set_needs_a_threshold() -> None:
    with pytest.raises(InputError, match=r"sets no threshold for data set 'my-birds'.*--set threshold="):
        protocol_for("my-birds")
    assert protocol_for("my-birds", changes=["threshold=box"]).threshold == "box"


@pytest.mark.parametrize(
    ("preset", "changes", "message"),
    [
        ("dhfp", [], "unknown protocol 'dhfp': did you mean 'dhpf'"),
        ("dhpf", ["threshold=bbox"], "threshold 'bbox': did you mean 'box'"),
        ("dhpf", ["treshold=box"], "field 'treshold': did you mean 'threshold'"),
        ("dhpf", ["average=points"], "average 'points': did you mean 'point'"),
        ("dhpf", ["compare=<<"], "compare '<<': did you mean '<'"),
        ("dhpf", ["frame=square"], "frame 'square': did you mean 'square240'"),
        ("dhpf", ["frame=square0"], "frame 'square0': did you mean 'square240'"),
        ("dhpf", ["direction=forward"], "unknown protocol field direction 'forward'"),
        ("dhpf", ["average"], "protocol change 'average'; wanted: field=value"),
        ("dhpf", ["name=x"], "unknown protocol field 'name'"),
    ],
)
def test_typing_errors_name_the_nearest(preset: str, changes: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        protocol_for("pf-pascal", preset, changes)
