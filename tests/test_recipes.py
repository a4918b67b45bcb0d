"""Recipes whose libraries are here run, and give what they say; others say what is missing."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent.parent / "examples" / "recipes"
GIVES = {
    "anndata_obs": lambda names: names["adata"].obs["attnclust"].nunique() == 8,
    "bertopic_clusters": lambda names: len(set(names["labels"])) == 15,
    "faiss_lists": lambda names: sum(names["shared"]) > 0.95 * 10 * len(names["shared"]),
    "frames_with_lists": lambda names: all(names["table"]["cluster"] == names["model"].labels_),
    "pipeline_grid_search": lambda names: names["search"].best_estimator_[-1].n_clusters == 3,
    "predict_in_numpy": lambda names: np.allclose(
        names["posterior"], names["model"].predict_proba(names["X"]), atol=1e-5
    ),
    "sentence_transformers_embeddings": lambda names: len(set(names["model"].labels_)) == 4,
}
MISSING = {
    "anndata_obs": "anndata",
    "bertopic_clusters": "bertopic",
    "faiss_lists": "faiss",
    "frames_with_lists": "polars",
    "sentence_transformers_embeddings": "sentence_transformers",
}


def test_every_recipe_is_tested():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(GIVES)


@pytest.mark.parametrize("name", GIVES)
def test_recipes_run(name, monkeypatch):
    monkeypatch.chdir(FOLDER)
    try:
        names = runpy.run_path(f"{name}.py")
    except SystemExit as missing:
        pytest.skip(str(missing))
    assert GIVES[name](names)


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_library_is_named_in_one_line(name, monkeypatch):
    monkeypatch.chdir(FOLDER)
    monkeypatch.setitem(sys.modules, MISSING[name], None)
    with pytest.raises(SystemExit, match=r"\Athis recipe needs [\w_]+: pip install [^\n]+\Z"):
        runpy.run_path(f"{name}.py")
