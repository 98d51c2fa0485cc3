"""What keeps a GPU busy: images that wait on the device, steps replayed as a whole, numbers read later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from mlcl.errors import ConfigError
from mlcl.types import Images

Step = Callable[..., dict[str, Tensor]]  # tensors on the device -> named numbers on the device
WARM_UP = 3  # ordinary steps before the recording: libraries choose their kernels and take their memory


class Recorded:
    """A step that is recorded once as a CUDA graph and then replayed: one launch instead of thousands.

    The step may allocate and launch, and nothing else: no chance, no waiting, nothing that the host decides
    or copies. What it keeps, it must keep in place. A batch of another shape takes the ordinary way.
    """

    def __init__(self, step: Step, device: torch.device):
        self.step, self.device = step, device
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: tuple[Tensor, ...] = ()
        self.numbers: dict[str, Tensor] = {}

    def __call__(self, *inputs: Tensor) -> dict[str, Tensor]:
        if self.graph is None and self.calls < WARM_UP:
            self.calls += 1
            return self._aside(inputs)
        if self.graph is None:
            self._record(inputs)
        if any(new.shape != place.shape for new, place in zip(inputs, self.inputs, strict=True)):
            return self.step(*(tensor.to(self.device, non_blocking=True) for tensor in inputs))
        for place, new in zip(self.inputs, inputs, strict=True):
            place.copy_(new, non_blocking=True)
        assert self.graph is not None
        self.graph.replay()
        return {name: number.clone() for name, number in self.numbers.items()}

    def _aside(self, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
        """On another stream, as a recording asks for."""
        here = torch.cuda.current_stream(self.device)
        aside: torch.cuda.Stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            numbers = self.step(*(tensor.to(self.device, non_blocking=True) for tensor in inputs))
        here.wait_stream(aside)
        return numbers

    def _record(self, inputs: Sequence[Tensor]) -> None:
        """Notes the launches without running them."""
        self.inputs = tuple(tensor.to(self.device, copy=True) for tensor in inputs)
        graph = torch.cuda.CUDAGraph()
        try:
            # thread_local: the thread that loads the next batch goes on allocating pinned memory
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self.numbers = self.step(*self.inputs)
        except RuntimeError as error:
            first = str(error).splitlines()[0]
            raise ConfigError(
                f"record: this method's step cannot be replayed as a whole ({first}); set record = false"
            ) from error
        self.graph = graph


class Kept(Images):
    """Images that stay on the device once they were asked for; those that come after it is full do not."""

    def __init__(self, images: Images, device: torch.device, gigabytes: float):
        self.images, self.device = images, device
        self.broken, self.repaired = images.broken, images.repaired
        self.limit = int(gigabytes * 1e9)
        self.held = 0  # how many are on the device
        self.place = np.full(len(images), -1)  # where each image is, -1 where it is not
        self.store: Tensor | None = None  # (held at most, 3, H, W) uint8

    def __len__(self) -> int:
        return len(self.images)

    def load(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        """(len(indices), 3, H, W) uint8, on the device."""
        rows = np.asarray(indices, np.int64)
        wanted = np.unique(rows[self.place[rows] < 0])
        fresh = self.images.load(wanted).to(self.device) if len(wanted) else None
        if fresh is not None:
            self._keep(wanted, fresh)
        held = self.place[rows] >= 0
        if held.all():
            assert self.store is not None
            return self.store[self._indices(self.place[rows])]
        assert fresh is not None
        x = fresh[self._indices(np.minimum(np.searchsorted(wanted, rows), len(wanted) - 1))]
        if held.any():
            assert self.store is not None
            x[self._indices(np.flatnonzero(held))] = self.store[self._indices(self.place[rows[held]])]
        return x

    def identity(self) -> str:
        return self.images.identity()

    def stamps(self) -> np.ndarray | None:
        return self.images.stamps()

    def _keep(self, rows: np.ndarray, x: Tensor) -> None:
        if self.store is None:
            most = min(len(self.images), self.limit // max(1, x[0].numel() * x.element_size()))
            self.store = torch.empty(most, *x.shape[1:], dtype=x.dtype, device=self.device)
        count = min(len(rows), len(self.store) - self.held)
        if x.shape[1:] != self.store.shape[1:]:  # a source whose images differ in size from call to call
            return
        self.store[self.held : self.held + count] = x[:count]
        self.place[rows[:count]] = np.arange(self.held, self.held + count)
        self.held += count

    def _indices(self, where: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(where)).to(self.device)


class Later:
    """Named numbers on their way from the device: `read` waits for nothing if there was time in between."""

    def __init__(self, numbers: Mapping[str, Tensor]):
        self.names = list(numbers)
        together = torch.stack([number.detach().float() for number in numbers.values()])
        self.arrived: torch.cuda.Event | None = None
        self.values = together
        if together.is_cuda:
            self.values = torch.empty(together.shape, pin_memory=True)
            self.values.copy_(together, non_blocking=True)
            self.arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self.arrived.record()

    def read(self) -> dict[str, float]:
        if self.arrived is not None:
            self.arrived.synchronize()
        return dict(zip(self.names, self.values.tolist(), strict=True))
