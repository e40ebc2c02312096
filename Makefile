# Two commands: `make reproduce` rebuilds every result, `make test` passes the tests. Each sets up what it needs.
.DEFAULT_GOAL := help
.PHONY: help reproduce report adapters test test-peer test-setup bench lock clean setup
.NOTPARALLEL:

SIZE = desk
CORES = all
TARGETS =
ADAPTERS = smollm2-135m gemma3-270m
ARGS =

# The same everywhere, whatever the user's locale and other Python packages.
export PYTHONUTF8 := 1
export PYTHON
unexport PYTHONPATH PYTHONHOME

presets := desk $(sort $(patsubst workflow/presets/%.yaml,%,$(wildcard workflow/presets/*.yaml)))
ifneq ($(words $(SIZE)) $(filter $(presets),$(SIZE)),1 $(SIZE))
$(error there is no preset $(SIZE): SIZE is one of $(presets))
endif
# Of a whole number from 1 on nothing is left without its digits, and something without its noughts.
rest := $(subst 0,,$(subst 1,,$(subst 2,,$(subst 3,,$(subst 4,,$(CORES))))))
rest := $(subst 5,,$(subst 6,,$(subst 7,,$(subst 8,,$(subst 9,,$(rest))))))
ifneq ($(CORES),all)
ifneq ([$(rest)]$(if $(subst 0,,$(CORES)),,none),[])
$(error CORES is "$(CORES)": it may be a whole number from 1 on, or all)
endif
endif
# Named even where it is the default: results of another preset are then replaced without a question.
preset := $(if $(filter-out desk,$(SIZE)),--configfile workflow/presets/$(SIZE).yaml,--config preset=desk)
snakemake := sh workflow/alone.sh $(preset)
for_peers := results/checkpoints/smollm2-135m/checkpoint.json results/sequences/smollm2-135m/lee.parquet

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r name text; do \
	    printf '  make %-12s %s\n' "$$name" "$$text"; done
	@printf '\n  SIZE=one of %s (default desk)\n' '$(presets)'
	@echo '  CORES=4 uses four cores (default all); PYTHON=python3.12 names the interpreter for a new .venv'

reproduce: setup ## rebuild the results of a preset; TARGETS="file or rule ..." only these and what they need
	@$(snakemake) --cores $(CORES) -- $(TARGETS)

report: setup ## rebuild, then gather figures, tables and provenance in results/report.zip
	@$(snakemake) --cores $(CORES) -- $(TARGETS)
	@$(snakemake) --report results/report.zip -- $(TARGETS)

adapters: setup ## train the adapters that are not there, ADAPTERS="..." only these (under an hour each)
	@$(snakemake) --cores $(CORES) -- $(ADAPTERS:%=results/checkpoints/%/checkpoint.json)
	@for name in $(ADAPTERS); do .venv/bin/python -m lensproof train-adapter --resume \
	    --checkpoint results/checkpoints/$$name --out workflow/resources/adapters/$$name || exit; done

test: setup ## pass the tests; ARGS="..." goes to pytest
	@.venv/bin/python -m pytest $(ARGS)

test-peer: setup ## compare with other packages, installed in .venv-peers
	@.venv/bin/python -m tests.bench.environment
	@$(snakemake) --cores $(CORES) -- $(for_peers)
	@.venv/bin/python -m pytest -m peer $(ARGS)

test-setup: setup ## the slow tests of these commands: real environments, killed runs
	@.venv/bin/python -m pytest -m setup $(ARGS)

bench: setup ## time this project against its peers, results/bench.csv; ARGS="..." goes to tests.bench
	@$(snakemake) --cores $(CORES) -- $(for_peers)
	@.venv/bin/python -m tests.bench $(ARGS)

lock: ## choose the newest requirements that fit envs/requirements.in
	@sh envs/lock.sh

clean: ## remove results (and all that Snakemake knows of them); .venv stays
	@mkdir -p .make; if command -v flock >/dev/null && ! flock -n .make/run.lock true; then \
	    echo 'make: a run is at work in this folder: stop it first' >&2; exit 1; fi
	rm -rf results .snakemake .pytest_cache .ruff_cache

setup:
	@sh envs/setup.sh
