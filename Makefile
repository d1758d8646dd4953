# Everything runs in .venv, which is made when it is missing. `make` alone lists the targets.
PYTHON ?= python3
BIN := .venv/bin
NATIVE := $(wildcard native/src/* native/include/*)
SOURCES := $(shell find src -type f -not -name '*.so' -not -path '*/__pycache__/*' -not -path '*.egg-info/*')
# Everything but what runs training scripts: all that it asks of Python is there on Windows, too.
POSIX := capture tune
ANYWHERE := $(filter-out $(POSIX:%=src/outpace/%),$(patsubst %/__init__.py,%,$(wildcard src/outpace/*/__init__.py)) $(wildcard src/outpace/*.py))

# Tests are compiled with their assertions once, not in every run.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help fast regen test coverage check docs pictures demo bench wheels sbom verify fuzz clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

# The dependencies of Outpace and of its development; Outpace itself is installed from a wheel, so that the tests see what users get.
# (Python 3.10 has no tomllib; `build` brings tomli there.)
.venv/.dependencies: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade pip build
	$(BIN)/python -c "import importlib, pathlib, sys; toml = importlib.import_module('tomllib' if sys.version_info >= (3, 11) else 'tomli'); \
	  p = toml.loads(pathlib.Path('pyproject.toml').read_text())['project']; \
	  print('\n'.join([*p['dependencies'], *p['optional-dependencies']['tensorflow'], *p['optional-dependencies']['dev']]))" > .venv/requirements.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check -r .venv/requirements.txt
	@touch $@

.venv/.installed: .venv/.dependencies setup.py $(NATIVE) $(SOURCES)
	@rm -rf build dist
	$(BIN)/python -m build -q --wheel --outdir dist .
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --force-reinstall dist/*.whl
	@touch $@

# The core under sanitizers, once for each state of it. The fuzzer wants Linux: its files in memory, and a linker that wraps calls.
.venv/.sanitized: $(NATIVE) $(wildcard native/tests/*.* native/tests/findings/*) | .venv/.dependencies
	bash native/tests/run.sh 2000
	@touch $@

test: .venv/.installed $(if $(filter Linux,$(shell uname)),.venv/.sanitized)  ## set everything up, run the core under sanitizers (2,000 mutants, a minute) and the tests against the installed wheel (under 10 minutes)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --timeout 600 --durations 10

src/outpace/_native/core.so: .venv/.dependencies setup.py $(NATIVE)
	$(BIN)/python setup.py -q build_ext --inplace --force

fast: src/outpace/_native/core.so  ## the inner loop: no wheel, no framework, from the source tree (two minutes on two cores)
	OUTPACE_FAST=1 PYTHONPATH=src $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not verify and not slow" \
	  tests/contract tests/golden tests/property tests/architecture tests/unit

regen: src/outpace/_native/core.so  ## make anew what is generated: first screens of the test profiles, the stub of the tools, outputs that documents quote
	PYTHONPATH=src $(BIN)/python -m tests.golden.test_screens
	PYTHONPATH=src $(BIN)/python -m tests.architecture.test_tool_methods
	PYTHONPATH=src $(BIN)/python -m tests.architecture.test_commands

coverage: src/outpace/_native/core.so  ## which lines of the analysis half the fast tests run (at least 95 %)
	OUTPACE_FAST=1 PYTHONPATH=src $(BIN)/python -m pytest -n 2 -m "not verify and not slow" --cov --cov-fail-under=95 --cov-report=term \
	  tests/unit tests/golden tests/property tests/contract

# What checks the report's scripts. Without a lock file, which would name the registry's host; the versions are exact.
tests/scripts/node_modules/.installed: tests/scripts/package.json
	npm install --prefix tests/scripts --no-package-lock --no-audit --no-fund --silent
	@touch $@

check: .venv/.installed tests/scripts/node_modules/.installed  ## lint, format, types, layers, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --follow-imports silent --cache-dir .mypy_cache/win32 $(ANYWHERE)
	$(BIN)/lint-imports
	$(BIN)/python -m tests.architecture.test_imports
	npm run --silent --prefix tests/scripts check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict

docs: .venv/.installed  ## build the documentation into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

pictures: .venv/.installed  ## make the pictures of the documentation anew, from real output (needs Chromium)
	PYTHONPATH=. $(BIN)/python docs/pictures.py

demo: .venv/.installed  ## profile a real training script (an image classifier with a naive input pipeline) and explain it
	$(BIN)/python examples/make_images.py demo/images
	$(BIN)/outpace profile --logdir demo/logs --html demo/report.html examples/train_images.py demo/images
	@echo "Open demo/report.html in a browser."

# The reference tools, in an environment of their own.
.venv-bench/xprof/.installed:
	$(PYTHON) -m venv .venv-bench/xprof
	.venv-bench/xprof/bin/python -m pip install -q --disable-pip-version-check xprof==2.24.2 xprof-rs==0.1.3
	@touch $@

bench: .venv/.installed .venv-bench/xprof/.installed  ## measure against XProf 2.24.2 and xprof-rs, side by side (see bench/README.md)
	bash bench/run.sh

# What makes and checks the wheels of a release.
.venv-release/.installed: release/requirements.txt
	$(PYTHON) -m venv --clear .venv-release
	.venv-release/bin/python -m pip install -q --disable-pip-version-check -r release/requirements.txt
	@touch $@

wheels/.made: .venv-release/.installed release/wheels.py release/tags.py setup.py pyproject.toml $(NATIVE) $(SOURCES)
	rm -rf wheels
	.venv-release/bin/python release/wheels.py --out wheels
	.venv-release/bin/python -m build -q --sdist --no-isolation --outdir wheels .
	@touch $@

wheels: wheels/.made  ## the wheels of a release for all platforms, and the source distribution, into wheels

# What comes with an installation: the wheel's dependencies, in an environment of their own.
sbom: wheels/.made  ## a bill of materials (CycloneDX) of what an installation brings, beside the wheels
	$(PYTHON) -m venv --clear --without-pip .venv-sbom
	.venv-release/bin/python -m pip --python .venv-sbom/bin/python install -q --disable-pip-version-check wheels/*manylinux*_x86_64.whl
	.venv-release/bin/cyclonedx-py environment --of JSON -o wheels/sbom.cdx.json .venv-sbom/bin/python

# A Python for arm64, where this machine can emulate one.
.venv-arm64/.installed: wheels/.made release/arm64.sh
	bash release/arm64.sh $(@D) wheels/*manylinux*_aarch64.whl
	@mkdir -p $(@D) && touch $@

# TensorBoard's versions, each with this wheel, without TensorFlow; the last with XProf's tab beside ours. (2.20 needs setuptools' pkg_resources.)
TENSORBOARDS = 2.19.0 2.20.0 2.21.0 2.21.0-xprof
.venv-bench/tensorboard-%/.installed: .venv/.installed
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install -q --disable-pip-version-check 'setuptools<82' tensorboard==$(firstword $(subst -, ,$*)) viztracer \
	  $(if $(findstring xprof,$*),xprof==2.24.2) dist/*.whl
	@touch $@

# JupyterLab with this wheel, and the proxy of its server.
.venv-bench/jupyter/.installed: .venv/.installed
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install -q --disable-pip-version-check jupyterlab==4.6.6 jupyter-server-proxy==4.6.0 ipykernel dist/*.whl
	@touch $@

verify: .venv/.installed .venv-arm64/.installed .venv-bench/xprof/.installed .venv-bench/jupyter/.installed $(TENSORBOARDS:%=.venv-bench/tensorboard-%/.installed)  ## the long run: sanitizers, fuzzing, browser, XProf live, all shared profiles, a machine that stops, other versions
	bash native/tests/run.sh 10000
	bash native/tests/elsewhere.sh .venv-release/bin/python x86_64-linux-musl
	bash native/tests/elsewhere.sh .venv-release/bin/python aarch64-linux-musl qemu-aarch64
	bash native/tests/elsewhere.sh .venv-release/bin/python x86_64-windows-gnu wine64
	OUTPACE_RELEASE_PYTHON=$(CURDIR)/.venv-release/bin/python OUTPACE_OTHER_PYTHONS=$(CURDIR)/.venv-arm64/python \
	OUTPACE_XPROF_PYTHON=$(CURDIR)/.venv-bench/xprof/bin/python OUTPACE_JUPYTER=$(CURDIR)/.venv-bench/jupyter/bin/python \
	OUTPACE_TENSORBOARDS=$(subst $(eval ) ,:,$(TENSORBOARDS:%=$(CURDIR)/.venv-bench/tensorboard-%/bin/python)) \
	  $(BIN)/python -m pytest -m verify -rs
	$(BIN)/python -m pytest -p tests.stops -n 2 --dist loadfile --no-loadscope-reorder tests/unit \
	  tests/integration/test_profile_python.py tests/integration/test_profiler_callback.py tests/integration/test_monitor.py
	bash tests/versions.sh

MUTANTS ?= 300000
SEED ?= 1
fuzz:  ## mutants of the core's input under sanitizers, also while it changes (MUTANTS=300000 SEED=1: half an hour of one core)
	bash native/tests/run.sh $(MUTANTS) $(SEED)

clean:  ## remove what the targets made
	rm -rf .venv .venv-* build dist wheels demo src/*.egg-info tests/scripts/node_modules
