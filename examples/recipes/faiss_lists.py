"""
A faiss index whose lists are our clusters
==========================================

An inverted-file index searches the lists of the centres nearest to a query. Its centres may come
from anywhere: here they are ours, set into the index before the rows are added, in place of the
k-means that ``index.train`` would run.
"""

import numpy as np

from attnclust import AttentionClustering

try:
    import faiss
except ImportError as missing:
    raise SystemExit(f"this recipe needs {missing.name}: pip install faiss-cpu") from None

rng = np.random.default_rng(0)
centres = rng.standard_normal((64, 48))
X = centres[rng.integers(0, 64, 20_000)] + 0.4 * rng.standard_normal((20_000, 48))
X = X.astype(np.float32)
queries = X[:200] + 0.1 * rng.standard_normal((200, 48)).astype(np.float32)

model = AttentionClustering(n_clusters=64, random_state=0).fit(X)
quantizer = faiss.IndexFlatL2(48)
quantizer.add(np.ascontiguousarray(model.cluster_centers_))
index = faiss.IndexIVFFlat(quantizer, 48, 64, faiss.METRIC_L2)
index.train(X[:1])  # the centres are there: nothing is trained
index.add(X)
index.nprobe = 1

exact = faiss.IndexFlatL2(48)
exact.add(X)
found, truth = index.search(queries, 10)[1], exact.search(queries, 10)[1]
shared = [len(set(one) & set(other)) for one, other in zip(found, truth, strict=True)]
print("recall at 10, one list of 64 looked at:", np.mean(shared) / 10)
print("rows per list:", [index.invlists.list_size(j) for j in range(5)], "...")
