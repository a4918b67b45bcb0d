import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score as ari

import attnclust.prompts as prompts_module
from attnclust import InContextAttention, InContextClustering
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


def test_batches_cover_every_token_once(ragged, monkeypatch):
    monkeypatch.setattr(prompts_module, "BATCH_ELEMENTS", 2000)
    given = Prompts.of(ragged[0])
    batches = list(given.batches(np.arange(40)))
    assert 5 < len(batches) < 40
    assert sorted(b for which, *_ in batches for b in which) == list(range(40))
    for which, where, tokens, present in batches:
        assert len(which) == 1 or tokens.size <= 2000
        np.testing.assert_array_equal(tokens, given.tokens[where])
        for b, own, mask in zip(which, tokens, present, strict=True):
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
        (np.ones((3, 2)), "token 1 has no group", {"groups": ["a", None, "b"]}),
        (np.ones((3, 2)), "token 2 has no group", {"groups": [1.0, 2.0, np.nan]}),
        (np.float32(1e30) * np.ones((9, 4), np.float32), "prompt 0 is too large to square", {}),
    ]:
        with pytest.raises(ValueError, match=message):
            model().fit(given, **options)
    with pytest.raises(ValueError, match="n_clusters must be"):
        InContextClustering(0).fit(prompts)


def test_the_number_of_clusters_is_chosen_for_each_prompt():
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 5, 60)
    prompts, known = [], []
    for k in counts:
        y = rng.integers(0, k, rng.integers(40, 80))
        centres = rng.standard_normal((k, 12))
        prompts.append(centres[y] + 0.2 * rng.standard_normal((len(y), 12)))
        known.append(y)
    fitted = InContextClustering(random_state=0).fit(prompts)
    assert (fitted.n_clusters_ == counts).mean() > 0.95
    assert fitted.cluster_centers_.shape == (60, fitted.n_clusters_.max(), 12)
    for b in range(60):
        k = fitted.n_clusters_[b]
        assert np.isnan(fitted.cluster_centers_[b, k:]).all()
        assert (fitted.weights_[b, k:] == 0).all()
        assert fitted.weights_[b].sum() == pytest.approx(1)
        assert set(fitted.labels_[b]) <= set(range(k))
        if k == counts[b]:
            assert ari(known[b], fitted.labels_[b]) > 0.9


def test_pure_noise_is_one_cluster():
    noise = np.random.default_rng(0).standard_normal((50, 60, 8))
    assert (InContextClustering(random_state=0).fit(noise).n_clusters_ == 1).mean() > 0.95


def test_faulty_prompts_are_skipped_if_asked(ragged):
    prompts, _ = ragged
    bad = [prompts[0], prompts[1].copy(), prompts[2][:2], prompts[3]]
    bad[1][3, 2] = np.inf
    fitted = model(on_error="skip").fit(bad)
    alone = model().fit([prompts[0], prompts[3]])
    for mine, own in ((0, 0), (3, 1)):
        np.testing.assert_array_equal(fitted.labels_[mine], alone.labels_[own])
        np.testing.assert_array_equal(fitted.cluster_centers_[mine], alone.cluster_centers_[own])
    assert (np.concatenate(fitted.labels_[1:3]) == -1).all()
    np.testing.assert_array_equal(fitted.n_clusters_, [3, 0, 0, 3])
    assert set(fitted.errors_) == {1, 2}
    assert "token 3, column 2" in fitted.errors_[1]
    with pytest.raises(ValueError, match="on_error must be one of"):
        model(on_error="ignore").fit(prompts)


def test_all_skipped_is_an_answer_too():
    fitted = model(on_error="skip").fit(np.full((2, 5, 3), np.nan))
    assert (fitted.labels_ == -1).all()
    assert fitted.cluster_centers_.shape == (2, 0, 3)


def quantised(prompt, c):
    """The layer by its definition."""
    return np.array([c / len(prompt) * sum((x @ y) * y for y in prompt) for x in prompt])


def test_the_transformer_is_the_layer_on_each_prompt(ragged):
    prompts = ragged[0][:5]
    out = InContextAttention(temperature=0.3).fit_transform(prompts)
    for prompt, own in zip(prompts, out, strict=True):
        np.testing.assert_allclose(own, quantised(prompt, 0.3))
        alone = InContextAttention(temperature=0.3).transform(prompt)
        np.testing.assert_allclose(own, alone)
    groups = np.repeat(np.arange(5), [len(p) for p in prompts])
    order = np.random.default_rng(1).permutation(len(groups))
    flat = InContextAttention(temperature=0.3).transform(
        np.concatenate(prompts)[order], groups=groups[order]
    )
    np.testing.assert_allclose(flat, np.concatenate(out)[order])


def test_auto_keeps_the_signal_and_layers_sharpen_it():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, (20, 300))
    tokens = np.eye(30)[y] + 0.1 * rng.standard_normal((20, 300, 30))
    spreads = []
    for n_layers in (1, 2, 3):
        out = InContextAttention(n_layers).fit_transform(tokens)
        means = [[out[b][y[b] == k].mean(0) for k in range(3)] for b in range(20)]
        own = np.take_along_axis(np.array(means), y[..., None], 1)
        np.testing.assert_allclose((own**2).sum(2).mean(), 1, atol=0.02)
        spreads.append(np.mean((out - own) ** 2))
    assert 0.01 > spreads[0] > spreads[1] > spreads[2]
    # Without a scale of its own for each layer the tokens shrink.
    small = InContextAttention(3, temperature=1.0).fit_transform(tokens)
    assert np.linalg.norm(small, axis=2).mean() < 0.2


def test_the_transformer_refuses_what_it_cannot_do(ragged):
    with pytest.raises(ValueError, match="n_layers must be an integer of at least 1"):
        InContextAttention(0).fit_transform(ragged[0])
    with pytest.raises(ValueError, match="temperature must be"):
        InContextAttention(temperature="hot").fit_transform(ragged[0])
    with pytest.raises(ValueError, match="prompt 0 contains NaN"):
        InContextAttention().transform(np.full((3, 2), np.nan))
