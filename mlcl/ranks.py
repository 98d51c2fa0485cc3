"""Several processes learn one stream together: each takes its share of every batch, counts are common.

    torchrun --nproc-per-node 2 -m mlcl.cli run RECIPE.toml

Every function here is the identity in a process that is alone. A share is every n-th image of a batch, so
that what was gathered stands in the batch's own order.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from mlcl.types import Batch

T = TypeVar("T")


def join() -> None:
    """Meets the other processes, if torchrun started this one."""
    if size() == 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        backend = "gloo"
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
            backend = "cpu:gloo,cuda:nccl"
        dist.init_process_group(backend)


def leave() -> None:
    """Together, and after what DDP holds of the group: a process that ends with it alive may be aborted."""
    if size() > 1:
        gc.collect()
        meet()
        dist.destroy_process_group()


def meet() -> None:
    """Goes on when all are here."""
    if size() > 1:
        dist.barrier()


@contextmanager
def one_by_one() -> Iterator[None]:
    """The first process goes through, then the others: they find what it has made."""
    if rank():
        meet()
    try:
        yield
    finally:
        if not rank():
            meet()


def size() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if size() > 1 else 0


def share(places: np.ndarray) -> np.ndarray:
    """Which of a batch's places are this process's; of a batch too small for all, everyone takes all."""
    return places[rank() :: size()] if len(places) >= size() else places


def mine(drawn: Tensor, of: int) -> Tensor:
    """This process's rows of what was drawn for the whole batch."""
    return drawn[rank() :: size()] if of and len(drawn) else drawn


def gathered(of: int, *shares: Tensor) -> tuple[Tensor, ...]:
    """Each process's (B, ...) -> the whole batch's (B, ...), in its order, the same in every process."""
    if not of:
        return shares
    return tuple(_gathered(of, own.to(torch.uint8)).bool() if own.dtype == torch.bool else _gathered(of, own)
                 for own in shares)  # fmt: skip


def _gathered(of: int, own: Tensor) -> Tensor:
    most = -(-of // size())
    padded = own.new_zeros(most, *own.shape[1:])
    padded[: len(own)] = own.detach()
    parts = [torch.empty_like(padded) for _ in range(size())]
    dist.all_gather(parts, padded)
    return torch.stack(parts, dim=1).flatten(0, 1)[:of]


def average(tensors: Iterable[Tensor]) -> None:
    """In place."""
    if size() > 1:
        for tensor in tensors:
            dist.all_reduce(tensor)
            tensor /= size()


def total(array: np.ndarray) -> np.ndarray:
    """The sum over all processes."""
    if size() == 1:
        return array
    summed = torch.from_numpy(array.copy())
    dist.all_reduce(summed)
    return summed.numpy()


def any_of(flag: bool) -> bool:
    return bool(total(np.array([flag], np.int64))[0])


def union(notes: Mapping[int, str]) -> dict[int, str]:
    """What any process noted."""
    found: list[Any] = [None] * size()
    if size() == 1:
        return dict(notes)
    dist.all_gather_object(found, dict(notes))
    return {row: why for part in found for row, why in part.items()}


def agreed(value: T) -> T:
    """The first process's."""
    if size() == 1:
        return value
    box: list[Any] = [value]
    dist.broadcast_object_list(box)
    result: T = box[0]
    return result


def statistics(net: nn.Module) -> list[Tensor]:
    """Running means and variances that move."""
    norms = [module for module in net.modules() if isinstance(module, _BatchNorm) and module.training]
    return [t for norm in norms for t in (norm.running_mean, norm.running_var) if t is not None]


class _Terms(nn.Module):
    """A method's loss terms as the output of a module, so that DDP may stand around all its passes."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.weights = nn.ParameterList(net.parameters())  # buffers are the same everywhere by themselves

    def forward(self, losses: Callable[[Batch], dict[str, Tensor]], batch: Batch) -> dict[str, Tensor]:
        return losses(batch)


def shared(net: nn.Module) -> nn.Module:
    """Its gradients are averaged over all processes while the backward pass goes on."""
    return DistributedDataParallel(_Terms(net), static_graph=True)  # within a task; it may leave weights out
