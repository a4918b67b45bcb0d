"""
Heads inside a PyTorch network
==============================

An autoencoder whose bottleneck is a linear attention layer: measurements of 50 numbers are encoded
as tokens of 6, the layer's three heads quantise them, and the tied decoder tells the measurements
again. Nothing is labelled. The risk makes the encoder keep the directions that prompts share, and
the regulariser, by which no token may score on two heads, turns each head to one cluster.
"""

import matplotlib.pyplot as plt
from sklearn.metrics import adjusted_rand_score

try:
    import torch
except ImportError:
    raise SystemExit("this example needs PyTorch: pip install 'attnclust[torch]'") from None
from torch import nn

from attnclust.plotting import COLOURS
from attnclust.torch import LinearAttentionHeads

N_MEASURED, DIM, N_CLUSTERS, NOISE, N_STEPS = 50, 6, 3, 0.15, 600


class Quantiser(nn.Module):
    """Orthogonal encoder, attention heads, and the encoder's transpose."""

    def __init__(self) -> None:
        super().__init__()
        encode = nn.Linear(N_MEASURED, DIM, bias=False)
        self.encode = nn.utils.parametrizations.orthogonal(encode)
        self.attend = LinearAttentionHeads(DIM, N_CLUSTERS, temperature=1.0)

    def scores(self, measured: torch.Tensor) -> torch.Tensor:
        """Alignment of each measurement with each head."""
        return self.attend.scores(self.encode(measured))

    def forward(self, measured: torch.Tensor) -> torch.Tensor:
        """The measurements, told again through the heads."""
        return self.attend(self.encode(measured)) @ self.encode.weight


torch.manual_seed(0)
centres = nn.functional.normalize(torch.randn(N_CLUSTERS, N_MEASURED), dim=-1)


def draw(n_prompts: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Prompts of the mixture, and the clusters of their tokens."""
    labels = torch.randint(N_CLUSTERS, (n_prompts, length))
    return centres[labels] + NOISE * torch.randn(n_prompts, length, N_MEASURED), labels


# %%
# Risk and regulariser, whose strength falls to zero as training goes on.

network = Quantiser()
optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
risks = []
for step in range(N_STEPS):
    measured, _ = draw(16, 60)
    square = network.scores(measured) ** 2
    shared = (square.sum(-1) ** 2 - (square**2).sum(-1)).mean() / 2
    risk = ((measured - network(measured)) ** 2).sum(-1).mean()
    loss = risk + (1 - step / N_STEPS) ** 2 * shared
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    risks.append(risk.item())

# %%
# New measurements: their cluster is the head that they score highest on, up to sign.

measured, labels = draw(1, 1000)
scores = network.scores(measured)[0].abs().detach()
ari = adjusted_rand_score(labels[0], scores.argmax(-1))
print(f"ARI of the heads' labels: {ari:.3f}")

figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
axes[0].plot(risks, color=COLOURS[0])
axes[0].axhline(N_MEASURED * NOISE**2, color="grey", linestyle=":")
axes[0].set(xlabel="step", ylabel="risk (dotted: the noise alone)")
for cluster in range(N_CLUSTERS):
    own = scores[labels[0] == cluster]
    axes[1].scatter(own[:, 0], own[:, 1], s=6, color=COLOURS[cluster], linewidths=0, alpha=0.6)
axes[1].set(xlabel="score on head 0", ylabel="score on head 1")
