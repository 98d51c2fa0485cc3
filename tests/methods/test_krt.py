"""KRT by hand: the expected density, the restored labels, attention, and what the cosine holds."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from mlcl.config import from_tree
from mlcl.errors import ConfigError
from mlcl.methods.krt import BINS, COUNTS, KRT, ClassAttention, Output, threshold
from mlcl.types import Batch, Task

PIXELS = torch.Generator().manual_seed(0)


def task(index: int, start: int, stop: int) -> Task:
    names = tuple(f"class {c}" for c in range(start, stop))
    return Task(index, start, stop, names, None, None)  # type: ignore[arg-type]


def learner(classes: int = 2, **settings: object) -> KRT:
    tree = {"backbone": {"name": "tiny"}, "augment": {"crop": 1.0, "flip": False}, "hidden": 4, "heads": 2}
    made = KRT(from_tree(KRT.Config, tree | settings))
    made.begin_task(task(0, 0, classes))
    return made


def batch(*rows: list[float]) -> Batch:
    """Labels, nan where nothing is known."""
    y = torch.tensor(rows)
    x = torch.randint(0, 256, (len(rows), 3, 32, 32), dtype=torch.uint8, generator=PIXELS)
    return Batch(x, y, ~y.isnan())


def test_expected_is_what_was_marked_among_all_images() -> None:
    """Four images, then four that are not asked of the first two classes: 3 and 1 in 8, and 2 in 8."""
    unknown = math.nan
    mine = learner()
    mine.observe(batch([1, 0], [1, 0], [1, 1], [0, 0]))
    mine.begin_task(task(1, 2, 3))
    assert mine.expected.tolist() == [3 / 4, 1 / 4]
    mine.observe(batch([unknown, unknown, 1], [unknown, unknown, 1], [unknown] * 3, [unknown, unknown, 0]))
    mine.begin_task(task(2, 3, 4))
    assert mine.expected.tolist() == [3 / 8, 1 / 8, 2 / 8]
    assert mine.answers.sum() == 0  # a new task's answers are another network's


def test_a_density_that_is_given() -> None:
    mine = learner(density=1.5)
    mine.observe(batch([1, 0]))
    mine.begin_task(task(1, 2, 3))
    assert mine.expected.tolist() == [0.75, 0.75]


def begun(expected: list[float]) -> KRT:
    mine = learner()
    mine.begin_task(task(1, 2, 3))
    mine.expected = torch.tensor(expected)
    return mine


def test_as_many_are_yes_as_are_expected() -> None:
    """Of four images 4 x (.5 + .25) = 3 answers are yes: the three surest, of whatever class."""
    mine = begun([0.5, 0.25])
    p = torch.tensor([[0.9, 0.1], [0.2, 0.3], [0.25, 0.8], [0.05, 0.0]])
    y, known = mine.restore(batch(*[[math.nan, math.nan, 1.0]] * 4), p)
    assert y.tolist() == [[1, 0, 1], [0, 1, 1], [0, 1, 1], [0, 0, 1]]
    assert known.all()


def test_the_threshold_remembers_the_task() -> None:
    """One yes an image expected: sure answers in a first batch raise the bar for doubtful ones after."""
    mine = begun([0.5, 0.5])
    sure, doubtful = torch.tensor([[0.9, 0.8], [0.9, 0.8]]), torch.tensor([[0.7, 0.6], [0.3, 0.2]])
    first, _ = mine.restore(batch(*[[math.nan, math.nan, 0.0]] * 2), sure)
    second, _ = mine.restore(batch(*[[math.nan, math.nan, 0.0]] * 2), doubtful)
    assert first[:, :2].tolist() == [[1, 0], [1, 0]]
    assert second[:, :2].tolist() == [[0, 0], [0, 0]]


def test_known_labels_stay_and_are_not_counted() -> None:
    """Only the second class of the second image is open, and .6 of it is expected: not one whole yes."""
    mine = begun([0.5, 0.6])
    given = batch([0.0, 1.0, 1.0], [1.0, math.nan, math.nan])
    y, known = mine.restore(given, torch.tensor([[0.9, 0.1], [0.1, 0.99]]))
    assert y[:, :2].tolist() == [[0, 1], [1, 0]]
    assert known.tolist() == [[True, True, True], [True, True, False]]
    assert mine.answers.sum() == 1
    assert mine.wanted.item() == pytest.approx(0.6)


def test_answers_that_are_no_numbers_crash_nothing() -> None:
    mine = begun([0.5, 0.5])
    y, _ = mine.restore(batch([math.nan, math.nan, 1.0]), torch.tensor([[math.nan, 1.0]]))
    assert y.isfinite().all()


def test_threshold_is_the_lowest_that_keeps_within() -> None:
    chance = torch.Generator().manual_seed(1)
    places = torch.randint(0, BINS, (5000,), generator=chance)
    answers = torch.bincount(places, minlength=BINS)
    for wanted in (0.0, 0.5, 1.0, 37.0, 4999.0, 5000.0):
        at = int(threshold(answers, torch.tensor(wanted)))
        assert (places >= at).sum() <= wanted
        assert at == 0 or (places >= at - 1).sum() > wanted


class Says(nn.Module):
    """The same logits and embeddings of any image."""

    def __init__(self, logits: list[float], embeddings: list[list[float]]) -> None:
        super().__init__()
        self.said = Output(torch.tensor(logits), torch.tensor(embeddings))

    def forward(self, x: Tensor) -> Output:
        return Output(*(t.expand(len(x), *t.shape) for t in self.said))


def test_terms() -> None:
    """Cosines 1 and 0 to the old embeddings; the new task's is free. The open label was restored as a yes."""
    mine = begun([1.0, 0.0])
    mine.net = Says([0.0, 0.0, 2.0], [[2.0, 0.0], [0.0, 3.0], [9.0, 9.0]])  # type: ignore[assignment]
    mine.expert = Says([1.0, -1.0], [[1.0, 0.0], [1.0, 0.0]])
    terms = mine.losses(batch([math.nan, 0.0, 1.0]))
    assert terms["token"].item() == pytest.approx(100 * (0 + 1) / 2)
    expected = (2 * math.log(2) + math.log1p(math.exp(-2))) / 3  # a yes or a no at logit 0 costs log 2
    assert terms["cls"].item() == pytest.approx(expected, rel=1e-6)


