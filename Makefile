# Every target makes or refreshes .venv first, so each works on a fresh clone; only make and Python >= 3.11 are needed.
# tools/make_venv.py does that work and says when and why it installs.

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-slow check bench

# Optional parts to install, separated by commas; pyproject.toml lists them.
GNOMON_EXTRAS ?= dev
# Test processes for `make test`, one thread each: two fast ones beat one with two threads at tiny sizes.
TEST_WORKERS ?= 2
# Passed on: make demo ARGS="--seed 1 --out runs/second", make test ARGS="tests/rm -x".
ARGS ?=
# Given: taken as it is. Otherwise the first that runs (a pyenv shim may exist and refuse) and is new enough.
PYTHON ?= $(shell for python in python3.11 python3; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)

help:
	@echo "Gnomon: train judges of image edits, steer image generators with them, measure both."
	@echo
	@echo "  make demo       the whole loop on two CPU cores in minutes, ending with runs/demo/report.html"
	@echo "  make test       all tests but the slow ones"
	@echo "  make test-slow  the slow tests: trainings that must reach a figure, on several seeds"
	@echo "  make check      lint, format, types (mypy strict), layering of the packages, lengths"
	@echo "  make bench      the speed measurements in benchmarks/"
	@echo "  make venv       only make or refresh .venv"
	@echo
	@echo "Each makes or refreshes .venv by itself. Settings, as in 'make test ARGS=tests/rm':"
	@echo "  ARGS=           more arguments for the command of demo, test or test-slow"
	@echo "  PYTHON=         the Python for a new .venv (>= 3.11; default: python3.11, else python3)"
	@echo "  GNOMON_EXTRAS=  optional parts to install (default: dev)"
	@echo "  TEST_WORKERS=   processes for make test (default: 2)"

venv:
	@python="$(PYTHON)"; \
	if ! "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		echo "Gnomon needs Python 3.11 or newer; tried: $${python:-python3.11, python3}." >&2; \
		echo "Install Python 3.11, or name one that you have: make PYTHON=/path/to/python3.11 ..." >&2; \
		exit 1; \
	fi; \
	"$$python" tools/make_venv.py --extras "$(GNOMON_EXTRAS)"

demo: venv
	@echo "== The closed loop: sample, judge, steer, measure (finished steps are skipped)"
	.venv/bin/gnomon demo $(ARGS)

test: venv
	@echo "== Tests, without the slow ones and those that need a GPU"
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest -n $(TEST_WORKERS) -m "not slow and not gpu" $(ARGS)

test-slow: venv
	@echo "== Slow tests: trainings that must reach a figure"
	.venv/bin/python -m pytest -m "slow and not gpu" $(ARGS)

check: venv
	@echo "== Lint"
	.venv/bin/ruff check .
	@echo "== Format"
	.venv/bin/ruff format --check .
	@echo "== Types"
	.venv/bin/mypy
	@echo "== Layering of the packages"
	.venv/bin/lint-imports
	@echo "== Lengths of modules and functions"
	.venv/bin/python tools/check_lengths.py

bench: venv
	@echo "== Speed measurements: every benchmarks/*.py, one after the other"
	@set -e; found=; for script in benchmarks/*.py; do \
		if [ -e "$$script" ]; then found=yes; echo "== $$script"; .venv/bin/python "$$script"; fi; \
	done; [ -n "$$found" ] || echo "benchmarks/ holds no measurement yet; nothing was run."
