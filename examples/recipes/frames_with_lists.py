"""
pandas and Polars frames whose cells are vectors
================================================

Embeddings often lie in a frame as one column of lists. Make an array of it once, and hang the
labels beside it.
"""

import numpy as np

from attnclust import AttentionClustering

try:
    import pandas as pd
    import polars as pl
except ImportError as missing:
    raise SystemExit(f"this recipe needs {missing.name}: pip install pandas polars") from None

# Polars: a column of type List or Array; rows must be of one length.
frame = pl.read_parquet("../intents.parquet")
width = len(frame["embedding"][0])
X = frame["embedding"].cast(pl.Array(pl.Float32, width)).to_numpy()  # (971, 384)
model = AttentionClustering(n_clusters=15, random_state=0).fit(X)
frame = frame.with_columns(
    cluster=pl.Series(model.labels_), confidence=pl.Series(model.confidence(X))
)
print(
    frame.group_by("cluster").agg(pl.len(), pl.col("intent").mode().first()).sort("cluster").head()
)

# pandas: cells of lists or arrays.
table = pd.read_parquet("../intents.parquet")
X = np.stack(table["embedding"]).astype(np.float32)
table["cluster"] = model.predict(X)
print(table.groupby("cluster")["intent"].agg(size="size", mostly=lambda s: s.mode()[0]).head())

# Frames of plain numeric columns go in as they are, and their names are remembered.
columns = pd.DataFrame(X[:, :8]).add_prefix("x")
print(AttentionClustering(4, random_state=0).fit(columns).feature_names_in_)
