"""
Kernel heads on rings
=====================

Rings have no centres. Under ``lift="nystrom"`` heads look at the features of a kernel instead,
where clusters that gaps part are nearly orthogonal whatever their shape.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from attnclust import AttentionClustering
from attnclust.plotting import COLOURS

sets = {
    "rings": make_circles(1500, factor=0.45, noise=0.04, random_state=0),
    "moons": make_moons(1500, noise=0.05, random_state=0),
}
figure, axes = plt.subplots(2, 2, figsize=(8, 7), layout="constrained")
for row, (name, (X, known)) in zip(axes, sets.items(), strict=True):
    for ax, lift in zip(row, ("auto", "nystrom"), strict=True):
        model = AttentionClustering(2, lift=lift, random_state=0).fit(X)
        score = adjusted_rand_score(known, model.labels_)
        ax.scatter(*X.T, s=4, c=np.array(COLOURS)[model.labels_], linewidths=0)
        ax.set(title=f'{name}, lift="{lift}": ARI {score:.2f}', xticks=[], yticks=[])
        ax.set_aspect("equal", "datalim")
        print(f"{name:6} {lift:8} {score:.3f}  {model.lift_}")
