"""Multi-label continual learning: learn new labels month after month, and do not forget.

>>> import mlcl
>>> [name for name in mlcl.learners() if name.startswith("agcn")]
['agcn', 'agcn++']
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mlcl.version import __version__

if TYPE_CHECKING:
    from mlcl.data.source import source, sources
    from mlcl.data.table import LabelTable
    from mlcl.errors import MLCLError
    from mlcl.experiment import Experiment
    from mlcl.learner import GradientLearner, Learner, learners
    from mlcl.recipe import load_recipe
    from mlcl.stream import StreamConfig, build
    from mlcl.types import Batch, Samples, Stream, Task, TensorImages

# found when first asked for, so that `mlcl --help` need not wait for PyTorch
_HOMES = {
    "Batch": "types", "Experiment": "experiment", "GradientLearner": "learner", "LabelTable": "data.table",
    "Learner": "learner", "MLCLError": "errors", "Samples": "types", "Stream": "types",
    "StreamConfig": "stream", "Task": "types", "TensorImages": "types", "build": "stream",
    "learners": "learner", "load_recipe": "recipe", "source": "data.source", "sources": "data.source",
}  # fmt: skip

__all__ = [
    "Batch", "Experiment", "GradientLearner", "LabelTable", "Learner", "MLCLError", "Samples", "Stream",
    "StreamConfig", "Task", "TensorImages", "__version__", "build", "learners", "load_recipe", "source",
    "sources",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mlcl' has no attribute {name!r}")
    return getattr(importlib.import_module(f"mlcl.{_HOMES[name]}"), name)
