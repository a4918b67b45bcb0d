"""What a command tells of a fit or a prediction: summary and picture."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from attnclust import __version__
from attnclust._typing import Array, IntArray, Rows
from attnclust.estimators import AttentionClustering
from attnclust.files import Vectors


def draw(model: AttentionClustering, X: Rows, path: Path, labels: IntArray | None = None) -> None:
    """The picture, where matplotlib is installed."""
    if find_spec("matplotlib") is None:
        return
    from attnclust.plotting import ClusterMapDisplay

    ClusterMapDisplay.from_estimator(model, X, labels=labels).figure_.savefig(path, dpi=150)


def how_it_went(model: AttentionClustering) -> dict[str, Any]:
    """What a fit was asked, and how it went about it."""
    told: dict[str, Any] = {
        "parameters": model.get_params(),
        "rows_used": model.n_rows_used_,
        "start": model.history_.start,
        "stopped_because": model.history_.reason,
    }
    if model.selection_ is not None:
        told["reason"] = model.selection_.reason
        told["candidates"] = model.selection_.candidates
    return told


def summarize(
    command: str, file: Path, rows: Vectors, model: AttentionClustering, labels: IntArray
) -> dict[str, Any]:
    """Sizes and weights of the clusters, scores, and what they were made from."""
    n_clusters = len(model.weights_)
    summary = describe(
        command,
        file,
        rows.told,
        rows.X.shape,
        model,
        np.bincount(labels[labels >= 0], minlength=n_clusters),
        model.score(rows.X),
    )
    if rows.known is not None:
        from attnclust.scores import external_scores

        summary["scores"] = external_scores(rows.known, labels)
        for cluster in summary["clusters"]:
            names, counts = np.unique(
                [str(v) for v in rows.known[labels == cluster["cluster"]] if v is not None],
                return_counts=True,
            )
            name_mostly(cluster, names, counts)
    return summary


def describe(
    command: str,
    file: Path,
    names: list[str],
    shape: tuple[int, int],
    model: AttentionClustering,
    sizes: IntArray,
    score: float,
) -> dict[str, Any]:
    """The summary but for scores against known labels."""
    return {
        "command": command,
        "version": __version__,
        "file": str(file),
        "vectors": names,
        "rows": int(shape[0]),
        "features": int(shape[1]),
        "clusters": [
            {"cluster": k, "size": int(size), "weight": float(weight)}
            for k, (size, weight) in enumerate(zip(sizes, model.weights_, strict=True))
        ],
        "unlabelled": int(shape[0] - sizes.sum()),
        "noise_variance": model.noise_variance_,
        "score": score,
    }


def name_mostly(cluster: dict[str, Any], names: Array, counts: IntArray) -> None:
    """Tell which known label most rows of a cluster have."""
    if counts.sum():
        cluster["mostly"] = str(names[counts.argmax()])
        cluster["mostly_share"] = float(counts.max() / counts.sum())


def record(summary: dict[str, Any], folder: Path, out: Path, name: str = "summary.json") -> None:
    """The summary as JSON beside the other results, which it lists as they will lie in `out`."""
    names = sorted([*(p.name for p in folder.iterdir()), name])
    summary["outputs"] = [str(out / name) for name in names]
    (folder / name).write_text(json.dumps(summary, indent=2) + "\n")
