"""A whole folder: resumed after kills to the same bytes, shared out, damaged photos reported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dhpf
from dhpf import InputError, Matcher
from dhpf.annotate.run import confident, read_job, run
from dhpf.annotate.transfer import Annotator
from tests.conftest import Ran, texture

from .examples import annotations

MODEL = ["--model", "hpf-resnet50", "--size", "48"]


@pytest.fixture
def small(matcher: Matcher, one_thread: None) -> Matcher:
    return Matcher(matcher.method, matcher.name, 48)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reference and five photos, one of them the reference itself."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for index in range(5):
        Image.fromarray(texture(50 + index, 40, seed=index)).save(tmp_path / f"photos/p{index}.png")
    marks = "image,category,name,x,y\nphotos/p0.png,cat,eye,10,12\nphotos/p0.png,cat,nose,31.5,20\n"
    (tmp_path / "marks.csv").write_text(marks)
    return tmp_path


def label(matcher: Matcher, journal: Path | None = None) -> Any:
    job = read_job(Path("marks.csv"), Path("photos"))
    return run(job, Annotator(matcher, job.references), journal)


def test_every_photo_is_labelled_and_the_reference_stays_as_it_was(folder: Path, small: Matcher) -> None:
    done = label(small)
    assert (done.labelled, done.kept, done.failed) == (5, 0, ())
    assert [image.file_name for image in done.annotations] == [f"p{n}.png" for n in range(5)]
    assert [image.size for image in done.annotations] == [(50 + n, 40) for n in range(5)]
    first, *others = (image.objects for image in done.annotations)
    assert first[0].scores is None and first[0].points == {"eye": (10, 12), "nose": (31.5, 20)}
    assert all(one.scores is not None and one.shown.all() for [one] in others)


def test_python(folder: Path, small: Matcher) -> None:
    found = dhpf.annotate("marks.csv", "photos", matcher=small)
    assert isinstance(found, dhpf.Annotations) and len(found) == 5
    assert [image.file_name for image in found][1] == "p1.png"
    assert found.to_coco()["categories"][0]["keypoints"] == ["eye", "nose"]
    typed = dhpf.annotate("photos/p0.png", "photos", points="10,12 31.5,20", matcher=small)
    assert [o.keypoints.tolist() for i in typed for o in i.objects] == [
        o.keypoints.tolist() for i in found for o in i.objects
    ]
    (folder / "photos/p3.png").write_text("damaged")
    with pytest.raises(InputError, match=r"1 photos failed, the first: p3\.png: .*p3\.png is not an image"):
        dhpf.annotate("marks.csv", "photos", matcher=small)


def test_least_confidence() -> None:
    kept = confident(annotations(), 0.5)
    shown = [one.shown.tolist() for image in kept for one in image.objects]
    assert shown == [[True, False, False], [True, True, True], [True]]  # the last was marked by a person
    assert kept.images[0].objects[0].keypoints[1].tolist() == [0, 0, 0]
    with pytest.raises(InputError, match="wanted 0 to 1"):
        confident(annotations(), -0.1)


def test_what_is_finished_is_kept_while_its_photo_is_the_same(folder: Path, small: Matcher) -> None:
    journal = folder / "journal"
    before = label(small, journal)
    again = label(small, journal)
    assert (again.labelled, again.kept) == (0, 5)
    Image.fromarray(texture(52, 40, seed=77)).save("photos/p2.png")
    Image.fromarray(texture(52, 40, seed=78)).save("photos/p9.png")
    third = label(small, journal)
    assert (third.labelled, third.kept) == (2, 4)
    changed = [
        a.file_name
        for a, b in zip(before.annotations, third.annotations, strict=False)
        if not np.array_equal(a.objects[0].scores, b.objects[0].scores)
    ]
    assert changed == ["p2.png"]
    marks = Path("marks.csv").read_text()
    Path("marks.csv").write_text(marks.replace("31.5", "30"))
    with pytest.raises(InputError, match=r"-0 holds a run with other settings \(references\); remove"):
        label(small, journal)


@pytest.mark.parametrize("end", ["", '{"time": 1, "na'])
def test_a_line_that_was_cut_is_done_again(folder: Path, small: Matcher, end: str) -> None:
    journal = folder / "journal"
    whole = label(small, journal)
    path = folder / "journal-0"
    lines = path.read_text().splitlines(keepends=True)  # of the settings, then of five photos
    path.write_text("".join(lines[:-1]) + end)
    again = label(small, journal)
    assert (again.labelled, again.kept) == (1, 4)
    assert path.read_text().splitlines()[:5] == [line.rstrip() for line in lines[:5]]
    assert again.annotations.to_coco() == whole.annotations.to_coco()


@pytest.mark.parametrize(
    "line", ["{}", "3", '{"time": 1, "name": "../a", "sha256": "", "size": [1, 1], "objects": []}']
)
def test_a_damaged_line_ends_what_is_believed(folder: Path, small: Matcher, line: str) -> None:
    whole = label(small, folder / "journal")
    path = folder / "journal-0"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], line, *lines[2:], ""]))
    again = label(small, folder / "journal")
    assert (again.labelled, again.kept) == (4, 1)
    assert again.annotations.to_coco() == whole.annotations.to_coco()


def test_processes_share_the_photos(folder: Path, small: Matcher, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = label(small, folder / "alone")
    monkeypatch.setenv("WORLD_SIZE", "3")
    done = []
    for rank in (2, 1, 0):
        monkeypatch.setenv("RANK", str(rank))
        done.append(label(small, folder / "shared"))
    assert [part.labelled for part in done] == [2, 2, 1]
    assert done[-1].annotations.to_coco() == alone.annotations.to_coco()


def test_the_command(folder: Path, command: Callable[..., Ran]) -> None:
    (folder / "photos/notes.txt").write_text("no photo")
    arguments = ["annotate", "marks.csv", "photos", "--out", "out.json", *MODEL]
    ran = command(*arguments, "--contact-sheet", "look.html")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "5 photos annotated, 0 kept from before, 0 failed, 1 files that are not photos ignored: out.json\n"
    )
    written = json.loads(Path("out.json").read_text())
    assert [len(one.get("scores", [])) for one in written["annotations"]] == [0, 2, 2, 2, 2]
    page = Path("look.html").read_text()
    order = [name for name in page.split("<figcaption>")[1:]]
    sure = {
        i["id"]: o.get("score", 1.0) for i, o in zip(written["images"], written["annotations"], strict=True)
    }
    least = min(sure, key=lambda number: sure[number])
    assert order[0].startswith(f"p{least - 1}.png: {sure[least]:.2f}")
    assert order[-1].startswith("p0.png: marked by hand")
    ran = command(*arguments, "--format", "deeplabcut")
    assert ran.out.startswith("0 photos annotated, 5 kept")
    assert Path("out.json").read_text().startswith("scorer,dhpf")
    (folder / "photos/p4.png").write_text("damaged")
    ran = command(*arguments)
    assert ran.code == 1
    assert ran.err.startswith("dhpf: failed: p4.png: ") and "1 failed" in ran.out


def test_boxes_of_a_file(folder: Path, small: Matcher) -> None:
    """Two objects in one image, each labelled inside its box; categories without reference are named."""
    kinds = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    boxes = [(1, [0, 0, 24, 40]), (1, [25, 0, 25, 40]), (2, [0, 0, 9, 9])]
    made = [{"image_id": 1, "category_id": kind, "bbox": box} for kind, box in boxes]
    content = {"images": [{"id": 1, "file_name": "p1.png"}], "annotations": made, "categories": kinds}
    Path("boxes.json").write_text(json.dumps(content))
    job = read_job(Path("marks.csv"), Path("boxes.json"), None)
    assert [note.split(" of")[0] for note in job.targets.notes] == ["1 objects"]
    Path("boxes.json").rename("photos/boxes.json")
    job = read_job(Path("marks.csv"), Path("photos/boxes.json"))
    [image] = run(job, Annotator(small, job.references)).annotations
    left, right = image.objects
    np.testing.assert_array_equal(left.box, [-0.5, -0.5, 23.5, 39.5])
    assert left.keypoints[:, 0].max() < 28 and right.keypoints[:, 0].min() > 20


def program(*launcher: str) -> dict[str, Any]:
    command = [
        sys.executable,
        *launcher,
        "-m",
        "dhpf",
        "annotate",
        "marks.csv",
        "photos",
        "--out",
        "out.json",
    ]
    return {"args": [*command, *MODEL], "env": {**os.environ, "OMP_NUM_THREADS": "1"}}


DYING = """
import os, signal, sys
from dhpf import cli
from dhpf.journal import Lines

