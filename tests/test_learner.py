"""The contract's own machinery: registry, optimiser, expert, state. What methods do is in tests/methods."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import mlcl.learner
from mlcl import Batch, GradientLearner, Learner, Samples, Task
from mlcl.config import from_tree
from mlcl.errors import ConfigError
from mlcl.learner import Terms, frozen_copy, learner, learners
from mlcl.types import Images


class Plain(GradientLearner):
    """Descends the classification loss, in two named terms; not registered."""

    name: Any = "plain"
    keep_expert = True

    def losses(self, batch: Batch) -> Terms:
        cls = self.classification(self.net(batch.x), batch.y, batch.known)
        return {"most": 0.75 * cls, "rest": 0.25 * cls}


class Nothing(Images):
    def __len__(self) -> int:
        return 0

    def load(self, indices: Any) -> Tensor:
        return torch.zeros(0, 3, 8, 8, dtype=torch.uint8)


def task(index: int, start: int, stop: int) -> Task:
    empty = np.zeros((0, stop))
    samples = Samples(Nothing(), np.zeros(0, int), empty.astype(np.uint8), empty.astype(bool))
    return Task(index, start, stop, tuple(f"c{c}" for c in range(start, stop)), samples, samples)


def make(seed: int = 0, **settings: Any) -> Plain:
    tree = {"backbone": {"name": "tiny"}, "optimizer": {"lr": 1e-3, "head_lr": 1e-2}}
    return Plain(from_tree(Plain.Config, tree | settings), seed=seed)


def batch(classes: int, images: int = 4, seed: int = 0) -> Batch:
    chance = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 256, (images, 3, 32, 32), generator=chance, dtype=torch.uint8)
    y = (torch.rand(images, classes, generator=chance) < 0.5).float()
    return Batch(x, y, torch.ones(images, classes, dtype=torch.bool))


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """As a checkpoint does it, without pickled code."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    loaded: dict[str, Any] = torch.load(buffer, weights_only=True)
    return loaded


def weights(net: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in net.state_dict().items()}


# ---- registry


def test_a_subclass_with_a_name_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    learners()
    monkeypatch.setattr(mlcl.learner, "_LEARNERS", dict(mlcl.learner._LEARNERS))

    class Mine(Plain, name="mine"):
        pass

    class Part(Mine):  # a base for others, without a name of its own
        pass

    assert learner("mine") is learners()["mine"] is Mine
    assert Part.name == "mine"
    assert Part not in learners().values()


def test_methods_are_listed_in_order() -> None:
    found = learners()
    assert list(found) == sorted(found)
    assert {"fine-tuning", "lwf", "agcn++", "joint-full", "multi-task"} <= found.keys()
    assert all(kind.name == name for name, kind in found.items())
    assert "plain" not in found


def test_an_unknown_method_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"^no method 'finetuning'; did you mean 'fine-tuning'\?"):
        learner("finetuning")


# ---- widths


def test_seen_and_old() -> None:
    mine = make()
    assert (mine.seen, mine.old) == (0, 0)
    mine.begin_task(task(0, 0, 3))
    assert (mine.seen, mine.old) == (3, 0)
    mine.begin_task(task(1, 3, 4))
    assert (mine.seen, mine.old) == (4, 3)
    assert mine.predict(batch(4).x).shape == (4, 4)


# ---- one step


def test_observe_descends_the_sum_of_its_terms() -> None:
    """Plain gradient descent by hand, with no augmentation."""
    still = {"augment": {"crop": 1.0, "flip": False}}
    mine = make(**still, optimizer={"name": "sgd", "lr": 0.1, "head_lr": 0.5, "momentum": 0.0})
    mine.begin_task(task(0, 0, 2))
    given = batch(2)
    head, conv = mine.net.head.weight, list(mine.net.backbone.network.stages[0].parameters())
    before = head.detach().clone(), [p.detach().clone() for p in conv]
    loss = mine.classification(mine.net(given.x), given.y, given.known)
    by_head, *by_conv = torch.autograd.grad(loss, [head, *conv])
    terms = mine.observe(given)
    assert list(terms) == ["most", "rest"]
    assert not any(term.requires_grad for term in terms.values())
    assert float(terms["most"] + terms["rest"]) == pytest.approx(loss.item(), rel=1e-6)
    assert torch.allclose(head, before[0] - 0.5 * by_head, atol=1e-6)
    for now, then, gradient in zip(conv, before[1], by_conv, strict=True):
        assert torch.allclose(now, then - 0.1 * gradient, atol=1e-6)


