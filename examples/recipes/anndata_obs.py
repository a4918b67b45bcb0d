"""
On AnnData
==========

Cells by their principal components, clusters into ``adata.obs`` as a categorical, where scanpy
looks for them. Here the cells are drawn; a real `adata` has ``obsm["X_pca"]`` already.
"""

import numpy as np

from attnclust import AttentionClustering

try:
    import anndata
    import pandas as pd
except ImportError as missing:
    raise SystemExit(f"this recipe needs {missing.name}: pip install anndata") from None

rng = np.random.default_rng(0)
kind = rng.integers(0, 8, 3000)
cells = 3 * rng.standard_normal((8, 30))[kind] + 2 * rng.standard_normal((3000, 30))
adata = anndata.AnnData(np.zeros((3000, 1), dtype=np.float32))
adata.obsm["X_pca"] = cells.astype(np.float32)

model = AttentionClustering(n_clusters=8, random_state=0).fit(adata.obsm["X_pca"])
adata.obs["attnclust"] = pd.Categorical(model.labels_.astype(str))
adata.obs["attnclust_confidence"] = model.confidence(adata.obsm["X_pca"])
adata.obsm["X_attnclust"] = model.predict_proba(adata.obsm["X_pca"])
adata.uns["attnclust"] = {
    "params": {"n_clusters": model.n_clusters, "random_state": 0},
    "noise_variance": model.noise_variance_,
}
print(adata)
print(pd.crosstab(kind, adata.obs["attnclust"]).max().sum() / 3000, "of the cells by their kind")
