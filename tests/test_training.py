import numpy as np
import pytest

from attnclust.manifold import alignment, random_heads, random_orthonormal
from attnclust.mixture import Mixture, sample_prompts
from attnclust.objective import REGULARIZERS, reconstruction_risk, second_moment
from attnclust.theory import optimal_temperature
from attnclust.training import train_heads


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def setting(rng, sigma=0.3, n_runs=4, dim=5, n_clusters=2, length=30, n_prompts=16):
    """Runs of orthonormal centres each its own, prompts from them, and half of c*(L)."""
    centroids = random_orthonormal(rng, n_clusters, dim, (n_runs,))
    mixture = Mixture.equal(centroids[:, None], noise_variance=sigma**2)
    half = optimal_temperature(Mixture.equal(centroids, noise_variance=sigma**2), centroids, length)

    def prompts(_step):
        return sample_prompts(mixture, n_prompts, length, rng)[0]

    return centroids, prompts, half / 2


@pytest.mark.parametrize("sigma", [0.0, 0.3, 1.0])
def test_random_starts_end_at_the_centres(rng, sigma):
    centroids, prompts, half = setting(rng, sigma)
    start = random_heads(rng, (4, 2, 5))
    rate = {"n_steps": 1500, "step_size": 0.1} if sigma < 1 else {"n_steps": 2000}
    result = train_heads(prompts, start, temperature=half, **rate)
    assert np.median(alignment(result.heads, centroids)) > 0.999
    assert alignment(result.heads, centroids).min() > 0.99


def test_without_a_regularizer_heads_stop_at_a_rotation_of_the_centres(rng):
    centroids, prompts, half = setting(rng, n_runs=6)
    start = random_heads(rng, (6, 2, 5))
    result = train_heads(prompts, start, temperature=half, strength=0.0, n_steps=800, step_size=0.1)
    cosines = np.linalg.svd(result.heads @ np.swapaxes(centroids, -1, -2), compute_uv=False)
    assert cosines.min() > 0.99  # the plane is found
    assert np.median(alignment(result.heads, centroids)) < 0.99  # the centres are not


def test_product_regularizer_and_three_heads(rng):
    centroids, prompts, half = setting(rng, n_clusters=3)
    start = random_heads(rng, (4, 3, 5))
    result = train_heads(
        prompts, start, temperature=half, regularizer="product", strength=5.0, n_steps=2000
    )
    assert np.median(alignment(result.heads, centroids)) > 0.999


def test_euclidean_descent_finds_the_same_directions(rng):
    centroids, prompts, half = setting(rng)
    start = random_heads(rng, (4, 2, 5))
    result = train_heads(prompts, start, temperature=half, descent="euclidean", n_steps=1500)
    assert np.median(alignment(result.heads, centroids)) > 0.999
    # Off the sphere the heads grow to make up for half of the scale.
    np.testing.assert_allclose(np.linalg.norm(result.heads, axis=-1), np.sqrt(2), rtol=0.1)


@pytest.mark.parametrize("descent", ["riemannian", "euclidean"])
@pytest.mark.parametrize("schedule", ["vanishing", "fixed"])
@pytest.mark.parametrize("name", REGULARIZERS)
def test_the_path_follows_numerical_gradients(rng, descent, schedule, name):
    tokens = rng.standard_normal((3, 8, 4))
    heads = start = random_heads(rng, (2, 4))
    result = train_heads(
        lambda step: tokens,
        start,
        temperature=0.2,
        regularizer=name,
        strength=0.7,
        schedule=schedule,
        n_steps=3,
        descent=descent,
        record=1,
    )
    S = second_moment(tokens)
    for step in range(3):
        rho = 0.7 * ((1 - step / 3) ** 2 if schedule == "vanishing" else 1)

        def objective(A, rho=rho):
            u = (tokens @ A.T).reshape(-1, 2)
            return reconstruction_risk(S, A, 0.2) + rho * REGULARIZERS[name].value(u)

        gradient = np.empty_like(heads)
        for place in np.ndindex(heads.shape):
            moved = np.zeros_like(heads)
            moved[place] = 1e-5
            gradient[place] = (objective(heads + moved) - objective(heads - moved)) / 2e-5
        if descent == "riemannian":
            gradient -= (gradient * heads).sum(1, keepdims=True) * heads
        np.testing.assert_allclose(result.history.heads[step], heads, atol=1e-8)
        np.testing.assert_allclose(
            result.history.gradient_norm[step], np.linalg.norm(gradient), rtol=1e-6
        )
        heads = heads - 0.05 * gradient
        if descent == "riemannian":
            heads = heads / np.linalg.norm(heads, axis=1, keepdims=True)
    np.testing.assert_allclose(result.heads, heads, atol=1e-8)
    np.testing.assert_allclose(result.history.risk[0], reconstruction_risk(S, start, 0.2))


