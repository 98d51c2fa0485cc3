"""KRT: labels that the old network restores, and embeddings that the new one must keep.

Restore: every unknown label of an old class becomes yes or no, by one threshold on the old network's answers,
chosen so that as many are yes as the stream leads one to expect. Keep: class attention reads the image's
positions by one token that all tasks share (transfer) and one token a task (retention); a class is read from
both, and both are held, by their cosine, to what they were.

Adapted: the threshold follows what the task has shown so far, because a learner sees its batches once. What
is to be expected is how often a class was marked among all images before this task, those that were not asked
about it included: among its own task's images a class is several times as frequent as elsewhere. Tokens read
positions only, not each other, so a new task's token leaves the old ones' embeddings alone; the tokens of old
tasks change no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mlcl.errors import ConfigError
from mlcl.learner import GradientLearner, State, Terms
from mlcl.nn.backbone import Backbone
from mlcl.nn.head import GrowingLinear
from mlcl.types import Batch, Task

BINS = 1000  # of probability, in which the threshold is searched
COUNTS = ("images", "marked", "expected", "answers", "wanted")


class Output(NamedTuple):
    logits: Tensor  # (B, S)
    embeddings: Tensor  # (B, 1 + T, E) the transfer token's, then each task's


class ClassAttention(nn.Module):
    """tokens (N, E) read the positions (B, P, E) of an image, each by itself -> (B, N, E)."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        count = len(positions)
        query = self._by_head(self.query(self.before(tokens))[None].expand(count, -1, -1))
        key, value = torch.chunk(self.key_value(positions), 2, dim=-1)
        read = F.scaled_dot_product_attention(query, self._by_head(key), self._by_head(value))
        embeddings = tokens + self.out(read.transpose(1, 2).flatten(2))
        out: Tensor = embeddings + self.mlp(self.between(embeddings))
        return out

    def _by_head(self, x: Tensor) -> Tensor:
        images, count, width = x.shape
        return x.view(images, count, self.heads, width // self.heads).transpose(1, 2)


class TokenNet(nn.Module):
    """A backbone, class attention with a transfer token and one retention token a task, a head over both."""

    retained: Tensor  # (T - 1, E) tokens of the old tasks
    task: Tensor  # (S,) which task each class belongs to

    def __init__(self, config: KRT.Config, generator: torch.Generator):
        super().__init__()
        if config.backbone.pool != "mean":
            raise ConfigError("krt reads maps that nothing has pooled: leave backbone.pool at 'mean'")
        self.backbone = Backbone(config.backbone, generator)
        width = config.hidden
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(torch.randint(2**62, (), generator=generator)))
            self.project = nn.Sequential(nn.Linear(self.backbone.network.width, width), nn.LayerNorm(width))
            self.attention = ClassAttention(width, config.heads)
        self.transfer = nn.Parameter(token(width, generator))
        self.retention = nn.Parameter(torch.zeros(0, width))  # (1, E) of the task in hand
        self.head = GrowingLinear(2 * width)
        self.register_buffer("retained", torch.zeros(0, width))
        self.register_buffer("task", torch.zeros(0, dtype=torch.int64))

    def grow(self, width: int, generator: torch.Generator) -> None:
        self.head.grow(width, generator)
        self.retained = torch.cat([self.retained, self.retention.detach()])
        self.retention = nn.Parameter(token(self.retained.shape[1], generator).to(self.retained))
        self.task = torch.cat([self.task, self.task.new_full((width,), len(self.retained))])

    def forward(self, x: Tensor) -> Output:
        positions = self.project(self.backbone.maps(x).flatten(2).transpose(1, 2))  # (B, P, E)
        tokens = torch.cat([self.transfer, self.retained, self.retention])
        embeddings = self.attention(tokens, positions)
        shared, own = self.head.weight.chunk(2, dim=1)  # (S, E) each
        by_task = embeddings[:, 1:] @ own.T  # (B, T, S)
        mine = by_task.gather(1, self.task.expand(len(x), 1, -1)).squeeze(1)
        return Output(embeddings[:, 0] @ shared.T + mine + self.head.bias, embeddings)


