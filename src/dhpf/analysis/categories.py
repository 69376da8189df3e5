"""Categories by the kind of thing they are: the rows of figure 3b are ordered by it.

The paper names the kinds (animals, vehicles, man-made objects) but not their members. Those of the PASCAL
categories follow PASCAL VOC's own families, in which a potted plant is a thing of the house.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

OTHER = "other"

# Names are compared by their letters alone, so "car(G)", "Car" and "car" are one.
MEMBERS = {
    "animals": (
        "bird cat cow dog horse person sheep duck "
        "ant bass beaver brontosaurus butterfly cougar_body cougar_face crab crayfish crocodile "
        "crocodile_head dalmatian dolphin dragonfly elephant emu Faces Faces_easy flamingo flamingo_head "
        "garfield gerenuk hawksbill hedgehog ibis kangaroo Leopards llama lobster mayfly nautilus octopus "
        "okapi panda pigeon platypus rhino rooster scorpion sea_horse snoopy starfish stegosaurus tick "
        "trilobite wild_cat"
    ),
    "vehicles": (
        "aeroplane bicycle boat bus car motorbike train "
        "airplanes car_side ferry helicopter ketch Motorbikes schooner"
    ),
    "man-made": (
        "bottle chair diningtable pottedplant sofa tvmonitor winebottle "
        "accordion anchor barrel binocular buddha camera cannon ceiling_fan cellphone chandelier cup "
        "dollar_bill electric_guitar euphonium ewer gramophone grand_piano headphone inline_skate lamp "
        "laptop mandolin menorah metronome minaret pagoda pizza pyramid revolver saxophone scissors "
        "soccer_ball stapler stop_sign umbrella watch wheelchair windsor_chair wrench yin_yang"
    ),
}
GROUPS = (*MEMBERS, OTHER)


def _letters(name: str) -> str:
    """The name without the view in brackets that PF-WILLOW adds, in small letters only."""
    return re.sub(r"[^a-z]", "", re.sub(r"\(.*?\)", "", name).lower())


GROUP_OF = {_letters(name): group for group, names in MEMBERS.items() for name in names.split()}


def group_of(category: str) -> str:
    """The kind of thing that a category is: one of ``GROUPS``."""
    return GROUP_OF.get(_letters(category), OTHER)


def by_group(categories: Iterable[str]) -> list[str]:
    """Each category once: animals first, then vehicles and so on, by name within a group."""
    return sorted(set(categories), key=lambda name: (GROUPS.index(group_of(name)), name.lower(), name))
