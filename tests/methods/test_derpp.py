"""DER++ by hand: what is kept of an image, and what each of the three terms compares."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mlcl.config import from_tree
from mlcl.errors import ConfigError
from mlcl.methods.derpp import DarkReservoir, DERpp
from mlcl.types import Batch, Task

CPU = torch.device("cpu")


def images(*values: int) -> Tensor:
    """(B, 3, 4, 4) uint8, each of one shade."""
    return torch.tensor(values, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 4, 4).contiguous()


def batch(*values: int, y: list[list[float]], known: list[list[bool]] | None = None) -> Batch:
    labels = torch.tensor(y)
    mask = torch.ones_like(labels, dtype=torch.bool) if known is None else torch.tensor(known)
    return Batch(images(*values), labels, mask)


class Shade(nn.Module):
    """Says of class c the image's shade times its weight, which is c + 1 at first."""

    def __init__(self, classes: int):
        super().__init__()
        self.backbone = nn.Identity()
        self.weight = nn.Parameter(torch.arange(1.0, classes + 1))

    def forward(self, x: Tensor) -> Tensor:
        return x.float().mean((1, 2, 3))[:, None] * self.weight


def learner(classes: int, **settings: object) -> DERpp:
    tree = {"backbone": {"name": "tiny"}, "augment": {"crop": 1.0, "flip": False}, "capacity": 4, **settings}
    made = DERpp(from_tree(DERpp.Config, tree))
    made.begin_task(Task(0, 0, classes, tuple("abcdef"[:classes]), None, None))  # type: ignore[arg-type]
    made.net = Shade(classes)
    made.optimizer = torch.optim.SGD(made.net.parameters(), lr=0.0)
    return made


def test_logits_go_where_their_image_goes() -> None:
    """Forty images through four places: every place holds one image and what was said of that one."""
    memory, chance = DarkReservoir(4, CPU), torch.Generator().manual_seed(0)
    for first in range(0, 40, 8):
        shades = list(range(first, first + 8))
        logits = torch.tensor([[float(s), -float(s)] for s in shades])
        memory.add_with(batch(*shades, y=[[1.0, 0.0]] * 8), logits, chance)
    assert memory.x is not None
    held = memory.x[:, 0, 0, 0].float()
    logits, spoken = memory.spoken(torch.arange(4))
    assert len(memory) == 4
    assert held.max() > 8  # the first eight were replaced
    assert torch.equal(logits, torch.stack([held, -held], dim=1))
    assert spoken.all()


def test_what_did_not_exist_was_not_said() -> None:
    memory, chance = DarkReservoir(3, CPU), torch.Generator().manual_seed(0)
    memory.add_with(batch(1, y=[[1.0]]), torch.tensor([[7.0]]), chance)
    memory.add_with(batch(2, y=[[0.0, 1.0, 0.0]]), torch.tensor([[4.0, 5.0, 6.0]]), chance)
    logits, spoken = memory.spoken(torch.tensor([1, 0]))
    assert logits.tolist() == [[4, 5, 6], [7, 0, 0]]
    assert spoken.tolist() == [[True, True, True], [True, False, False]]


def test_three_terms() -> None:
    """Shade 2 was called (2, 4) and had only its first label known; the net now says (2, 8)."""
    mine = learner(2, alpha=0.5, beta=3.0)
    y, known = [[1.0, 0.0]], [[True, False]]
    first = mine.observe(batch(2, y=y, known=known))
    assert set(first) == {"cls"}
    with torch.no_grad():
        mine.net.weight[1] = 4.0
    terms = mine.observe(batch(1, y=[[0.0, 1.0]]))
    softplus = nn.functional.softplus
    assert terms["dark"].item() == pytest.approx(0.5 * (0**2 + 4**2) / 2)
    # the unknown label of the replayed image counts for nothing, in the numerator and below it
    assert terms["replay"].item() == pytest.approx(3 * softplus(torch.tensor(-2.0)).item(), rel=1e-6)
    expected = softplus(torch.tensor([1.0, -4.0])).mean().item()
    assert terms["cls"].item() == pytest.approx(expected, rel=1e-6)
    logits, _ = mine.memory.spoken(torch.tensor([0, 1]))
    assert logits.tolist() == [[2, 4], [1, 4]]  # each as it was said on the day


def test_new_columns_are_not_held_to_a_nought() -> None:
    """A class that came after the capture may say anything of the image."""
    mine = learner(1)
    mine.observe(batch(3, y=[[1.0]]))
    mine.widths.append(1)
    mine.net = Shade(2)
    mine.optimizer = torch.optim.SGD(mine.net.parameters(), lr=0.0)
    terms = mine.observe(batch(1, y=[[0.0, 0.0]]))
    assert terms["dark"].item() == 0  # said 3, says 3 (and 6 of the new class, which is no matter)


def test_gradient_leaves_what_was_said_alone() -> None:
    mine = learner(1, alpha=1.0, beta=0.0)
    mine.observe(batch(2, y=[[1.0]]))
    mine.net.weight.data[:] = 3.0
    mine.net.weight.grad = None
    loss = mine.losses(batch(0, y=[[0.0]]))["dark"]
    loss.backward()
    assert loss.item() == pytest.approx((6 - 2) ** 2)
    assert mine.net.weight.grad is not None
    assert mine.net.weight.grad.item() == pytest.approx(2 * (6 - 2) * 2)


def test_checkpoint_holds_what_was_filled_only() -> None:
    memory, chance = DarkReservoir(100, CPU), torch.Generator().manual_seed(0)
    memory.add_with(batch(1, 2, y=[[1.0], [0.0]]), torch.tensor([[1.0], [2.0]]), chance)
    state = memory.state()
    assert state["logits"].shape == (2, 1)
    other = DarkReservoir(100, CPU)
    other.load(state)
    for m in (memory, other):
        m.add_with(batch(3, y=[[0.0, 1.0]]), torch.tensor([[3.0, 4.0]]), chance)
    for a, b in zip(memory.spoken(torch.arange(3)), other.spoken(torch.arange(3)), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_negative_weights(name: str) -> None:
    with pytest.raises(ConfigError, match="alpha and beta"):
        DERpp.Config(**{name: -0.1})
