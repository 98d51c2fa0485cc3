"""Settings that no method can learn with are refused in one line that names the key."""

from __future__ import annotations

from typing import Any

import pytest

from mlcl import learners
from mlcl.config import from_tree
from mlcl.errors import ConfigError


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("lwf", {"lambda1": -0.1}, "lambda1 and lambda2"),
        ("lwf", {"lambda2": -0.1}, "lambda1 and lambda2"),
        ("csc", {"lambda2": -0.1}, "lambda1 and lambda2"),
        ("csc", {"entropy": -0.1}, "entropy"),
        ("csc", {"hidden": 0}, "hidden: a node has"),
        ("ewc", {"strength": -1.0}, "strength: -1.0"),
        ("ewc", {"gamma": 1.5}, "gamma: 1.5 is not within 0 and 1"),
        ("ewc", {"fisher_images": 0}, "fisher_images: at least one"),
        ("er", {"capacity": 0}, "capacity and replay"),
        ("prs", {"replay": 0}, "capacity and replay"),
        ("a-gem", {"capacity": -5}, "capacity and replay"),
        ("scr", {"temperature": 0.0}, "temperature: must be above 0"),
        ("scr", {"projection": 0}, "projection: at least one"),
        ("scr", {"capacity": 0}, "capacity and replay"),
        ("agcn", {"lambda3": -1.0}, "lambda1, lambda2 and lambda3"),
        ("agcn", {"hidden": 0}, "hidden: a node has"),
        ("agcn++", {"lambda1": -1.0}, "lambda1, lambda2 and lambda3"),
        ("agcn++", {"graph_width": 0}, "graph_width: a node has"),
        ("agcn++", {"nodes": "embeddings"}, "readout must be 'dot'"),
        ("agcn++", {"readout": "diagnal"}, "did you mean 'diagonal'"),
        ("agcn", {"propagation": "hard"}, "propagation"),
    ],
)
def test_refused(method: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_tree(learners()[method].Config, settings)
