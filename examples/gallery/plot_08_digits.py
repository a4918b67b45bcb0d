"""
Attention as a quantiser of images
==================================

`attend` gives what the layer puts out: each row, replaced by the mean of the centres it attends to.
On images of digits that is a picture of what the model believes it sees.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from attnclust import AttentionClustering
from attnclust.scores import external_scores

images, digits = load_digits(return_X_y=True)
model = AttentionClustering(n_clusters=20, random_state=0).fit(images)
print(external_scores(digits, model.labels_))

chosen = np.argsort(model.confidence(images))[[0, 1, 2, 3, -1, -2, -3, -4]]
quantised = model.attend(images[chosen])
figure, axes = plt.subplots(2, 8, figsize=(10, 2.9), layout="constrained")
for column, image, output in zip(axes.T, images[chosen], quantised, strict=True):
    for ax, shown in zip(column, (image, output), strict=True):
        ax.imshow(shown.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("row")
axes[1, 0].set_ylabel("attended")
axes[0, 1].set_title("the least sure rows")
axes[0, 5].set_title("the surest rows")

# %%
# The centres, largest cluster first.

order = np.argsort(-model.weights_)
figure, axes = plt.subplots(2, 10, figsize=(10, 2.4), layout="constrained")
for ax, centre in zip(axes.flat, model.cluster_centers_[order], strict=True):
    ax.imshow(centre.reshape(8, 8), cmap="gray_r")
    ax.set_axis_off()
