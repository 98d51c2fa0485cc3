"""SCR for several labels an image: the contrastive loss, the nearest class mean, Platt's fit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from mlcl.methods.scr import contrast, platt


def by_loops(z: np.ndarray, y: np.ndarray, known: np.ndarray, tau: float) -> float:
    """L_i = -(1 / sum_p w_ip) sum_p w_ip log(exp(z_i.z_p / tau) / sum_{a != i} exp(z_i.z_a / tau))."""
    rows, rows_with_partner = 0.0, 0
    for i in range(len(z)):
        weights = {}
        for p in range(len(z)):
            common = [c for c in range(y.shape[1]) if known[i, c] and known[p, c]]
            either = sum(1 for c in common if y[i, c] or y[p, c])
            if p != i and either:
                weights[p] = sum(1 for c in common if y[i, c] and y[p, c]) / either
        total = sum(weights.values())
        if not total:
            continue
        others = sum(math.exp(z[i] @ z[a] / tau) for a in range(len(z)) if a != i)
        rows -= sum(w * math.log(math.exp(z[i] @ z[p] / tau) / others) for p, w in weights.items()) / total
        rows_with_partner += 1
    return rows / max(rows_with_partner, 1)


def case(seed: int, images: int = 7, classes: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(images, 5))
    y, known = rng.random((images, classes)) < 0.4, rng.random((images, classes)) < 0.7
    return z / np.linalg.norm(z, axis=1, keepdims=True), y, known


@pytest.mark.parametrize("tau", [0.1, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_contrast_against_loops(seed: int, tau: float) -> None:
    z, y, known = case(seed)
    loss = contrast(torch.tensor(z), torch.tensor(y).float(), torch.tensor(known), tau)
    assert loss.item() == pytest.approx(by_loops(z, y, known, tau), rel=1e-5)


def test_contrast_with_one_pair_of_half_overlap() -> None:
    """Images 0 and 1 share one of two labels, image 2 shares none: for both log(e^0 + e^1) - 1 = .3133."""
    z = torch.eye(3)[[0, 0, 1]]
    y = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    loss = contrast(z, y, torch.ones(3, 3, dtype=torch.bool), 1.0)
    assert loss.item() == pytest.approx(math.log(1 + math.e) - 1, rel=1e-5)


def test_weights_prefer_the_larger_overlap() -> None:
    """Towards image 1 (2 of 2 labels) counts twice what counts towards image 2 (1 of 2)."""
    z = torch.eye(3, dtype=torch.float64).requires_grad_()
    y = torch.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    contrast(z, y, torch.ones(3, 2, dtype=torch.bool), 1.0).backward()
    assert z.grad is not None
    # d L_0 / d z_0 = sum_a share_a z_a - (2/3 z_1 + 1/3 z_2), with shares 1/2, 1/2; and what z_0 is to others
    loss_0 = torch.tensor([0, 1 / 2 - 2 / 3, 1 / 2 - 1 / 3])
    loss_1, loss_2 = torch.tensor([0, 1 / 2 - 2 / 3, 0]), torch.tensor([0, 0, 1 / 2 - 1 / 2])
    assert z.grad[0].tolist() == pytest.approx(((loss_0 + loss_1 + loss_2) / 3).tolist(), abs=1e-6)


def test_unknown_labels_say_nothing() -> None:
    z, y, known = case(1)
    a = contrast(torch.tensor(z), torch.tensor(y).float(), torch.tensor(known), 0.1)
    scrambled = np.where(known, y, ~y).astype(np.float32)
    b = contrast(torch.tensor(z), torch.tensor(scrambled), torch.tensor(known), 0.1)
    assert torch.equal(a, b)


def test_images_without_a_partner_are_no_loss() -> None:
    z = torch.eye(3).requires_grad_()
    loss = contrast(z, torch.eye(3), torch.ones(3, 3, dtype=torch.bool), 0.1)
    loss.backward()
    assert loss.item() == 0
    assert z.grad is not None
    assert (z.grad == 0).all()


def test_contrast_is_float32_under_autocast() -> None:
    z, y, known = (torch.tensor(a) for a in case(2))
    exact = contrast(z.float(), y.float(), known, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        assert contrast(z.float(), y.float(), known, 0.1).item() == pytest.approx(exact.item(), rel=1e-6)


def slope_of(fit: torch.Tensor, scores: torch.Tensor, y: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """The gradient of Platt's cross-entropy, with smoothed targets, at this fit: 0 at the optimum."""
    fit = fit.double().requires_grad_()
    total = torch.zeros((), dtype=torch.float64)
    for c in range(scores.shape[1]):
        k, z = known[:, c].bool(), scores[:, c].double() * fit[0, c] + fit[1, c]
        positive, negative = int((y[k, c] > 0).sum()), int((y[k, c] == 0).sum())
        target = torch.where(y[:, c] > 0, (positive + 1) / (positive + 2), 1 / (negative + 2)).double()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(z[k], target[k], reduction="sum")
        total = total + loss + 1e-3 / 2 * fit[0, c] ** 2
    return torch.autograd.grad(total, fit)[0]