def test_a_class_is_read_from_the_shared_token_and_its_tasks_own() -> None:
    mine = learner()
    mine.begin_task(task(1, 2, 3))
    net = mine.net
    net.attention = Fixed()  # type: ignore[assignment]
    with torch.no_grad():
        net.head.weight.copy_(torch.tensor([[1.0] * 4 + [0.0] * 4, [0.0] * 4 + [1.0] * 4, [1.0] * 8]))
        net.head.bias.copy_(torch.tensor([0.0, 0.0, 0.5]))
    out = net(torch.zeros(1, 3, 32, 32, dtype=torch.uint8))
    # embeddings are four 1s, 10s, 100s: transfer alone; task 0's own; transfer, task 1's own and a bias
    assert out.logits.tolist() == [[4, 40, 4 + 400 + 0.5]]


class Fixed(nn.Module):
    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return torch.tensor([1.0, 10.0, 100.0])[None, :, None].expand(len(positions), -1, 4)


def test_attention_is_the_softmax_over_positions() -> None:
    """Queries, keys and values as they come, one head, no MLP: token (1, -1) and positions (3, 1), (0, 2)."""
    attention = ClassAttention(2, heads=1)
    eye = torch.eye(2)
    with torch.no_grad():
        for linear, weight in (
            (attention.query, eye),
            (attention.out, eye),
            (attention.key_value, eye.repeat(2, 1)),
        ):
            linear.weight.copy_(weight)
            linear.bias.zero_()
        for p in attention.mlp.parameters():
            p.zero_()
    out = attention(torch.tensor([[1.0, -1.0]]), torch.tensor([[[3.0, 1.0], [0.0, 2.0]]]))
    first = 1 / (1 + math.exp((-2 - 2) / math.sqrt(2)))  # scores 2 and -2, over sqrt(2)
    expected = [1 + 3 * first, -1 + first + 2 * (1 - first)]
    assert out.flatten().tolist() == pytest.approx(expected, rel=1e-4)


def test_old_tokens_rest_and_the_new_ones_learn() -> None:
    mine = learner()
    mine.observe(batch([1.0, 0.0]))
    first = mine.net.retention.detach().clone()
    mine.begin_task(task(1, 2, 3))
    shared, own = mine.net.transfer.detach().clone(), mine.net.retention.detach().clone()
    for _ in range(2):
        mine.observe(batch([math.nan, math.nan, 1.0], [math.nan, math.nan, 0.0]))
    assert torch.equal(mine.net.retained, first)
    assert not torch.equal(mine.net.transfer, shared)
    assert not torch.equal(mine.net.retention, own)


def test_counts_stay_where_they_are() -> None:
    """A replayed step writes where the recorded one wrote."""
    mine = learner()
    mine.begin_task(task(1, 2, 3))
    before = [getattr(mine, name).data_ptr() for name in COUNTS]
    mine.observe(batch([math.nan, math.nan, 1.0]))
    assert [getattr(mine, name).data_ptr() for name in COUNTS] == before
    assert mine.images == 1
    assert mine.marked.tolist() == [0, 0, 1]


def test_a_new_task_moves_no_old_embedding() -> None:
    mine = learner()
    x = batch([1.0, 0.0]).x
    before = mine.net.eval()(x).embeddings
    mine.begin_task(task(1, 2, 4))
    torch.testing.assert_close(mine.net.eval()(x).embeddings[:, :2], before, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"density": -1}, "density"), ({"strength": -1}, "strength"), ({"hidden": 10}, "multiple of heads")],
)
def test_impossible_settings(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        KRT.Config(**settings)  # type: ignore[arg-type]


def test_a_pooling_that_nothing_would_use() -> None:
    with pytest.raises(ConfigError, match=r"backbone\.pool"):
        learner(backbone={"name": "tiny", "pool": "max"})
