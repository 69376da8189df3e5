"""Categories by the kind of object that they are: the rows of figure 3b are ordered by it.

The paper names the kinds but not their members; here they follow PASCAL VOC's own families. Categories of
other data sets are told by their name alone where it is one of these.
"""

from __future__ import annotations

import re

OTHER = "other"
MEMBERS = {
    "animals": "bird cat cow dog duck horse person sheep",
    "vehicles": "aeroplane bicycle boat bus car motorbike train",
    "man-made": "bottle chair diningtable pottedplant sofa tvmonitor winebottle",
}
KINDS = (*MEMBERS, OTHER)
KIND_OF = {name: kind for kind, names in MEMBERS.items() for name in names.split()}


def kind_of(category: str) -> str:
    """One of ``KINDS``. PF-WILLOW's names end in a view, in brackets: that is left out."""
    return KIND_OF.get(re.sub(r"\(.*\)", "", category).lower(), OTHER)
