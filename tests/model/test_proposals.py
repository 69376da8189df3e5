"""Regions: what boxes hold, how they vote and agree, and the flow that they make."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from dhpf.grid import Grid
from dhpf.model.proposals import (
    KERNEL,
    geometric_medians,
    grid_boxes,
    hough_votes,
    local_offset_matching,
    offsets,
    overlaps,
    pool_boxes,
    region_flow,
)
from dhpf.model.selective_search import grouped, propose_boxes, segments


def boxes(*rows: tuple[float, float, float, float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def test_grid_boxes() -> None:
    found = grid_boxes((100, 50), (0.5,), 0.5)  # 4 x 4 boxes of 50 x 25 pixels
    assert found.shape == (16, 4)
    assert found[0].tolist() == [-13.0, -6.75, 37.0, 18.25]  # around the middle of the first sixteenth
    centre = (found[:, :2] + found[:, 2:]).mean(0) / 2
    assert centre.tolist() == [49.5, 24.5]


def test_pooling_is_the_mean_over_each_bin() -> None:
    generator = torch.Generator().manual_seed(0)
    block = torch.randn(5, 6, 2, generator=generator)
    grid = Grid(5, 6, stride=2.0, offset=1.0)
    given = boxes((0.3, 1.1, 7.9, 8.2), (-3.0, -1.0, 4.0, 3.0), (2.0, 2.0, 4.0, 4.0))
    found = pool_boxes(block, grid, given, 3)
    for box, pooled in zip(given.tolist(), found, strict=True):
        x, y = (np.linspace(box[axis], box[axis + 2], 4) for axis in (0, 1))
        for row in range(3):
            for column in range(3):
                total = np.zeros(2)
                for i in range(5):  # cell i covers 2 i to 2 i + 2
                    for j in range(6):
                        across = min(x[column + 1], 2 * j + 2) - max(x[column], 2 * j)
                        down = min(y[row + 1], 2 * i + 2) - max(y[row], 2 * i)
                        total += block[i, j].numpy() * max(across, 0) * max(down, 0)
                area = (x[1] - x[0]) * (y[1] - y[0])
                np.testing.assert_allclose(pooled[row, column], total / area, atol=1e-5)


def test_votes_are_those_of_all_matches_with_nearly_the_same_offset() -> None:
    generator = torch.Generator().manual_seed(1)
    appearance = torch.rand(4, 5, generator=generator)
    offset = torch.randint(-2, 3, (4, 5, 3), generator=generator).float()
    literal = torch.zeros(4, 5)
    for i in np.ndindex(4, 5):
        for j in np.ndindex(4, 5):
            apart = (offset[i] - offset[j]).abs().long().tolist()
            if max(apart) <= 1:
                literal[i] += appearance[j] * np.prod([KERNEL[1 + one] for one in apart])
    torch.testing.assert_close(hough_votes(appearance, offset), literal)


def test_offsets_are_in_bins() -> None:
    a, b = boxes((0, 0, 10, 10)), boxes((15, 30, 35, 50))
    found = offsets(a, b, (240, 120))  # of 15 pixels, half octaves
    torch.testing.assert_close(found, torch.tensor([[[20 / 15, 35 / 15, 2.0]]]))


def test_a_geometric_median_leaves_a_wrong_point_alone() -> None:
    points = torch.tensor([[1.0, 1.0]] * 5 + [[100.0, 100.0]])
    found = geometric_medians(points, torch.ones(6, 6))
    assert (found - 1).abs().max() < 1  # the mean is 17.5
    alone = torch.eye(6)
    torch.testing.assert_close(geometric_medians(points, alone), points)


def test_overlaps() -> None:
    found = overlaps(boxes((0, 0, 2, 2), (1, 0, 3, 2), (5, 5, 6, 6)))
    torch.testing.assert_close(found, torch.tensor([[1, 1 / 3, 0], [1 / 3, 1, 0], [0, 0, 1.0]]))


def test_neighbours_settle_what_appearance_cannot() -> None:
    """All boxes move by 40 pixels; the first looks like its match, and a little more like another box."""
    a = grid_boxes((200, 200), (0.3,), 0.5)
    b = a + torch.tensor([40.0, 0, 40, 0])
    appearance = 0.9 * torch.eye(len(a))
    appearance[24, 3] = 0.95
    found = local_offset_matching(appearance, a, b, (200, 200))
    assert appearance[24].argmax() == 3
    assert found.argmax(1).tolist() == [*range(len(a))]


def test_local_offset_matching_by_hand() -> None:
    """Offsets of 2 and 4 bins of 15 pixels. The first three boxes are one and the same; of their best matches
    two move by 2 bins and one by 4. The last box overlaps none, so that its own best match decides."""
    same = (0.0, 0.0, 30.0, 30.0)
    a = boxes(same, same, same, (150, 150, 180, 180))
    b = boxes((30, 0, 60, 30), (60, 0, 90, 30), (180, 150, 210, 180), (210, 150, 240, 180))
    appearance = torch.tensor([[0.8, 0.3, 0, 0], [0.8, 0, 0, 0], [0.1, 0.9, 0, 0], [0, 0, 0.5, 0.6]])
    # Votes are an eighth of 2.2 (0.8 + 0.8 + 0.1 + 0.5) for 2 bins, and of 1.8 (0.3 + 0.9 + 0.6) for 4: the
    # best are 0.8 * 2.2 > 0.3 * 1.8; 0.8 * 2.2; 0.1 * 2.2 < 0.9 * 1.8; 0.5 * 2.2 > 0.6 * 1.8.
    median = (2 + 2 + 4) / 3
    for _ in range(5):  # Weiszfeld: the weights are one over the distances
        near, far = 2 / (median - 2), 1 / (4 - median)
        median = (near * 2 + far * 4) / (near + far)
    assert median == pytest.approx(2.03, abs=0.01)
    two, four = (np.exp(-((bins - median) ** 2) / 2) for bins in (2, 4))
    expected = [[0.8 * two, 0.3 * four, 0, 0], [0.8 * two, 0, 0, 0], [0.1 * two, 0.9 * four, 0, 0]]
    expected.append([0, 0, 0.5, 0.6 * np.exp(-(2**2) / 2)])
    np.testing.assert_allclose(local_offset_matching(appearance, a, b, (240, 240)), expected, atol=1e-5)


def test_a_box_moves_what_is_in_it() -> None:
    grid = Grid(4, 4, stride=10.0, offset=5.0)
    flow = region_flow(
        torch.tensor([[0.2, 0.5]]), boxes((0, 0, 40, 40)), boxes((0, 0, 1, 1), (10, 20, 30, 40)), grid
    )
    np.testing.assert_allclose(
        flow.transfer(np.array([[5.0, 5.0], [20.0, 35.0]])), [[12.5, 22.5], [20, 37.5]]
    )
    np.testing.assert_allclose(flow.confidence, 0.5)
    # Of two boxes, the stronger one counts more: 40 and 10 pixels to the right, 4 to 1.
    pair = boxes((0, 0, 40, 40), (0, 0, 40, 40))
    moved = pair + torch.tensor([[40.0, 0, 40, 0], [10.0, 0, 10, 0]])
    flow = region_flow(torch.tensor([[0.8, 0.0], [0.0, 0.2]]), pair, moved, grid)
    np.testing.assert_allclose(flow.displacement[..., 0], 34, atol=1e-5)


def scene() -> np.ndarray:
    """A white square with a grey one in it, on black."""
    image = np.zeros((48, 64, 3))
    image[8:40, 16:48] = 1
    image[16:32, 24:40] = 0.5
    return image


def test_segments_are_what_looks_the_same() -> None:
    labels = segments(scene(), 0.05)
    corners = [labels[2, 2], labels[12, 20], labels[24, 32]]
    assert len(set(corners)) == 3
    assert (labels[:, :12] == corners[0]).all() and (labels[20:28, 28:36] == corners[2]).all()
    flat = segments(np.zeros((20, 30, 3)), 0.1)
    assert flat.max() == 0
    assert grouped(flat, np.zeros((20, 30, 3))).tolist() == [[-0.5, -0.5, 29.5, 19.5]]


@pytest.mark.parametrize("box", [(16, 8, 48, 40), (24, 16, 40, 32), (0, 0, 64, 48)])
def test_objects_are_proposed(box: tuple[int, ...]) -> None:
    found = propose_boxes(scene())
    wanted = np.array(box) - 0.5
    assert np.abs(found - wanted).max(1).min() <= 2  # smoothing moves an edge by a pixel or two
    np.testing.assert_array_equal(found, propose_boxes(scene()))
