"""Names of keypoints under mirroring."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhpf.data.names import mirrored_name

SIDED = {
    "left_eye": "right_eye",
    "eye_left": "eye_right",
    "ear-left": "ear-right",
    "Left Eye": "Right Eye",
    "LEFT_HIP": "RIGHT_HIP",
    "LeftEye": "RightEye",
    "leftEye": "rightEye",
    "lefteye": "righteye",
    "eyeLeft": "eyeRight",
    "Top_Left_Front": "Top_Right_Front",
    "Handle_Left_Junction": "Handle_Right_Junction",
    "leftmost": "rightmost",
    "L_Eye": "R_Eye",
    "L_F_WheelCenter": "R_F_WheelCenter",
    "hand.L": "hand.R",
    "foot_l": "foot_r",
    "L1": "R1",
    "LEye": "REye",
    "LBigToe": "RBigToe",
    "left_of_right_eye": "right_of_left_eye",
}


@pytest.mark.parametrize("name", SIDED)
def test_sides_are_exchanged(name):
    assert mirrored_name(name) == SIDED[name]
    assert mirrored_name(SIDED[name]) == name


@pytest.mark.parametrize(
    "name",
    ["Nose", "upright", "Brightness", "cleft", "Leg_Center", "rear", "LED", "RGB", "Lower_Neck", "", "7"],
)
def test_other_names_stay(name):
    assert mirrored_name(name) == name


@given(
    st.lists(st.sampled_from([*"LRlr_-. xX1", "left", "Left", "RIGHT", "right", "Eye", "eye"])).map("".join)
)
def test_twice_is_nothing(name):
    assert mirrored_name(mirrored_name(name)) == name
