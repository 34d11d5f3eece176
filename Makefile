# CorpusMesh: everything is installed into the checkout, `.venv` and what the embedded servers need.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= .corpusmesh
SHARED := $(or $(CORPUSMESH_SHARED),../shared)
# Tests start many processes: without bytecode each of them compiles everything again, which takes longer than its work.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup proto proto-baseline fmt lint types test unit integration e2e demo eval eval-trees bench bench-parsing bench-trees bench-graphs fuzz soak lock wheel clean

help: ## Show this help
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  \1\t\2/' | expand -t 18

$(VENV)/installed: requirements.lock pyproject.toml build_protos.py $(shell find protos -name '*.proto')
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "CorpusMesh needs Python 3.11 or newer: set PYTHON=/path/to/python"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/servers: $(VENV)/installed libs/corpusmesh_app/stack/opensearch.lock.json
	$(BIN)/corpusmesh setup
	@touch $@

setup: $(VENV)/servers ## Install the virtual environment, the embedded servers and the default model

proto: $(VENV)/installed ## Generate gen/ from protos/
	$(BIN)/python build_protos.py

proto-baseline: proto ## Take today's contract as the one that later changes must not break
	$(BIN)/buf build -o protos/baseline.binpb

fmt: $(VENV)/installed ## Format code and protos
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/buf format -w protos

lint: $(VENV)/installed ## Lint code, protos and who imports whom; check that the contract is not broken
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/buf lint
	$(BIN)/buf format -d --exit-code protos
	$(BIN)/buf build -o gen/contract.binpb
	$(BIN)/buf breaking gen/contract.binpb --against protos/baseline.binpb

types: $(VENV)/installed ## Check types, strictly
	$(BIN)/mypy

test: setup ## Run all tests, those of the whole mesh beside the others (about 20 minutes on 2 cores)
	@$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target e2e integration unit

unit: $(VENV)/installed ## Run the tests that touch nothing
	$(BIN)/pytest tests/unit

integration: setup ## Run the tests against the real servers
	$(BIN)/pytest tests/integration

e2e: setup ## Run the tests of the whole mesh (about 13 minutes on 2 cores)
	$(BIN)/pytest tests/e2e

demo: setup ## Start the mesh, ingest the examples, ask three questions, serve until interrupted
	$(BIN)/corpusmesh demo --data $(DATA)

eval: setup ## Measure retrieval on every set of ../shared/eval
	$(BIN)/python bench/eval_all.py

eval-trees: setup ## Measure trees on questions that need a whole document, at equal token budgets
	$(BIN)/python bench/tree_eval.py --report docs/evaluation.md

bench: setup bench-parsing bench-trees bench-graphs ## Measure parsing, trees, graphs, ingest throughput and query latency beside their baselines
	$(BIN)/python bench/mesh.py
	$(BIN)/python bench/search_latency.py

bench-trees: setup ## Measure what trees cost: cutting layers, summaries, updates
	OMP_NUM_THREADS=1 $(BIN)/python bench/tree_clustering.py
	OMP_NUM_THREADS=1 $(BIN)/python bench/tree_summaries.py
	$(BIN)/python bench/tree_incremental.py

bench-graphs: setup ## Measure what graphs cost: walks, communities, builds beside embedding, searches by mode, model calls, one document more
	OMP_NUM_THREADS=1 $(BIN)/python bench/graph_walks.py
	OMP_NUM_THREADS=1 $(BIN)/python bench/graph_communities.py
	OMP_NUM_THREADS=1 $(BIN)/python bench/graph_build.py
	OMP_NUM_THREADS=1 $(BIN)/python bench/graph_search.py --stub
	PYTHONPATH=. OMP_NUM_THREADS=1 $(BIN)/python bench/graph_calls.py
	PYTHONPATH=. OMP_NUM_THREADS=1 $(BIN)/python bench/graph_updates.py $(SHARED)/eval/2wiki

bench-parsing: $(VENV)/installed ## Measure parsing beside raw text extraction (PEER=/path/to/python of a peer's environment)
	$(BIN)/python bench/parsing.py $(if $(PEER),--peer-python $(PEER))

fuzz: $(VENV)/installed ## Fuzz every parser for SECONDS (60) each
	$(BIN)/python fuzz/parsers.py --seconds $(or $(SECONDS),60)

soak: setup ## Kill workers at every stage boundary and simulate 200,000 seeds
	CORPUSMESH_SIMULATION_SEEDS=200000 CORPUSMESH_CRASH_ALL=1 $(BIN)/pytest tests/unit/test_orchestration_simulation.py tests/e2e/test_crash.py tests/e2e/test_tree_adversity.py --timeout 3600

lock: $(VENV)/installed ## Resolve the dependencies again into requirements.lock
	$(PYTHON) -m venv /tmp/corpusmesh-lock && /tmp/corpusmesh-lock/bin/pip install --quiet uv
	/tmp/corpusmesh-lock/bin/uv pip compile pyproject.toml --all-extras --generate-hashes --no-header --no-emit-index-url --python-version 3.11 --universal -o requirements.lock

wheel: $(VENV)/installed ## Build the wheel
	$(BIN)/python -m hatchling build -t wheel

clean: ## Remove everything that was installed or generated
	rm -rf $(VENV) gen dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
