"""What is written is read by the formats' own packages, where these are installed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dhpf.annotate.annotations import Annotations
from dhpf.annotate.formats import encode
from dhpf.annotate.outlines import decode_runs, outlines

from .examples import annotations

# Of pycocotools with NumPy 2
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def written(one: Annotations, format: str, path: Path) -> Path:
    path.write_bytes(encode(one, format).content)
    return path


def test_pycocotools_reads_coco(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    coco = pytest.importorskip("pycocotools.coco")
    read = coco.COCO(str(written(annotations(), "coco", tmp_path / "a.json")))
    [cats] = read.loadCats(read.getCatIds(catNms=["cat"]))
    assert cats["keypoints"] == ["left_eye", "right_eye", "nose"]
    found = read.loadAnns(read.getAnnIds(catIds=[cats["id"]]))
    assert [one["num_keypoints"] for one in found] == [2, 3]
    assert found[0]["keypoints"][:6] == [10.25, 12.5, 2, 30, 11, 1]
    mask = read.annToMask(found[0])
    assert mask.shape == (40, 60)
    assert mask[12, 20] == 1 and mask[35, 55] == 0
    assert abs(int(mask.sum()) - found[0]["area"]) < 0.05 * found[0]["area"]


def test_masks_of_pycocotools_are_read(tmp_path: Path) -> None:
    """Packed run lengths of random blobs: the outline encloses just the mask's pixels."""
    masks = pytest.importorskip("pycocotools.mask")
    rng = np.random.default_rng(1)
    for _ in range(20):
        blocks = rng.random((6, 8)) < 0.4
        mask = np.kron(blocks, np.ones((5, 5), bool))
        packed = masks.encode(np.asfortranarray(mask.astype(np.uint8)))
        again = decode_runs(packed["counts"].decode(), list(packed["size"]))
        np.testing.assert_array_equal(again, mask)
        parts, _ = outlines(again)
        flat = [(part + 0.5).reshape(-1).tolist() for part in parts]
        filled = masks.decode(masks.merge(masks.frPyObjects(flat, *mask.shape)))
        assert (filled[mask] == 1).mean() > 0.99  # holes are filled: nothing of the mask is lost


def test_pandas_reads_deeplabcut(tmp_path: Path) -> None:
    """As DeepLabCut does: the header as an index of three levels, four with individuals."""
    pandas = pytest.importorskip("pandas")
    several = pandas.read_csv(
        written(annotations(), "deeplabcut", tmp_path / "a.csv"), header=[0, 1, 2, 3], index_col=0
    )
    assert several.columns.names == ["scorer", "individuals", "bodyparts", "coords"]
    assert several.loc["more/b.png", ("dhpf", "individual2", "nose", "y")] == 28.75
    assert several.loc["more/b.png", ("dhpf", "individual1", "right_eye", "likelihood")] == 0.25
    assert np.isnan(several.loc["none.png", ("dhpf", "individual1", "nose", "x")])
    images = tuple(replace(image, objects=image.objects[:1]) for image in annotations())
    one = written(replace(annotations(), images=images), "deeplabcut", tmp_path / "b.csv")
    alone = pandas.read_csv(one, header=[0, 1, 2], index_col=0)
    assert alone.columns.names == ["scorer", "bodyparts", "coords"]
    assert alone.loc["more/b.png", ("dhpf", "left_eye", "x")] == 10.25


def test_the_converter_of_label_studio_reads_its_format(tmp_path: Path) -> None:
    converter = pytest.importorskip("label_studio_sdk.converter")
    marked = tuple(
        replace(image, objects=tuple(replace(one, scores=None) for one in image.objects))
        for image in annotations()
    )
    path = written(replace(annotations(), images=marked), "label-studio", tmp_path / "tasks.json")
    labels = "".join(f'<Label value="{name}"/>' for name in ("cat", "cup, small"))
    points = "".join(f'<Label value="{name}"/>' for name in ("left_eye", "right_eye", "nose", "rim"))
    config = (
        '<View><Image name="image" value="$image"/>'
        f'<RectangleLabels name="rectanglelabels" toName="image">{labels}</RectangleLabels>'
        f'<PolygonLabels name="polygonlabels" toName="image">{labels}</PolygonLabels>'
        f'<KeyPointLabels name="keypointlabels" toName="image">{points}</KeyPointLabels></View>'
    )
    made: Any = converter.Converter(config, str(tmp_path), download_resources=False)
    made.convert(str(path), str(tmp_path / "out"), "JSON_MIN", is_dir=False)
    tasks = json.loads((tmp_path / "out" / "result.json").read_text())
    first = next(task for task in tasks if task["image"] == "more/b.png")
    eye = next(one for one in first["keypointlabels"] if one["keypointlabels"] == ["left_eye"])
    assert eye["x"] / 100 * eye["original_width"] - 0.5 == pytest.approx(10.25, abs=0.01)
    boxes = first["rectanglelabels"]
    assert boxes[0]["width"] / 100 * 60 == pytest.approx(40, abs=0.01)
