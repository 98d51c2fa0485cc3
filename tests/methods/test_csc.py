"""CSC by hand: the growing graph, the nodes, both heads on an image of two positions, the entropy term."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from mlcl.config import from_tree
from mlcl.errors import ConfigError
from mlcl.methods.csc import CSC, ActivationGraphNet, GrowingGraph, class_nodes, confidence
from mlcl.types import Batch, Task


def set_to(parameter: Tensor, values: object) -> None:
    with torch.no_grad():
        parameter.copy_(torch.tensor(values))


def learner(classes: int = 2, **settings: object) -> CSC:
    made = CSC(from_tree(CSC.Config, {"backbone": {"name": "tiny"}, "hidden": 4, **settings}))
    made.begin_task(task(0, 0, classes))
    return made


def task(index: int, start: int, stop: int) -> Task:
    names = tuple(f"class {c}" for c in range(start, stop))
    return Task(index, start, stop, names, None, None)  # type: ignore[arg-type]


class Positions(nn.Module):
    """The given (B, D) values at each of P positions, instead of a network's maps."""

    width = 1

    def maps(self, x: Tensor) -> Tensor:
        return x  # (B, 1, 1, P)


def small_net() -> ActivationGraphNet:
    """One feature a position, one number a node, two classes."""
    net = learner(hidden=1).net
    net.backbone = Positions()  # type: ignore[assignment]
    net.activation.weight = nn.Parameter(torch.tensor([[1.0], [-1.0]]))
    net.project = nn.Parameter(torch.tensor([[2.0]]))
    set_to(net.first, [[1.0]])
    set_to(net.second, [[1.0]])
    set_to(net.readout.weight, [[1.0], [10.0]])
    return net


def test_both_heads() -> None:
    """Maps 0 and log 3: activations 0, log 3 and 0, -log 3, maxima log 3 and 0, shares 1/4, 3/4 and 3/4, 1/4.

    Projected by 2, the nodes are 2 (3/4) log 3 and 2 (1/4) log 3. Without links each node is read as it is,
    the second times ten: means (log 3 + 1.5 log 3) / 2 and (0 + 5 log 3) / 2.
    """
    log3 = math.log(3)
    net = small_net()
    logits = net(torch.tensor([0.0, log3]).view(1, 1, 1, 2))
    assert logits.tolist() == [pytest.approx([1.25 * log3, 2.5 * log3], rel=1e-5)]


def test_general_graph_is_heard() -> None:
    """Class 0 hears class 1 with weight 3; nothing else changes."""
    net = small_net()
    set_to(net.general.right, [[1.0, 3.0], [0.0, 1.0]])
    out = net.related(torch.tensor([[[1.0], [2.0]]]), torch.zeros(1, 1))
    assert out.tolist() == [[[1 + 3 * 2], [2]]]


def test_the_image_makes_a_graph_of_its_own() -> None:
    """Class 1 speaks as loud as tanh(.5 h + .25 g) of the hearer's node h and the image's mean g."""
    net = small_net()
    set_to(net.speaker.weight, [[0.0, 0.0], [0.5, 0.25]])
    out = net.related(torch.tensor([[[1.0], [2.0]], [[1.0], [2.0]]]), torch.tensor([[4.0], [0.0]]))
    expected = []
    for g in (4.0, 0.0):
        loud = [math.tanh(0.5 * h + 0.25 * g) for h in (1, 2)]
        expected += [1 + 2 * loud[0], 2 + 2 * loud[1]]
    assert out.flatten().tolist() == pytest.approx(expected, rel=1e-5)


def test_graph_grows_and_keeps_its_old_block() -> None:
    graph = GrowingGraph()
    graph.grow(2)
    assert graph().tolist() == [[1, 0], [0, 1]]
    set_to(graph.right, [[1.0, 2.0], [3.0, 4.0]])
    graph.grow(1)
    assert graph().tolist() == [[1, 2, 0], [3, 4, 0], [0, 0, 1]]
    set_to(graph.below, [[5.0, 6.0]])
    set_to(graph.right, [[7.0], [8.0], [9.0]])
    assert graph().tolist() == [[1, 2, 7], [3, 4, 8], [5, 6, 9]]
    assert not graph.kept.requires_grad  # no optimiser, whatever its weight decay, gets hold of it
    assert sum(p.numel() for p in graph.parameters()) == 5


def test_nodes_are_weighted_means() -> None:
    active = torch.tensor([[[0.0], [math.log(3)]]])
    maps = torch.tensor([[[4.0, 0.0], [8.0, 1.0]]])
    assert class_nodes(active, maps).tolist() == [[pytest.approx([7.0, 0.75])]]


def test_a_new_class_changes_no_old_answer() -> None:
    mine = learner()
    x = torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    for _ in range(5):
        mine.observe(Batch(x, y, torch.ones_like(y, dtype=torch.bool)))
    before = mine.predict(x)
    mine.begin_task(task(1, 2, 5))
    torch.testing.assert_close(mine.predict(x)[:, :2], before, atol=1e-6, rtol=0)


def test_links_are_learnt_from_the_first_step() -> None:
    """They start at 0, which must not be a place without a slope."""
    mine = learner()
    x = torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([[1.0, 0.0]] * 4)
    mine.observe(Batch(x, y, torch.ones_like(y, dtype=torch.bool)))
    right, speaker = mine.net.general.right.grad, mine.net.speaker.weight.grad
    assert right is not None
    assert speaker is not None
    assert (right != 0).all()
    assert (speaker.abs().sum(dim=1) > 0).all()


def test_terms_by_task() -> None:
    """Weights 1 in the first task; then .15, and .85 for the old class that the teacher speaks of."""
    mine = learner(1, entropy=0.5, augment={"crop": 1.0, "flip": False})

    class Says(nn.Module):
        def __init__(self, *logits: float) -> None:
            super().__init__()
            self.said = torch.tensor(logits)

        def forward(self, x: Tensor) -> Tensor:
            return self.said.expand(len(x), -1)

    batch = Batch(torch.zeros(1, 3, 32, 32, dtype=torch.uint8), torch.tensor([[1.0]]), torch.tensor([[True]]))
    mine.net = Says(0.0)  # type: ignore[assignment]
    terms = mine.losses(batch)
    assert terms["cls"].item() == pytest.approx(math.log(2))
    assert terms["ent"].item() == pytest.approx(0.5 * 0.5 * math.log(0.5))
    mine.widths.append(1)
    mine.net, mine.expert = Says(0.0, 1.0), Says(2.0)  # type: ignore[assignment]
    later = Batch(batch.x, torch.tensor([[1.0, 0.0]]), torch.tensor([[False, True]]))
    terms = mine.losses(later)
    assert terms["cls"].item() == pytest.approx(0.15 * math.log1p(math.e))
    assert terms["dst"].item() == pytest.approx(0.85 * math.log(2))  # at p = .5 whatever the target
    p = 1 / (1 + math.exp(-1))
    assert terms["ent"].item() == pytest.approx(0.5 * (0.5 * math.log(0.5) + p * math.log(p)) / 2)


@pytest.mark.parametrize("z", [-1e4, -100.0, 0.0, 100.0, 1e4])
def test_entropy_is_finite(z: float) -> None:
    logits = torch.tensor([[z]], requires_grad=True)
    loss = confidence(logits)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_a_pooling_that_nothing_would_use() -> None:
    with pytest.raises(ConfigError, match=r"backbone\.pool"):
        learner(backbone={"name": "tiny", "pool": "max"})


def test_empty_nodes() -> None:
    with pytest.raises(ConfigError, match="hidden"):
        CSC.Config(hidden=0)
