"""Two processes learn what one learns: the same correlation matrix, normal equations and scores.

Both run the same cases below, over gloo on the CPU. Analytic results agree to 1e-6, those of gradients to
1e-4: sums in another order, over some steps of SGD. (Adam divides by a gradient's size: where that is nearly
0, its rounding moves the weight. There the processes agree with each other, and with one only roughly.) A
batch norm that learns normalises each process's own share, so those runs agree among the processes alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mlcl import Experiment, Samples, Stream, Task, ranks
from mlcl.config import from_tree
from mlcl.errors import ConfigError
from mlcl.experiment import Interrupted, LoopConfig
from mlcl.learner import learner
from mlcl.types import TensorImages

SIZE = 32
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "agcn++": ("agcn++", {}),
    "lwf": ("lwf", {}),
    "ewc": ("ewc", {}),
    "fine-tuning, batch norm moves": ("fine-tuning", {"norm": "train"}),
    "ridge": ("ridge", {}),
}
IMAGES = 25  # a task; batches of 8: the last has one image, fewer than processes


def stream() -> Stream:
    chance = np.random.default_rng(0)
    pixels = TensorImages(
        torch.from_numpy(chance.integers(0, 256, (4 * IMAGES, 3, SIZE, SIZE), dtype=np.uint8))
    )
    labels = (chance.random((4 * IMAGES, 5)) < 0.4).astype(np.uint8)
    names, tasks = tuple("abcde"), []
    for index, (start, stop) in enumerate(((0, 3), (3, 5))):
        rows = np.arange(index * IMAGES, (index + 1) * IMAGES)
        known = np.broadcast_to(np.arange(stop) >= start, (IMAGES, stop)).copy()
        train = Samples(pixels, rows, labels[rows, :stop], known)
        tests = np.arange(2 * IMAGES, (3 + index) * IMAGES)
        test = Samples(pixels, tests, labels[tests, :stop], np.ones((len(tests), stop), bool))
        tasks.append(Task(index, start, stop, names[start:stop], train, test))
    return Stream(names, tasks, "random")


def begin(case: str, folder: Path, interrupted: Callable[[], bool] = lambda: False) -> Experiment:
    method, options = CASES[case]
    kind = learner(method)
    tree = {"backbone": {"name": "tiny", **options}, "hidden": 16, "graph_width": 16}
    tree["optimizer"] = {"name": "sgd", "lr": 1e-2, "head_lr": 1e-2}
    known = kind.Config.__dataclass_fields__
    made = kind(from_tree(kind.Config, {key: value for key, value in tree.items() if key in known}))
    config = LoopConfig(batch_size=8, log_every=2, checkpoint_every=2, checkpoint_seconds=0)
    return Experiment(stream(), made, config=config, folder=folder / case, interrupted=interrupted)


def learn(case: str, folder: Path) -> dict[str, Any]:
    """Everything that processes must agree on."""
    return outcome(case, begin(case, folder))


def stopped_and_resumed(case: str, folder: Path) -> dict[str, Any]:
    """One process alone is asked to stop, in the middle of the second task; both do, and both go on."""
    first = begin(case, folder, interrupted=lambda: first.progress.task == 1 and ranks.rank() == 1)
    with contextlib.suppress(Interrupted):
        first.run()
        raise AssertionError("nobody stopped")
    assert (first.progress.task, first.progress.step) == (1, 2)
    second = begin(case, folder)
    assert second.resume()
    return outcome(case, second)


def outcome(case: str, experiment: Experiment) -> dict[str, Any]:
    made: Any = experiment.learner
    options = CASES[case][1]
    results = experiment.run()
    found: dict[str, Any] = {"evaluations": results["evaluations"]}
    found["probabilities"] = made.predict(experiment.stream[-1].test.images.load(np.arange(10))).tolist()
    if hasattr(made, "acm"):
        found["counts"] = [made.acm.co.tolist(), made.acm.seen.tolist(), made.acm.old.tolist()]
    if hasattr(made, "sums"):
        found["sums"] = {name: tensor.tolist() for name, tensor in made.sums.tensors().items()
                         if isinstance(tensor, Tensor)}  # fmt: skip
    if options:
        found["statistics"] = [made.net.backbone.network.stages[0].norm.running_var.tolist()]
    return found


def refused() -> str:
    kind = learner("er")
    try:
        Experiment(stream(), kind(from_tree(kind.Config, {"backbone": {"name": "tiny"}})))
    except ConfigError as error:
        return str(error)
    return ""


def main(folder: Path) -> None:
    """What each of the two processes runs."""
    torch.set_num_threads(1)
    ranks.join()
    found: dict[str, Any] = {case: learn(case, folder) for case in CASES}
    found["resumed"] = stopped_and_resumed("agcn++", folder / "stopped")
    found["er"] = refused()
    found["agreed"] = ranks.agreed(f"of {ranks.rank()}")
    found["union"] = sorted(ranks.union({ranks.rank(): "broken"}).items())
    found["any"] = [ranks.any_of(ranks.rank() == 1), ranks.any_of(False)]
    (folder / f"rank-{ranks.rank()}.json").write_text(json.dumps(found))
    ranks.leave()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("two")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    begin = [sys.executable, __file__, str(folder)]
    places = [{**os.environ, **common, "RANK": str(rank)} for rank in range(2)]
    running = [subprocess.Popen(begin, env=place, stderr=subprocess.PIPE, text=True) for place in places]
    until = time.monotonic() + 120
    try:
        errors = [process.communicate(timeout=until - time.monotonic())[1] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0, 0], errors
    return folder, [json.loads((folder / f"rank-{r}.json").read_text()) for r in range(2)]


@pytest.mark.parametrize("case", CASES)
def test_two_processes_learn_what_one_learns(
    case: str, two: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    folder, (first, second) = two
    assert first[case] == second[case]  # to the bit
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        alone = learn(case, tmp_path)
    finally:
        torch.set_num_threads(before)
    if "batch norm" not in case:
        close(first[case], alone, 1e-6 if case == "ridge" else 1e-4)
    saved = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    assert {path.relative_to(folder).as_posix() for path in (folder / case).rglob("*.*")} == saved  # by one


def test_both_stop_and_go_on(two: tuple[Path, list[dict[str, Any]]]) -> None:
    for found in two[1]:
        assert found["resumed"] == found["agcn++"]  # to the bit


def test_counts_of_known_labels_are_exact(two: tuple[Path, list[dict[str, Any]]], tmp_path: Path) -> None:
    """In the first task nobody's answer is counted, so the inherited block is that of the labels."""
    old = np.array(two[1][0]["agcn++"]["counts"][2])
    y = stream()[0].train.y.astype(float)
    expected = (y.T @ y) / y.sum(axis=0)
    np.fill_diagonal(expected, 1)
    np.testing.assert_allclose(old, expected, atol=1e-9)


