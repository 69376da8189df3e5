"""COCO keypoints files: pairs of objects, where images are found, and files of strangers."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dhpf.data import open_dataset
from dhpf.data.coco import CocoKeypoints, find_splits
from dhpf.data.mini import make_mini
from dhpf.errors import InputError

NAMES = ["nose", "left_eye", "right_eye", "tail"]


def annotated(number: int, image: int, *keypoints: tuple[float, float, int], **more: Any) -> dict[str, Any]:
    values = [value for keypoint in keypoints for value in keypoint]
    return {"id": number, "image_id": image, "category_id": 1, "keypoints": values} | more


def content(objects: list[dict[str, Any]], images: int = 3) -> dict[str, Any]:
    return {
        "images": [{"id": n, "file_name": f"{n}.png", "width": 40, "height": 30} for n in range(images)],
        "annotations": objects,
        "categories": [{"id": 1, "name": "cat", "keypoints": NAMES}, {"id": 2, "name": "mat"}],
    }


ALL = [(1, 2, 2), (3, 4, 1), (5, 6, 2), (7, 8, 2)]
THREE = [(11, 12, 2), (13, 14, 2), (0, 0, 0), (17, 18, 1)]
TWO = [(21, 22, 2), (0, 0, 0), (0, 0, 0), (27, 28, 2)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(3):
        Image.new("RGB", (40, 30)).save(tmp_path / f"{number}.png")
    return tmp_path


def written(root: Path, what: object, name: str = "annotations.json") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(what if isinstance(what, str) else json.dumps(what))
    return root


def test_a_pair_by_hand(root):
    objects = [annotated(1, 0, *ALL, bbox=[10, 5, 20, 8]), annotated(2, 1, *THREE)]
    (pair,) = CocoKeypoints(written(root, content(objects)))
    if pair.source.path.stem == "1":
        pair = pair.swap()
    assert (pair.category, pair.index) == ("cat", 0)
    assert (pair.source.path, pair.target.path) == (root / "0.png", root / "1.png")
    assert pair.source.points.tolist() == [[1, 2], [3, 4], [7, 8]]
    assert pair.target.points.tolist() == [[11, 12], [13, 14], [17, 18]]
    assert pair.source.names == pair.target.names == ("nose", "left_eye", "tail")
    assert pair.mirror().source.names == ("nose", "right_eye", "tail")
    # Columns 10 to 29 and rows 5 to 12, from edge to edge.
    assert pair.source.box is not None and pair.source.box.tolist() == [9.5, 4.5, 29.5, 12.5]
    assert pair.target.box is None


def test_objects_must_differ_in_image_and_share_keypoints_and_category(root):
    objects = [
        annotated(1, 0, *ALL),
        annotated(2, 0, *ALL),  # another in the same image
        annotated(3, 1, *TWO),  # two keypoints in common with each other
        annotated(4, 2, *THREE, category_id=2),  # a category without keypoints
        annotated(5, 2, *THREE, iscrowd=1),
        annotated(6, 2),
        annotated(7, 2, *THREE),
    ]
    written(root, content(objects))
    assert {frozenset(entry.id.removeprefix("cat:").split("-")) for entry in CocoKeypoints(root).entries} == {
        frozenset({"0", "2"}),
        frozenset({"0#2", "2"}),
    }
    more = {frozenset((e.source.stem, e.target.stem)) for e in CocoKeypoints(root, common=2).entries}
    assert more == {frozenset("02"), frozenset("01"), frozenset("12")}
    with pytest.raises(InputError, match="no two objects of a category in different images show 4 or more"):
        CocoKeypoints(root, common=4)


def test_categories_are_told_by_more_than_their_names(root):
    what = content([annotated(1, 0, *ALL), annotated(2, 1, *ALL), annotated(3, 2, *ALL[:3], category_id=3)])
    what["categories"].append({"id": 3, "name": "cat", "keypoints": NAMES[:3]})
    assert len(CocoKeypoints(written(root, what))) == 1


@pytest.mark.parametrize(
    ("file", "split", "images"),
    [
        ("annotations.json", "all", "."),
        ("annotations.json", "all", "JPEGImages"),
        ("train.json", "train", "images"),
        ("train.json", "train", "train"),
        ("annotations/train.json", "train", "images/train"),
        ("annotations/person_keypoints_train2017.json", "train2017", "train2017"),
        ("annotations/person_keypoints_default.json", "default", "images"),
        ("valid/_annotations.coco.json", "valid", "valid"),
        ("valid/annotations.json", "valid", "valid/images"),
    ],
)
def test_where_tools_put_annotations_and_images(root, file, split, images):
    folder = root / images
    folder.mkdir(parents=True, exist_ok=True)
    for image in sorted(root.glob("*.png")):
        image.rename(folder / image.name)
    what = content([annotated(n, n, *ALL) for n in range(3)])
    if images == "valid/images":
        for image in what["images"]:
            image["file_name"] = f"images/{image['file_name']}"
    written(root, what, file)
    if file.startswith("annotations/person"):
        written(root, "[]", "annotations/captions_train2017.json")
    assert find_splits(root) == {split: root / file}
    pairs = CocoKeypoints(root, split)
    assert len(pairs) == 3
    assert {path.resolve() for entry in pairs.entries for path in entry[2:4]} == set(
        folder.resolve().iterdir()
    ) - {(root / file).resolve()}
    assert pairs[0].source.size == (40, 30)
    with pytest.raises(InputError, match=f"coco has no split 'test' there; its splits are {split}"):
        open_dataset("coco", root, "test")
    assert open_dataset("coco", root).split == split


def test_the_only_split_need_not_be_named(root):
    what = content([annotated(n, n, *ALL) for n in range(3)])
    assert open_dataset("coco", written(root, what, "birds.json")).split == "birds"
    written(root, what, "cats.json")
    with pytest.raises(InputError, match="coco has no split 'test' there; its splits are birds, cats"):
        open_dataset("coco", root)
    assert open_dataset("coco", written(root, what, "test.json")).split == "test"
    assert open_dataset("coco", root / "cats.json").split == "cats"


def test_a_folder_without_annotations(tmp_path):
    with pytest.raises(InputError, match=r"coco has no split 'all' there; it holds no annotations\.json"):
        CocoKeypoints(tmp_path)


def test_images_of_another_size_are_refused(root):
    what = content([annotated(0, 0, *ALL), annotated(1, 1, *ALL)])
    what["images"][1]["width"] = 400
    with pytest.raises(InputError, match=r"1\.png has 40 x 30 pixels, but its annotation is for 400 x 30"):
        CocoKeypoints(written(root, what))[0]
    for image in what["images"]:
        del image["width"], image["height"]
    assert CocoKeypoints(written(root, what))[0].target.size == (40, 30)


def test_sizes_are_those_of_upright_images(root):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (30, 40)).save(root / "1.png", exif=exif)
    what = content([annotated(0, 0, *ALL), annotated(1, 1, *ALL)])
    pair = CocoKeypoints(written(root, what))[0]
    assert pair.source.size == pair.target.size == (40, 30)
    assert pair.target.image().shape == (30, 40, 3)


def test_pairs_do_not_depend_on_the_order_in_the_file(root):
    objects = [annotated(n, n, *ALL) for n in range(200)]
    first = CocoKeypoints(written(root, content(objects, 200)), partners=3)
    what = content(objects[::-1], 200)
    what["images"].reverse()
    again = CocoKeypoints(written(root, what), partners=3)
    other = CocoKeypoints(root, partners=3, seed=1)
    assert [entry.id for entry in first.entries] == [entry.id for entry in again.entries]
    assert {entry.id for entry in first.entries} != {entry.id for entry in other.entries}


@pytest.mark.parametrize(("count", "pairs"), [(11, (55, 55)), (60, (300, 600)), (2000, (19000, 20000))])
def test_every_object_has_its_partners_and_no_pair_occurs_twice(root, count, pairs):
    dataset = CocoKeypoints(written(root, content([annotated(n, n, *ALL) for n in range(count)], count)))
    ends = [frozenset((entry.source.stem, entry.target.stem)) for entry in dataset.entries]
    assert len(set(ends)) == len(ends) == len({entry.id for entry in dataset.entries})
    assert pairs[0] <= len(ends) <= pairs[1]
    chosen = dict.fromkeys(map(str, range(count)), 0)
    for end in ends:
        assert len(end) == 2
        for name in end:
            chosen[name] += 1
    assert min(chosen.values()) >= 10  # its own choice; others may choose it as well


def test_ten_thousand_objects_stay_few_pairs_and_a_short_time(root):
    count = 10_000
    written(root, content([annotated(n, n, *ALL) for n in range(count)], count))
    started = time.process_time()
    assert len(CocoKeypoints(root)) <= 10 * count
    assert time.process_time() - started < 30


def test_points_are_true_and_mini_annotations_survive_the_round_trip(tmp_path):
    make_mini("coco", tmp_path)
    raw = json.loads((tmp_path / "annotations.json").read_text())
    pairs = CocoKeypoints(tmp_path)
    assert len(pairs) == 12
    for pair in (pairs[index] for index in range(len(pairs))):
        for photo in (pair.source, pair.target):
            (image,) = (one for one in raw["images"] if one["file_name"] == photo.path.name)
            (own,) = (one for one in raw["annotations"] if one["image_id"] == image["id"])
            values = np.array(own["keypoints"]).reshape(-1, 3)
            names = raw["categories"][own["category_id"] - 1]["keypoints"]
            for point, name in zip(photo.points, photo.names or (), strict=True):
                assert values[names.index(name)].tolist() == [*point, 2]


RECORDS = {"image": ("images", 1), "object": ("annotations", 1), "category": ("categories", 0)}


@pytest.mark.parametrize(
    ("record", "change", "message"),
    [
        ("image", {"file_name": "../1.png"}, r"images\[1\]: file_name is '\.\./1\.png', but a path inside"),
        ("image", {"file_name": "/etc/passwd"}, "but a path inside the data set's folder"),
        ("image", {"file_name": "C:\\x.png"}, "but a path inside"),
        ("image", {"file_name": "a/../../x.png"}, "but a path inside"),
        ("image", {"file_name": "a\nb.png"}, "file_name is missing, or not a text of one line"),
        ("image", {"file_name": "\ud800.png"}, "file_name is missing, or not a text of one line"),
        ("image", {"file_name": None}, "file_name is missing"),
        ("image", {"file_name": 7}, "file_name is missing"),
        ("image", {"id": [[]]}, r"images\[1\]: id is missing, or neither"),
        ("object", {"image_id": 9}, r"annotations\[1\]: image_id is that of no image"),
        ("object", {"image_id": None}, "image_id is missing"),
        ("object", {"category_id": {}}, "category_id is missing"),
        ("object", {"keypoints": [1, 2, 2]}, "keypoints holds 3 numbers, but 12 are wanted"),
        ("object", {"keypoints": ["a"] * 12}, "keypoints is not made of numbers"),
        ("object", {"keypoints": {"a": 1}}, "keypoints is not made of numbers"),
        ("object", {"keypoints": [10**400] * 12}, "keypoints is not made of numbers"),
        ("object", {"keypoints": [[[1]], 2]}, "keypoints is not made of numbers"),
        ("object", {"keypoints": [1, 2, 7] * 4}, "a keypoint's visibility is 7; wanted 0, 1 or 2"),
        ("object", {"keypoints": [1, 2, None] * 4}, "a keypoint's visibility is nan; wanted"),
        ("object", {"keypoints": [1, 61, 2] * 4}, r"at \(1, 61\), but its image has 40 x 30 pixels"),
        ("object", {"keypoints": [-41, 1, 1] * 4}, r"at \(-41, 1\), but its image has 40 x 30"),
        ("object", {"keypoints": [None, 2, 2] * 4}, r"at \(nan, 2\), but its image"),
        ("image", {"id": 0}, r"images\[1\]: id 0 is that of another image before it; each needs its own"),
        ("object", {"bbox": [1, 2, 3]}, "box holds 3 numbers, but a box has 4"),
        ("object", {"bbox": "none"}, "box is not made of numbers"),
        ("category", {"name": ""}, r"categories\[0\]: name is missing"),
        ("category", {"name": "a\x1b[31m"}, "name is missing, or not a text of one line"),
        ("category", {"keypoints": "nose"}, "keypoints is not a list of names"),
        ("category", {"keypoints": ["nose", None]}, "keypoints is not a list of names"),
        ("category", {"keypoints": ["x"] * 100_000}, "keypoints is not a list of names, at most 1,000"),
        (
            "category",
            {"keypoints": ["a", "b", "b", "c"]},
            "the category 'cat' has 2 keypoints 'b'; each needs",
        ),
        ("category", {"keypoints": []}, "no category has names of keypoints"),
    ],
)
def test_mistakes_are_named_in_one_line(root, record, change, message):
    what = content([annotated(n, n, *ALL) for n in range(3)])
    key, number = RECORDS[record]
    what[key][number] |= change
    with pytest.raises(InputError, match=message) as raised:
        CocoKeypoints(written(root, what))
    assert str(root / "annotations.json") in str(raised.value)
    assert "\n" not in str(raised.value)


def test_points_may_lie_a_little_outside_and_what_is_not_shown_anywhere(root):
    own = [(-2, 31, 2), (80, 60, 1), (-40, -30, 2), (9999, -9999, 0)]
    pairs = CocoKeypoints(written(root, content([annotated(0, 0, *own), annotated(1, 1, *ALL)])))
    assert pairs[0].source.points.tolist() == [[-2, 31], [80, 60], [-40, -30]]


@pytest.mark.parametrize("keypoints", [[None, 2, 2] * 4, [1e300, 2, 2] * 4, [1, -1e9, 2] * 4])
def test_coordinates_that_are_none_are_named(root, keypoints):
    """Also where the file does not say how large an image is."""
    what = content([annotated(0, 0, *ALL), {**annotated(1, 1), "keypoints": keypoints}])
    del what["images"][1]["width"]
    pairs = CocoKeypoints(written(root, what))
    with pytest.raises(
        InputError, match=r"annotations\.json, .* a coordinate is not a finite number, or beyond"
    ):
        pairs[0]


def test_categories_of_one_number_are_refused(root):
    what = content([annotated(n, n, *ALL) for n in range(3)])
    what["categories"].append({"id": 1, "name": "dog", "keypoints": NAMES})
    with pytest.raises(InputError, match=r"categories\[2\]: id 1 is that of another category before it"):
        CocoKeypoints(written(root, what))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not valid JSON"),
        ("[]", "one JSON object is wanted"),
        ("[" * 200_000, "nests too deeply"),
        ('{"a":' * 200_000, "nests too deeply"),
        ('{"images": NaN}', "images is not a list"),
        ('{"images": [Infinity]}', r"images\[0\] is not an object"),
        ('{"images": ' + "9" * 5000 + "}", "too long a number|images is not a list"),
        ('{"images": [], "annotations": []}', "categories is not a list"),
        ('{"images": {}}', "images is not a list"),
        ('{"images": [1]}', r"images\[0\] is not an object"),
    ],
)
def test_files_that_are_something_else(root, text, message):
    with pytest.raises(InputError, match=message) as raised:
        CocoKeypoints(written(root, text))
    assert str(raised.value).count("\n") == 0
    assert len(str(raised.value)) < 500


def test_a_file_beyond_two_gigabytes_is_refused_unread(root):
    with (root / "annotations.json").open("wb") as file:
        file.truncate(2_000_000_001)
    with pytest.raises(InputError, match=r"annotations\.json is too large .* at most 2,000,000,000"):
        CocoKeypoints(root)


@pytest.mark.parametrize("change", [{"partners": 0}, {"common": 0}])
def test_counts_of_nothing(root, change):
    with pytest.raises(InputError, match="at least 1 is wanted of each"):
        CocoKeypoints(written(root, content([])), **change)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(
    st.sampled_from(["images", "annotations", "categories"]),
    st.integers(0, 1),
    st.sampled_from(
        ["id", "file_name", "width", "image_id", "category_id", "keypoints", "bbox", "name", "iscrowd"]
    ),
    json_values,
)
def test_any_value_anywhere_gives_pairs_or_the_one_error(tmp_path_factory, key, number, field, value):
    root = tmp_path_factory.getbasetemp() / "fuzzed"
    what = content([annotated(n, n, *ALL) for n in range(3)])
    what[key][number][field] = value
    written(root, what)
    try:
        pairs = CocoKeypoints(root)
        for index in range(len(pairs)):
            pairs.annotation(index)
    except InputError as error:
        assert "\n" not in str(error)
        str(error).encode()  # no lone surrogate, which could not be printed
