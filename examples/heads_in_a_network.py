"""Attention heads inside a small network, trained with it on unlabelled prompts.

    python examples/heads_in_a_network.py   # needs PyTorch; seconds

An autoencoder whose bottleneck is a linear attention layer: measurements of 50 numbers are encoded
as tokens of 6, the layer's three heads quantise them, and the tied decoder tells the measurements
again. Nothing is labelled. The risk makes the encoder keep the directions that prompts share, and
the regulariser, by which no token may score on two heads, turns each head to one cluster.
"""

import torch
from sklearn.metrics import adjusted_rand_score
from torch import nn

from attnclust.torch import LinearAttentionHeads

N_MEASURED, DIM, N_CLUSTERS, NOISE = 50, 6, 3, 0.15


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


def main(n_steps: int = 600) -> float:
    """Train, print the agreement of heads and clusters, and return it."""
    torch.manual_seed(0)
    centres = nn.functional.normalize(torch.randn(N_CLUSTERS, N_MEASURED), dim=-1)
    network = Quantiser()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)

    def draw(n_prompts: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(N_CLUSTERS, (n_prompts, length))
        noise = torch.randn(n_prompts, length, N_MEASURED)
        return centres[labels] + NOISE * noise, labels

    for step in range(n_steps):
        measured, _ = draw(16, 60)
        square = network.scores(measured) ** 2
        shared = (square.sum(-1) ** 2 - (square**2).sum(-1)).mean() / 2
        risk = ((measured - network(measured)) ** 2).sum(-1).mean()
        loss = risk + (1 - step / n_steps) ** 2 * shared
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    measured, labels = draw(1, 1000)
    found = network.scores(measured).abs().argmax(-1)
    ari = adjusted_rand_score(labels[0], found[0])
    print(f"ARI of the heads' labels: {ari:.3f}")
    return ari


if __name__ == "__main__":
    main()