def test_runs_in_a_batch_do_not_meet(rng):
    tokens, start = rng.standard_normal((3, 2, 8, 4)), random_heads(rng, (3, 2, 4))
    scales, strengths = np.array([0.1, 0.2, 0.3]), np.array([0.0, 0.5, 1.0])
    together = train_heads(
        lambda step: tokens, start, temperature=scales, strength=strengths, n_steps=20
    )
    for s in range(3):
        alone = train_heads(
            lambda step, s=s: tokens[s],
            start[s],
            temperature=scales[s],
            strength=strengths[s],
            n_steps=20,
        )
        np.testing.assert_allclose(together.heads[s], alone.heads, atol=1e-12)
        np.testing.assert_allclose(together.history.risk[:, s], alone.history.risk)


def test_training_stops_where_the_gradient_is_small_and_says_so():
    result = train_heads(
        lambda step: np.eye(3)[None, :2].repeat(10, 1),
        np.array([[0.8, 0.6, 0.0], [0.0, 1.0, 0.0]]),
        temperature=0.5,
        tol=1e-6,
        n_steps=5000,
        step_size=0.5,
    )
    assert result.reason == "gradient norm below tol=1e-06"
    assert result.n_steps == result.history.steps[-1] < 5000
    assert result.history.gradient_norm[-1] < 1e-6
    np.testing.assert_array_equal(result.heads, result.history.heads[-1])


def test_adam_takes_the_steps_of_torch(rng):
    torch = pytest.importorskip("torch")
    tokens = rng.standard_normal((6, 3, 8, 4))
    start = rng.standard_normal((2, 4))
    ours = train_heads(
        lambda step: tokens[step],
        start,
        temperature=0.2,
        strength=0.0,
        n_steps=6,
        step_size=0.03,
        descent="adam",
    )
    heads = torch.tensor(start, requires_grad=True)
    optimizer = torch.optim.Adam([heads], lr=0.03)
    for X in torch.tensor(tokens):
        optimizer.zero_grad()
        layer = 0.2 * (X @ heads.T) @ ((X @ heads.T).mT @ X) / 8
        ((X - layer) ** 2).sum(-1).mean().backward()
        optimizer.step()
    np.testing.assert_allclose(ours.heads, heads.detach().numpy(), atol=1e-12)


def test_history_knows_the_alignment_and_the_steps_asked_for(rng):
    centroids, prompts, half = setting(rng, n_runs=3)
    start = random_heads(rng, (3, 2, 5))
    history = train_heads(prompts, start, temperature=half, n_steps=30, record=[0, 7, 12]).history
    assert history.steps.tolist() == [0, 7, 12, 29]
    cosine = history.alignment(centroids)
    assert cosine.shape == (4, 3, 2)
    np.testing.assert_array_equal(cosine[0], alignment(start, centroids))


def test_records_hold_every_so_many_steps_and_the_last(rng):
    tokens = rng.standard_normal((2, 8, 4))
    result = train_heads(lambda step: tokens, np.eye(2, 4), temperature=0.1, n_steps=25, record=10)
    assert result.history.steps.tolist() == [0, 10, 20, 24]
    assert result.history.heads.shape == (4, 2, 4)
    assert result.n_steps == 25
    assert result.reason == "step budget spent (25)"


def test_training_repeats_bit_for_bit_and_runs_in_float32():
    def run(dtype):
        rng = np.random.default_rng(3)
        mixture = Mixture.equal(np.eye(2, 5), noise_variance=0.1)
        return train_heads(
            lambda step: sample_prompts(mixture, 4, 10, rng, dtype)[0],
            random_heads(rng, (2, 5)).astype(dtype),
            temperature=0.5,
            n_steps=50,
        )

    np.testing.assert_array_equal(run(np.float64).heads, run(np.float64).heads)
    assert run(np.float32).heads.dtype == np.float32
    assert run(np.float32).history.risk.dtype == np.float32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 2 * np.eye(2, 3)}, "unit vectors"),
        ({"heads": np.eye(2, 4)}, "dimension 4 cannot attend to tokens of dimension 3"),
        ({"heads": np.eye(3)[[0, 1, 2, 0]]}, "4 heads cannot each have a direction in dimension 3"),
        ({"length": 1}, "a prompt of one token"),
        ({"regularizer": "ridge"}, "regularizer must be one of 'pairwise', 'product'"),
        ({"schedule": "cosine"}, "schedule must be one of"),
        ({"descent": "steepest"}, "descent must be one of"),
        ({"strength": -1.0}, "strength must not be negative"),
        ({"step_size": -1.0}, "step_size must be a number"),
        ({"n_steps": 0}, "n_steps must be an integer of at least 1"),
        ({"scale": 1e80}, "not finite at step 0"),
        ({"scale": 1e3, "descent": "euclidean"}, "use a smaller step_size"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    options = {"heads": np.eye(2, 3), "temperature": 1.0, "n_steps": 100} | changes
    tokens = options.pop("scale", 1.0) * np.ones((2, options.pop("length", 4), 3))
    with pytest.raises(ValueError, match=message):
        train_heads(lambda step: tokens, options.pop("heads"), **options)
