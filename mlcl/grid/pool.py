"""Cells side by side, each worker a process of its own: one that dies takes nothing with it but its cell.

Parent and worker speak through a pipe. While a cell is learnt, anything said to the worker means stop: it
saves and leaves. If the parent is gone, the pipe's end says the same, so no worker outlives it for long.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path

from mlcl.config import Tree
from mlcl.experiment import Interrupted
from mlcl.grid import cell as cells

GRACE = 60.0  # seconds to save in, once asked to stop

Job = tuple[Tree, Path, bool]  # a recipe, the folder that it is learnt in, and whether to keep checkpoints
End = Callable[[str | None, bool], None]  # with the error, if there was one, and whether it was stopped


class Worker:
    """One process, and what it is doing."""

    def __init__(self, workers: int):
        context = get_context("spawn")  # a fork would share CUDA and threads that are not there
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, workers))
        self.process.start()
        theirs.close()
        self.end: End | None = None  # whom to tell; None = nothing to do

    def begin(self, job: Job, end: End) -> bool:
        try:
            self.pipe.send(job)
        except OSError:  # it died while it had nothing to do
            return False
        self.end = end
        return True

    def hear(self) -> bool:
        """Passes on what became of the job; False if the process can do no more."""
        assert self.end is not None
        end, self.end = self.end, None
        try:
            outcome = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            hint = "; out of memory?" if code == -signal.SIGKILL else ""
            end(f"its process died ({how}{hint}); run the grid again to go on with it", False)
            return False
        end(outcome["error"], outcome["stopped"])
        return bool(outcome["fit"])

    def ask_to_stop(self) -> None:
        try:
            self.pipe.send(None)
        except OSError:  # dead: hear() will tell
            return


def work_through(
    next_job: Callable[[], tuple[Job, End] | None], count: int, stop: Callable[[], bool] = lambda: False
) -> None:
    """Jobs through at most `count` processes, until there is none and none is running.

    `next_job` may say None while others run, and have one again once they end. If `stop` says so, everyone
    saves and leaves, and Interrupted is raised.
    """
    workers: list[Worker] = []
    stopping = False
    grace = 0.0
    try:
        while True:
            while not stopping and (job := _for_a_free_one(workers, next_job, count)):
                _hand_out(workers, *job, count)
            busy = [worker for worker in workers if worker.end is not None]
            if not busy:
                break
            ready = wait([worker.pipe for worker in busy], timeout=0.2)
            for worker in busy:
                if worker.pipe in ready and not worker.hear():
                    worker.pipe.close()  # it leaves, if it is there
                    workers.remove(worker)
            if not stopping and stop():
                stopping = True
                for worker in workers:
                    worker.ask_to_stop()
        grace = GRACE
        if stopping:
            raise Interrupted
    finally:
        for worker in workers:
            worker.pipe.close()
        for worker in workers:
            worker.process.join(grace)
            if worker.process.is_alive():  # it hears nothing, or nobody wants to wait for it
                worker.process.kill()
                worker.process.join()


def _for_a_free_one(
    workers: list[Worker], next_job: Callable[[], tuple[Job, End] | None], count: int
) -> tuple[Job, End] | None:
    free = len(workers) < count or any(worker.end is None for worker in workers)
    return next_job() if free else None


def _hand_out(workers: list[Worker], job: Job, end: End, count: int) -> None:
    for worker in [worker for worker in workers if worker.end is None]:
        if worker.begin(job, end):
            return
        workers.remove(worker)
    workers.append(Worker(count))
    if not workers[-1].begin(job, end):
        workers.pop()
        end("its process could not be started", False)


def _work(pipe: Connection, workers: int) -> None:
    """Cells one after another, until there is nothing more to hear."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent says when to stop
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, torch.get_num_threads() // workers))
    while True:
        try:
            job: Job | None = pipe.recv()
            if job is None:
                return
            tree, folder, checkpoints = job
            pipe.send(cells.attempt(tree, folder, pipe.poll, checkpoints))
        except (EOFError, OSError):  # the parent is gone
            return
