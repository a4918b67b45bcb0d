"""
As BERTopic's clustering model
==============================

BERTopic takes any clusterer that has `fit`, `predict` and `labels_`. Heads work on the embeddings
themselves, so no reduction of dimension is needed before; and the topics' number is known
beforehand, with no outlier topic unless `threshold` is set.
"""

import pyarrow.parquet as pq

from attnclust import AttentionClustering

try:
    from bertopic import BERTopic
    from bertopic.dimensionality import BaseDimensionalityReduction
except ImportError as missing:
    raise SystemExit(f"this recipe needs {missing.name}: pip install bertopic") from None

# The shipped vectors come without their sentences; the name of the intent stands for each.
table = pq.read_table("../intents.parquet")
documents = [intent.replace("_", " ") for intent in table["intent"].to_pylist()]
embeddings = table["embedding"].combine_chunks().flatten().to_numpy().reshape(len(documents), -1)

topics = BERTopic(
    embedding_model=None,
    umap_model=BaseDimensionalityReduction(),
    hdbscan_model=AttentionClustering(n_clusters=15, metric="cosine", random_state=0),
)
labels, _ = topics.fit_transform(documents, embeddings.astype("float32"))
print(topics.get_topic_info()[["Topic", "Count", "Name"]])
