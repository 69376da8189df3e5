"""Many pairs: computed once, bounded, killed and resumed, shared out; nothing half-written."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dhpf import ImageFeatures, InputError, Matcher
from dhpf.many import Done, Wanted, match_many
from dhpf.processes import processes_here, rank_and_world_size
from tests.conftest import texture

WANTED, SIZE, PLENTY = Wanted(), (48, 48), 2**30


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of six photos: fifteen pairs."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for index in range(6):
        Image.fromarray(texture(40 + index, 50, seed=index)).save(folder / f"p{index}.png")
    return folder


class Counting(Matcher):
    """A matcher that counts which photos' features it computes."""

    def __init__(self, matcher: Matcher) -> None:
        super().__init__(matcher.method, matcher.name, SIZE, calibration=matcher.calibration)
        self.computed: Counter[str] = Counter()

    def features(self, image: Any, name: str = "image") -> ImageFeatures:
        self.computed[Path(image).name] += 1
        return super().features(image, name)


@pytest.fixture
def counting(matcher: Matcher, one_thread: None) -> Counting:
    """The matcher of the tests' runs."""
    return Counting(matcher)


def results(folder: Path) -> dict[str, Any]:
    """All JSON results; nothing else is there, hidden or not."""
    names = {path.name for path in folder.iterdir() if not path.name.startswith("run-")}
    assert names == {path.name for path in folder.glob("0*.json")}
    return {name: json.loads((folder / name).read_text()) for name in sorted(names)}


def test_features_are_computed_once(photos: Path, counting: Counting, tmp_path: Path) -> None:
    done = match_many(counting, photos, tmp_path / "out", WANTED, PLENTY)
    assert done == Done(15, 0, (), 0)
    assert counting.computed == {f"p{index}.png": 1 for index in range(6)}
    found = results(tmp_path / "out")
    assert len(found) == 15
    direct = counting.match(photos / "p1.png", photos / "p4.png").to_dict()
    kept = found["000007_p1_p4.json"]
    assert (kept.pop("source"), kept.pop("target")) == (str(photos / "p1.png"), str(photos / "p4.png"))
    assert kept == direct


def test_a_small_cache_changes_no_result(photos: Path, counting: Counting, tmp_path: Path) -> None:
    match_many(counting, photos, tmp_path / "large", WANTED, PLENTY)
    counting.computed.clear()
    match_many(counting, photos, tmp_path / "small", WANTED, 1)
    assert sum(counting.computed.values()) > 6
    assert results(tmp_path / "small") == results(tmp_path / "large")


def test_finished_pairs_are_kept(photos: Path, counting: Counting, tmp_path: Path) -> None:
    out = tmp_path / "out"
    match_many(counting, photos, out, WANTED, PLENTY)
    before = results(out)
    (out / "000003_p0_p4.json").unlink()
    counting.computed.clear()
    assert match_many(counting, photos, out, WANTED, PLENTY) == Done(1, 14, (), 0)
    assert counting.computed == {"p0.png": 1, "p4.png": 1}
    assert results(out) == before
    counting.computed.clear()
    assert match_many(counting, photos, out, WANTED, PLENTY) == Done(0, 15, (), 0)
    assert not counting.computed


