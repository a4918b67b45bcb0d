"""What a command tells of a fit or a prediction: summary and picture."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from attnclust import __version__
from attnclust._typing import IntArray
from attnclust.estimators import AttentionClustering
from attnclust.files import Vectors


def draw(model: AttentionClustering, rows: Vectors, path: Path) -> None:
    """The picture, where matplotlib is installed."""
    if find_spec("matplotlib") is None:
        return
    from attnclust.plotting import ClusterMapDisplay

    display = ClusterMapDisplay.from_estimator(model, rows.X, labels=model.labels_)
    display.figure_.savefig(path, dpi=150)


def summarize(
    command: str, file: Path, rows: Vectors, model: AttentionClustering, labels: IntArray
) -> dict[str, Any]:
    """Sizes and weights of the clusters, scores, and what they were made from."""
    n_clusters = len(model.weights_)
    sizes = np.bincount(labels[labels >= 0], minlength=n_clusters)
    summary: dict[str, Any] = {
        "command": command,
        "version": __version__,
        "file": str(file),
        "vectors": rows.told,
        "rows": int(rows.X.shape[0]),
        "features": int(rows.X.shape[1]),
        "clusters": [
            {"cluster": k, "size": int(size), "weight": float(weight)}
            for k, (size, weight) in enumerate(zip(sizes, model.weights_, strict=True))
        ],
        "unlabelled": int((labels < 0).sum()),
        "noise_variance": model.noise_variance_,
        "score": model.score(rows.X),
    }
    if rows.known is not None:
        from attnclust.scores import external_scores

        summary["scores"] = external_scores(rows.known, labels)
        for cluster in summary["clusters"]:
            names, counts = np.unique(
                [str(v) for v in rows.known[labels == cluster["cluster"]] if v is not None],
                return_counts=True,
            )
            if len(names):
                cluster["mostly"] = str(names[counts.argmax()])
                cluster["mostly_share"] = float(counts.max() / counts.sum())
    return summary


def record(summary: dict[str, Any], folder: Path, out: Path, name: str = "summary.json") -> None:
    """The summary as JSON beside the other results, which it lists as they will lie in `out`."""
    names = sorted([*(p.name for p in folder.iterdir()), name])
    summary["outputs"] = [str(out / name) for name in names]
    (folder / name).write_text(json.dumps(summary, indent=2) + "\n")