@pytest.mark.parametrize("spread", [0.01, 0.3, 3.0])
def test_platt_is_at_its_optimum(spread: float) -> None:
    rng = np.random.default_rng(0)
    y = (rng.random((200, 3)) < [0.5, 0.1, 0.9]).astype(np.float32)
    scores = torch.tensor(rng.normal(size=(200, 3)) + 2 * y, dtype=torch.float64) * spread
    known = torch.tensor(rng.random((200, 3)) < 0.8).float()
    fit = platt(scores, torch.tensor(y) * known, known)
    assert slope_of(fit, scores, torch.tensor(y), known).abs().max() < 1e-4
    assert (fit[0] > 0).all()


def test_platt_of_separated_classes_stays_finite() -> None:
    """Five positives at 1, five negatives at 0: p = 6/7 and 1/7, so offset log(1/6) and slope 2 log 6."""
    scores = torch.tensor([1.0] * 5 + [0.0] * 5, dtype=torch.float64)[:, None]
    y = (scores > 0.5).double()
    fit = platt(scores, y, torch.ones_like(y))
    assert fit[1].item() == pytest.approx(math.log(1 / 6), rel=1e-2)
    assert fit[0].item() == pytest.approx(2 * math.log(6), rel=1e-2)


@pytest.mark.parametrize("positive", [0, 4])
def test_platt_of_a_class_without_positives_or_negatives(positive: int) -> None:
    """Slope 0, and the share with one more of each."""
    y = torch.zeros(4, 1)
    y[:positive] = 1
    fit = platt(torch.tensor([[0.1], [0.5], [0.2], [0.9]]), y, torch.ones(4, 1))
    assert fit[:, 0].tolist() == pytest.approx([0, math.log((positive + 1) / (4 - positive + 1))])


# The method, on a network whose feature is the pixel
X = [[10, 0, 0], [20, 0, 0], [0, 5, 5], [30, 30, 0]]
Y = [[1, 0], [1, 0], [0, 1], [1, 1]]


def learnt(toy: Any, known: Any = None, **options: Any) -> Any:
    learner = toy.learner("scr", capacity=10, replay=4, **options)
    task = toy.task(0, 0, 2)
    learner.begin_task(task)
    learner.observe(toy.batch(X, Y, known))
    learner.end_task(task, [])
    return learner


def test_a_class_is_the_mean_of_its_known_positives(toy: Any) -> None:
    means = learnt(toy).means
    half = math.sqrt(0.5)
    first = np.array([1 + 1 + half, half, 0])  # features of length 1
    second = np.array([half, half + half, half])
    assert means[0].tolist() == pytest.approx((first / np.linalg.norm(first)).tolist(), rel=1e-5)
    assert means[1].tolist() == pytest.approx((second / np.linalg.norm(second)).tolist(), rel=1e-5)
    without_the_last = learnt(toy, known=[[1, 1], [1, 1], [1, 1], [0, 0]]).means
    assert without_the_last[0].tolist() == pytest.approx([1, 0, 0])


def test_prediction_is_platt_of_the_cosine(toy: Any) -> None:
    learner = learnt(toy)
    learner.platt = torch.tensor([[2.0, 3.0], [0.5, -1.0]])
    x = np.array([[10, 20, 0]])
    cosine = learner.means.numpy() @ (x[0] / np.linalg.norm(x[0]))
    expected = 1 / (1 + np.exp(-(cosine * [2, 3] + [0.5, -1])))
    assert learner.predict(toy.batch(x, [[0, 0]]).x)[0].tolist() == pytest.approx(expected.tolist(), rel=1e-5)


def test_a_class_of_the_next_task_is_as_likely_as_not_until_it_was_seen(toy: Any) -> None:
    learner = learnt(toy)
    old = learner.predict(toy.batch(X, Y).x)
    learner.begin_task(toy.task(1, 2, 3))
    now = learner.predict(toy.batch(X, Y).x)
    assert torch.equal(now[:, :2], old)
    assert (now[:, 2] == 0.5).all()


def test_two_views_of_the_batch_and_of_the_memory(toy: Any) -> None:
    """The loss is that of eight rows: without augmentation both views of an image are the same."""
    learner = learnt(toy)
    learner.begin_task(toy.task(1, 2, 3))
    batch = toy.batch([[10, 10, 10]], [[0, 0, 1]], [[0, 0, 1]])
    learner.raw = batch
    loss = learner.losses(batch)["con"].item()
    x = np.array([[10, 10, 10]] * 2 + X * 2) / 10
    with torch.no_grad():
        z = torch.nn.functional.normalize(learner.net.project(torch.tensor(x, dtype=torch.float32)), dim=1)
    y = np.array([[0, 0, 1]] * 2 + [[*row, 0] for row in Y] * 2)
    known = np.array([[0, 0, 1]] * 2 + [[1, 1, 0]] * 8)
    assert loss == pytest.approx(by_loops(z.double().numpy(), y, known, 0.1), rel=1e-4)


def test_a_task_without_images(toy: Any) -> None:
    learner = toy.learner("scr")
    task = toy.task(0, 0, 2)
    learner.begin_task(task)
    learner.end_task(task, [])
    assert (learner.predict(toy.batch(X, Y).x) == 0.5).all()