def test_a_pair_is_finished_when_all_its_files_are(photos: Path, counting: Counting, tmp_path: Path) -> None:
    wanted = Wanted(draw=True, flow=True, warp=True)
    out, pairs = tmp_path / "out", tmp_path / "pairs.csv"
    pairs.write_text("source,target,points\nphotos/p0.png,photos/p1.png,points.csv\n")
    (tmp_path / "points.csv").write_text("1,2\n30,4\n20,44\n")
    match_many(counting, pairs, out, wanted, PLENTY)
    stem = "000000_p0_p1"
    names = [f"{stem}.json", f"{stem}.npz", f"{stem}.png", f"{stem}_warp.png", "run-0"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert json.loads((out / f"{stem}.json").read_text())["source_points"] == [[1, 2], [30, 4], [20, 44]]
    with np.load(out / f"{stem}.npz") as dense:
        assert dense["flow"].shape == (50, 40, 2)
    (out / f"{stem}.npz").unlink()
    assert match_many(counting, pairs, out, wanted, PLENTY).matched == 1


def test_one_to_many_keeps_names(photos: Path, counting: Counting, tmp_path: Path) -> None:
    """One photo with every other; its points come from an annotation file, which names another photo, too."""
    rows = ["image,name,x,y", "p0.png,left eye,1,2", "p0.png,nose,30,4", "p1.png,nose,5,5"]
    (tmp_path / "marks.csv").write_text("\n".join(rows))
    wanted = Wanted(csv=True)
    out = tmp_path / "out"
    marks = tmp_path / "marks.csv"
    assert match_many(counting, photos / "p0.png", out, wanted, PLENTY, photos, marks).matched == 5
    assert counting.computed == {f"p{index}.png": 1 for index in range(6)}
    first = json.loads((out / "000000_p0_p1.json").read_text())
    assert first["names"] == ["left eye", "nose"] and first["source_points"] == [[1, 2], [30, 4]]
    table = (out / "000004_p0_p5.csv").read_text().splitlines()
    assert table[0] == "name,source_x,source_y,target_x,target_y,confidence"
    assert [row.split(",")[:3] for row in table[1:]] == [["left eye", "1.0", "2.0"], ["nose", "30.0", "4.0"]]
    assert match_many(counting, photos / "p0.png", out, wanted, PLENTY, photos, marks).kept == 5
    with pytest.raises(InputError, match=r"holds a run with other settings \(pairs\)"):
        match_many(counting, photos / "p0.png", out, wanted, PLENTY, photos, "1,2")


def test_damaged_photos_and_points_are_counted_and_the_rest_is_done(
    photos: Path, counting: Counting, tmp_path: Path
) -> None:
    (photos / "p2.png").write_bytes(b"not a photo")
    (tmp_path / "far.csv").write_text("1000,1000\n")
    rows = [
        "p0.png,p1.png,",
        "p2.png,p0.png,",
        "p0.png,none.png,",
        "p0.png,p1.png,../far.csv",
        "p3.png,p4.png,",
    ]
    (photos / "pairs.csv").write_text("source,target,points\n" + "\n".join(rows))
    done = match_many(counting, photos / "pairs.csv", tmp_path / "out", WANTED, PLENTY)
    assert (done.matched, len(done.failed)) == (2, 3)
    report = "\n".join(sorted(done.failed))
    assert "pair 1: " in report and "p2.png is not an image" in report
    assert "pair 2: no such image" in report
    assert "pair 3: point 1 at (1000, 1000) lies outside" in report
    assert sorted(results(tmp_path / "out")) == ["000000_p0_p1.json", "000004_p3_p4.json"]
    Image.fromarray(texture(40, 50)).save(photos / "p2.png")  # mended: only what failed is done again
    assert match_many(counting, photos / "pairs.csv", tmp_path / "out", WANTED, PLENTY).matched == 1


def test_a_full_disc_ends_the_run(
    photos: Path, counting: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    match_many(counting, photos, tmp_path / "out", WANTED, PLENTY)
    (tmp_path / "out" / "000003_p0_p4.json").unlink()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"000003_p0_p4.json: No space left on device"):
        match_many(counting, photos, tmp_path / "out", WANTED, PLENTY)
    assert len(results(tmp_path / "out")) == 14


def refused(counting: Matcher, photos: Path, out: Path, complaint: str, wanted: Wanted = WANTED) -> None:
    """The run does not go on, and the results stay as they were."""
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(InputError, match=rf"{complaint}; remove it to start anew, or choose another --out"):
        match_many(counting, photos, out, wanted, PLENTY)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_another_run_is_not_mixed_in(photos: Path, counting: Counting, tmp_path: Path) -> None:
    out = tmp_path / "out"
    match_many(counting, photos, out, WANTED, PLENTY)
    for wanted, named in ((Wanted(draw=True), "draw"), (Wanted(style="flow"), "style")):
        refused(counting, photos, out, rf"run-0 holds a run with other settings \({named}\)", wanted)
    other = Matcher(counting.method, counting.name, 64, calibration=counting.calibration)
    refused(other, photos, out, r"other settings \(size, weights\)")
    other = Matcher(counting.method, "another", SIZE, calibration=counting.calibration)
    refused(other, photos, out, r"other settings \(model\)")
    (photos / "p9.png").write_bytes((photos / "p0.png").read_bytes())
    refused(counting, photos, out, r"other settings \(pairs\)")


def test_a_run_goes_on_only_with_the_same_weights(photos: Path, counting: Counting, tmp_path: Path) -> None:
    """A model of the same name, one of whose millions of weights differs in the last bit."""
    match_many(counting, photos, tmp_path / "out", WANTED, PLENTY)
    method = copy.deepcopy(counting.method)
    weight = list(method.state_dict().values())[40]
    weight.view(-1)[0] = torch.nextafter(weight.view(-1)[0], torch.tensor(9.0))
    other = Matcher(method, counting.name, SIZE, calibration=counting.calibration)
    assert other.fingerprint != counting.fingerprint
    refused(other, photos, tmp_path / "out", r"other settings \(weights\)")
    same = Matcher(copy.deepcopy(counting.method), counting.name, SIZE, calibration=counting.calibration)
    assert match_many(same, photos, tmp_path / "out", WANTED, PLENTY).kept == 15


def test_pairs_of_changed_content_are_matched_again(photos: Path, counting: Counting, tmp_path: Path) -> None:
    """Of photos and of points; when files were touched does not matter."""
    (photos / "points.csv").write_text("1,2\n")
    (photos / "pairs.csv").write_text("source,target,points\np0.png,p1.png,points.csv\np2.png,p3.png,\n")
    out = tmp_path / "out"
    match_many(counting, photos / "pairs.csv", out, WANTED, PLENTY)
    first = results(out)
    for change, changed in (
        (lambda: (photos / "points.csv").write_text("8,2\n"), "000000_p0_p1.json"),
        (lambda: Image.fromarray(texture(44, 50, seed=9)).save(photos / "p2.png"), "000001_p2_p3.json"),
    ):
        change()
        assert match_many(counting, photos / "pairs.csv", out, WANTED, PLENTY) == Done(1, 1, (), 0)
        now = results(out)
        assert [name for name in now if now[name] != first[name]] == [changed]
        first = now
    for path in photos.iterdir():
        path.touch()
    assert match_many(counting, photos / "pairs.csv", out, WANTED, PLENTY) == Done(0, 2, (), 0)


@pytest.mark.parametrize("text", ["{\n", "", "[" * 100_000 + "\n", "\0\n", None])
def test_results_without_a_readable_journal_are_not_replaced(
    photos: Path, counting: Counting, tmp_path: Path, text: str | None
) -> None:
    out = tmp_path / "out"
    match_many(counting, photos, out, WANTED, PLENTY)
    before = results(out)
    if text is None:
        (out / "run-0").unlink()
    else:
        (out / "run-0").write_text(text)
    with pytest.raises(InputError, match=r" is of another run, or of one that was damaged"):
        match_many(counting, photos, out, WANTED, PLENTY)
    assert results(out) == before


def test_places_that_cannot_hold_results(photos: Path, counting: Counting, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds the photos"):
        match_many(counting, photos, photos, WANTED, PLENTY)
    with pytest.raises(InputError, match=r"cannot make the folder"):
        match_many(counting, photos, photos / "p0.png", WANTED, PLENTY)


def test_results_never_replace_inputs(photos: Path, counting: Counting, tmp_path: Path) -> None:
    """A photo that is called as a result will be, and a link among the results that leads to a photo."""
    (photos / "p0.png").rename(photos / "000000_p1_p2.png")
    (photos / "pairs.csv").write_text("source,target\np1.png,p2.png\n000000_p1_p2.png,p3.png\n")
    with pytest.raises(InputError, match=r"000000_p1_p2\.png is an input"):
        match_many(counting, photos / "pairs.csv", photos, Wanted(draw=True), PLENTY)
    out = tmp_path / "out"
    out.mkdir()
    (out / "000000_p1_p2.json").symlink_to(photos / "p3.png")
    with pytest.raises(InputError, match=r"000000_p1_p2\.json is an input"):
        match_many(counting, photos / "pairs.csv", out, WANTED, PLENTY)
    assert not counting.computed


@pytest.mark.parametrize("world", [2, 3, 20])
def test_processes_share_the_pairs_without_overlap(
    photos: Path, counting: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: int
) -> None:
    match_many(counting, photos, tmp_path / "one", WANTED, PLENTY)
    monkeypatch.setenv("WORLD_SIZE", str(world))
    done = []
    for rank in reversed(range(world)):  # whoever is first
        monkeypatch.setenv("RANK", str(rank))
        done.append(match_many(counting, photos, tmp_path / "shared", WANTED, PLENTY))
    assert sum(part.matched for part in done) == 15
    assert sum(part.kept for part in done) == 0
    assert results(tmp_path / "shared") == results(tmp_path / "one")


@pytest.mark.parametrize(("rank", "world"), [("2", "2"), ("x", "2"), ("-1", "2"), ("0", "0"), ("", "")])
def test_nonsense_shares(monkeypatch: pytest.MonkeyPatch, rank: str, world: str) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", world)
    with pytest.raises(InputError, match=r"wanted numbers as torchrun sets them"):
        rank_and_world_size()
    monkeypatch.delenv("WORLD_SIZE")
    assert rank_and_world_size() == (0, 1)


def test_processes_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert processes_here() == 1
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert processes_here() == 4
    for nonsense in ("x", "", "-1", "1.5", "²"):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", nonsense)
        with pytest.raises(InputError, match=rf"LOCAL_WORLD_SIZE={nonsense}: wanted numbers as torchrun"):
            processes_here()


def program(*launcher: str, photos: Path, out: Path) -> dict[str, Any]:
    """How to start the program in another process, with one thread."""
    command = [sys.executable, *launcher, "-m", "dhpf", "match-many", photos, "--out", out, "--size", "48"]
    command += ["--model", "hpf-resnet50"]
    return {"args": list(map(str, command)), "env": {**os.environ, "OMP_NUM_THREADS": "1"}}


def test_killed_and_resumed(counting: Counting, tmp_path: Path) -> None:
    """Killed without warning, twice; what is there is whole, and the end is that of a run left alone."""
    photos, out = tmp_path / "photos", tmp_path / "out"
    photos.mkdir()
    for index in range(11):
        Image.fromarray(texture(40, 50, seed=index)).save(photos / f"p{index:02d}.png")
    for enough in (3, 15):
        process = subprocess.Popen(**program(photos=photos, out=out))
        while len(list(out.glob("0*.json"))) < enough and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        for path in out.glob("*.json"):
            json.loads(path.read_text())
    kept = (out / "run-0").read_bytes().count(b"\n") - 1  # the first line is of the settings
    assert 14 <= kept < 55
    assert match_many(counting, photos, out, WANTED, PLENTY) == Done(55 - kept, kept, (), 0)
    match_many(counting, photos, tmp_path / "alone", WANTED, PLENTY)
    assert results(out) == results(tmp_path / "alone")


def test_under_torchrun_a_failure_does_not_stop_the_others(
    photos: Path, counting: Counting, tmp_path: Path
) -> None:
    pairs = photos / "pairs.csv"
    names = [f"p{a}.png,p{b}.png" for a in range(4) for b in range(4)]
    pairs.write_text("\n".join(["source,target", "none.png,p0.png", *names]))
    alone = match_many(counting, pairs, tmp_path / "alone", WANTED, PLENTY)
    assert (alone.matched, len(alone.failed)) == (16, 1)
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    started = program(*launcher, photos=pairs, out=tmp_path / "out")
    ended = subprocess.run(**started, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert ended.stderr.count("pair 0: no such image") == 1
    assert ended.stdout.count("pairs matched") == 2
    assert len(results(tmp_path / "out")) == 16
    assert results(tmp_path / "out") == results(tmp_path / "alone")
