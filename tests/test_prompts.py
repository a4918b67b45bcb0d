import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score as ari

import attnclust.prompts as prompts_module
from attnclust import InContextClustering
from attnclust.prompts import Prompts


@pytest.fixture
def ragged():
    """Prompts of many lengths with their own centres, and their labels."""
    rng = np.random.default_rng(0)
    prompts, labels = [], []
    for length in rng.integers(20, 90, 40):
        centres = 3 * rng.standard_normal((3, 5))
        y = np.r_[0, 1, 2, rng.integers(0, 3, length - 3)]
        prompts.append(centres[y] + 0.1 * rng.standard_normal((length, 5)))
        labels.append(y)
    return prompts, labels


def model(**parameters):
    return InContextClustering(3, random_state=0, **parameters)


def test_all_forms_of_the_same_prompts_agree(ragged, monkeypatch):
    prompts, known = ragged
    lists = model().fit_predict(prompts)
    assert isinstance(lists, list)
    assert np.mean([ari(y, p) for y, p in zip(known, lists, strict=True)]) > 0.99
    groups = np.repeat(np.arange(40), [len(p) for p in prompts])
    order = np.random.default_rng(1).permutation(len(groups))
    flat = model().fit_predict(np.concatenate(prompts)[order], groups=groups[order])
    for b, labels in enumerate(lists):
        assert ari(labels, flat[np.argsort(order)][groups == b]) == 1
        assert ari(labels, model().fit_predict(prompts[b])) == 1
    monkeypatch.setattr(prompts_module, "BATCH_ELEMENTS", 1)
    for labels, again in zip(lists, model().fit_predict(prompts), strict=True):
        assert ari(labels, again) == 1


def test_a_batch_gives_an_array_and_attributes_per_prompt(ragged):
    batch = np.array([p[:20] for p in ragged[0]], dtype=np.float32)
    fitted = model().fit(batch)
    assert fitted.labels_.shape == (40, 20)
    assert fitted.cluster_centers_.shape == (40, 3, 5)
    assert fitted.cluster_centers_.dtype == np.float32
    np.testing.assert_allclose(fitted.weights_.sum(1), 1, rtol=1e-5)
    assert fitted.noise_variance_.shape == fitted.log_likelihood_.shape == (40,)
    near = ((batch[:, :, None] - fitted.cluster_centers_[:, None]) ** 2).sum(3).argmin(2)
    assert (near == fitted.labels_).mean() > 0.99
    again = clone(fitted).fit(batch)
    np.testing.assert_array_equal(again.cluster_centers_, fitted.cluster_centers_)


def test_groups_are_named(ragged):
    tokens = np.concatenate(ragged[0][:2])
    groups = np.repeat(["b", "a"], [len(p) for p in ragged[0][:2]])
    fitted = model().fit(tokens, groups=groups)
    assert list(fitted.groups_) == ["a", "b"]
    own = np.array([tokens[(groups == "a") & (fitted.labels_ == k)].mean(0) for k in range(3)])
    np.testing.assert_allclose(fitted.cluster_centers_[0], own, atol=1e-3)


def test_batches_cover_every_token_once(ragged):
    given = Prompts.of(ragged[0])
    seen = [b for chosen, _, _ in given.batches() for b in chosen]
    assert sorted(seen) == list(range(40))
    for chosen, tokens, present in given.batches():
        for b, own, mask in zip(chosen, tokens, present, strict=True):
            np.testing.assert_array_equal(own[mask > 0], ragged[0][b])


def test_bad_input_names_the_prompt(ragged):
    prompts, _ = ragged
    bad = [*prompts[:2], prompts[2].copy()]
    bad[2][7, 3] = np.nan
    lengths = [len(p) for p in prompts[:2]]
    for given, message, options in [
        (bad, "prompt 2 contains NaN or infinity at its token 7, column 3", {}),
        ([prompts[0], prompts[1][:, :2]], "prompt 1 has 2 features where prompt 0 has 5", {}),
        ([prompts[0], prompts[1][:2]], "prompt 1 has 2 tokens, fewer than n_clusters=3", {}),
        ([prompts[0], prompts[1][:0]], "prompt 1 has shape", {}),
        (np.ones((2, 9, 2)), "n_clusters=3 is more than the 2 features", {}),
        (np.ones(5), "expected", {}),
        (np.array([["a", "b"]] * 4), "real numbers", {}),
        (prompts[0], "groups has shape", {"groups": [1, 2]}),
        (
            np.concatenate(prompts[:2])[:-1] * np.r_[np.ones(sum(lengths) - 2), np.nan][:, None],
            "group 'y' contains NaN",
            {"groups": np.repeat(["x", "y"], lengths)[:-1]},
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            model().fit(given, **options)
    with pytest.raises(ValueError, match="n_clusters must be"):
        InContextClustering(0).fit(prompts)
