"""Lists of pairs: what is read, what is refused, in which order pairs are taken."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhpf import InputError
from dhpf.pair_list import Job, by_locality, one_to_many, read_jobs


def write(folder: Path, text: str) -> Path:
    path = folder / "pairs.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_names_count_from_the_list(tmp_path: Path) -> None:
    listed = read_jobs(
        write(tmp_path, "\ufeffsource,target,points\na.jpg, b.jpg,\n\n/c.png,sub/d.png,p.json\n")
    )
    assert listed.jobs == (
        Job(0, tmp_path / "a.jpg", tmp_path / "b.jpg"),
        Job(1, Path("/c.png"), tmp_path / "sub" / "d.png", tmp_path / "p.json"),
    )
    assert [job.name for job in listed.jobs] == ["000000_a_b", "000001_c_d"]
    assert listed.jobs[0].inputs == [tmp_path / "a.jpg", tmp_path / "b.jpg"]
    assert listed.jobs[1].inputs == [Path("/c.png"), tmp_path / "sub" / "d.png", tmp_path / "p.json"]


def test_all_pairs_of_a_folder(tmp_path: Path) -> None:
    for name in ("b.JPG", "a.png", "c.webp", "notes.txt", ".hidden.jpg"):
        (tmp_path / name).write_text("")
    (tmp_path / "sub.jpg").mkdir()
    listed = read_jobs(tmp_path)
    assert [job.name for job in listed.jobs] == ["000000_a_b", "000001_a_c", "000002_b_c"]
    assert listed.ignored == 1  # notes.txt


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "holds no pairs"),
        ("source,target\n", "holds no pairs"),
        ("a,b\n1,2\n", "line 2: wanted columns source and target"),
        ("source,target\na,b\n\nc,\n", "line 4: wanted columns source and target, both filled"),
        ("source,target\na,b" + "c" * 200_000, "cannot be read as CSV"),
        ("source,target\na,b\0", "is not text in UTF-8; wanted a list of pairs"),
    ],
)
def test_bad_lists_are_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_jobs(write(tmp_path, text))


def test_what_is_no_list(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such list of pairs"):
        read_jobs(tmp_path / "none.csv")
    with pytest.raises(InputError, match=r"holds 0 photos; wanted at least two"):
        read_jobs(tmp_path)
    binary = tmp_path / "photo.csv"
    binary.write_bytes(b"\xff\xd8\xff\xe0" * 20)
    with pytest.raises(InputError, match=r"is not text in UTF-8; wanted a list of pairs"):
        read_jobs(binary)
    with pytest.raises(InputError, match=r"/dev/zero is a device or a pipe; wanted a list of pairs"):
        read_jobs(Path("/dev/zero"))


def test_long_names_make_short_results() -> None:
    assert len(Job(3, Path("a" * 250 + ".jpg"), Path("b" * 250 + ".jpg")).name) < 200


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60))
def test_the_order_keeps_every_pair_once(pairs: list[tuple[int, int]]) -> None:
    jobs = [Job(index, Path(str(a)), Path(str(b))) for index, (a, b) in enumerate(pairs)]
    assert sorted(by_locality(jobs), key=lambda job: job.index) == jobs


def computed(jobs: list[Job], room: int) -> int:
    """How often features are computed if those of ``room`` photos, the last ones used, are kept."""
    kept: OrderedDict[Path, None] = OrderedDict()
    count = 0
    for path in itertools.chain.from_iterable((job.source, job.target) for job in jobs):
        count += path not in kept
        kept[path] = None
        kept.move_to_end(path)
        if len(kept) > room:
            kept.popitem(last=False)
    return count


def test_a_small_cache_goes_far() -> None:
    """All pairs of 64 photos: once each if all fit; with room for 16, not once a pair, as row by row."""
    photos = [Path(f"{index:02d}") for index in range(64)]
    jobs = [Job(index, *pair) for index, pair in enumerate(itertools.combinations(photos, 2))]
    assert computed(by_locality(jobs), 64) == 64
    assert computed(jobs, 16) > 1900
    assert computed(by_locality(jobs), 16) < 500


def test_one_photo_and_all_others(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.png", "notes.txt", "c.JPG"):
        (tmp_path / name).touch()
    listed = one_to_many(tmp_path / "b.png", tmp_path, "1,2")
    assert [(job.source.name, job.target.name, job.points) for job in listed.jobs] == [
        ("b.png", "a.jpg", "1,2"),
        ("b.png", "c.JPG", "1,2"),
    ]
    assert listed.ignored == 1
    assert listed.jobs[0].inputs == [tmp_path / "b.png", tmp_path / "a.jpg"]
    (tmp_path / "one").mkdir()
    with pytest.raises(InputError, match="holds no photo to match"):
        one_to_many(tmp_path / "a.jpg", tmp_path / "one")


def test_points_of_a_list_may_be_typed(tmp_path: Path) -> None:
    pairs = write(tmp_path, 'source,target,points\na.jpg,b.jpg,"76,136"\na.jpg,b.jpg,p.csv\n')
    assert [job.points for job in read_jobs(pairs).jobs] == ["76,136", tmp_path / "p.csv"]
