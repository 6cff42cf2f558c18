# Everything runs from .venv, which the first target that needs it makes; nothing has to be activated, nothing is
# installed outside this directory. `make help` lists the targets.

VENV := .venv
BIN := $(VENV)/bin

MODEL_NAME ?= half_plus_two
MODEL_BASE_PATH ?= $(CURDIR)/examples/models
PORT ?= 8500
REST_API_PORT ?= 8501
ADMIN_PORT ?= 8502
STATE_DIR ?= bridge-state
FUZZ_INPUTS ?= 200000
FUZZ_SEED ?= $(shell date +%s)
SERVE_FLAGS ?=
BENCH ?=
TESTS ?= tests
TEST_PROCESSES ?= 2
MATRIX ?= tests/conformance tests/transport $(wildcard $(addprefix tests/acceptance/test_,grpc_*.py inference_surface.py \
	large_messages.py lifecycle.py modelmesh.py modelmesh_canary.py modelmesh_kills.py recovery.py reload.py restart.py \
	rest_surface.py v2.py))

# The environment is renewed when the files that say what belongs into it have another content, not another date.
INSTALLED := $(VENV)/.installed-$(shell cat pyproject.toml setup.py constraints.txt bridge/*/native/*.[ch] | cksum | cut -d ' ' -f 1)
PROTOS := model_repo_sync/protos/protos.binpb

.DEFAULT_GOAL := help
.PHONY: help environment protos serve demo test test-failed test-fast test-matrix fuzz check format docs screenshots lock bench gpu-check clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 16

environment: $(INSTALLED) ## make or renew .venv

$(INSTALLED): | .ci/environment
	@sh .ci/environment $(VENV)
	@rm -f $(VENV)/.installed-*
	@touch $@

lock: $(INSTALLED) ## write the versions of .venv to constraints.txt
	@$(BIN)/python .ci/lock.py

protos: $(PROTOS) ## generate the protocol buffers' modules

$(PROTOS): $(wildcard protos/*/*.proto) build_protos.py $(INSTALLED)
	@$(BIN)/python -m build_protos
	@touch $@

serve: $(PROTOS) ## serve half_plus_two, or MODEL_NAME=… in MODEL_BASE_PATH=…
	@sh examples/calls $(MODEL_NAME) $(PORT) $(REST_API_PORT)
	@exec $(BIN)/bridge serve --port=$(PORT) --rest_api_port=$(REST_API_PORT) --admin_port=$(ADMIN_PORT) \
		--state_dir="$(STATE_DIR)" --model_name="$(MODEL_NAME)" \
		--model_base_path="$(MODEL_BASE_PATH)/$(MODEL_NAME)" $(SERVE_FLAGS)

demo: $(PROTOS) ## a scripted tour that checks itself
	@$(BIN)/python -m examples.demo

test: $(PROTOS) ## both tiers: fast, and integration with the real tritonserver and PostgreSQL
	@$(BIN)/python -m pytest -m "not slow" -n $(TEST_PROCESSES) --dist loadfile $(TESTS)

test-failed: $(PROTOS) ## what failed in the last run, once more
	@$(BIN)/python -m pytest -m "not slow" --last-failed --last-failed-no-failures none $(TESTS)

test-fast: $(PROTOS) ## the tier that needs neither tritonserver nor a SQL server
	@$(BIN)/python -m pytest -m "not slow and not integration" $(TESTS)

test-matrix: $(PROTOS) ## all combinations: of servers, legs, workers and runners; conformance and kills by server and workers
	@failed=0; \
	$(BIN)/python -m pytest -m slow -n $(TEST_PROCESSES) tests/acceptance/test_pairs.py || failed=1; \
	for server in grpcio native; do for workers in 1 2; do \
		echo "--grpc_server=$$server --workers=$$workers" >&2; \
		BRIDGE_GRPC_SERVER=$$server BRIDGE_WORKERS=$$workers $(BIN)/python -m pytest -m "not slow" \
			-n $(TEST_PROCESSES) --dist loadfile $(MATRIX) || failed=1; done; done; exit $$failed

fuzz: $(PROTOS) ## gRPC messages, REST bodies, URLs: FUZZ_INPUTS=… of each surface, from FUZZ_SEED=…
	@set -e; for surface in grpc rest url v2_grpc v2_rest; do \
		$(BIN)/python -m tests.fuzz $$surface --inputs=$(FUZZ_INPUTS) --seed=$(FUZZ_SEED); done

check: $(PROTOS) ## lint, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(INSTALLED) ## rewrite the sources in the project's format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(PROTOS) ## renew the pages that are written from the code
	@$(BIN)/python docs/generate.py

screenshots: $(PROTOS) ## renew the pictures of the console in docs/; needs chromium
	@$(BIN)/python -m docs.screenshots

bench: $(PROTOS) ## measure the bridge: BENCH="latency sizes" or BENCH=--quick; results in docs/performance.md
	@$(BIN)/python -m benchmarks $(BENCH)

gpu-check: $(PROTOS) ## run a model on the GPU where nvidia-smi works; says so where it does not
	@$(BIN)/python -m examples.gpu_check

clean: ## remove .venv and what was generated
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache $(PROTOS)
	@rm -f model_repo_sync/protos/*/*_pb2.py model_repo_sync/protos/*/*_pb2.pyi
