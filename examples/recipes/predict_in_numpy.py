"""
Predict without the library
===========================

Labels are the largest of K linear scores. A model file holds all that they need, so any program
that can read safetensors and multiply matrices can label rows: here with NumPy alone, in ten
lines.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from safetensors import safe_open

from attnclust import AttentionClustering, save_model

table = pq.read_table("../intents.parquet")
X = np.array(table["embedding"].to_pylist(), dtype=np.float32)
model = AttentionClustering(n_clusters=15, metric="cosine", random_state=0).fit(X)
path = Path(tempfile.mkdtemp()) / "model.safetensors"
save_model(model, path)


def read_scores(path):
    """Matrix (d, K) and biases (K,) of the scores, and whether rows go in at unit length."""
    with safe_open(path, framework="numpy") as file:
        centres, weights = file.get_tensor("cluster_centers_"), file.get_tensor("weights_")
        said = json.loads(file.metadata()["attnclust"])
    variance = said["attributes"]["noise_variance_"]
    bias = -0.5 * (centres**2).sum(1) / variance
    if said["history"]["attention"] != "hard":  # which takes all clusters as alike
        bias += np.log(weights)
    return centres.T / variance, bias, said["parameters"]["metric"] == "cosine"


def predict(X, matrix, bias, cosine):
    """Labels and posteriors of rows."""
    if cosine:
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
    scores = X @ matrix + bias
    posterior = np.exp(scores - scores.max(1, keepdims=True))
    return scores.argmax(1), posterior / posterior.sum(1, keepdims=True)


labels, posterior = predict(X, *read_scores(path))
print("rows labelled as by the library:", (labels == model.predict(X)).mean())
print("largest difference of a posterior:", abs(posterior - model.predict_proba(X)).max())
