"""
How many clusters?
==================

``n_clusters="auto"``: the eigenvalues above the noise propose a number, splits and merges settle
it, each for a price, and gaps between the clusters confirm it. What spoke for it is kept.
"""

import matplotlib.pyplot as plt
import numpy as np

from attnclust import AttentionClustering
from attnclust.manifold import random_heads
from attnclust.plotting import COLOURS, SpectrumDisplay

rng = np.random.default_rng(0)
centres = random_heads(rng, (7, 24))
labels = rng.choice(7, 3000, p=np.array([4, 4, 4, 2, 2, 2, 1]) / 19)
X = centres[labels] + 0.2 * rng.standard_normal((3000, 24))

model = AttentionClustering(n_clusters="auto", random_state=0).fit(X)
print(model.selection_.n_clusters, "clusters:", model.selection_.reason)

# %%
# The spectrum, whose eigenvalues above the edge of the noise are one fewer than the clusters; and
# what each number near the chosen one would have cost, with the stability of its labels.

selection, frame = model.selection_, model.selection_.to_frame()
figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
SpectrumDisplay.from_estimator(model, X, ax=axes[0])
axes[1].plot(frame.index, frame["criterion"], marker="o", color=COLOURS[0])
axes[1].set(xlabel="clusters", ylabel="penalised log-likelihood, nats")
axes[2].plot(frame.index, frame["stability"], marker="o", color=COLOURS[0])
axes[2].set(xlabel="clusters", ylabel="stability", ylim=(0, 1.05))
for ax in axes[1:]:
    ax.axvline(selection.n_clusters, color="grey", linewidth=0.8, linestyle=":")
print(frame.round(3))
