"""What is trained on and what is held out."""

from __future__ import annotations

import csv
import json
import shutil
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dhpf import InputError
from dhpf.data.mini import make_mini
from dhpf.data.registry import open_dataset
from dhpf.data.synthetic import SyntheticPairs, WarpedPhoto
from dhpf.train.config import DataConfig
from dhpf.train.sources import Sources, Subset, open_sources

from ..conftest import texture
from .drawn import write_pairs


def opened(root: Path, seed: int = 0, strong: bool = True, **changes: Any) -> Sources:
    return open_sources(DataConfig(root=str(root), **changes), seed, needs_points=strong)


def photos(parts: tuple) -> set[str]:
    return {path.stem for part in parts for e in part.entries for path in (e.source, e.target)}


def pairs(parts: tuple) -> list[frozenset[str]]:
    return [frozenset((e.source.stem, e.target.stem)) for part in parts for e in part.entries]


@pytest.fixture(scope="module")
def spair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SPair-71k's layout with 3 categories of 6 photos, all pairs of a category in both directions."""
    root = tmp_path_factory.mktemp("spair")
    folder = root / "SPair-71k"
    names = []
    for category in ("bus", "cat", "dog"):
        (folder / "JPEGImages" / category).mkdir(parents=True)
        for number in range(6):
            image = Image.fromarray(texture(40, 30, number))
            image.save(folder / "JPEGImages" / category / f"2009_{category}{number}.jpg")
        for a, b in permutations(range(6), 2):
            name = f"{len(names) + 1:06}-2009_{category}{a}-2009_{category}{b}:{category}"
            names.append(name)
            file = folder / "PairAnnotation" / "trn" / f"{name}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            sides = "".join(
                f'"{side}_imname": "2009_{category}{n}.jpg", "{side}_imsize": [40, 30, 3], '
                f'"{side}_bndbox": [0, 0, 30, 20], "{side}_kps": [[5, 5], [9, 9]], '
                for side, n in (("src", a), ("trg", b))
            )
            file.write_text(f'{{{sides} "category": "{category}"}}')
    (folder / "Layout" / "large").mkdir(parents=True)
    (folder / "Layout" / "large" / "trn.txt").write_text("\n".join(names))
    return root


@pytest.mark.parametrize("seed", range(6))
def test_no_photo_on_both_sides_and_no_test_pair_on_either(root, seed):
    sources = opened(root, seed)
    assert not photos(sources.train) & photos(sources.validation)
    tests = set(pairs((open_dataset("pf-pascal", root / "PF-PASCAL", "test"),)))
    used = [*pairs(sources.train), *pairs(sources.validation)]
    assert len(used) == len(set(used)) == 18 - len(tests) == 16  # test pairs are listed the other way round
    assert not tests & set(used)
    assert len(pairs(sources.validation)) >= 0.2 * 16
    assert sources.training_images() == sorted(f"{stem}.png" for stem in photos(sources.train))


def test_the_division_depends_on_the_seed_alone(root):
    assert pairs(opened(root, 1).validation) == pairs(opened(root, 1).validation)
    assert len({frozenset(pairs(opened(root, seed).validation)) for seed in range(6)}) > 1


def test_at_most_so_many_pairs_are_judged_and_none_of_their_photos_is_trained_on(root):
    sources = opened(root, holdout=0.5, validation_pairs=2)
    assert len(pairs(sources.validation)) == 2
    assert not photos(sources.train) & photos(sources.validation)


