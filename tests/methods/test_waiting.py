"""No step waits for the device: nothing that the host must read before it can go on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mlcl import GradientLearner, learners
from mlcl.config import from_tree, to_tree
from mlcl.types import Batch, Samples, Task, TensorImages

READS = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "unique", "equal")
METHODS = sorted(name for name, kind in learners().items() if issubclass(kind, GradientLearner))
CASES: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in METHODS]
CASES += [
    (name, {key: value})
    for name in ("agcn", "agcn++")
    for key, value in {
        "propagation": "official",
        "inter_task": False,
        "old_old": "recount",
        "reduction": "sum",
        "soft_labels": "softmax",
        "relation": "logits",
        "halve": True,
        "transpose": True,
    }.items()
]
CASES += [("agcn++", {"readout": "mean"}), ("agcn++", {"readout": "dot", "nodes": "embeddings"})]


class Reads(TorchDispatchMode):
    """Notes every operation whose result the host needs: on a GPU each of them stops the launches."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.partition(".")[0]
        masks = name in ("index", "index_put_") and any(
            isinstance(place, Tensor) and place.dtype == torch.bool for place in args[1]
        )
        if name in READS or masks:
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


def test_finds_what_waits() -> None:
    for wait in (
        lambda x: x.sum().item(),
        lambda x: x[x > 0],
        lambda x: bool((x > 0).any()),
        torch.nonzero,
    ):
        with Reads() as reads:
            wait(torch.ones(3))
        assert reads.seen


@pytest.mark.parametrize(("method", "options"), CASES)
def test_no_step_waits(method: str, options: dict[str, Any]) -> None:
    kind = learners()[method]
    tree: dict[str, Any] = {"backbone": {"name": "tiny"}, **options}
    tree |= {name: 16 for name in ("hidden", "graph_width", "capacity") if name in to_tree(kind.Config())}  # type: ignore[misc]
    learner = kind(from_tree(kind.Config, tree))
    assert isinstance(learner, GradientLearner)
    chance = torch.Generator().manual_seed(0)
    batch = None
    for index, (start, stop) in enumerate(((0, 3), (3, 5))):
        learner.begin_task(Task(index, start, stop, tuple("abcde"[start:stop]), None, None))  # type: ignore[arg-type]
        x = torch.randint(0, 256, (4, 3, 32, 32), generator=chance, dtype=torch.uint8)
        known = torch.zeros(4, stop, dtype=torch.bool)
        known[:, start:] = True
        batch = Batch(x, (torch.rand(4, stop, generator=chance) < 0.5).float(), known)
        learner.observe(batch)
        samples = Samples(TensorImages(x), np.arange(4), batch.y.numpy().astype(np.uint8), known.numpy())
        if index == 0:
            learner.end_task(Task(0, 0, 3, tuple("abc"), samples, samples), [batch])
    assert batch is not None
    learner.net.train()
    learner.raw = batch  # type: ignore[attr-defined]  (SCR makes its second view of it)
    with Reads() as reads:
        torch.stack(list(learner.losses(batch).values())).sum().backward()  # type: ignore[no-untyped-call]
        learner.after_backward(batch)
    assert not reads.seen