def test_what_they_say_to_each_other(two: tuple[Path, list[dict[str, Any]]]) -> None:
    for found in two[1]:
        assert found["er"] == (
            "er: keeps what several processes cannot share; run it in one (without torchrun)"
        )
        assert found["agreed"] == "of 0"
        assert found["union"] == [[0, "broken"], [1, "broken"]]
        assert found["any"] == [True, False]


def test_alone_everything_is_the_identity() -> None:
    assert (ranks.size(), ranks.rank(), refused()) == (1, 0, "")
    places, tensor = np.arange(5), torch.arange(3.0)
    assert ranks.share(places) is not None
    assert ranks.share(places).tolist() == [0, 1, 2, 3, 4]
    assert ranks.mine(tensor, 0) is tensor
    assert ranks.gathered(0, tensor) == (tensor,)
    assert ranks.total(places) is places
    assert ranks.agreed("a") == "a"
    assert ranks.union({3: "x"}) == {3: "x"}
    assert (ranks.any_of(True), ranks.any_of(False)) == (True, False)


RECIPE = """
methods = ["agcn++"]
[data]
source = "scenes"
train = 24
test = 12
size = 32
[stream]
way = 12
[loop]
batch_size = 8
[learner]
hidden = 16
graph_width = 16
backbone.name = "tiny"
"""


def test_a_run_under_torchrun_is_one_run(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run = subprocess.run(
        [*start, "-m", "mlcl.cli", "run", "recipe.toml"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("run folder:") == 1  # the first speaks, and writes
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["run-001"]
    results = json.loads((tmp_path / "runs" / "run-001" / "agcn++" / "results.json").read_text())
    assert results["learnt"] == "2 of 2"


@pytest.mark.parametrize("images", [1, 2, 5, 8])
def test_shares_make_the_batch(images: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every image once, each with what was drawn for it; a batch too small goes to everyone whole."""
    monkeypatch.setattr(ranks, "size", lambda: 3)
    drawn, found = torch.arange(images) * 10, []
    for rank in range(3):
        monkeypatch.setattr(ranks, "rank", lambda rank=rank: rank)
        own = ranks.share(np.arange(images))
        if images < 3:
            assert own.tolist() == list(range(images))
        else:
            assert ranks.mine(drawn, images).tolist() == (own * 10).tolist()
            found += own.tolist()
    assert images < 3 or sorted(found) == list(range(images))


def close(found: Any, expected: Any, tolerance: float) -> None:
    """Trees of numbers."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            close(found[key], expected[key], tolerance)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            close(a, b, tolerance)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=tolerance, abs=tolerance)
    else:
        assert found == expected


if __name__ == "__main__":
    main(Path(sys.argv[1]))