@pytest.fixture(scope="module")
def same_shape(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same pairs, but all photos have the same points, so that all of a category have one shape."""
    folder = tmp_path_factory.mktemp("same")
    shutil.copytree(root / "PF-PASCAL", folder / "PF-PASCAL")
    for name in ("val_pairs.csv", "test_pairs.csv"):
        header, *rows = (folder / "PF-PASCAL" / name).read_text().splitlines()
        xy = ["10;50;60;20;33", "10;15;70;80;41"]
        lines = [header, *(",".join([*row.split(",")[:3], *xy, *xy]) for row in rows)]
        (folder / "PF-PASCAL" / name).write_text("\n".join(lines))
    return folder


@pytest.mark.parametrize("seed", range(4))
def test_pseudo_pairs_show_no_photo_that_is_held_out_and_are_no_test_pairs(same_shape, seed):
    plain = opened(same_shape, seed)
    sources = opened(same_shape, seed, train=("pf-pascal/val", "pseudo:pf-pascal/val"))
    assert pairs(sources.train[:1]) == pairs(plain.train)
    assert pairs(sources.validation) == pairs(plain.validation)
    every = {
        frozenset(ends)
        for category in ("aeroplane", "bicycle")
        for ends in combinations([name for name in photos(plain.train) if name.startswith(category)], 2)
    }
    tests = set(pairs((open_dataset("pf-pascal", same_shape / "PF-PASCAL", "test"),)))
    found = pairs(sources.train[1:])
    assert len(found) == len(set(found))
    assert set(found) == every - tests
    assert sources.training_images() == plain.training_images()


def test_pseudo_pairs_are_none_that_another_list_judges(same_shape, tmp_path):
    """A list of its own for validation may pair photos that are trained on in other pairs."""
    changes = {"train": ("pseudo:pf-pascal/val",), "exclude": (), "validate": ("pf-pascal/test",)}
    found = opened(same_shape, **changes).train[0].entries[-1]
    shutil.copytree(same_shape / "PF-PASCAL", tmp_path / "PF-PASCAL")
    with (tmp_path / "PF-PASCAL" / "test_pairs.csv").open("a") as file:
        file.write(f"\n{found.target.name},{found.source.name},2,1;2,1;2,1;2,1;2")
    assert found.id not in {entry.id for entry in opened(tmp_path, **changes).train[0].entries}


def test_photos_held_out_of_what_is_only_paired_anew(same_shape, spair, tmp_path):
    shutil.copytree(spair / "SPair-71k", tmp_path / "SPair-71k")
    (tmp_path / "PF-PASCAL").symlink_to(same_shape / "PF-PASCAL")
    few, enough = "[[5, 5], [9, 9]]", "[[5, 5], [9, 9], [20, 6], [7, 19]]"
    for file in (tmp_path / "SPair-71k" / "PairAnnotation" / "trn").glob("*2009_cat*"):
        file.write_text(file.read_text().replace(few, enough))
    names = "pf-pascal/val", "pseudo:spair-71k/trn"
    sources = opened(tmp_path, train=names, holdout_images=2, holdout=0.2)
    assert [part.name for part in sources.validation] == ["pf-pascal", "spair-71k"]
    assert len(photos(sources.validation[1:])) == 2 * 3
    assert len(photos(sources.train[1:])) == 4  # cats
    assert not photos(sources.train) & photos(sources.validation)
    whole = opened(tmp_path, train=names, holdout=0.2)
    assert [part.name for part in whole.validation] == ["pf-pascal"]
    assert len(photos(whole.train[1:])) == 6


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"train": ("pf-pascal/val", "pseudo:pf-pascal/val"), "strong": False}, "must not see"),
        (
            {"train": ("pf-pascal/val", "pseudo:pf-pascal/val"), "pseudo_distance": 0.0},
            "raise data.pseudo_distance",
        ),
        ({"train": ("pf-pascal/val", "pseudo:folder:PATH")}, "one image"),
        ({"train": ("pseudo:pf-pascal/val",)}, "no pair to validate on"),
        ({"train": ("pf-pascal/val", "pseudo:pf-pascel/val")}, "did you mean 'pf-pascal'"),
    ],
)
def test_what_is_said_where_nothing_has_one_shape(root, changes, says):
    folder = str(root / "PF-PASCAL" / "JPEGImages")
    names = tuple(name.replace("PATH", folder) for name in changes["train"])
    with pytest.raises(InputError, match=says):
        opened(root, **changes | {"train": names})


def test_without_exclusion_the_test_pairs_are_used(root):
    sources = opened(root, exclude=())
    assert len(pairs(sources.train)) + len(pairs(sources.validation)) == 18


def test_mirrored_and_reversed_copies_count_once(tmp_path):
    make_mini("pf-pascal", tmp_path / "PF-PASCAL")
    sources = opened(tmp_path, train=("pf-pascal/trn",), exclude=(), holdout=0.3)
    assert len(pairs(sources.train)) + len(pairs(sources.validation)) == 3  # of 12 rows


@pytest.mark.parametrize("seed", range(3))
def test_images_of_each_category_are_held_out_of_spair(spair, seed):
    sources = opened(spair, seed, train=("spair-71k/trn",), exclude=(), holdout_images=2)
    assert len(photos(sources.validation)) == 2 * 3
    assert len(pairs(sources.validation)) == 3  # one pair of two photos
    assert not photos(sources.train) & photos(sources.validation)
    assert len(pairs(sources.train)) == 3 * 6  # all pairs of the four photos that are left


def test_photos_that_are_held_out_but_not_validated_on_stay_unseen(spair):
    """Whatever number of the held-out pairs is used, the same is trained on."""
    every, one = (
        opened(spair, train=("spair-71k/trn",), exclude=(), holdout_images=2, validation_pairs=count)
        for count in (100, 1)
    )
    assert len(one.validation[0]) == 1 < len(every.validation[0])
    assert one.training_images() == every.training_images()


def test_a_photo_held_out_of_one_data_set_is_not_trained_on_in_another(root, spair, tmp_path):
    both = tmp_path / "both"
    both.mkdir()
    (both / "SPair-71k").symlink_to(spair / "SPair-71k")
    write_pairs(both / "PF-PASCAL", categories=1, groups=4, photos=3)
    lines = (both / "PF-PASCAL" / "val_pairs.csv").read_text()
    for number in range(3):  # a group of PF-PASCAL shows photos of SPair-71k
        lines = lines.replace(f"aeroplane_1{number}.png", f"2009_bus{number}.jpg")
        source = spair / "SPair-71k" / "JPEGImages" / "bus" / f"2009_bus{number}.jpg"
        (both / "PF-PASCAL" / "JPEGImages" / source.name).write_bytes(source.read_bytes())
    (both / "PF-PASCAL" / "val_pairs.csv").write_text(lines)
    shared = 0
    for seed in range(8):
        sources = opened(both, seed, train=("pf-pascal/val", "spair-71k/trn"), holdout_images=2)
        assert not photos(sources.train) & photos(sources.validation)
        shared += bool(photos(sources.validation[:1]) & {"2009_bus0"})
    assert shared


def test_own_validation_pairs_may_show_training_photos(tmp_path):
    write_pairs(tmp_path / "PF-PASCAL", categories=2, groups=2, photos=3)
    rows = list(csv.reader((tmp_path / "PF-PASCAL" / "val_pairs.csv").read_text().splitlines()))
    with (tmp_path / "PF-PASCAL" / "trn_pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows(row[:3] for row in rows)
    sources = opened(
        tmp_path, strong=False, train=("pf-pascal/trn",), validate=("pf-pascal/val",), holdout=0.0
    )
    assert len(pairs(sources.train)) == len(pairs(sources.validation)) == 10
    assert sources.train[0].split == "trn" and sources.validation[0].split == "val"


def test_pairs_without_common_points_are_left_out_and_counted(tmp_path):
    write_pairs(tmp_path / "PF-PASCAL", categories=2, groups=3, photos=2)
    path = tmp_path / "PF-PASCAL" / "val_pairs.csv"
    rows = list(csv.reader(path.read_text().splitlines()))
    rows[2][3:] = [""] * 4
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    sources = opened(tmp_path)
    assert sources.left_out == 1
    assert rows[2][0].removesuffix(".png") not in photos((*sources.train, *sources.validation))


def test_synthetic_pairs_are_held_out_like_others(tmp_path):
    for folder in "abcd":
        for name in ("one", "two"):
            (tmp_path / "photos" / folder).mkdir(parents=True, exist_ok=True)
            Image.fromarray(texture(40, 30, ord(folder))).save(tmp_path / "photos" / folder / f"{name}.png")
    sources = opened(tmp_path, train=(f"folder:{tmp_path / 'photos'}",), holdout=0.25)
    (train,), (validation,) = sources.train, sources.validation
    assert (len(train), len(validation)) == (6, 2)  # photos of one name in several folders are different
    assert not {e.id for e in train.entries} & {e.id for e in validation.entries}
    assert isinstance(train[0].target, WarpedPhoto)
    from_the_root = opened(tmp_path, train=("folder:photos",), holdout=0.25)
    assert [e.source for e in from_the_root.train[0].entries] == [e.source for e in train.entries]


def test_a_benchmarks_held_out_photo_is_not_warped_for_training(root):
    folder = f"folder:{root / 'PF-PASCAL' / 'JPEGImages'}"
    sources = opened(root, train=("pf-pascal/val", folder))
    assert not photos(sources.train) & photos(sources.validation)
    assert len(sources.train[1]) > 0


def test_a_subset_hands_out_what_the_data_set_hands_out(root, tmp_path):
    Image.fromarray(texture(40, 30)).save(tmp_path / "a.png")
    Image.fromarray(texture(40, 30)).save(tmp_path / "b.png")
    for whole in (SyntheticPairs(tmp_path), open_dataset("pf-pascal", root / "PF-PASCAL", "val")):
        subset = Subset(whole, [1])
        assert len(subset) == 1
        pair, same = subset[0], whole[1]
        assert (pair.index, pair.id, type(pair.target)) == (0, same.id, type(same.target))
        assert np.array_equal(pair.target.points, same.target.points)
        assert np.array_equal(pair.target.image(), same.target.image())
        assert subset.entries[0].id == pair.id
        with pytest.raises(IndexError):
            subset[1]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"train": ("pf-pascal",)}, "wanted data set/split, such as pf-pascal/val"),
        ({"train": ("pf-pascl/val",)}, "did you mean 'pf-pascal'"),
        ({"train": ("pf-pascal/vol",)}, "pf-pascal has no split 'vol'"),
        ({"train": ("spair-71k/trn",)}, "no folder .*SPair-71k for spair-71k/trn.*data.root"),
        ({"train": ("folder:/no/such",)}, "no such folder of photos: /no/such"),
        ({"train": ("pf-pascal/trn",)}, "trn_pairs.csv"),
        ({"train": ("pf-pascal/test",)}, "data.exclude_images leave no pair of pf-pascal"),
        ({"holdout": 0.9}, "nothing of pf-pascal/val is left to train on"),
        ({"holdout": 0.0}, "no pair to validate on: raise data.holdout"),
        ({"validate": ("pf-pascal/test",)}, "data.validate: pf-pascal/test has no pair"),
    ],
)
def test_errors_name_what_is_missing(tmp_path, changes, says):
    write_pairs(tmp_path / "PF-PASCAL", categories=1, groups=2, photos=3)
    with pytest.raises(InputError, match=says) as error:
        opened(tmp_path, **changes)
    assert "\n" not in str(error.value)


def test_a_split_without_key_points(tmp_path):
    write_pairs(tmp_path / "PF-PASCAL", points=False)
    with pytest.raises(InputError, match=r"pf-pascal/trn has no keypoints.*loss\.objective=weak"):
        opened(tmp_path, train=("pf-pascal/trn",))
    with pytest.raises(InputError, match=r"pf-pascal/trn has no keypoints to validate on"):
        opened(tmp_path, strong=False, train=("pf-pascal/trn",))


def write_coco(folder: Path, names: list[str], category: str = "cat", file: str = "annotations.json") -> Path:
    """Images of a COCO file; each shows two objects of a category, with three keypoints."""
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(texture(40, 30, number)).save(folder / name)
    content = {
        "images": [{"id": n, "file_name": name} for n, name in enumerate(names)],
        "categories": [{"id": 1, "name": category, "keypoints": ["nose", "left_ear", "tail"]}],
        "annotations": [
            {"image_id": n, "category_id": 1, "keypoints": [5, 5, 2, 9 + shift, 9, 2, 20, 6, 1]}
            for n in range(len(names))
            for shift in (0, 1)
        ],
    }
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text(json.dumps(content))
    return folder / file


def files(parts: tuple) -> set[Path]:
    return {path for part in parts for e in part.entries for path in (e.source, e.target)}


def test_coco_files_beside_a_benchmark(root, tmp_path, monkeypatch):
    cats = write_coco(tmp_path / "cats", [f"{folder}/{n}.png" for folder in "ab" for n in range(4)])
    write_coco(tmp_path / "dogs", [f"{n}.png" for n in range(4)], "dog", "annotations/train.json")
    monkeypatch.chdir(tmp_path)
    names = "pf-pascal/val", f"coco:{cats}", "coco:dogs/train"
    sources = opened(root, train=names, holdout=0.2, holdout_images=2, exclude=())
    assert [part.name for part in sources.validation] == ["pf-pascal", "coco", "coco"]
    assert [part.split for part in sources.validation] == ["val", "cats", "train"]
    # Photos of one name in several folders are several; objects of two photos make pairs of their own.
    for position, count in ((1, 8), (2, 4)):
        train, judged = (
            files(sources.train[position : position + 1]),
            files(sources.validation[position : position + 1]),
        )
        assert len(judged) == 2 and len(train) == count - 2 and not train & judged
    objects = len(open_dataset("coco", cats))
    assert {len(opened(root, train=names[1:2], holdout_images=2, exclude=()).validation[0])} == {4}
    judged_apart = opened(
        root, train=("pf-pascal/val",), validate=names[1:2], exclude=(), validation_pairs=999
    )
    assert len(judged_apart.validation[1]) == objects  # no pair of objects is lost


def test_a_coco_file_below_the_folder_of_data_sets_and_excluded(root, tmp_path):
    both = tmp_path / "both"
    both.mkdir()
    (both / "PF-PASCAL").symlink_to(root / "PF-PASCAL")
    write_coco(both / "cats", [f"{n}.png" for n in range(6)])
    write_coco(both / "cats", [f"{n}.png" for n in range(2)], file="test.json")
    sources = opened(
        both,
        train=("pf-pascal/val", "coco:cats/annotations.json"),
        exclude=("coco:cats/test",),
        holdout_images=3,
    )
    tested = frozenset(("0", "1"))
    assert tested not in pairs(sources.train[1:]) and len(photos(sources.train[1:])) == 3
    with pytest.raises(InputError, match="leave no pair of coco:cats"):
        opened(both, train=("coco:cats/test.json",), exclude=("coco:cats/test.json",))


def test_splits_of_one_name_have_figures_of_their_own(root, tmp_path):
    names = tuple(f"coco:{write_coco(tmp_path / n / 'x', ['a.png', 'b.png', 'c.png'])}" for n in "12")
    sources = opened(root, validate=names)
    assert [part.split for part in sources.validation] == ["val", "x", "x#2"]


def test_an_annotated_photo_of_a_benchmark_is_that_photo(spair, tmp_path):
    """Held out of one, it is not trained on in the other; without the benchmark, a path tells the image."""
    buses = [f"2009_bus{n}.jpg" for n in range(6)]
    file = f"coco:{write_coco(tmp_path / 'buses', buses, 'bus')}"
    for seed in range(4):
        sources = opened(
            spair, seed, train=("spair-71k/trn", file), exclude=(), holdout_images=1, validate=(file,)
        )
        assert not photos(sources.train) & photos(sources.validation[:-1])


def test_images_of_each_category_are_held_out_where_no_fraction_of_the_groups_is(root):
    sources = opened(root, holdout=0.0, holdout_images=3)
    assert 0 < len(photos(sources.validation)) <= 2 * 3
    assert not photos(sources.train) & photos(sources.validation)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pseudo:coco:cats/annotations.json", "all its objects are paired already: write coco:cats/ann"),
        ("pseudo:coco/all", "paired already: write coco/all"),
        ("coco:cats/annotation.json", "no such file, neither here nor in .*coco:PATH/annotations.json"),
        ("coco:nowhere/all", "no such file, neither here nor in "),
        ("coco:cats/train", "coco has no split 'train' there; its splits are all"),
    ],
)
def test_what_is_said_of_coco_files_that_cannot_be_used(root, tmp_path, monkeypatch, name, says):
    write_coco(tmp_path / "cats", ["a.png", "b.png"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=says) as error:
        opened(root, train=("pf-pascal/val", name))
    assert "\n" not in str(error.value)
