"""Every category of the four data sets is the kind of thing that one would say it is."""

from __future__ import annotations

from collections import Counter

from dhpf.analysis.categories import GROUP_OF, GROUPS, MEMBERS, OTHER, by_group, group_of
from dhpf.data.pf_pascal import CLASSES

WILLOW = (
    *("car(G)", "car(M)", "car(S)", "duck(S)", "motorbike(G)", "motorbike(M)", "motorbike(S)"),
    *("winebottle(M)", "winebottle(wC)", "winebottle(woC)"),
)
CALTECH_PLANTS_AND_A_BRAIN = (
    *("bonsai", "joshua_tree", "lotus", "strawberry", "sunflower", "water_lilly"),
    "brain",
)


def test_pascal_and_spair() -> None:
    assert Counter(map(group_of, CLASSES)) == {"animals": 7, "vehicles": 7, "man-made": 6}
    assert group_of("pottedplant") == "man-made"  # a thing of the house, as in PASCAL VOC's own families
    assert group_of("person") == "animals"


def test_willow_has_its_views_in_brackets() -> None:
    assert [group_of(name) for name in WILLOW] == ["vehicles"] * 3 + ["animals"] + ["vehicles"] * 3 + [
        "man-made"
    ] * 3


def test_caltech_has_101_categories() -> None:
    pascal_and_willow = {*CLASSES, "duck", "winebottle"}
    names = [name for names in MEMBERS.values() for name in names.split()]
    caltech = {name for name in names if name not in pascal_and_willow} | {"chair"}  # which PASCAL has too
    assert len(caltech) + len(CALTECH_PLANTS_AND_A_BRAIN) == 101
    assert len(GROUP_OF) == len(names)  # none is in two groups
    assert {group_of(name) for name in CALTECH_PLANTS_AND_A_BRAIN} == {OTHER}
    assert [group_of(name) for name in ("Leopards", "car_side", "BACKGROUND_Google")] == [
        *("animals", "vehicles", OTHER)
    ]


def test_order_is_by_group_then_name() -> None:
    given = ["sofa", "unicorn", "car", "Zebrafish", "dog", "bus", "cat", "car"]
    assert by_group(given) == ["cat", "dog", "bus", "car", "sofa", "unicorn", "Zebrafish"]
    assert GROUPS == ("animals", "vehicles", "man-made", "other")
