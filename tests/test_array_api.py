"""The batched functions on arrays of other libraries give NumPy's answers."""

import numpy as np
import pytest

from attnclust import attention
from attnclust.arrays import to_host
from attnclust.incontext import choose_clusters, cluster_prompts

rng = np.random.default_rng(0)
CENTRES = rng.standard_normal((6, 3, 8))
LABELS = rng.integers(0, 3, (6, 40))
TOKENS = np.take_along_axis(CENTRES, LABELS[..., None], 1) + 0.2 * rng.standard_normal((6, 40, 8))
PRESENT = (np.arange(40) < np.array([40, 35, 30, 40, 12, 20])[:, None]).astype(float)


@pytest.fixture(params=["array_api_strict", "torch"])
def xp(request):
    return pytest.importorskip(request.param)


def test_forward_maps(xp):
    given, heads = xp.asarray(TOKENS), xp.asarray(CENTRES)
    plain = xp.asarray(PRESENT)
    weights = np.log(np.full((6, 3), 1 / 3))
    for ours, theirs in [
        (
            attention.linear_attention(TOKENS, CENTRES, 0.7),
            attention.linear_attention(given, heads, 0.7),
        ),
        (
            attention.in_context_attention(TOKENS, 0.7),
            attention.in_context_attention(given, 0.7),
        ),
        (attention.quantise(TOKENS, PRESENT), attention.quantise(given, plain)),
        (
            attention.softmax_attention(TOKENS, CENTRES, weights, 0.1),
            attention.softmax_attention(given, heads, xp.asarray(weights), 0.1),
        ),
    ]:
        assert type(theirs) is type(given)
        np.testing.assert_allclose(to_host(theirs), ours, rtol=1e-10, atol=1e-12)


# Either Gram side: more tokens than dimensions, and fewer.
@pytest.mark.parametrize("length", [40, 6])
def test_clusters(xp, length):
    tokens, present = TOKENS[:, :length], np.minimum(PRESENT, 1)[:, :length]
    ours = cluster_prompts(tokens, present, 2, np.random.default_rng(1))
    theirs = cluster_prompts(xp.asarray(tokens), xp.asarray(present), 2, np.random.default_rng(1))
    assert type(theirs.centroids) is type(xp.asarray(tokens))
    np.testing.assert_allclose(to_host(theirs.centroids), ours.centroids, atol=1e-8)
    np.testing.assert_array_equal(to_host(theirs.labels), ours.labels)


def test_numbers_of_clusters(xp):
    ours = choose_clusters(TOKENS, PRESENT, np.random.default_rng(1))
    theirs = choose_clusters(xp.asarray(TOKENS), xp.asarray(PRESENT), np.random.default_rng(1))
    assert len(ours) == len(theirs)
    for (where, own), (place, other) in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(where, place)
        np.testing.assert_allclose(to_host(other.weights), own.weights, atol=1e-8)
