"""
Sentence embeddings
===================

971 questions that customers asked a bank, as embeddings of 384 numbers, and the 15 intents that
people gave them. The intents are used for nothing but the scores, of which ten starts of k-means
get slightly higher ones here: with clusters this well apart starts are cheap.
"""

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq
from sklearn.cluster import KMeans

from attnclust import AttentionClustering
from attnclust.plotting import ClusterMapDisplay, ConfusionDisplay
from attnclust.scores import external_scores

table = pq.read_table("../intents.parquet")
X = np.array(table["embedding"].to_pylist(), dtype=np.float32)
intents = table["intent"].to_pylist()

model = AttentionClustering(n_clusters=15, metric="cosine", random_state=0).fit(X)
print("attnclust, one run ", external_scores(intents, model.labels_))
print(
    "k-means, 10 starts ",
    external_scores(intents, KMeans(15, n_init=10, random_state=0).fit_predict(X)),
)

# %%
# Rows and centres in the plane in which the centres are spread most.

figure, ax = plt.subplots(figsize=(7, 5.5), layout="constrained")
ClusterMapDisplay.from_estimator(model, X, ax=ax)

# %%
# Which intents went where.

figure, ax = plt.subplots(figsize=(9, 7), layout="constrained")
ConfusionDisplay.from_estimator(model, X, intents, ax=ax)
