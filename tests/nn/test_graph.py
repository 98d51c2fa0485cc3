"""Nodes, graph convolution and readouts against their formulas, number by number."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from mlcl.nn.graph import GCN, GraphReadout, heard_nodes

B, S, D, HIDDEN, OUT = 2, 3, 4, 5, 6
ALONE = torch.eye(S)  # nobody hears anybody else, so that what is heard is the node itself
WEIGHTS = torch.tensor([[0.75, 0.2, 0.05], [0.0, 0.75, 0.25], [0.1, 0.15, 0.75]])


def chance(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_nodes_are_theta_times_feature() -> None:
    theta, feature = torch.randn(S, D, generator=chance(1)), torch.randn(B, D, generator=chance(2))
    nodes = heard_nodes(ALONE, theta, feature)
    assert nodes.shape == (B, S, D)
    for b in range(B):
        for i in range(S):
            for d in range(D):
                assert nodes[b, i, d] == theta[i, d] * feature[b, d]


@pytest.mark.parametrize("old", [0, 1, 2, 3])
def test_old_nodes_take_the_experts_feature(old: int) -> None:
    theta = torch.randn(S, D, generator=chance(1))
    feature, expert = torch.randn(B, D, generator=chance(2)), torch.randn(B, D, generator=chance(3))
    nodes = heard_nodes(ALONE, theta, feature, expert, old)
    assert nodes.shape == (B, S, D)
    for b in range(B):
        for i in range(S):
            for d in range(D):
                assert nodes[b, i, d] == theta[i, d] * (expert if i < old else feature)[b, d]


def test_without_an_expert_all_nodes_take_the_feature() -> None:
    theta, feature = torch.randn(S, D, generator=chance(1)), torch.randn(B, D, generator=chance(2))
    mine = heard_nodes(WEIGHTS, theta, feature)
    assert torch.equal(heard_nodes(WEIGHTS, theta, feature, None, old=2), mine)
    expert = torch.randn(B, D, generator=chance(3))
    assert torch.equal(heard_nodes(WEIGHTS, theta, feature, expert, old=0), mine)


def leaky(x: float) -> float:
    return x if x > 0 else 0.2 * x


def dense(nodes: Tensor, a: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """G = A f(A H W1) W2 for one image, by loops in float64: i sums over the j that it hears."""
    h, propagate, w1, w2 = (matrix.tolist() for matrix in (nodes, a, first, second))
    inner = [[0.0] * HIDDEN for _ in range(S)]
    for i in range(S):
        for k in range(HIDDEN):
            heard = 0.0
            for j in range(S):
                heard += propagate[i][j] * sum(h[j][d] * w1[d][k] for d in range(D))
            inner[i][k] = leaky(heard)
    out = torch.zeros(S, OUT, dtype=torch.float64)
    for i in range(S):
        for g in range(OUT):
            for j in range(S):
                out[i, g] += propagate[i][j] * sum(inner[j][k] * w2[k][g] for k in range(HIDDEN))
    return out


def whole(gcn: GCN, nodes: Tensor, weights: Tensor) -> Tensor:
    """G, all of it."""
    return gcn.output(gcn(weights @ nodes, weights))


@pytest.mark.parametrize("old", [0, 1, 2, 3])
def test_what_is_heard_of_the_nodes_is_a_times_h(old: int) -> None:
    """A meets Theta once instead of every image's nodes; the numbers are those of the nodes one by one."""
    theta = torch.randn(S, D, generator=chance(1)).double().requires_grad_()
    feature = torch.randn(B, D, generator=chance(2)).double().requires_grad_()
    expert, weights = torch.randn(B, D, generator=chance(3)).double(), WEIGHTS.double()
    nodes = torch.stack([
        torch.stack([theta[i] * (expert if i < old else feature)[b] for i in range(S)]) for b in range(B)
    ])  # fmt: skip
    factored = heard_nodes(weights, theta, feature, expert, old)
    torch.testing.assert_close(factored, weights @ nodes, rtol=1e-12, atol=1e-12)
    meant = torch.randn(B, S, D, generator=chance(4)).double()
    mine, theirs = (
        torch.autograd.grad(
            (heard * meant).sum(), (theta, feature), materialize_grads=True, allow_unused=True
        )
        for heard in (factored, weights @ nodes)
    )
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def test_gcn_against_loops() -> None:
    gcn = GCN(D, HIDDEN, OUT, chance(1))
    nodes = torch.randn(B, S, D, generator=chance(2))
    graph, first, second = whole(gcn, nodes, WEIGHTS).detach(), gcn.first.detach(), gcn.second.detach()
    assert graph.shape == (B, S, OUT)
    for b in range(B):
        expected = dense(nodes[b], WEIGHTS, first, second)
        assert torch.allclose(graph[b].double(), expected, atol=1e-6)
        transposed = dense(nodes[b], WEIGHTS.T, first, second)
        assert not torch.allclose(graph[b].double(), transposed, atol=1e-3)


