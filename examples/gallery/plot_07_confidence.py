"""
Rows to doubt
=============

Three questions about a row, and three answers: how sure is its cluster (`confidence`), what are the
odds against the next one (`margin`), and does it belong to any cluster at all (`outlier_score`)?
A row can be sure of its cluster and still lie far from everything.
"""

import matplotlib.pyplot as plt
import numpy as np

from attnclust import AttentionClustering
from attnclust.plotting import ReliabilityDisplay

rng = np.random.default_rng(0)
centres = np.array([[0.0, 0], [3, 0], [1.5, 2.6]])
labels = rng.integers(0, 3, 1500)
X = centres[labels] + 0.75 * rng.standard_normal((1500, 2))
X[:15] = rng.uniform(-6, 9, (15, 2))  # rows of no cluster

model = AttentionClustering(3, random_state=0).fit(X)
answers = {
    "confidence": model.confidence(X),
    "margin, nats": model.margin(X).clip(max=10),
    "outlier score": model.outlier_score(X).clip(max=10),
}
figure, axes = plt.subplots(1, 3, figsize=(11, 3.3), sharey=True, layout="constrained")
for ax, (name, values) in zip(axes, answers.items(), strict=True):
    drawn = ax.scatter(*X.T, c=values, s=7, cmap="viridis")
    ax.set(title=name, aspect="equal")
    figure.colorbar(drawn, ax=ax)

# %%
# Is a confidence of 0.8 right four times in five? Where the classes are known it can be checked.

figure, ax = plt.subplots(figsize=(4.5, 4.5), layout="constrained")
ReliabilityDisplay.from_estimator(model, X[15:], labels[15:], ax=ax)

# %%
# With a threshold, doubtful rows get the label -1.

strict = AttentionClustering(3, threshold=0.9, random_state=0).fit(X)
print(f"{(strict.labels_ == -1).mean():.1%} of the rows have no label")
