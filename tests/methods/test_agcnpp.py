"""AGCN++ against its equations, in plain numpy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mlcl.errors import ConfigError

OLD, NEW, WIDTH, HIDDEN, OUT = 2, 2, 3, 4, 5
S = OLD + NEW
X = np.array([[10, 20, 30], [5, 0, 10], [7, 7, 1]])
Y = np.array([[1, 0, 1, 0], [0, 1, 1, 1], [1, 1, 0, 1]])
IL = np.array([[0, 0, 1, 1]] * 3, bool)
CL = np.ones((3, 4), bool)
OPTIONS = {"hidden": HIDDEN, "graph_width": OUT, "node_scale": "theta", "start": "random", "graph_lr": 0.0}


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def cross_entropy(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return -(p * np.log(q) + (1 - p) * np.log(1 - q))


def gcn(a: np.ndarray, nodes: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """G = A f(A H W1) W2 for one image."""
    inner = a @ nodes @ first
    return a @ np.where(inner > 0, inner, 0.2 * inner) @ second


def soft(a: np.ndarray) -> np.ndarray:
    """Three quarters of itself, a quarter of its neighbours in proportion to A."""
    off = a - np.diag(np.diag(a))
    return 0.75 * np.eye(len(a)) + 0.25 * off / np.maximum(off.sum(1, keepdims=True), 1e-6)


class Model(NamedTuple):
    """The parameters as numpy."""

    theta: np.ndarray
    bias: np.ndarray
    first: np.ndarray
    second: np.ndarray
    rows: np.ndarray
    offset: np.ndarray

    @classmethod
    def of(cls, net: Any) -> Model:
        parts = (net.fc.weight, net.fc.bias, net.gcn.first, net.gcn.second)
        parts += (net.readout.rows.weight, net.readout.rows.bias)
        return cls(*(p.detach().double().numpy() for p in parts))

    def graph(self, a: np.ndarray, feature: np.ndarray, expert: np.ndarray, old: int) -> np.ndarray:
        """(B, S, OUT): nodes Theta (.) cat(p, q), p the expert's feature for old classes."""
        images = []
        for q, p in zip(feature, expert, strict=True):
            nodes = np.stack([t * (p if c < old else q) for c, t in enumerate(self.theta)])
            images.append(gcn(a, nodes, self.first, self.second))
        return np.stack(images)

    def logits(self, graph: np.ndarray, feature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        y_cal = feature @ self.theta.T + self.bias
        return y_cal, (graph * self.rows).sum(-1) + self.offset


class Scaled(nn.Module):
    """The expert's CNN, so that its feature differs from the student's."""

    width, size = WIDTH, 1

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, 0, 0].float() / 10 * torch.tensor([0.5, -1.0, 2.0])


EXPERT_FEATURE = X / 10 * [0.5, -1.0, 2.0]


def second_task(toy: Any, method: str = "agcn++", **options: Any) -> Any:
    """Task 1 left an ACM of hard labels and an expert; task 2 has begun. A step moves nothing."""
    learner = toy.learner(method, **({**OPTIONS, **options} if method == "agcn++" else options))
    learner.begin_task(toy.task(0, 0, OLD))
    toy.fill(learner.net, seed=1)
    learner.observe(toy.batch(X, [[1, 0], [1, 1], [1, 1]]))
    learner.begin_task(toy.task(1, OLD, S))
    learner.expert.backbone = Scaled()
    toy.fill(learner.net, seed=2)
    return learner


A1 = np.array([[1, 1], [2 / 3, 1]])  # P(0|1) = 2/2, P(1|0) = 2/3


