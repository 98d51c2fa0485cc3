"""What Ctrl-C means while something is learnt."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


class Stop:
    """Ctrl-C once: save, leave. Twice: leave at once."""

    def __init__(self, console: Console, words: str = "stopping after this batch (once more: at once) ..."):
        self.console = console
        self.words = words
        self.number = 0  # of the signal; none so far
        signal.signal(signal.SIGINT, self._heard)
        signal.signal(signal.SIGTERM, self._heard)

    def __call__(self) -> bool:
        return self.number != 0

    def _heard(self, number: int, frame: Any) -> None:
        if self.number:
            raise KeyboardInterrupt
        self.number = number
        self.console.print(self.words, highlight=False)
