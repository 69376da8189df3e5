"""Gates: decisions by hand, the distribution of the samples, the straight-through gradient."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from dhpf.model.gating import LayerGates, gumbel_noise, straight_through
from dhpf.model.transform import Transform


def test_test_time_decision_is_the_larger_score() -> None:
    gates = LayerGates([3]).eval()
    first, norm, _, last = gates.perceptrons[0]
    torch.nn.init.zeros_(first.weight)
    first.weight.data[0] = 1.0  # hidden unit 0: the sum of the pooled features
    first.weight.data[1] = -1.0  # hidden unit 1: minus it
    norm.running_var.fill_(1 - norm.eps)  # so that it divides by 1
    torch.nn.init.zeros_(last.weight)
    last.weight.data[0, 1] = 1.0  # off = relu(-sum)
    last.weight.data[1, 0] = 1.0  # on = relu(sum)
    a = torch.tensor([[1.0, 2.0, 3.0], [-9.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    b = torch.tensor([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    decisions = gates([a + b])
    assert decisions.on[:, 0].tolist() == [1.0, 0.0, 0.0]  # a tie is off, as published
    expected = torch.tensor([7.0, -6.0, 0.0]).sigmoid()  # softmax over two scores
    assert_close(decisions.probability[:, 0], expected)


def test_samples_follow_the_softmax() -> None:
    scores = torch.tensor([0.3, 1.4]).expand(20000, 2)
    sampled = straight_through(scores + gumbel_noise(scores.shape, torch.Generator().manual_seed(0)))
    assert set(sampled.unique().tolist()) == {0.0, 1.0}
    assert sampled[:, 1].mean().item() == pytest.approx(torch.tensor(1.1).sigmoid().item(), abs=0.01)


def test_noise_comes_from_the_generator_alone() -> None:
    one, same = (gumbel_noise((64, 2), torch.Generator().manual_seed(5)) for _ in range(2))
    other = gumbel_noise((64, 2), torch.Generator().manual_seed(6))
    assert torch.equal(one, same) and not torch.equal(one, other)


def test_gradient_is_that_of_the_softmax_with_the_same_noise() -> None:
    scores = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, 2, dtype=torch.float64)
    noise = gumbel_noise((5, 2), torch.Generator().manual_seed(1))
    (straight_through(scores + noise) * weight).sum().backward()
    twin = scores.detach().clone().requires_grad_()
    ((twin + noise).softmax(-1) * weight).sum().backward()
    assert_close(scores.grad, twin.grad)


def test_folded_transform_is_the_same_function() -> None:
    torch.manual_seed(0)
    transform = Transform(64).eval()
    transform[1].running_mean.normal_()
    transform[1].running_var.uniform_(0.5, 2)
    block = torch.randn(2, 7, 5, 64)
    literal = transform[1](transform[0](block.permute(0, 3, 1, 2))).relu().permute(0, 2, 3, 1)
    assert literal.shape == (2, 7, 5, 8)
    assert_close(transform(block), literal, rtol=1e-4, atol=1e-5)
    assert_close(transform.folded()(block), literal, rtol=1e-4, atol=1e-5)


def test_in_training_a_transform_follows_the_batch_as_torch_does() -> None:
    torch.manual_seed(0)
    transform, twin = Transform(32).train(), Transform(32).train()
    twin.load_state_dict(transform.state_dict())
    block = torch.randn(3, 4, 5, 32) + 1
    expected = twin[1](twin[0](block.permute(0, 3, 1, 2))).relu().permute(0, 2, 3, 1)
    assert_close(transform(block), expected, rtol=1e-4, atol=1e-5)
    assert_close(transform[1].running_mean, twin[1].running_mean)
    assert_close(transform[1].running_var, twin[1].running_var)
