"""Layers that grow with the classes."""

from __future__ import annotations

import torch

from mlcl.nn.head import GrowingLinear


def chance(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_grows_and_keeps_old_rows() -> None:
    head = GrowingLinear(4)
    generator = chance()
    head.grow(2, generator)
    head.weight.data += 1
    head.bias.data += 3
    weight, bias = head.weight.detach().clone(), head.bias.detach().clone()
    x = torch.randn(5, 4, generator=chance(1))
    before = head(x)
    head.grow(3, generator)
    after = head(x)
    assert after.shape == (5, 5)
    assert torch.equal(head.weight[:2], weight)
    assert torch.equal(head.bias[:2], bias)
    assert torch.allclose(after[:, :2], before)
    assert (head.bias[2:] == 0).all()


def test_is_linear_with_bias() -> None:
    head = GrowingLinear(2)
    head.grow(2, chance())
    head.weight.data = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    head.bias.data = torch.tensor([0.5, 0.0])
    assert head(torch.tensor([[1.0, 10.0]])).tolist() == [[21.5, -7.0]]


def test_new_rows_are_within_their_scale() -> None:
    default, wide, silent = GrowingLinear(100), GrowingLinear(100, 2.0), GrowingLinear(100, 0.0)
    for head, scale in ((default, 0.1), (wide, 2.0), (silent, 0.0)):
        head.grow(50, chance())
        assert head.weight.abs().max() <= scale
        assert head.weight.abs().max() >= 0.95 * scale
        assert abs(head.weight.mean().item()) <= 0.05 * scale  # on both sides of 0


def test_depends_on_its_generator_alone() -> None:
    before = torch.get_rng_state()
    heads = [GrowingLinear(8) for _ in range(3)]
    for head, seed in zip(heads, (1, 1, 2), strict=True):
        head.grow(3, chance(seed))
    assert torch.equal(heads[0].weight, heads[1].weight)
    assert not torch.equal(heads[0].weight, heads[2].weight)
    assert torch.equal(torch.get_rng_state(), before)


def test_rows_of_two_tasks_differ() -> None:
    head, generator = GrowingLinear(8), chance()
    head.grow(1, generator)
    head.grow(1, generator)
    assert not torch.equal(head.weight[0], head.weight[1])


def test_before_the_first_class() -> None:
    assert GrowingLinear(4)(torch.zeros(3, 4)).shape == (3, 0)


def test_learns_after_growing() -> None:
    head = GrowingLinear(4)
    head.grow(1, chance())
    head.grow(1, chance())
    assert {name for name, _ in head.named_parameters()} == {"weight", "bias"}
    head(torch.ones(2, 4)).sum().backward()
    assert head.weight.grad is not None
    assert head.bias.grad is not None
    assert (head.weight.grad == 2).all()
    assert (head.bias.grad == 2).all()


def test_state_goes_into_a_head_of_the_same_size() -> None:
    a, b = GrowingLinear(4), GrowingLinear(4)
    for width in (2, 3):
        a.grow(width, chance(1))
    b.grow(5, chance(2))
    b.load_state_dict(a.state_dict())
    assert torch.equal(a.weight, b.weight)


def test_keeps_its_precision() -> None:
    head = GrowingLinear(4).double()
    head.grow(2, chance())
    assert head.weight.dtype == head.bias.dtype == torch.float64


def test_bfloat16_ties_no_images() -> None:
    head = GrowingLinear(64)
    head.grow(1, chance())
    with torch.autocast("cpu", torch.bfloat16):
        logits = head(torch.randn(2000, 64, generator=chance(1)))
    assert len(logits.unique()) == 2000