def test_direction() -> None:
    """Node j sends to i with weight A_ij: with A_02 alone, class 0 hears class 2 and nobody hears class 0."""
    gcn = GCN(D, HIDDEN, OUT, chance(1))
    weights = torch.eye(S)
    weights[0, 2] = 1.0
    nodes = torch.randn(1, S, D, generator=chance(2))
    before = whole(gcn, nodes, weights)
    for sender, hears in ((0, {0}), (1, {1}), (2, {0, 2})):
        moved = nodes.clone()
        moved[:, sender] += 1
        changed = (whole(gcn, moved, weights) != before).any(dim=-1)[0]
        assert {i for i in range(S) if changed[i]} == hears


def test_images_do_not_mix() -> None:
    gcn = GCN(D, HIDDEN, OUT, chance(1))
    nodes = torch.randn(B, S, D, generator=chance(2))
    moved = nodes.clone()
    moved[1] += 1
    assert torch.equal(whole(gcn, nodes, WEIGHTS)[0], whole(gcn, moved, WEIGHTS)[0])


def test_gcn_has_no_biases() -> None:
    gcn = GCN(D, HIDDEN, OUT, chance())
    assert {name: tuple(p.shape) for name, p in gcn.named_parameters()} == {
        "first": (D, HIDDEN),
        "second": (HIDDEN, OUT),
    }
    assert (whole(gcn, torch.zeros(1, S, D), WEIGHTS) == 0).all()


def test_gcn_depends_on_its_generator_alone() -> None:
    before = torch.get_rng_state()
    a, b, c = GCN(D, HIDDEN, OUT, chance(1)), GCN(D, HIDDEN, OUT, chance(1)), GCN(D, HIDDEN, OUT, chance(2))
    assert torch.equal(a.first, b.first)
    assert torch.equal(a.second, b.second)
    assert not torch.equal(a.first, c.first)
    assert torch.equal(torch.get_rng_state(), before)
    assert a.first.abs().max() <= HIDDEN**-0.5
    assert a.first.min() < 0 < a.first.max()


# Readouts take U, with G = U W2: G is made here and nowhere in the package.
def heard_and_second() -> tuple[Tensor, Tensor, Tensor]:
    """U (B, S, HIDDEN), W2 (HIDDEN, OUT), and G = U W2 by loops."""
    hidden, second = (
        torch.randn(B, S, HIDDEN, generator=chance(2)),
        torch.randn(HIDDEN, OUT, generator=chance(6)),
    )
    graph = torch.zeros(B, S, OUT, dtype=torch.float64)
    for b, i, g, h in itertools.product(range(B), range(S), range(OUT), range(HIDDEN)):
        graph[b, i, g] += float(hidden[b, i, h]) * float(second[h, g])
    return hidden, second, graph


def test_diagonal_readout() -> None:
    """w_c . g_c + b_c: a class reads its own node with its own weights."""
    readout = GraphReadout("diagonal", OUT, 0.5)
    readout.grow(S, chance(1))
    rows = readout.rows
    assert rows is not None
    rows.bias.data = torch.tensor([0.5, -1.0, 2.0])
    hidden, second, graph = heard_and_second()
    logits = readout(hidden, second, torch.zeros(B, D)).detach()
    weight, bias = rows.weight.tolist(), rows.bias.tolist()
    assert logits.shape == (B, S)
    for b in range(B):
        for i in range(S):
            expected = sum(weight[i][g] * float(graph[b, i, g]) for g in range(OUT)) + bias[i]
            assert logits[b, i].item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("graphs", [1, B])
