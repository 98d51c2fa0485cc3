from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

from mlcl.errors import DataError
from mlcl.metrics import (
    METRICS,
    Scores,
    aggregate,
    average_precision,
    evaluate,
    forgetting,
    none_for_nan,
    summarise,
)

NAN = math.nan

# Every number about these five images can be checked by hand; at 0.5:
#
#          predicted  correct  positive  precision  recall  F1
#   cat        2         1        2         1/2      1/2    1/2
#   dog        0         0        1         0 (D15)  0      0
#   sky        4         3        3         3/4      1      6/7
#   owl        2         0        0         left out of the means, but not of OP
NAMES = ["cat", "dog", "sky", "owl"]
P = np.array(
    [
        [0.9, 0.4, 0.9, 0.1],
        [0.8, 0.3, 0.8, 0.6],
        [0.4, 0.2, 0.7, 0.7],
        [0.3, 0.1, 0.6, 0.2],
        [0.2, 0.0, 0.1, 0.3],
    ]
)
Y = np.array([[1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])
AP = [(1 / 1 + 2 / 3) / 2, 1 / 2, (1 + 1 + 3 / 4) / 3, NAN]


def masked_twins(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores and targets, their mask, and the same with nonsense under the mask."""
    rng = np.random.default_rng(seed)
    scores, targets = rng.random((30, 4)).round(1), rng.integers(0, 2, (30, 4))
    known = rng.random((30, 4)) < 0.6
    nonsense = np.where(known, scores, rng.choice([NAN, -7.0, 0.5, 7.0], (30, 4)))
    return scores, targets, known, nonsense, np.where(known, targets, rng.choice([-1, 0, 1, 255], (30, 4)))


# --- average precision


def assert_like_sklearn(scores: np.ndarray, targets: np.ndarray) -> None:
    expected = [
        average_precision_score(targets[:, c], scores[:, c]) if targets[:, c].any() else NAN
        for c in range(scores.shape[1])
    ]
    np.testing.assert_allclose(average_precision(scores, targets), expected, rtol=1e-12)


@settings(deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    images=st.integers(1, 60),
    classes=st.integers(1, 5),
    levels=st.sampled_from([1, 2, 3, 10, None]),  # how many different scores there are; None: no ties
    positives=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_ap_is_scikit_learns(
    seed: int, images: int, classes: int, levels: int | None, positives: float, dtype: type
) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.random((images, classes))
    scores = scores if levels is None else np.floor(scores * levels) / levels
    assert_like_sklearn(scores.astype(dtype), (rng.random((images, classes)) < positives).astype(np.uint8))


@settings(deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=20))
def test_ap_is_scikit_learns_on_neighbouring_floats(rows: list[tuple[float, bool]]) -> None:
    scores, targets = (np.array(column)[:, None] for column in zip(*rows, strict=True))
    assert_like_sklearn(
        np.concatenate([scores, np.nextafter(scores, 2)]), np.concatenate([targets, ~targets])
    )


@pytest.mark.parametrize(
    ("scores", "targets", "expected"),
    [
        ([0.9, 0.8, 0.7, 0.6], [1, 1, 0, 0], 1),
        ([0.6, 0.7, 0.8, 0.9], [1, 0, 0, 0], 1 / 4),  # a single positive, last
        ([0.9, 0.8, 0.7, 0.6], [0, 1, 0, 1], (1 / 2 + 2 / 4) / 2),
        ([0.5, 0.5, 0.5, 0.5], [1, 0, 0, 0], 1 / 4),  # all equal: the share of positives
        ([0.9, 0.5, 0.5, 0.1], [1, 1, 0, 0], (1 / 1 + 2 / 3) / 2),  # a tie counts whole
        ([0.1, 0.2, 0.3, 0.4], [1, 1, 1, 1], 1),
        ([0.1, 0.2, 0.3, 0.4], [0, 0, 0, 0], NAN),
    ],
)
def test_ap_by_hand(scores: list[float], targets: list[int], expected: float) -> None:
    ap = average_precision(np.array(scores)[:, None], np.array(targets)[:, None])
    np.testing.assert_allclose(ap, [expected])


def test_ap_of_each_class_is_its_own() -> None:
    np.testing.assert_allclose(average_precision(P, Y), AP)


# --- all metrics of one test set


def test_evaluate_by_hand() -> None:
    cp, cr = (1 / 2 + 0 + 3 / 4) / 3, (1 / 2 + 0 + 1) / 3
    op, or_ = 4 / 8, 4 / 6  # over all four classes
    expected = {
        "mAP": sum(AP[:3]) / 3,
        "CP": cp,
        "CR": cr,
        "CF1": 2 * cp * cr / (cp + cr),
        "OP": op,
        "OR": or_,
        "OF1": 2 * op * or_ / (op + or_),
        "F1": (1 / 2 + 0 + 6 / 7) / 3,
    }
    result = evaluate(P, Y)
    assert result == pytest.approx(expected)
    assert tuple(result) == METRICS
    assert all(type(value) is float for value in result.values())


def test_evaluate_is_scikit_learns_where_every_class_has_a_positive() -> None:
    rng = np.random.default_rng(0)
    scores, targets = rng.random((200, 6)), (rng.random((200, 6)) < 0.2).astype(int)
    assert targets.any(axis=0).all()
    result = evaluate(scores, targets, threshold=0.7)
    for average, names in (("macro", ("CP", "CR", "F1")), ("micro", ("OP", "OR", "OF1"))):
        *expected, _ = precision_recall_fscore_support(targets, scores >= 0.7, average=average)
        assert [result[name] for name in names] == pytest.approx(expected)


def test_a_score_at_the_threshold_is_a_prediction_in_any_precision() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        scores = np.array([[0.7]], dtype=dtype)
        for threshold in (0.7, np.array([0.7])):
            assert evaluate(scores, np.array([[1]]), threshold=threshold)["OR"] == 1


def test_one_threshold_a_class() -> None:
    result = evaluate(P, Y, threshold=np.array([0.85, 0.3, 0.99, 0.99]))  # correct 1, 1, 0, 0 of 1, 2, 0, 0
    assert (result["CP"], result["OP"]) == pytest.approx(((1 + 1 / 2 + 0) / 3, 2 / 3))
    assert (result["CR"], result["OR"]) == pytest.approx(((1 / 2 + 1 + 0) / 3, 2 / 6))


def test_hard_predictions_are_scores() -> None:
    assert evaluate(Y, Y) == dict.fromkeys(METRICS, 1.0)
    assert evaluate(Y.astype(bool), Y.astype(bool)) == dict.fromkeys(METRICS, 1.0)


def test_nothing_predicted_is_zero() -> None:
    result = evaluate(P, Y, threshold=2.0)
    assert [result[name] for name in METRICS[1:]] == [0] * 7


def test_no_positive_at_all_has_no_meaning() -> None:
    """Except for OP: those predictions are wrong, whatever the ground truth holds elsewhere."""
    result = evaluate(P, np.zeros_like(Y))
    assert [name for name in METRICS if not math.isnan(result[name])] == ["OP"]
    assert result["OP"] == 0


# --- partly known labels


@pytest.mark.parametrize("seed", range(20))
def test_what_is_unknown_changes_nothing(seed: int) -> None:
    scores, targets, known, wild_scores, wild_targets = masked_twins(seed)
    before = Scores.of(scores, targets, NAMES, known)
    after = Scores.of(wild_scores, wild_targets, NAMES, known)
    assert before.to_json() == after.to_json()


@pytest.mark.parametrize("seed", range(5))
def test_a_masked_column_is_the_column_of_its_known_images(seed: int) -> None:
    scores, targets, known, *_ = masked_twins(seed)
    for c in range(scores.shape[1]):
        rows = known[:, c]
        alone = evaluate(scores[rows, c : c + 1], targets[rows, c : c + 1])
        column = slice(c, c + 1)
        assert evaluate(scores[:, column], targets[:, column], known[:, column]) == alone


def test_known_by_hand() -> None:
    """Without the second image: cat 1 of 1 correct, dog has no positive left, sky 2 of 3, owl 0 of 1."""
    known = np.ones_like(Y, dtype=bool)
    known[1] = False
    result = Scores.of(P, Y, NAMES, known)
    assert result.left_out == ("dog", "owl")
    assert result.metrics["CP"] == pytest.approx((1 + 2 / 3) / 2)
    assert result.metrics["OP"] == pytest.approx(3 / 5)
    assert result.metrics["OR"] == pytest.approx(3 / 4)
    assert result.metrics["mAP"] == pytest.approx((1 + (1 + 2 / 3) / 2) / 2)


# --- errors


def test_errors_say_what_and_where() -> None:
    with pytest.raises(DataError, match=r"\(images, classes\), got \(5, 4\), \(5, 3\) and \(5, 3\)"):
        evaluate(P, Y[:, :3])
    with pytest.raises(DataError, match="one shape"):
        evaluate(P[:, 0], Y[:, 0])
    with pytest.raises(DataError, match="0 or 1 where known, got -1"):
        average_precision(P, np.where(Y == 0, -1, 1))
    diverged = P.copy()
    diverged[3, 2] = NAN
    with pytest.raises(DataError, match="nan in column 2: has the learner diverged"):
        evaluate(diverged, Y)


# --- Scores


def test_scores_as_json() -> None:
    data = json.loads(json.dumps(Scores.of(P, Y, NAMES).to_json(), allow_nan=False))
    assert data == {
        **evaluate(P, Y),
        "ap": dict(zip(NAMES, [*AP[:3], None], strict=True)),
        "left_out": ["owl"],
    }
    assert list(data)[:8] == list(METRICS)
    assert list(data["ap"]) == NAMES
    assert Scores.of(P, np.zeros_like(Y), NAMES).to_json()["mAP"] is None


def test_scores_want_a_name_for_each_column() -> None:
    with pytest.raises(ValueError, match="zip"):
        Scores.of(P, Y, NAMES[:3])


# --- over tasks
#
# test set      0    1    2
# after task 0  .50
# after task 1  .80  .40
# after task 2  .60  .50  .30

A = np.array([[0.5, NAN, NAN], [0.8, 0.4, NAN], [0.6, 0.5, 0.3]])
JOINT = np.array([[NAN, NAN, NAN], [NAN, NAN, NAN], [0.6, 0.5, 0.3]])


def test_forgetting_by_hand() -> None:
    assert forgetting(A) == pytest.approx(
        {
            "absolute": (0.2 - 0.1) / 2,  # test 1 improved, and that is kept
            "relative_max": (0.2 / 0.8 - 0.1 / 0.4) / 2,
            "relative_first": (-0.1 / 0.5 - 0.1 / 0.4) / 2,
        },
        abs=1e-12,
    )


def test_the_maximum_is_over_all_tasks_but_the_last() -> None:
    a = np.full((4, 4), 0.5)
    a[:, 0] = [0.1, 0.9, 0.2, 0.3]
    assert forgetting(a)["absolute"] == pytest.approx((0.6 + 0 + 0) / 3)
    a[3, 0] = 1.0  # better than ever: compared with 0.9, not with itself
    assert forgetting(a)["absolute"] == pytest.approx((-0.1 + 0 + 0) / 3)


def test_a_test_set_that_was_not_yet_learned_is_not_read() -> None:
    early = np.where(np.isnan(A), 0.99, A)
    assert forgetting(early) == forgetting(A)
    assert aggregate(early) == aggregate(A)


def test_forgetting_after_an_earlier_task() -> None:
    assert forgetting(A[:2, :2])["absolute"] == pytest.approx(-0.3)


def test_a_share_of_nothing_is_left_out() -> None:
    a = A.copy()
    a[:2, 0] = 0
    result = forgetting(a)
    assert result["relative_max"] == result["relative_first"] == pytest.approx(-0.1 / 0.4)
    assert result["absolute"] == pytest.approx((-0.6 - 0.1) / 2)
    a[1, 1] = 0
    assert math.isnan(forgetting(a)["relative_max"])


def test_one_task_has_no_forgetting() -> None:
    one = np.array([[0.7]])
    assert all(math.isnan(value) for value in forgetting(one).values())
    assert aggregate(one) == {"final": 0.7, "mean_over_tests": 0.7, "incremental": 0.7}


def test_a_joint_learner_has_no_past() -> None:
    assert all(math.isnan(value) for value in forgetting(JOINT).values())
    assert none_for_nan(aggregate(JOINT)) == {
        "final": 0.3,
        "mean_over_tests": pytest.approx(1.4 / 3),
        "incremental": None,
    }


def test_a_missing_value_is_not_averaged_around() -> None:
    a = A.copy()
    a[1, 0] = NAN  # only the forms that ask for it are lost
    result = forgetting(a)
    assert math.isnan(result["absolute"])
    assert result["relative_first"] == forgetting(A)["relative_first"]
    a[2, 1] = NAN
    assert math.isnan(forgetting(a)["relative_first"])
    assert math.isnan(aggregate(a)["mean_over_tests"])


def test_aggregate_by_hand() -> None:
    assert aggregate(A) == pytest.approx(
        {"final": 0.3, "mean_over_tests": (0.6 + 0.5 + 0.3) / 3, "incremental": (0.5 + 0.4 + 0.3) / 3}
    )


def test_summary_is_a_flat_row_for_json() -> None:
    forms = {f"forgetting_{form}": value for form, value in forgetting(A).items()}
    assert summarise(A) == aggregate(A) | forms
    joint = json.loads(json.dumps(summarise(JOINT), allow_nan=False))
    assert list(joint) == list(summarise(A))
    assert [name for name, value in joint.items() if value is not None] == ["final", "mean_over_tests"]
