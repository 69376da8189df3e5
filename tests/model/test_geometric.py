"""Transformations, grid loss, soft inlier count: against hand-computed cases and literal formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from dhpf.grid import Grid
from dhpf.methods.rtns import Field, neighbour_loss
from dhpf.methods.weakalign import mutual_strengths, soft_inliers
from dhpf.model.geometric import (
    Transformation,
    affine,
    cosine_maps,
    flow_to,
    grid_loss,
    in_pixels,
    lattice,
    maps_by_offset,
    match_strengths,
    normalised,
    read_maps,
    thin_plate,
    undo_affine,
    warp_maps,
)
from dhpf.model.readout import Floats

TURN = torch.tensor([[[-1.0, -1.0, 0.5], [1.0, -1.0, 0.0]]])  # a quarter turn, then 0.5 to the right


def random(*shape: int, seed: int = 0) -> Tensor:
    return 2 * torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) - 1


def test_locations_of_a_grid() -> None:
    grid = Grid(rows=3, columns=5, stride=4.0, offset=1.0)  # x from 1 to 17, y from 1 to 9
    points = torch.tensor([[1.0, 1.0], [17.0, 9.0], [9.0, 7.0]])
    expected = torch.tensor([[-1.0, -1.0], [1.0, 1.0], [0.0, 0.5]])
    assert_close(normalised(points, grid), expected)
    assert_close(in_pixels(expected, grid), points)
    assert lattice(2, 3).tolist() == [[-1, -1], [0, -1], [1, -1], [-1, 1], [0, 1], [1, 1]]


def test_affine_map_by_hand() -> None:
    points = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])
    assert_close(affine(TURN, points), torch.tensor([[[0.5, 0.0], [0.5, 1.0], [-0.5, 0.0]]]))
    assert_close(undo_affine(TURN[0], affine(TURN, points)[0]), points[0])


def test_thin_plate_spline_is_the_textbook_one() -> None:
    control = lattice(3, 3).double().numpy()
    moved = random(1, 9, 2)
    assert_close(thin_plate(moved, lattice(3, 3)[None]), lattice(3, 3) + moved)  # it passes through these

    def radial(a: Floats, b: Floats) -> Floats:
        squared = ((a[:, None] - b) ** 2).sum(-1)
        values: Floats = squared * np.log(np.where(squared > 0, squared, 1))  # r^2 log r, but for a factor
        return values

    line = np.hstack([np.ones((9, 1)), control])
    system = np.block([[radial(control, control), line], [line.T, np.zeros((3, 3))]])
    weights = np.linalg.solve(system, np.vstack([moved[0].double().numpy(), np.zeros((3, 2))]))
    points = random(1, 20, 2, seed=1)
    flat = points[0].double().numpy()
    literal = flat + radial(flat, control) @ weights[:9] + np.hstack([np.ones((20, 1)), flat]) @ weights[9:]
    np.testing.assert_allclose(thin_plate(moved, points)[0].numpy(), literal, atol=1e-5)


def test_composition() -> None:
    """Control points that move as an affine map does make that map; and two of them make their product."""
    small = 0.3 * random(1, 2, 3)
    as_spline = affine(small, lattice(3, 3)[None]) - lattice(3, 3)
    points = random(1, 50, 2, seed=1)
    assert_close(thin_plate(as_spline, points), affine(small, points))
    assert_close(Transformation(TURN, as_spline)(points), affine(TURN, affine(small, points)))


def test_grid_loss_by_hand() -> None:
    truth = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    assert grid_loss(truth + torch.tensor([[3.0, 4.0], [0.0, 1.0]]), truth) == (25 + 1) / 2
    shift = torch.zeros(1, 2, 3, requires_grad=True)  # the slope is that of the squared distance
    loss = grid_loss(affine(shift, truth[None]), truth[None] + torch.tensor([0.5, 0.0]))
    assert_close(torch.autograd.grad(loss, shift)[0][0, :, 2], torch.tensor([-1.0, 0.0]))


def test_maps_are_read_and_warped_where_locations_say() -> None:
    a, b = (torch.nn.functional.normalize(random(1, 4, 5, 5, seed=k), dim=1) for k in (0, 1))
    maps = cosine_maps(a, b)
    assert_close(maps[0, 7, 3, 4], a[0, :, 1, 2] @ b[0, :, 3, 4])
    halfway = torch.zeros(1, 25, 1, 2) + torch.tensor([-0.75, 1.0])  # between columns 0 and 1 of the last row
    assert_close(read_maps(maps, halfway)[0, :, 0], maps[0, :, 4, :2].mean(1))
    assert read_maps(maps, halfway - 9).abs().max() == 0  # outside
    turned = affine(torch.tensor([[[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0]]]), lattice(5, 5)[None])
    assert_close(warp_maps(maps, turned), maps.rot90(1, (2, 3)))


def test_strengths_are_positive_and_of_length_one() -> None:
    maps = torch.tensor([[3.0, -1.0], [4.0, 0.0]]).view(1, 1, 2, 2)
    assert_close(match_strengths(maps), torch.tensor([[0.6, 0.0], [0.8, 0.0]]).view(1, 1, 2, 2))


def test_windows_of_offsets_against_a_loop() -> None:
    size, reach = 5, 3
    maps = random(2, size**2, size, size)
    found = maps_by_offset(maps, reach)
    for y, x, dy, dx in np.ndindex(size, size, 2 * reach + 1, 2 * reach + 1):
        row, column = y + dy - reach, x + dx - reach
        inside = 0 <= row < size and 0 <= column < size
        expected = maps[:, y * size + x, row, column] if inside else torch.zeros(2)
        assert_close(found[:, dy * (2 * reach + 1) + dx, y, x], expected)


def test_mutual_strengths_by_hand() -> None:
    scores = torch.zeros(1, 4, 2, 2)
    assert_close(mutual_strengths(scores), torch.full((1, 4, 2, 2), 0.25))
    scores[0, :, 0, 0] = np.log(3)  # of target cell 0, which all four source cells prefer: 3 of 6, but 1 of 4
    assert mutual_strengths(scores)[0, 2, 0, 0].item() == pytest.approx((3 / 6 * 1 / 4) ** 0.5)
    assert mutual_strengths(scores)[0, 2, 1, 0].item() == pytest.approx((1 / 6 * 1 / 4) ** 0.5)


def test_soft_inlier_count_by_hand() -> None:
    strengths = torch.zeros(1, 9, 3, 3)
    strengths[0, 0, 0, 0], strengths[0, 0, 1, 1] = 0.6, 0.8  # cell 0: itself, the middle
    strengths[0, 8, 0, 2] = 1.0  # cell 8 matches a corner
    landed = lattice(3, 3)[None].clone()  # the identity
    assert soft_inliers(strengths, landed, 0)[0].tolist() == pytest.approx([0.6, *[0] * 8])
    assert soft_inliers(strengths, landed, 1)[0].tolist() == pytest.approx([1.4, *[0] * 8])
    landed[0, 8] = torch.tensor([1.0, -0.5])  # half a cell from the corner
    landed.requires_grad_(True)
    count = soft_inliers(strengths, landed, 0)
    assert count[0, 8].item() == pytest.approx(0.5)
    assert torch.autograd.grad(count.sum(), landed)[0][0, 8, 1].item() == pytest.approx(
        -1.0
    )  # a whole cell, which is 1 long, gains 1


def test_neighbour_loss_by_hand() -> None:
    scores = torch.full((1, 1, 15, 15), -99.0)
    scores[0, 0, 7, 7] = 0.0  # sure of the middle
    landed = torch.tensor([[0.0, 0.0], [2 / 7, 0.0], [-1 / 7, 3 / 7], [1.0, 1.0]]).view(4, 1, 2)
    found = neighbour_loss(scores.expand(4, -1, -1, -1), landed)  # there, 2 cells away, 1 and 3, far away
    assert_close((-found).exp(), torch.tensor([1.0, 3 / 5, 4 / 5 * 2 / 5, 0.0]) + 0.01)


def test_a_field_of_one_affine_map_is_smooth_already() -> None:
    cells = lattice(5, 5).T.view(2, 5, 5)
    one = 0.3 * random(1, 2, 3)
    shift = affine(one, lattice(5, 5)[None]) - lattice(5, 5)
    field = Field(one[:, :, :2].reshape(1, 4, 1, 1).expand(1, 4, 5, 5), shift.mT.reshape(1, 2, 5, 5))
    for kept, smooth in zip(field, field.smoothed(cells), strict=True):
        assert_close(smooth, kept)
    offsets = lattice(3, 3) * 0.1
    expected = affine(one, (lattice(5, 5)[:, None] + offsets).view(1, -1, 2)).view(1, 25, 9, 2)
    assert_close(field.window(offsets, cells), expected)


def test_flow_of_an_affine_map() -> None:
    """It is exact everywhere, on grids of other sizes too, until it ends at the edge of the target."""
    grid_a, grid_b = Grid(7, 9, 4.0), Grid(5, 5, 8.0, 2.0)
    halved = torch.tensor([[[-0.5, 0.0, 0.25], [0.0, -0.5, 0.0]]])
    landed = affine(halved, lattice(5, 5)[None])[0]
    flow = flow_to(landed, torch.full((25,), 0.5), grid_a, grid_b)
    points = np.array([[0.0, 0.0], [32.0, 24.0], [10.0, 3.0]])  # the last is x -0.375, y -0.75
    expected = in_pixels(torch.tensor([[-0.25, -0.5], [0.75, 0.5], [0.0625, -0.375]]), grid_b).numpy()
    np.testing.assert_allclose(flow.transfer(points), expected, atol=1e-5)
    assert flow.confidence_at(points[:, 0], points[:, 1]) == pytest.approx([0.5] * 3)
    beyond = flow_to(landed + 9, torch.full((25,), 0.5), grid_a, grid_b)
    np.testing.assert_allclose(beyond.transfer(points), np.full((3, 2), 34.0))