left, add = int(sys.argv.pop(1)), Lines.add

def die(self, line):
    global left
    left -= "objects" in line  # not the first line, of the settings
    if left < 0:
        with self.path.open("a") as stream:
            stream.write('{"time": 1, "name": "p')
        os.kill(os.getpid(), signal.SIGKILL)
    add(self, line)

Lines.add = die
cli.main()
"""


def test_killed_and_resumed_to_the_same_bytes(
    folder: Path, command: Callable[..., Ran], small: Matcher
) -> None:
    """Killed in the middle of a line, twice."""
    arguments = ["annotate", "marks.csv", "photos", "--out", "out.json", *MODEL]
    for photos in ("1", "2"):
        started = [sys.executable, "-c", DYING, photos, *arguments]
        ended = subprocess.run(started, env={**os.environ, "OMP_NUM_THREADS": "1"})
        assert ended.returncode == -signal.SIGKILL
        assert not Path("out.json").exists()
    ran = command(*arguments)
    assert (ran.code, ran.out.split(",")[:2]) == (0, ["2 photos annotated", " 3 kept from before"])
    command("annotate", "marks.csv", "photos", "--out", "alone.json", *MODEL)
    assert Path("out.json").read_bytes() == Path("alone.json").read_bytes()


def test_under_torchrun(folder: Path, command: Callable[..., Ran], small: Matcher) -> None:
    started = program("-m", "torch.distributed.run", "--nproc-per-node", "2")
    ended = subprocess.run(**started, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("photos annotated") == 2
    command("annotate", "marks.csv", "photos", "--out", "alone.json", *MODEL)
    assert Path("out.json").read_bytes() == Path("alone.json").read_bytes()
