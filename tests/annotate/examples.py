"""Annotations that use all there is: two categories, several objects, hidden and absent keypoints, scores."""

from __future__ import annotations

import numpy as np

from dhpf.annotate.annotations import AnnotatedImage, Annotations, Category, LabelledObject

CAT = Category("cat", ("left_eye", "right_eye", "nose"), ((0, 1), (1, 2)))
CUP = Category("cup, small", ("rim",))


def annotations() -> Annotations:
    """Two images of cats and a cup, and an image of nothing."""
    first = LabelledObject(
        CAT,
        np.array([[10.25, 12.5, 2], [30, 11, 1], [0, 0, 0]]),
        box=np.array([5.5, 4.5, 45.5, 38.5]),
        polygons=(np.array([[6, 5], [45, 6.5], [20, 38]]), np.array([[1, 1], [3, 1], [3, 3], [1, 3]])),
        scores=np.array([0.9, 0.25, 0.0]),
    )
    second = LabelledObject(
        CAT, np.array([[50, 20, 2], [58, 21, 2], [54, 28.75, 2]]), scores=np.array([1, 0.5, 0.75])
    )
    cup = LabelledObject(CUP, np.array([[7, 9, 2]]), box=np.array([1, 2, 30.5, 40]))
    images = (
        AnnotatedImage("more/b.png", (60, 40), (first, second)),
        AnnotatedImage("a cat & <dog>.jpg", (80, 60), (cup,)),
        AnnotatedImage("none.png", (60, 40)),
    )
    return Annotations((CAT, CUP), images)
