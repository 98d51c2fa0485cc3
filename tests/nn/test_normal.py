"""Normal equations against scikit-learn, numpy and cases that a person can check."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as Reference
from torch import Tensor

from mlcl.errors import RunError
from mlcl.nn.normal import STRIP, Fit, NormalEquations, fill_in_past, solve, symmetric


def with_one(x: Tensor) -> Tensor:
    return torch.cat([x, x.new_ones(len(x), 1)], dim=1)


def sums_of(x: Tensor, y: Tensor) -> NormalEquations:
    sums = NormalEquations(x.shape[1], y.shape[1])
    sums.add(with_one(x), y)
    return sums


def random_task(n: int = 200, d: int = 6, s: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=chance, dtype=torch.float64) * torch.arange(1, d + 1) + 2
    y = (x[:, :s] + 3 * torch.randn(n, s, generator=chance, dtype=torch.float64) > 3).double()
    return x, y


def test_one_feature_by_hand() -> None:
    """x -1, 1 and y 0, 1: centred, sum of xy is 1 and of xx 2; variance 1, so a penalty of 2 halves 1 / 2."""
    fit = solve(sums_of(torch.tensor([[-1.0], [1.0]]), torch.tensor([[0.0], [1.0]])), [2.0])
    torch.testing.assert_close(fit.weights, torch.tensor([[0.25], [0.5]], dtype=torch.float64))


@pytest.mark.parametrize("penalty", [0.5, 50.0])
def test_equals_scikit_learn_on_standardised_features(penalty: float) -> None:
    x, y = random_task()
    fit = solve(sums_of(x, y), [penalty])
    scaled = (x - x.mean(0)) / x.std(0, correction=0)
    expected = Reference(alpha=penalty).fit(scaled.numpy(), y.numpy()).predict(scaled.numpy())
    np.testing.assert_allclose((with_one(x) @ fit.weights).numpy(), expected, atol=1e-8)


def test_units_of_features_do_not_matter() -> None:
    x, y = random_task()
    units = torch.tensor([1e-4, 1.0, 1e3, 1.0, 7.0, 1e-2], dtype=torch.float64)
    a, b = solve(sums_of(x, y), [30.0]), solve(sums_of(x * units, y), [30.0])
    torch.testing.assert_close(with_one(x) @ a.weights, with_one(x * units) @ b.weights, atol=1e-7, rtol=0)


def test_sums_add_up_whatever_the_parts_and_come_off_again() -> None:
    x, y = random_task()
    whole, parts, other = sums_of(x, y), NormalEquations(6, 3), sums_of(x[150:], y[150:])
    for a in range(0, 150, 7):
        part = slice(a, min(a + 7, 150))
        parts.add(with_one(x[part]), y[part])
    parts.merge(other)
    for key, value in whole.tensors().items():
        torch.testing.assert_close(parts.tensors()[key], value)
    parts.merge(other, sign=-1)
    whole.add(with_one(x[150:]), y[150:], sign=-1)
    for key, value in sums_of(x[:150], y[:150]).tensors().items():
        torch.testing.assert_close(parts.tensors()[key], value, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(whole.tensors()[key], value, atol=1e-9, rtol=1e-9)


def test_new_columns_count_every_earlier_image_as_a_negative() -> None:
    x, y = random_task()
    sums = sums_of(x[:100], y[:100, :1])
    sums.grow(3)
    sums.add(with_one(x[100:]), y[100:])
    filled = y.clone()
    filled[:100, 1:] = 0
    torch.testing.assert_close(solve(sums, [5.0]).weights, solve(sums_of(x, filled), [5.0]).weights)


def test_strips_make_the_lower_triangle() -> None:
    x = torch.randn(3, STRIP + 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z = with_one(x)
    gram = sums_of(x, torch.zeros(3, 1)).gram
    torch.testing.assert_close(gram.tril(), (z.T @ z).tril())
    torch.testing.assert_close(symmetric(gram, z.T), z.T @ (z @ z.T))


def test_the_penalty_is_that_of_generalised_cross_validation() -> None:
    chance = torch.Generator().manual_seed(0)
    x = torch.randn(60, 20, generator=chance, dtype=torch.float64)
    x = (x - x.mean(0)) / x.std(0, correction=0)
    noise = torch.randn(60, 2, generator=chance, dtype=torch.float64)
    y = (x[:, :4] @ torch.ones(4, 2, dtype=torch.float64) + torch.tensor([1.0, 6.0]) * noise > 0).double()
    z, penalties = with_one(x), [0.1, 3.0, 20.0, 100.0, 10000.0]
    errors, leverages = [], []
    for penalty in penalties:
        damped = z.T @ z + penalty * torch.diag(torch.tensor([1.0] * 20 + [0.0], dtype=torch.float64))
        hat = z @ torch.linalg.solve(damped, z.T)
        leverages.append(hat.trace() / 60)
        errors.append(((y - hat @ y) / (1 - leverages[-1])).square().sum(0))
    table = torch.stack(errors)
    together, each = solve(sums_of(x, y), penalties), solve(sums_of(x, y), penalties, classwise=True)
    best = int(table.sum(1).argmin())
    assert 0 < best < len(penalties) - 1  # or the case would show nothing
    assert set(together.penalty.tolist()) == {penalties[best]}
    assert each.penalty.tolist() == [penalties[i] for i in table.argmin(0)]
    estimated = float(together.leverage[0])
    assert estimated == pytest.approx(float(leverages[best]), rel=0.15)  # by random vectors
    for further in ([1e-6, 1e-5, 1e-4, 1e-3], [1e5, 1e6, 1e7, 1e8]):  # a walk of several steps, either way
        walked = solve(sums_of(x, y), [*further, *penalties])
        torch.testing.assert_close(walked.weights, together.weights)


def test_probabilities_from_sums_are_as_good_as_a_logistic_fit_on_scores() -> None:
    """Few images for many features, so that scores on the training images flatter themselves."""
    chance = np.random.default_rng(0)
    y = (chance.random((2400, 1)) < 0.2).astype(float)
    x = chance.normal(size=(2400, 40)) + y * chance.normal(size=40) * 0.4
    train, test = slice(400), slice(400, None)
    fit = solve(sums_of(torch.from_numpy(x[train]), torch.from_numpy(y[train])), [3.0, 30.0])
    scores = with_one(torch.from_numpy(x)) @ fit.weights
    p = fit.probabilities(scores)[test].numpy()
    rest = scores[test].numpy()
    best = LogisticRegression(C=1e6).fit(rest, y[test, 0]).predict_proba(rest)[:, 1:]  # has seen the test

    def log_loss(q: np.ndarray) -> float:
        return float(-np.mean(y[test] * np.log(q) + (1 - y[test]) * np.log(1 - q)))

    assert log_loss(p) < 1.03 * log_loss(best)
    assert p.mean() == pytest.approx(y[test].mean(), abs=0.03)


def test_probabilities_tell_apart_what_scores_tell_apart() -> None:
    """Even of a rare class, whose slope is steep, and in float32."""
    one = torch.ones(1, dtype=torch.float64)
    fit = Fit(one[:, None], 200 * one, -6 * one, one, one, one)
    p = fit.probabilities(torch.linspace(-0.5, 1.2, 851, dtype=torch.float64)[:, None]).float()
    assert (p.diff(dim=0) > 0).all()
    assert fit.probabilities(0.03 * one).item() == pytest.approx(0.5)
    assert fit.probabilities(0.04 * one).item() == pytest.approx(1 / (1 + np.exp(-2)))


def test_a_class_without_a_positive_is_unlikely_and_finite() -> None:
    x, y = random_task()
    y[:, 1] = 0
    fit = solve(sums_of(x, y), [10.0])
    p = fit.probabilities(with_one(x) @ fit.weights)
    assert torch.isfinite(p).all()
    assert (p[:, 1] < 0.05).all()


def test_the_past_filled_in_whole_is_as_if_it_had_not_been_asked() -> None:
    x, y = random_task()
    sums = sums_of(x[:100], y[:100, :1])
    sums.grow(3)
    before = sums.clone()
    sums.add(with_one(x[100:]), y[100:])
    fill_in_past(sums, before, 1, 1.0, 1e-9)
    filled = solve(sums, [1e-9]).weights
    alone = np.linalg.lstsq(with_one(x[100:]).numpy(), y[100:, 1:].numpy(), rcond=None)[0]
    np.testing.assert_allclose(filled[:, 1:].numpy(), alone, atol=1e-7)
    kept = y.clone()
    kept[:100, 1:] = 0
    torch.testing.assert_close(filled[:, :1], solve(sums_of(x, kept), [1e-9]).weights[:, :1])
    said = with_one(x[:100]).numpy() @ alone  # what it was filled in with
    expected = y[100:, 1:].square().sum(0).numpy() + np.square(said).sum(0)
    np.testing.assert_allclose(sums.square[1:].numpy(), expected, rtol=1e-6)


def test_what_has_no_solution_is_said() -> None:
    x, y = random_task()
    x[0, 0] = float("nan")
    with pytest.raises(RunError, match="not finite"):
        solve(sums_of(x, y), [1.0])
