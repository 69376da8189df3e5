"""Bad and hostile input of the commands that read annotations: one line, exit code 2, nothing changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.conftest import Ran, texture

KIND = {"id": 1, "name": "cat", "keypoints": ["eye", "nose"], "skeleton": [[1, 2]]}
IMAGE = {"id": 1, "file_name": "a.png", "width": 60, "height": 40}
OBJECT = {"id": 1, "image_id": 1, "category_id": 1, "keypoints": [5, 6, 2, 30, 20, 2], "bbox": [1, 1, 50, 30]}


def coco(image: dict[str, Any] | None = None, one: dict[str, Any] | None = None, **kind: Any) -> str:
    """A COCO file with some fields replaced."""
    content = {
        "images": [IMAGE | (image or {})],
        "annotations": [OBJECT | (one or {})],
        "categories": [KIND | kind],
    }
    return json.dumps(content)


def cvat(inside: str, before: str = "") -> str:
    return f'{before}<annotations><image name="a.png" width="60" height="40">{inside}</image></annotations>'


def studio(region: dict[str, Any] | None = None, **task: Any) -> str:
    value = {"x": 10, "y": 10, "keypointlabels": ["eye"]}
    made = {"type": "keypointlabels", "original_width": 60, "original_height": 40, "value": value}
    result = [made | (region or {})]
    return json.dumps([{"data": {"image": "a.png"}, "annotations": [{"result": result}]} | task])


BOMB = '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
FILE = '<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
DLC = "scorer,me,me\nbodyparts,eye,eye\ncoords,x,y\n"
HUGE = {"counts": [0, 10**12], "size": [10**6, 10**6]}

FILES = {
    # COCO
    "missing list": ("r.json", json.dumps({"images": []}), "categories is not a list"),
    "images no list": ("r.json", json.dumps({"images": {}, "categories": []}), "images is not a list"),
    "record no object": ("r.json", json.dumps({"categories": [3], "images": []}), "categories[0] is not an"),
    "no objects": ("r.json", json.dumps({"images": [], "annotations": [], "categories": []}), "no labelled"),
    "not JSON": ("r.json", "{", "is not valid JSON"),
    "deep JSON": ("r.json", '{"images": ' + "[" * 100_000, "is not valid JSON"),
    "long number": ("r.json", '{"images": ' + "9" * 5000 + "}", "is not valid JSON"),
    "bare list": ("r.json", "[1, 2]", "holds no annotated images"),
    "bare number": ("r.json", "3", "holds no annotated images"),
    "NaN": ("r.json", coco().replace("30", "NaN", 1), "not finite"),
    "infinity": ("r.json", coco().replace("30", "1e999", 1), "not finite"),
    "far": ("r.json", coco(one={"keypoints": [1e7, 6, 2, 3, 2, 2]}), "not finite, or farther"),
    "outside": ("r.json", coco(one={"keypoints": [500, 6, 2, 3, 2, 2]}), "(500, 6) lies outside 60 x 40"),
    "text for number": ("r.json", coco(one={"keypoints": ["x"] * 6}), "keypoints is not made of numbers"),
    "too few": ("r.json", coco(one={"keypoints": [1, 2, 2]}), "3 numbers, but 6 are wanted"),
    "visibility": ("r.json", coco(one={"keypoints": [5, 6, 7, 3, 2, 2]}), "visibility is not 0, 1 or 2"),
    "scores": ("r.json", coco(one={"scores": [1]}), "1 scores; cat has 2 keypoints"),
    "score": ("r.json", coco(one={"scores": [1, 3]}), "a score is not between 0 and 1"),
    "box": ("r.json", coco(one={"bbox": [1, 2, 3]}), "box holds 3 numbers"),
    "odd polygon": ("r.json", coco(one={"segmentation": [[1, 2, 3]]}), "odd number of coordinates"),
    "two corners": ("r.json", coco(one={"segmentation": [[1, 2, 3, 4]]}), "fewer than three corners"),
    "no polygon": ("r.json", coco(one={"segmentation": "x"}), "neither a list of polygons nor a mask"),
    "huge mask": ("r.json", coco(one={"segmentation": HUGE}), "a mask of 1000000 x 1000000 pixels"),
    "mask sum": ("r.json", coco(one={"segmentation": {"counts": [1], "size": [4, 4]}}), "do not add up"),
    "mask text": ("r.json", coco(one={"segmentation": {"counts": "\u00e9", "size": [4, 4]}}), "run lengths"),
    "mask size": ("r.json", coco(one={"segmentation": {"counts": [1], "size": "x"}}), "not [height, width]"),
    "escape": ("r.json", coco({"file_name": "../../etc/passwd"}), "a path inside the data set's folder"),
    "absolute": ("r.json", coco({"file_name": "/etc/passwd"}), "a path inside the data set's folder"),
    "drive": ("r.json", coco({"file_name": "C:\\a.png"}), "a path inside the data set's folder"),
    "no name": ("r.json", coco({"file_name": None}), "file_name is missing"),
    "name of lines": ("r.json", coco({"file_name": "a\nb"}), "a path inside the data set's folder"),
    "no photo": ("r.json", coco({"file_name": "none.png"}), "none.png is not in"),
    "not a photo": ("r.json", coco({"file_name": "text.png", "width": 9}), "text.png is not an image"),
    "other size": ("r.json", coco({"width": 61}), "60 x 40 pixels, but"),
    "size 0": ("r.json", coco({"width": 0}), "a size of 0 x 40 pixels"),
    "twice": ("r.json", coco(keypoints=["eye", "eye"]), "two keypoints are called 'eye'"),
    "keypoint no text": ("r.json", coco(keypoints=[1, 2]), "keypoint's name is missing"),
    "category no text": ("r.json", coco(name=5), "category's name is missing"),
    "many keypoints": ("r.json", coco(keypoints=[str(n) for n in range(1001)]), "1,001 keypoints; at most"),
    "skeleton": ("r.json", coco(skeleton=[[1, 9]]), "joins a keypoint that does not exist"),
    "skeleton no pairs": ("r.json", coco(skeleton=[1]), "skeleton not a list of pairs"),
    "image id": ("r.json", coco(one={"image_id": 7}), "its image_id or category_id"),
    "id no number": ("r.json", coco({"id": [1]}), "id is missing, or neither"),
    # CVAT
    "bomb": ("r.xml", cvat("", BOMB), "declares a document type or entities"),
    "entity of a file": ("r.xml", cvat("&a;", FILE), "declares a document type or entities"),
    "not XML": ("r.xml", "<annotations>", "is not valid XML"),
    "undefined entity": ("r.xml", cvat("&a;"), "is not valid XML"),
    "other XML": ("r.xml", "<svg/>", "it begins with <svg>"),
    "no images": ("r.xml", "<annotations/>", "holds no images"),
    "XML escape": ("r.xml", cvat("").replace("a.png", "../a.png"), "a path inside the data set's folder"),
    "XML points": ("r.xml", cvat('<polygon label="c" points="1;2"/>'), "are not x,y;x,y"),
    "XML NaN": ("r.xml", cvat('<points label="eye" points="nan,1"/>'), "not finite"),
    "XML box": ("r.xml", cvat('<box label="c" xtl="1"/>'), "has no number 'ytl'"),
    "XML mask": ("r.xml", cvat('<mask label="c" rle="5" left="0" top="0" width="2" height="2"/>'), "add up"),
    "XML huge mask": ("r.xml", cvat('<mask rle="1" left="0" top="0" width="9e8" height="9"/>'), "a mask of"),
    "XML twice": ("r.xml", cvat('<points label="e" points="1,1"/>' * 2), "'e' occurs twice"),
    # Label Studio
    "task no object": ("r.json", '[{"data": 1}]', "data holds no image"),
    "task escape": ("r.json", studio(data={"image": "../a.png"}), "a path inside the data set's folder"),
    "task sizes": ("r.json", studio({"original_width": None}), "no original_width"),
    "task result": ("r.json", studio(annotations=[{"result": [3]}]), "result[0] is not an object"),
    "task NaN": ("r.json", studio().replace('"x": 10', '"x": NaN'), "not finite"),
    "task value": ("r.json", studio({"value": {"x": "1e", "y": 2}}), "is not made of numbers"),
    # DeepLabCut
    "DLC header": ("r.csv", "scorer,me\nbodyparts,eye\n1,2\n", "wanted DeepLabCut's header"),
    "DLC empty": ("r.csv", DLC, "holds no images"),
    "DLC number": ("r.csv", f"{DLC}a.png,x,2\n", "'x' is not a number"),
    "DLC ragged": ("r.csv", f"{DLC}a.png,1\n", "rows differ in length"),
    "DLC infinity": ("r.csv", f"{DLC}a.png,inf,2\n", "not finite"),
    "DLC escape": ("r.csv", f"{DLC}../a.png,1,2\n", "a path inside the data set's folder"),
    # Plain CSV and JSON
    "CSV columns": ("r.csv", "image,x,y\na.png,1,2\n", "wanted columns image, name, x, y"),
    "CSV empty": ("r.csv", "image,name,x,y\n", "holds no keypoints"),
    "CSV number": ("r.csv", "image,name,x,y\na.png,eye,1,z\n", "x, y, visibility or score"),
    "CSV short": ("r.csv", "image,name,x,y\na.png,eye,1\n", "x, y, visibility or score"),
    "CSV twice": ("r.csv", "image,name,x,y\na.png,eye,1,2\na.png,eye,1,2\n", "'eye' occurs twice"),
    "CSV NaN": ("r.csv", "image,name,x,y\na.png,eye,nan,2\n", "not finite"),
    "CSV cell": ("r.csv", "image,name,x,y\n" + "9" * 200_000, "cannot be read as CSV"),
    "CSV binary": ("r.csv", "image\0", "is not text in UTF-8"),
    "plain object": ("r.json", '{"a.png": [1]}', "[0] is not an object"),
    "plain points": ("r.json", '{"a.png": [{"keypoints": {"eye": [1]}}]}', "'eye' is not [x, y]"),
    "plain polygons": ("r.json", '{"a.png": [{"polygons": 3}]}', "polygons is not a list"),
    "plain null": ("r.json", '{"a.png": [{"keypoints": {"eye": {"x": null, "y": 1}}}]}', "not finite"),
    "plain empty": ("r.json", "{}", "holds no images"),
    # No format at all
    "ending": ("r.txt", "x", "no annotation file by its ending"),
    "photo alone": ("a.png", None, "is a photo; give its keypoints with --points"),
    "not there": ("none.json", None, "no such annotation file"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for name in ("a.png", "photos/b.png"):
        Image.fromarray(texture(60, 40)).save(tmp_path / name)
    (tmp_path / "text.png").write_text("no photo")
    (tmp_path / "good.json").write_text(coco())
    (tmp_path / "p.csv").write_text("name,x,y\neye,5,6\n")
    return tmp_path


def refused(folder: Path, command: Callable[..., Ran], arguments: list[str], complaint: str) -> None:
    """Code 2, one line that says what is wrong, and nothing has changed on the disc."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    ran = command(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("dhpf: error: ") and ran.err.count("\n") == 1, ran.err
    assert complaint in ran.err
    assert len(ran.err) < 400
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert not list(folder.glob("*.run-*"))


