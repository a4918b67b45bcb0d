import numpy as np
import pytest

from attnclust.mixture import Mixture, sample_prompts
from attnclust.objective import second_moment
from attnclust.population import risk_slopes


# A test at 4 standard errors raises a false alarm 6 times in 100,000 per number compared. At L = 1,
# 2 and 3 other terms of the formula come in; together they pin each.
@pytest.mark.parametrize("length", [1, 2, 3, 12])
@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_slopes_are_means_over_prompts(length, noise):
    rng = np.random.default_rng(0)
    mixture = Mixture(rng.standard_normal((3, 4)), np.array([0.5, 0.3, 0.2]), noise)
    heads = rng.standard_normal((2, 4))
    S = second_moment(sample_prompts(mixture, 50_000, length, rng)[0])
    P = S @ heads.T
    samples = S @ P, P @ (np.swapaxes(P, 1, 2) @ P) + S @ P @ (heads @ P)
    for sample, slope in zip(samples, risk_slopes(mixture, heads, length), strict=True):
        error = sample.std(0, ddof=1) / np.sqrt(len(sample))
        assert (np.abs(sample.mean(0) - slope) < 4 * error).all()


def test_a_prompt_of_no_token_is_refused():
    with pytest.raises(ValueError, match="at least one token"):
        risk_slopes(Mixture.equal(np.eye(2), noise_variance=1.0), np.eye(2), 0.5)
