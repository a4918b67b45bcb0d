from itertools import permutations

import numpy as np
import pytest

from attnclust.scores import external_scores, matched_accuracy


@pytest.mark.parametrize("seed", range(5))
def test_matched_accuracy_is_the_best_over_all_matchings(seed):
    rng = np.random.default_rng(seed)
    known, labels = rng.integers(0, 4, 40), rng.integers(0, 5, 40)
    best = max((np.array(p)[labels] == known).mean() for p in permutations(range(5)))
    assert matched_accuracy(known, labels) == pytest.approx(best)


def test_rows_without_a_known_label_are_left_out():
    known = np.array(["a", "a", None, "b", None], dtype=object)
    assert external_scores(known, np.array([1, 1, 0, 0, 1]))["ari"] == 1


def test_no_rows_have_no_score():
    with pytest.raises(ValueError, match="no rows to score"):
        external_scores([None, None], [0, 1])


def test_numbers_and_words_alike():
    words, numbers = ["x", "y", "x", "z"], [5, 7, 5, 9]
    assert external_scores(words, [0, 1, 1, 2]) == external_scores(numbers, [0, 1, 1, 2])