@pytest.mark.parametrize("case", FILES)
def test_bad_reference_files(folder: Path, command: Callable[..., Ran], case: str) -> None:
    name, text, complaint = FILES[case]
    if text is not None:
        (folder / name).write_bytes(text.encode())
    refused(folder, command, ["annotate", name, "photos", "--out", "out.json"], complaint)


OUT = ["--out", "out.json"]
ARGUMENTS = {
    "no out": (["annotate", "good.json", "photos"], "Missing option '--out'"),
    "no folder": (["annotate", "good.json", "none", *OUT], "no annotation file by its ending"),
    "empty folder": (["annotate", "good.json", "empty", *OUT], "empty holds no photos"),
    "format": (["annotate", "good.json", "photos", "--format", "cocoa", *OUT], "did you mean 'coco'"),
    "confidence": (["annotate", "good.json", "photos", "--min-confidence", "1.5", *OUT], "from 0 to 1"),
    "confidence NaN": (["annotate", "good.json", "photos", "--min-confidence", "nan", *OUT], "from 0 to 1"),
    "no references": (
        ["annotate", "good.json", "photos", "--references", "0", *OUT],
        "greater than or equal to 1",
    ),
    "out is input": (["annotate", "good.json", "photos", "--out", "good.json"], "good.json is an input"),
    "out is photo": (["annotate", "good.json", "photos", "--out", "photos/b.png"], "b.png is an input"),
    "out is reference": (["annotate", "good.json", "photos", "--out", "a.png"], "a.png is an input"),
    "out is folder": (["annotate", "good.json", "photos", "--out", "photos"], "photos is an input"),
    "out in nothing": (
        ["annotate", "good.json", "photos", "--out", "none/o.json"],
        "there is no folder none",
    ),
    "outs equal": (["annotate", "good.json", "photos", *OUT, "--contact-sheet", "out.json"], "same name"),
    "images": (["annotate", "good.json", "photos", *OUT, "--images", "none"], "none is no folder"),
    "size": (["annotate", "good.json", "photos", *OUT, "--size", "big"], "size 'big'"),
    "points outside": (["annotate", "a.png", "photos", *OUT, "--points", "100,5"], "(100, 5) lies outside"),
    "points empty": (["annotate", "a.png", "photos", *OUT, "--points", ""], "--points is empty"),
    "points no file": (["annotate", "a.png", "photos", *OUT, "--points", "none.csv"], "no such points file"),
    "points of no photo": (["annotate", "none.png", "photos", *OUT, "--points", "1,2"], "no such image"),
    "boxes of others": (["annotate", "good.json", "dogs.json", *OUT], "or no object that is a cat"),
    "boxes twice": (["annotate", "good.json", "twice.json", *OUT], "names a photo twice"),
    "match typed": (["match", "a.png", "photos/b.png", "--points", "1e,5"], "wanted two finite numbers"),
    "match COCO": (["match", "text2.png", "a.png", "--points", "two.json"], "names 0 images text2.png"),
    "many no photo": (["match-many", "photos", "photos", "--out", "out"], "photos is no photo"),
    "many no folder": (["match-many", "a.png", "p.csv", "--out", "out"], "p.csv is no folder"),
    "convert nothing": (["convert", "none.json", "--out", "o.xml"], "no such annotation file"),
    "convert a photo": (["convert", "a.png", *OUT], "no annotation file by its ending"),
    "convert to nowhere": (["convert", "good.json", "--out", "none/o.xml"], "there is no folder none"),
    "convert a folder": (["convert", "photos", *OUT], "no annotation file by its ending"),
    "many points": (["match-many", "photos", "--points", "1,2", "--out", "out"], "--points are those of one"),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_bad_arguments(folder: Path, command: Callable[..., Ran], case: str) -> None:
    (folder / "empty").mkdir()
    (folder / "dogs.json").write_text(coco(name="dog"))
    twice = json.loads(coco())
    twice["images"].append(IMAGE | {"id": 2})
    (folder / "twice.json").write_text(json.dumps(twice))
    two = json.loads(coco())
    two["images"].append(IMAGE | {"id": 2, "file_name": "b.png"})
    (folder / "two.json").write_text(json.dumps(two))
    Image.fromarray(texture(60, 40)).save(folder / "text2.png")
    arguments, complaint = ARGUMENTS[case]
    refused(folder, command, arguments, complaint)


def test_there_are_sixty_cases_and_more() -> None:
    assert len(FILES) + len(ARGUMENTS) >= 60