class KRT(GradientLearner, name="krt"):
    """Restores old labels at the density that is expected, and keeps old embeddings."""

    keep_expert = True
    recordable = True
    shareable = False  # its counts are of the images that it has seen itself

    @dataclass(frozen=True, kw_only=True)
    class Config(GradientLearner.Config):
        strength: float = 100.0  # lambda: weight of 1 - cosine, old embeddings to new ones
        density: float = 0.0  # positives of old classes an image; 0 = as often as they were marked so far
        hidden: int = 384  # numbers an embedding
        heads: int = 8  # of the attention

        def __post_init__(self) -> None:
            if self.density < 0 or self.strength < 0:
                raise ConfigError("density and strength: cannot be negative")
            if self.heads < 1 or self.hidden < 1 or self.hidden % self.heads:
                raise ConfigError(f"hidden: {self.hidden} is no multiple of heads, {self.heads}")

    net: TokenNet

    def __init__(self, config: Config | None = None, *, seed: int = 0, device: str = "cpu"):
        super().__init__(config, seed=seed, device=device)
        self.images = torch.zeros((), dtype=torch.int64, device=self.device)  # streamed so far
        self.marked = torch.zeros(0, device=self.device)  # (S,) known positives among them
        self.expected = torch.zeros(0, device=self.device)  # (old,) rate of each old class
        self._forget_answers()

    def build(self) -> TokenNet:
        return TokenNet(self.config, self.generator)

    def begin_task(self, task: Task) -> None:
        self.expected = self.marked / self.images.clamp_min(1)
        if self.config.density and len(self.expected):
            self.expected = torch.full_like(self.expected, self.config.density / len(self.expected))
        self.marked = F.pad(self.marked, (0, task.stop - task.start))
        self._forget_answers()
        super().begin_task(task)

    def losses(self, batch: Batch) -> Terms:
        self.images += len(batch)
        self.marked += batch.y.where(batch.known, 0.0).sum(dim=0)
        out: Output = self.net(batch.x)
        if self.expert is None:
            return {"cls": self.classification(out.logits, batch.y, batch.known)}
        with torch.no_grad():
            before: Output = self.expert(batch.x)
            y, known = self.restore(batch, before.logits.float().sigmoid())
        now = out.embeddings[:, : before.embeddings.shape[1]].float()
        cosine = F.cosine_similarity(now, before.embeddings.float(), dim=-1)
        return {
            "cls": self.classification(out.logits, y, known),
            "token": self.config.strength * (1 - cosine).mean(),
        }

    def restore(self, batch: Batch, p: Tensor) -> tuple[Tensor, Tensor]:
        """Labels and what is known of them, with the old network's answers p (B, old) where nobody marked."""
        old = self.old
        unknown = ~batch.known[:, :old]
        place = (p * BINS).long().clamp(0, BINS - 1)  # below too: a nan is the loop's to report
        self.answers.index_add_(0, place.flatten(), unknown.flatten().long())
        self.wanted += (unknown * self.expected).sum()
        guess = (place >= threshold(self.answers, self.wanted)).to(batch.y)
        y = torch.cat([batch.y[:, :old].where(~unknown, guess), batch.y[:, old:]], dim=1)
        return y, torch.cat([torch.ones_like(unknown), batch.known[:, old:]], dim=1)

    def logits(self, x: Tensor) -> Tensor:
        out: Output = self.net(x)
        return out.logits

    def state(self) -> State:
        return super().state() | {name: getattr(self, name).clone() for name in COUNTS}

    def load(self, state: State) -> None:
        super().load(state)
        for name in COUNTS:
            setattr(self, name, state[name].to(self.device, copy=True))

    def _forget_answers(self) -> None:
        self.answers = torch.zeros(BINS, dtype=torch.int64, device=self.device)  # by the old network, in bins
        self.wanted = torch.zeros(
            (), dtype=torch.float64, device=self.device
        )  # how many of them should be yes


def token(width: int, generator: torch.Generator) -> Tensor:
    """(1, E), so short that what a token reads outweighs what it is: the cosine would see little else."""
    return 0.02 * torch.randn(1, width, generator=generator)


def threshold(answers: Tensor, wanted: Tensor) -> Tensor:
    """The first bin from which on no more than `wanted` answers lie; one beyond the last if that has more.

    >>> answers = torch.tensor([5, 0, 2, 1])
    >>> [threshold(answers, torch.tensor(w)).item() for w in (8.0, 3.5, 2.0, 0.9)]
    [0, 1, 3, 4]
    """
    above = answers.flip(0).cumsum(0).flip(0)
    return (above > wanted).sum()
