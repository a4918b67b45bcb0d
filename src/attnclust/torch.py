"""PyTorch modules of the layer, through the same functions as NumPy's: `attention`.

    LinearAttentionHeads    T(x) = (c/L) sum_h sum_k <x, mu_h><mu_h, x_k> x_k, heads trainable
    InContextAttention      T(x) = (c/L) sum_k <x, x_k> x_k, nothing to train

Heads stay on the sphere by a parametrisation: what the optimiser moves is a vector of any length,
what the layer sees is its direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from attnclust.attention import linear_attention, quantise


class UnitRows(nn.Module):
    """Parametrisation of unit vectors: each row by its direction."""

    def forward(self, rows: Tensor) -> Tensor:
        """Rows at unit length."""
        return nn.functional.normalize(rows, dim=-1)

    def right_inverse(self, rows: Tensor) -> Tensor:
        """A vector of that direction: the row itself."""
        return rows


class LinearAttentionHeads(nn.Module):
    """Linear attention heads with key = query on the sphere.

    Its state holds one tensor, `heads_`, of the name and shape that `save_model` gives it: a model
    file's tensors load with ``strict=False``.

    Parameters
    ----------
    dim : int
        d.
    n_heads : int
        H.
    temperature : float, default=1.0
        Scale c = H lambda.
    generator : torch.Generator, optional
        Draws the heads, uniform on the sphere.
    device, dtype
        Of the heads.

    Attributes
    ----------
    heads_ : tensor of shape (H, d)
        Unit vectors mu_h.

    Examples
    --------
    >>> import torch
    >>> layer = LinearAttentionHeads(8, 2, generator=torch.Generator().manual_seed(0))
    >>> layer(torch.ones(4, 30, 8)).shape
    torch.Size([4, 30, 8])
    >>> bool(torch.allclose(layer.heads_.norm(dim=1), torch.ones(2)))
    True
    """

    heads_: Tensor

    def __init__(
        self,
        dim: int,
        n_heads: int,
        *,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if dim < 1 or n_heads < 1:
            raise ValueError(f"dim and n_heads must be at least 1, got {dim} and {n_heads}")
        start = torch.randn(n_heads, dim, generator=generator, device=device, dtype=dtype)
        self.heads_ = nn.Parameter(nn.functional.normalize(start, dim=-1))
        parametrize.register_parametrization(self, "heads_", UnitRows())
        self.temperature = temperature
        self.register_state_dict_post_hook(_to_plain_name)
        self.register_load_state_dict_pre_hook(_from_plain_name)

    def scores(self, tokens: Tensor) -> Tensor:
        """Alignment <x, mu_h> of each token with each head: (..., L, d) to (..., L, H)."""
        return tokens @ self.heads_.mT

    def forward(self, tokens: Tensor) -> Tensor:
        """The layer's output.

        Parameters
        ----------
        tokens : tensor of shape (..., L, d)

        Returns
        -------
        tensor of shape (..., L, d)
        """
        return torch.as_tensor(linear_attention(tokens, self.heads_, self.temperature))

    def extra_repr(self) -> str:
        """Sizes and scale, for print."""
        n_heads, dim = self.heads_.shape
        return f"dim={dim}, n_heads={n_heads}, temperature={self.temperature:g}"


ORIGINAL = "parametrizations.heads_.original"


def _to_plain_name(module: nn.Module, state: dict[str, Tensor], prefix: str, metadata: Any) -> None:
    state[f"{prefix}heads_"] = UnitRows()(state.pop(prefix + ORIGINAL))


def _from_plain_name(
    module: nn.Module, state: Mapping[str, Tensor], prefix: str, *rest: Any
) -> None:
    if isinstance(state, dict) and f"{prefix}heads_" in state:
        state[prefix + ORIGINAL] = state.pop(f"{prefix}heads_")


class InContextAttention(nn.Module):
    """The layer without parameters, stacked: `attnclust.InContextAttention` for tensors.

    Parameters
    ----------
    n_layers : int, default=1
    temperature : float or "auto", default="auto"
        Scale c; "auto" keeps the length of each prompt's signal in each layer
        (`attention.signal_temperature`).

    Examples
    --------
    >>> import torch
    >>> InContextAttention(n_layers=2)(torch.randn(4, 30, 8)).shape
    torch.Size([4, 30, 8])
    """

    def __init__(self, n_layers: int = 1, *, temperature: float | Literal["auto"] = "auto") -> None:
        super().__init__()
        if n_layers < 1:
            raise ValueError(f"n_layers must be at least 1, got {n_layers}")
        self.n_layers = n_layers
        self.temperature = temperature

    def forward(self, tokens: Tensor, present: Tensor | None = None) -> Tensor:
        """Quantised tokens.

        Parameters
        ----------
        tokens : tensor of shape (..., L, d)
        present : tensor of shape (..., L), optional
            1 for tokens, 0 for padding; outputs of padding are zero.

        Returns
        -------
        tensor of shape (..., L, d)
        """
        if present is None:
            present = torch.ones_like(tokens[..., 0])
        c = None if self.temperature == "auto" else self.temperature
        for _ in range(self.n_layers):
            tokens = quantise(tokens, present, c)
        return tokens

    def extra_repr(self) -> str:
        """Layers and scale, for print."""
        return f"n_layers={self.n_layers}, temperature={self.temperature}"
