"""Names of keypoints under mirroring: what was the left eye looks like a right one."""

from __future__ import annotations

import re

OTHER_SIDE = {"left": "right", "Left": "Right", "LEFT": "RIGHT", "l": "r", "L": "R"}
OTHER_SIDE |= {right: left for left, right in OTHER_SIDE.items()}

SIDE = re.compile(
    r"""
      (?<![A-Za-z]) (?:left|right|Left|Right|LEFT|RIGHT)  # begins a word: left_eye, paw-right, leftEye
    | (?<=[a-z]) (?:Left|Right)                           # begins a word in camel case: eyeLeft
    | (?<![A-Za-z]) [LRlr] (?![A-Za-z])                   # is a word: L_Eye, R_F_Paw, hand.l
    | (?<![A-Za-z]) [LR] (?=[A-Z][a-z])                   # stands before one: LEye, RBigToe
    """,
    re.VERBOSE,
)


def mirrored_name(name: str) -> str:
    """The name of a keypoint after left and right are exchanged; the same where it names no side.

    >>> mirrored_name("L_Eye"), mirrored_name("Top_Right_Front"), mirrored_name("Nose")
    ('R_Eye', 'Top_Left_Front', 'Nose')
    """
    return SIDE.sub(lambda side: OTHER_SIDE[side[0]], name)