def test_dot_readout(graphs: int) -> None:
    """The node meets the image's feature; one graph may serve all images."""
    readout = GraphReadout("dot", OUT)
    readout.grow(S, chance(1))
    assert not list(readout.parameters())
    hidden, second, graph = heard_and_second()
    feature = torch.randn(B, OUT, generator=chance(3))
    logits = readout(hidden[:graphs], second, feature)
    assert logits.shape == (B, S)
    for b in range(B):
        for i in range(S):
            expected = sum(float(graph[b % graphs, i, d]) * float(feature[b, d]) for d in range(OUT))
            assert logits[b, i].item() == pytest.approx(expected, abs=1e-5)


def test_mean_readout() -> None:
    readout = GraphReadout("mean", OUT)
    readout.grow(S, chance(1))
    assert not list(readout.parameters())
    hidden, second, graph = heard_and_second()
    logits = readout(hidden, second, torch.zeros(B, D))
    for b in range(B):
        for i in range(S):
            assert logits[b, i].item() == pytest.approx(sum(graph[b, i].tolist()) / OUT, abs=1e-5)


def test_silent_readout_starts_at_zero_and_learns() -> None:
    readout = GraphReadout("diagonal", OUT, 0.0)
    readout.grow(S, chance(1))
    hidden, second, _ = heard_and_second()
    logits = readout(hidden, second, torch.zeros(B, D))
    assert (logits == 0).all()
    logits.sum().backward()
    assert readout.rows is not None
    assert readout.rows.weight.grad is not None
    assert (readout.rows.weight.grad != 0).all()


def test_gradient_flows_through_theta_and_not_into_the_expert() -> None:
    """D3. Every class's logit moves every row of Theta that it hears, and nothing else."""
    theta = torch.randn(S, D, generator=chance(1), requires_grad=True)
    feature = torch.randn(B, D, generator=chance(2), requires_grad=True)
    with torch.no_grad():
        expert = torch.randn(B, D, generator=chance(3))
    gcn, readout = GCN(D, HIDDEN, OUT, chance(4)), GraphReadout("diagonal", OUT, 0.5)
    readout.grow(S, chance(5))
    weights = torch.eye(S)
    weights[0, 2] = 0.5
    heard = heard_nodes(weights, theta, feature, expert, old=1)
    logits = readout(gcn(heard, weights), gcn.second, feature)
    (grad,) = torch.autograd.grad(logits[:, 0].sum(), theta, retain_graph=True)
    assert (grad[[0, 2]] != 0).all()
    assert (grad[1] == 0).all()
    # class 1 is new: its node comes from the student's feature. With the identity, class 0 has the expert's.
    (moved,) = torch.autograd.grad(logits[:, 1].sum(), feature, retain_graph=True)
    assert (moved != 0).all()
    alone = gcn(heard_nodes(ALONE, theta, feature, expert, old=1), ALONE)
    (still,) = torch.autograd.grad(alone[:, 0].sum(), feature)
    assert (still == 0).all()


def test_gradient_of_theta_is_the_analytic_one() -> None:
    gcn = GCN(D, HIDDEN, OUT, chance(4)).double()
    feature = torch.randn(B, D, generator=chance(2)).double()
    theta = torch.randn(S, D, generator=chance(1)).double().requires_grad_()
    weights = WEIGHTS.double()
    assert torch.autograd.gradcheck(lambda t: gcn(heard_nodes(weights, t, feature), weights), (theta,))


@pytest.mark.parametrize("graphs", [1, B])
@pytest.mark.parametrize("kind", ["diagonal", "dot", "mean"])
def test_logits_are_float32_under_autocast(kind: str, graphs: int) -> None:
    """bfloat16 has 128 numbers between 1 and 2; scores that fall on the same one are tied."""
    readout = GraphReadout(kind, OUT, 0.5)  # type: ignore[arg-type]
    readout.grow(S, chance(1))
    hidden, second, _ = heard_and_second()
    feature = torch.randn(B, OUT, generator=chance(3))
    exact = readout(hidden[:graphs], second, feature)
    with torch.autocast("cpu", torch.bfloat16):
        logits = readout(hidden[:graphs].bfloat16(), second, feature)
    assert logits.dtype == torch.float32
    assert not torch.equal(logits, logits.bfloat16().float())
    assert (logits - exact).abs().max() < 0.1
