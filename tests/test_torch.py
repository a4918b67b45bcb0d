import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest

import attnclust
from attnclust import attention
from attnclust.manifold import alignment

torch = pytest.importorskip("torch")

from attnclust.torch import InContextAttention, LinearAttentionHeads  # noqa: E402

BOUND = {torch.float32: 1e-6, torch.float64: 1e-12}


@pytest.fixture
def tokens():
    rng = np.random.default_rng(0)
    return np.eye(8)[rng.integers(0, 2, (5, 30))] + 0.2 * rng.standard_normal((5, 30, 8))


def heads(dtype=torch.float64, **options):
    generator = torch.Generator().manual_seed(0)
    return LinearAttentionHeads(8, 2, generator=generator, dtype=dtype, **options)


@pytest.mark.parametrize("dtype", BOUND)
def test_the_twins_equal_numpys_layer(tokens, dtype):
    X = torch.tensor(tokens, dtype=dtype)
    layer = heads(dtype, temperature=0.7)
    same = attention.linear_attention(X.numpy(), layer.heads_.detach().numpy(), 0.7)
    np.testing.assert_allclose(layer(X).detach(), same, atol=BOUND[dtype], rtol=0)
    assert layer(X).dtype == dtype
    for n_layers, temperature in ((1, "auto"), (2, "auto"), (1, 0.5)):
        ours = attnclust.InContextAttention(n_layers, temperature=temperature).transform(X.numpy())
        twin = InContextAttention(n_layers, temperature=temperature)
        np.testing.assert_allclose(twin(X), ours, atol=BOUND[dtype], rtol=0)


def test_padding_changes_nothing(tokens):
    X = torch.tensor(tokens)
    present = torch.ones(5, 40, dtype=X.dtype)
    present[:, 30:] = 0
    padded = torch.cat([X, torch.full((5, 10, 8), 9.0, dtype=X.dtype)], dim=1)
    out = InContextAttention()(padded, present)
    torch.testing.assert_close(out[:, :30], InContextAttention()(X))
    assert (out[:, 30:] == 0).all()


def test_heads_stay_on_the_sphere_and_find_the_centres():
    generator = torch.Generator().manual_seed(0)
    layer = heads(torch.float32)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for step in range(600):
        labels = torch.randint(0, 2, (16, 30), generator=generator)
        X = torch.eye(8)[labels] + 0.2 * torch.randn(16, 30, 8, generator=generator)
        u = layer.scores(X)
        strength = 0.5 * (1 - step / 600) ** 2
        loss = ((X - layer(X)) ** 2).sum(-1).mean() + strength * (u**2).prod(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.testing.assert_close(layer.heads_.norm(dim=1), torch.ones(2))
    assert alignment(layer.heads_.detach().numpy(), np.eye(8)[:2]).min() > 0.99


def test_gradients_flow_through_everything(tokens):
    X = torch.tensor(tokens[:2, :6], requires_grad=True)
    layer = heads()
    assert torch.autograd.gradcheck(lambda x: layer(x), (X,))
    assert torch.autograd.gradcheck(lambda x: InContextAttention(2)(x), (X,))
    layer(X).sum().backward()
    (parameter,) = layer.parameters()
    assert parameter.grad.abs().max() > 0


@pytest.mark.parametrize("module", [heads(), InContextAttention(2)])
def test_compile_takes_the_whole_graph(tokens, module):
    X = torch.tensor(tokens)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(X), module(X))


def test_the_state_is_that_of_the_saved_models(tokens, tmp_path):
    from safetensors.torch import load_file, save_file

    model = attnclust.AttentionClustering(2, random_state=0).fit(tokens.reshape(-1, 8))
    attnclust.save_model(model, tmp_path / "model.safetensors")
    layer = heads()
    left = layer.load_state_dict(load_file(tmp_path / "model.safetensors"), strict=False)
    assert left.missing_keys == []
    np.testing.assert_allclose(layer.heads_.detach(), model.heads_, atol=1e-12)

    assert list(layer.state_dict()) == ["heads_"]
    save_file(layer.state_dict(), tmp_path / "heads.safetensors")
    other = LinearAttentionHeads(8, 2, dtype=torch.float64)
    other.load_state_dict(load_file(tmp_path / "heads.safetensors"))
    torch.testing.assert_close(other.heads_, layer.heads_)
    inside = torch.nn.Sequential(torch.nn.Linear(3, 8), heads())
    assert "1.heads_" in inside.state_dict()
    inside.load_state_dict(inside.state_dict())
    with pytest.raises(RuntimeError, match="size mismatch"):
        LinearAttentionHeads(9, 2).load_state_dict(layer.state_dict())


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="at least 1, got 0 and 2"):
        LinearAttentionHeads(0, 2)
    with pytest.raises(ValueError, match="n_layers must be at least 1"):
        InContextAttention(0)
    assert "temperature=1" in repr(heads())
    assert "n_layers=2" in repr(InContextAttention(2))


def test_the_example_trains_heads_inside_a_network(monkeypatch):
    path = next((Path(__file__).parent.parent / "examples" / "gallery").glob("*network.py"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    assert runpy.run_path(str(path))["ari"] > 0.95
