"""What every method stands between: fine-tuning below; multi-task and joint-full above."""

from __future__ import annotations

from mlcl.learner import GradientLearner, Terms
from mlcl.types import Batch, Stream


class FineTuning(GradientLearner, name="fine-tuning"):
    """The lower bound: learns each task, does nothing against forgetting."""

    like_fine_tuning = True
    recordable = True

    def losses(self, batch: Batch) -> Terms:
        return {"cls": self.classification(self.net(batch.x), batch.y, batch.known)}


class MultiTask(FineTuning, name="multi-task"):
    """All tasks at once, shuffled; each image keeps only what its own task knew."""

    def view(self, stream: Stream) -> Stream:
        return stream.joint()


class JointFull(FineTuning, name="joint-full"):
    """The true upper bound: all tasks at once with all labels."""

    def view(self, stream: Stream) -> Stream:
        return stream.joint(full=True)