def acm(z: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Eq. acm with the expert's probabilities z where old labels are not known."""
    filled = np.concatenate([np.where(known[:, :OLD], Y[:, :OLD], z), Y[:, OLD:]], axis=1)
    a = np.eye(S)
    a[:OLD, :OLD] = A1
    for i in range(S):
        for j in range(S):
            if i != j and (i >= OLD or j >= OLD):
                a[i, j] = (filled[:, i] * filled[:, j]).sum() / filled[:, j].sum()
    return a


def expert_says(learner: Any) -> tuple[np.ndarray, np.ndarray]:
    """The expert's logits and graph: its nodes come from its own CNN (D2)."""
    model = Model.of(learner.expert)
    graph = model.graph(soft(A1), EXPERT_FEATURE, EXPERT_FEATURE, 0)
    return sum(model.logits(graph, EXPERT_FEATURE)), graph


@pytest.mark.parametrize("known", [IL, CL], ids=["il", "cl"])
def test_a_step_of_the_second_task(toy: Any, known: np.ndarray) -> None:
    """Algorithm 1, line by line: soft labels, ACM, PLE, GCN, prediction, three losses."""
    learner = second_task(toy, lambda1=0.3, lambda2=0.6, lambda3=7.0)
    terms = learner.observe(toy.batch(X, Y, known))
    zhat, then = expert_says(learner)
    a = acm(sigmoid(zhat), known)
    assert learner.acm.matrix().numpy() == pytest.approx(a, abs=1e-5)
    feature, model = X / 10, Model.of(learner.net)
    graph = model.graph(soft(a), feature, EXPERT_FEATURE, OLD)
    y_cal, y_gph = model.logits(graph, feature)
    yhat = sigmoid(y_cal + y_gph)
    assert terms["cls"].item() == pytest.approx(0.3 * cross_entropy(Y, yhat)[known].mean(), rel=1e-4)
    dst = cross_entropy(sigmoid(zhat), yhat[:, :OLD]).mean()
    assert terms["dst"].item() == pytest.approx(0.6 * dst, rel=1e-4)
    assert terms["gph"].item() == pytest.approx(7 * ((graph[:, :OLD] - then) ** 2).mean(), rel=1e-4)
    x = toy.batch(X, Y).x
    assert learner.predict(x).numpy() == pytest.approx(yhat, abs=1e-5)


def test_a_step_of_the_first_task(toy: Any) -> None:
    learner = toy.learner("agcn++", lambda1=0.15, **OPTIONS)
    learner.begin_task(toy.task(0, 0, OLD))
    toy.fill(learner.net)
    labels = np.array([[1, 0], [1, 1], [1, 1]])
    terms = learner.observe(toy.batch(X, labels))
    feature, model = X / 10, Model.of(learner.net)
    yhat = sigmoid(sum(model.logits(model.graph(soft(A1), feature, feature, 0), feature)))
    assert terms.keys() == {"cls"}  # alone and unweighted
    assert terms["cls"].item() == pytest.approx(cross_entropy(labels, yhat).mean(), rel=1e-4)
    assert learner.acm.matrix().numpy() == pytest.approx(A1, abs=1e-5)


def test_the_acm_accumulates_over_batches(toy: Any) -> None:
    learner = second_task(toy)
    for image in range(3):
        learner.observe(toy.batch(X[image : image + 1], Y[image : image + 1], IL[:1]))
    assert learner.acm.matrix().numpy() == pytest.approx(acm(sigmoid(expert_says(learner)[0]), IL), abs=1e-5)


def test_nodes_of_unit_scale(toy: Any) -> None:
    """Every row of Theta has a root mean square of 1 inside the nodes, and of its own in y_cal."""
    learner = second_task(toy, node_scale="unit")
    model = Model.of(learner.net)
    unit = model._replace(theta=model.theta / np.sqrt((model.theta**2).mean(1, keepdims=True)))
    feature, a = X / 10, learner.net.weights.numpy()
    expected = model.logits(unit.graph(a, feature, EXPERT_FEATURE, OLD), feature)
    out = learner.forward(toy.batch(X, Y).x, torch.tensor(EXPERT_FEATURE, dtype=torch.float32))
    assert out.graph_logits.detach().numpy() == pytest.approx(expected[1], abs=1e-4)
    assert out.logits.detach().numpy() == pytest.approx(sum(expected), abs=1e-4)


def test_gradients_reach_theta_through_the_nodes_and_never_the_expert(toy: Any) -> None:
    """D3."""
    for theta, flows in (("learnt", True), ("constant", False)):
        learner = second_task(toy, theta=theta)
        out = learner.forward(toy.batch(X, Y).x, torch.tensor(EXPERT_FEATURE, dtype=torch.float32))
        (slope,) = torch.autograd.grad(out.graph_logits.sum(), learner.net.fc.weight, materialize_grads=True)
        assert bool((slope != 0).all()) is flows
        learner.observe(toy.batch(X, Y, IL))
        assert all(p.grad is None for p in learner.expert.parameters())


def test_each_part_learns_at_its_own_rate(toy: Any) -> None:
    learner = second_task(toy, graph_lr=0.25)
    rates = {id(p): group["lr"] for group in learner.optimizer.param_groups for p in group["params"]}
    assert len(rates) == len(list(learner.net.parameters()))
    for name, p in learner.net.named_parameters():
        assert rates[id(p)] == (0.25 if name.startswith("gcn.") else 0.0)


def test_the_expert_keeps_its_own_graph(toy: Any) -> None:
    learner = second_task(toy)
    before = {name: value.clone() for name, value in learner.expert.state_dict().items()}
    for _ in range(3):
        learner.observe(toy.batch(X, Y, IL))
    assert before.keys() == learner.expert.state_dict().keys()
    assert all(torch.equal(before[name], value) for name, value in learner.expert.state_dict().items())
    assert learner.expert.weights.shape == (OLD, OLD)


def test_a_silent_start_leaves_the_answer_to_the_head(toy: Any) -> None:
    for start, silent in (("silent", True), ("random", False)):
        learner = toy.learner("agcn++", **{**OPTIONS, "start": start})
        learner.begin_task(toy.task(0, 0, OLD))
        out = learner.forward(toy.batch(X, Y).x, None)
        assert bool((out.graph_logits == 0).all()) is silent


# Options: each changes what it says, and nothing before it.


class Stub(nn.Module):
    """An expert that says the same whatever the option."""

    def __init__(self, second: Tensor):
        super().__init__()
        self.backbone = Scaled()
        rng = np.random.default_rng(5)
        self.said = torch.tensor(rng.normal(size=(3, OLD)), dtype=torch.float32)
        self.heard = torch.tensor(rng.normal(size=(3, OLD, HIDDEN)), dtype=torch.float32)
        self.second = second.detach().clone()

    @property
    def gcn(self) -> Any:
        return self

    def output(self, hidden: Tensor) -> Tensor:
        return hidden @ self.second

    def forward(self, x: Tensor) -> Any:
        from mlcl.methods.agcn import Output

        feature = torch.tensor(EXPERT_FEATURE, dtype=torch.float32)
        return Output(self.said, feature, self.heard, self.said * 0.5)


def observed(toy: Any, known: np.ndarray, **options: Any) -> dict[str, np.ndarray]:
    """All that a step computes, from the same weights, the same expert and the same batches."""
    base = {"graph_width": WIDTH, "lambda1": 1.0, "lambda2": 1.0, "lambda3": 1.0}
    learner = second_task(toy, **{**base, **options})
    learner.expert = Stub(learner.net.gcn.second)
    batch = toy.batch(X, Y, known)
    terms = learner.observe(batch)
    out = learner.forward(batch.x, torch.tensor(EXPERT_FEATURE, dtype=torch.float32))
    a = learner.acm.matrix()
    seen = {"old-old": a[:OLD, :OLD], "r": a[:OLD, OLD:], "q": a[OLD:, :OLD], "b": a[OLD:, OLD:]}
    seen |= {"weights": learner.net.weights, "y_cal": out.logits - out.graph_logits}
    seen |= {"y_gph": out.graph_logits, **terms}
    return {name: value.detach().double().numpy().copy() for name, value in seen.items()}


AFTER_GRAPH = {"cls", "dst"}
AFTER_NODES = {"y_gph", "cls", "dst", "gph"}
AFTER_ACM = {"weights", *AFTER_NODES}
CHANGES: list[tuple[dict[str, Any], np.ndarray, set[str]]] = [
    ({"lambda1": 0.5}, IL, {"cls"}),
    ({"lambda2": 0.5}, IL, {"dst"}),
    ({"lambda3": 0.5}, IL, {"gph"}),
    ({"lambda3": 0.0}, IL, {"gph"}),
    ({"readout": "mean"}, IL, {"y_gph", *AFTER_GRAPH}),  # D1
    ({"readout": "dot"}, IL, {"y_gph", *AFTER_GRAPH}),
    ({"old_nodes": "student"}, IL, AFTER_NODES),  # D2
    ({"theta": "constant"}, IL, set()),  # D3: gradients alone
    ({"relation": "logits"}, IL, {"gph"}),  # D4
    ({"reduction": "sum"}, IL, {"cls", "dst"}),  # D5
    ({"soft_labels": "softmax"}, IL, {"r", "q", *AFTER_ACM}),  # D6
    ({"soft_labels": "softmax"}, CL, set()),  # nothing is missing, so nothing is filled
    ({"halve": True}, IL, {"q", *AFTER_ACM}),  # D7
    ({"propagation": "identity"}, IL, AFTER_ACM),  # D8
    ({"propagation": "threshold"}, IL, AFTER_ACM),
    ({"propagation": "official"}, IL, AFTER_ACM),
    ({"transpose": True}, IL, AFTER_ACM),  # D9
    ({"old_old": "recount"}, CL, {"old-old", *AFTER_ACM}),  # D10
    ({"inter_task": False}, IL, {"r", "q", *AFTER_ACM}),
    ({"node_scale": "unit"}, IL, AFTER_NODES),
    ({"start": "silent"}, IL, set()),  # how new rows begin, and nothing once they are set
]


@pytest.mark.parametrize(
    ("options", "known", "changed"), CHANGES, ids=lambda v: str(v) if isinstance(v, dict) else ""
)
def test_an_option_changes_what_it_says(
    toy: Any, options: dict[str, Any], known: np.ndarray, changed: set[str]
) -> None:
    default, other = observed(toy, known), observed(toy, known, **options)
    different = default.keys() ^ other.keys()  # a term that is gone
    for name in default.keys() & other.keys():
        if not np.allclose(default[name], other[name], rtol=1e-5, atol=1e-7):
            different.add(name)
    assert different == changed


def test_student_nodes_do_not_ask_the_expert_for_prediction(toy: Any) -> None:
    """D2: halves the cost."""
    asked = []
    learner = second_task(toy, old_nodes="student")
    learner.expert.backbone.register_forward_hook(lambda *_: asked.append(1))
    x = toy.batch(X, Y).x
    model, feature = Model.of(learner.net), X / 10
    graph = model.graph(learner.net.weights.numpy(), feature, feature, 0)
    assert learner.predict(x).numpy() == pytest.approx(sigmoid(sum(model.logits(graph, feature))), abs=1e-5)
    assert not asked


def test_without_blocks_between_tasks_there_are_none_later_either(toy: Any) -> None:
    """The inherited block of task 3 has no relation between tasks 1 and 2."""
    learner = second_task(toy, inter_task=False)
    learner.observe(toy.batch(X, Y, IL))
    learner.begin_task(toy.task(2, S, S + 1))
    learner.observe(toy.batch(X, np.ones((3, S + 1)), [[0] * S + [1]] * 3))
    same = np.kron(np.eye(3), np.ones((2, 2)))[:5, :5].astype(bool)
    a, weights = learner.acm.matrix().numpy(), learner.net.weights.numpy()
    for matrix in (a, weights):
        assert (matrix[~same] == 0).all()
        assert (matrix[same] > 0).all()


def test_without_ple(toy: Any) -> None:
    """The ablation: nodes are label embeddings, one graph for all images, which meets their features."""
    learner = second_task(toy, nodes="embeddings", readout="dot", lambda3=2.0)
    terms = learner.observe(toy.batch(X, Y, IL))
    net = learner.net
    nodes = net.nodes.double().numpy()
    assert nodes == pytest.approx(learner.embeddings([f"class {c}" for c in range(S)]).numpy(), abs=1e-6)
    first, second = (p.detach().double().numpy() for p in (net.gcn.first, net.gcn.second))
    graph = gcn(net.weights.double().numpy(), nodes, first, second)
    feature = X / 10
    y_cal = feature @ net.fc.weight.detach().double().numpy().T + net.fc.bias.detach().double().numpy()
    out = learner.forward(toy.batch(X, Y).x, None)
    assert out.graph_logits.detach().numpy() == pytest.approx(feature @ graph.T, rel=1e-3, abs=1e-3)
    assert out.logits.detach().numpy() == pytest.approx(y_cal + feature @ graph.T, rel=1e-3, abs=1e-3)
    first, second = (p.double().numpy() for p in (learner.expert.gcn.first, learner.expert.gcn.second))
    then = gcn(soft(A1), nodes[:OLD], first, second)
    assert terms["gph"].item() == pytest.approx(2 * ((graph[:OLD] - then) ** 2).mean(), rel=1e-3)


@pytest.mark.parametrize("readout", ["diagonal", "mean"])
def test_without_ple_the_node_must_meet_the_image(toy: Any, readout: str) -> None:
    with pytest.raises(ConfigError, match="readout must be 'dot'"):
        toy.learner("agcn++", nodes="embeddings", readout=readout)


@pytest.mark.parametrize("classes", [40, 200])
def test_many_classes_are_as_the_equations_say(toy: Any, classes: int) -> None:
    """The factored forms of the step against nodes and graphs made one by one."""
    learner = toy.learner("agcn++", **OPTIONS)
    learner.begin_task(toy.task(0, 0, classes - 4))
    learner.begin_task(toy.task(1, classes - 4, classes))
    learner.expert.backbone = Scaled()
    toy.fill(learner.net)
    rng = np.random.default_rng(0)
    y, known = rng.random((3, classes)) < 0.3, np.arange(classes) >= classes - 4
    learner.observe(toy.batch(X, y, np.tile(known, (3, 1))))
    model, feature = Model.of(learner.net), X / 10
    graph = model.graph(learner.net.weights.double().numpy(), feature, EXPERT_FEATURE, classes - 4)
    expected = sigmoid(sum(model.logits(graph, feature)))
    assert learner.predict(toy.batch(X, y).x).numpy() == pytest.approx(expected, abs=1e-5)