def test_the_backbone_has_its_own_rate() -> None:
    mine = make()
    mine.begin_task(task(0, 0, 2))
    groups = mine.param_groups()
    assert [group["lr"] for group in groups] == [1e-3, 1e-2]
    counted = [sum(p.numel() for p in group["params"]) for group in groups]
    assert counted[1] == 2 * mine.net.backbone.width + 2
    assert sum(counted) == sum(p.numel() for p in mine.net.parameters())
    still = make(backbone={"name": "tiny", "trainable": "none"})
    still.begin_task(task(0, 0, 2))
    assert [group["lr"] for group in still.param_groups()] == [1e-2]


def test_what_is_frozen_never_moves() -> None:
    mine = make(backbone={"name": "tiny", "trainable": "none"})
    mine.begin_task(task(0, 0, 2))
    before = weights(mine.net.backbone)
    head = mine.net.head.weight.detach().clone()
    mine.observe(batch(2))
    assert all(torch.equal(value, before[name]) for name, value in mine.net.backbone.state_dict().items())
    assert not torch.equal(mine.net.head.weight, head)


@pytest.mark.parametrize(("name", "kind"), [("sgd", "SGD"), ("adam", "Adam"), ("adamw", "AdamW")])
def test_a_fresh_optimiser_begins_each_task(name: str, kind: str) -> None:
    mine = make(optimizer={"name": name, "lr": 1e-3, "weight_decay": 0.01})
    mine.begin_task(task(0, 0, 2))
    first = mine.optimizer
    assert type(first).__name__ == kind
    assert all(group["weight_decay"] == 0.01 for group in first.param_groups)
    mine.observe(batch(2))
    assert first.state
    mine.begin_task(task(1, 2, 3))
    assert mine.optimizer is not first
    assert not mine.optimizer.state
    known = {id(p) for group in mine.optimizer.param_groups for p in group["params"]}
    assert known == {id(p) for p in mine.net.parameters()}  # of the grown head, not of the one before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": -1.0}, "r: optimizer.lr: -1.0 is negative"),
        ({"weight_decay": -0.1}, "r: optimizer.weight_decay: -0.1 is negative"),
        ({"betas": [0.9]}, "r: optimizer.betas: expected two numbers from 0 to below 1, got [0.9]"),
        ({"betas": [0.9, 1.0]}, "r: optimizer.betas: expected two numbers from 0 to below 1, got [0.9, 1.0]"),
        ({"name": "adm"}, "r: optimizer.name: got 'adm'; did you mean 'adam'?"),
    ],
)
def test_impossible_optimisers(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        from_tree(Plain.Config, {"optimizer": settings}, "r: ")
    assert str(error.value).startswith(message)


# ---- the expert


def test_the_expert_is_the_network_as_the_last_task_left_it() -> None:
    mine = make()
    mine.begin_task(task(0, 0, 2))
    assert mine.expert is None
    mine.observe(batch(2))
    left = weights(mine.net)
    mine.begin_task(task(1, 2, 5))
    for seed in range(3):
        mine.observe(batch(5, seed=seed))
    assert {name: value.shape for name, value in mine.expert.state_dict().items()} == {
        name: value.shape for name, value in left.items()
    }
    assert all(torch.equal(value, left[name]) for name, value in mine.expert.state_dict().items())
    assert not mine.expert.training
    assert not any(p.requires_grad for p in mine.expert.parameters())
    assert not torch.equal(mine.net.head.weight[:2], left["head.weight"])
    mine.begin_task(task(2, 5, 6))
    assert len(mine.expert.head.weight) == 5


def test_a_frozen_copy_shares_nothing() -> None:
    net = make().net
    copied = frozen_copy(net)
    ours = {p.data_ptr() for p in net.parameters() if p.numel()}
    assert not ours & {p.data_ptr() for p in copied.parameters()}
    assert net.training
    assert all(p.requires_grad for p in net.parameters())


# ---- predicting


def test_predict_leaves_the_mode_as_it_was() -> None:
    mine = make()
    mine.begin_task(task(0, 0, 2))
    for mode in (True, False):
        mine.net.train(mode)
        p = mine.predict(batch(2).x)
        assert mine.net.training is mode
        assert not p.requires_grad
        assert p.dtype == torch.float32


def test_predict_leaves_the_mode_as_it_was_when_it_fails() -> None:
    mine = make()
    mine.begin_task(task(0, 0, 2))
    mine.net.train()
    with pytest.raises(AssertionError, match="images are"):
        mine.predict(torch.zeros(2, 1, 8, 8))
    assert mine.net.training


def test_bfloat16_is_near_float32() -> None:
    settings = {"augment": {"crop": 1.0, "flip": False}}
    full, half = make(**settings), make(**settings, precision="bfloat16")
    for each in (full, half):
        each.begin_task(task(0, 0, 2))
    assert torch.allclose(full.predict(batch(2).x), half.predict(batch(2).x), atol=0.02)
    a, b = full.observe(batch(2)), half.observe(batch(2))
    assert float(a["most"]) == pytest.approx(float(b["most"]), rel=0.02)
    assert half.net.head.weight.dtype == torch.float32
    assert next(half.net.backbone.parameters()).dtype == torch.float32


# ---- state


def test_state_and_load_in_the_middle_of_a_task() -> None:
    mine = make()
    mine.begin_task(task(0, 0, 2))
    mine.observe(batch(2))
    mine.begin_task(task(1, 2, 5))
    mine.observe(batch(5))
    other = make(seed=9)
    other.load(through_a_file(mine.state()))
    assert other.widths == [2, 3]
    assert other.old == 2
    for each in (mine, other):  # the same batch, the same chance
        each.observe(batch(5, seed=1))
    assert all(torch.equal(value, weights(mine.net)[name]) for name, value in weights(other.net).items())
    assert all(
        torch.equal(a, b) for a, b in zip(mine.expert.parameters(), other.expert.parameters(), strict=True)
    )
    assert torch.equal(mine.generator.get_state(), other.generator.get_state())


def test_state_before_the_first_task() -> None:
    mine, other = make(), make(seed=4)
    other.load(through_a_file(mine.state()))
    assert (other.widths, other.expert, other.optimizer) == ([], None, None)
    for each in (mine, other):
        each.begin_task(task(0, 0, 2))
        each.observe(batch(2))
    assert torch.equal(mine.net.head.weight, other.net.head.weight)


def test_the_seed_decides() -> None:
    a, b, c = make(seed=1), make(seed=1), make(seed=2)
    for each in (a, b, c):
        each.begin_task(task(0, 0, 2))
        each.observe(batch(2))
    assert torch.equal(a.net.head.weight, b.net.head.weight)
    assert not torch.equal(a.net.head.weight, c.net.head.weight)


def test_a_learner_needs_no_network() -> None:
    """The whole contract, as a method that is not a network fills it."""

    class Frequent(Learner):
        """Each class is as likely as it was so far."""

        def __init__(self, config: Any = None, *, seed: int = 0, device: str = "cpu"):
            super().__init__(config, seed=seed, device=device)
            self.counts = torch.zeros(0, 2)

        def begin_task(self, task: Task) -> None:
            super().begin_task(task)
            self.counts = torch.cat([self.counts, torch.zeros(self.widths[-1], 2)])

        def observe(self, batch: Batch) -> Terms:
            yes = (batch.y * batch.known).sum(0)
            self.counts += torch.stack([yes, batch.known.sum(0) - yes], dim=1)
            return {}

        def predict(self, x: Tensor) -> Tensor:
            p: Tensor = (self.counts[:, 0] + 1) / (self.counts.sum(1) + 2)
            return p.expand(len(x), -1)

    mine = Frequent()
    assert dataclasses.fields(mine.config) == ()
    mine.begin_task(task(0, 0, 2))
    y = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    known = torch.tensor([[True, True], [True, False]])
    mine.observe(Batch(torch.zeros(2, 3, 4, 4, dtype=torch.uint8), y, known))
    assert torch.allclose(mine.predict(torch.zeros(1, 3, 4, 4)), torch.tensor([[3 / 4, 1 / 3]]))
    assert mine.findings() == {}
