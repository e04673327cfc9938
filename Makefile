# `make demo` and `make test` need Python 3.11+, git and make; nothing else has to be installed.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
SPARK_INSTALLED := .venv/.spark-installed
LIVE_INSTALLED := .venv/.live-installed
PACKAGE_INSTALLED := .venv/.package-installed
SITE_INSTALLED := .venv/.site-installed
# What is installed here is pinned, with the hashes of its files for every platform: `make lock` renews it.
dev_EXTRAS := dev
live_EXTRAS := live-test
spark_EXTRAS := spark spark-test service-test recipe-test
package_EXTRAS := package
fuzz_EXTRAS := fuzz
site_EXTRAS := site
LOCKS := dev live spark package fuzz site
LOCKED := pip install --quiet --require-hashes --requirement
THIS := -m pip install --quiet --no-deps --no-build-isolation
# uv takes a tenth of pip's time. It reads none of pip's settings: what it does not find, the other installs.
install = $(BIN)/uv $(LOCKED) requirements/$(2).txt --python $(1)/bin/python || \
	$(1)/bin/python -m $(LOCKED) requirements/$(2).txt
export UV_CACHE_DIR ?= $(CURDIR)/build/uv
# One more than processors: some tests wait, for a screen or a process, and each worker collects all tests first.
WORKERS := $(shell $(PYTHON) -c "import os; print(1 + (os.cpu_count() or 1))")

# Tests start Python hundreds of times: what it compiled stays, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-live test-collector test-oldest compiled package wheels sbom lint docs site import newest-kafka release-check screenshots fuzz bench bench-spark soak soak-stream lock clean

demo: $(INSTALLED)
	$(BIN)/kinspect read captures/4.4.0/txn_librdkafka.pcap.gz --format table

test: lint
	$(BIN)/pytest -n $(WORKERS) -m "not tools and not big"

# What needs programs beyond Python (tshark, tcpdump, Chromium, Java 17, …), or takes long, as of all captures what
# `make test` asks of a few; each names what is missing.
# The tests of a file stay together: those of Spark share a session.
test-all: $(SPARK_INSTALLED) $(PACKAGE_INSTALLED) $(SITE_INSTALLED) wheels test-live test-oldest
	$(BIN)/pytest -n auto --dist loadfile -m "(tools or big) and not broker and not collector"

# Beside one real broker, of the release KAFKA_VERSION; the first time it is downloaded from Maven Central into build/.
test-live: $(LIVE_INSTALLED)
	$(BIN)/pytest tests/live/broker

# docs/recipes/otel.md, with an OpenTelemetry Collector that Go 1.25 or newer builds into build/; minutes the first time.
test-collector: $(INSTALLED)
	$(BIN)/pytest tests/recipes/collector

# The tests of what mypyc compiles, as a wheel installs it, in an environment of its own (a C compiler is needed).
# tests/forms compares what both forms print of every capture: commands and outputs are tested in the other form alone.
# Python must not put the working directory before what is installed.
COMPILED := .venv-compiled
IS_COMPILED := $(addprefix tests/,capture captures forms fuzz kafka limits link live mutations protocol records tcp tls \
	$(patsubst %,test_%.py,api imports peers pipeline rate timedpattern) $(patsubst %,cli/test_%.py,decode read) \
	$(patsubst %,output/test_%.py,jsonl linelimit smaller_lines))

compiled: $(COMPILED)/.installed
	PYTHONSAFEPATH=1 KINSPECT_FORM=compiled $(COMPILED)/bin/pytest -n $(WORKERS) -m "not tools and not big" \
		--ignore tests/limits/test_option_files.py $(IS_COMPILED)

$(COMPILED)/.installed: build/wheel/.built
	test -d $(COMPILED) || $(PYTHON) -m venv $(COMPILED)
	$(call install,$(COMPILED),dev)
	$(COMPILED)/bin/python $(THIS) --force-reinstall build/wheel/*.whl
	touch $@

build/wheel/.built: $(INSTALLED) setup.py MANIFEST.in tools/build_backend.py $(shell find kinspect -type f -not -name '*.pyc')
	rm -rf build/wheel
	KINSPECT_COMPILE=1 $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheel .
	touch $@

# What a release consists of, in dist/: the sdist and the wheel for every platform; the compiled wheel for this Python on
# this platform, with the tag of the oldest systems that it runs on; and what else they bring along, as CycloneDX.
package: $(PACKAGE_INSTALLED)
	KINSPECT_COMPILE=0 $(BIN)/pyproject-build --no-isolation --outdir dist .

wheels: $(PACKAGE_INSTALLED) build/wheel/.built
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/wheel/*.whl

sbom: $(PACKAGE_INSTALLED)
	$(BIN)/python tools/sbom.py dist

# Whether the version in pyproject.toml may be released: its section of the changelog has a date, the generated pages are up
# to date, and what is made of it works in fresh environments. Beside `make test-all`; some ten minutes.
release-check: $(SPARK_INSTALLED) $(SITE_INSTALLED) package wheels sbom
	version=$$($(BIN)/python -c "import kinspect; print(kinspect.__version__)") && \
		grep -E "^## \[$$version\] – [0-9]{4}-[0-9]{2}-[0-9]{2}$$" CHANGELOG.md || \
		{ echo "CHANGELOG.md has no section of $$version with a date"; exit 1; }
	$(BIN)/python tools/generate_docs.py --check
	$(BIN)/pytest tests/install tests/site $(patsubst %,tests/tools/test_%.py,man_page workflows service_files) \
		tests/cli/test_completion.py

# Some hundred quick tests of what calls packages, with the oldest that pyproject.toml allows.
OLDEST := .venv-oldest
QUICK := tests/capture/test_compressed.py tests/tui/test_selection.py tests/test_api.py \
	$(patsubst %,tests/payloads/test_%.py,payloaddecoder payloadforms) \
	$(patsubst %,tests/output/test_%.py,detail jsonl layout otlp table) \
	$(patsubst %,tests/tls/test_%.py,keylog keyderivation protection recorded) \
	$(patsubst %,tests/cli/test_%.py,completion decode keylog main schema sort)

test-oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/pytest -n $(WORKERS) -m "not tools and not big" $(QUICK)

$(OLDEST)/.installed: $(INSTALLED) requirements/oldest.txt
	$(PYTHON) -m venv --clear $(OLDEST)
	$(call install,$(OLDEST),oldest)
	$(OLDEST)/bin/python $(THIS) --editable .
	touch $@

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Each target of tests/fuzz for FUZZ_SECONDS, two at a time.
FUZZ_SECONDS ?= 600

fuzz: $(INSTALLED)
	$(call install,.venv,fuzz)
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS)

# Both forms against tshark and tcpdump; half an hour. BENCH=quick: four minutes, and nothing is kept.
BENCH ?=

bench: $(INSTALLED) $(COMPILED)/.installed
	$(BIN)/python tests/bench/run.py $(addprefix --,$(BENCH))
	$(COMPILED)/bin/python tests/bench/run.py --form compiled $(addprefix --,$(BENCH))

# The tables on Spark beside `kinspect read`; ten minutes. BENCH=quick: less, and nothing is kept.
bench-spark: $(SPARK_INSTALLED)
	$(BIN)/python tests/bench/spark.py $(addprefix --,$(BENCH))

# `live` at 5,000 exchanges a second for SOAK_SECONDS: memory that grows or lines that are missing fail it. Needs root.
SOAK_SECONDS ?= 3600
SOAK_RATE ?= 5000

soak: $(INSTALLED)
	$(BIN)/python tests/soak/soak.py --seconds $(SOAK_SECONDS) --rate $(SOAK_RATE)

# `pipeline stream` with 100,000 connections that stay open, for SOAK_SECONDS: micro-batches or a state that grow, or rows
# that are missing, fail it.
SOAK_CONNECTIONS ?= 100000

soak-stream: $(SPARK_INSTALLED)
	$(BIN)/python tests/soak/stream.py --seconds $(SOAK_SECONDS) --connections $(SOAK_CONNECTIONS)

# The pages of docs/ that are made from the code.
docs: $(INSTALLED)
	$(BIN)/python tools/generate_docs.py

# The documentation as a site in build/site: open index.html there, or copy the folder to any server.
site: $(SITE_INSTALLED)
	$(BIN)/python tools/make_site.py

# What the release KAFKA_VERSION of Kafka defines, into the table and the pages made of it; its jars come from Maven Central.
import: $(INSTALLED)
	$(BIN)/python tools/broker/release.py
	git add --intent-to-add kinspect/protocol/table # an API that is new is a file that is new
	git diff --stat

# The same with the newest release that Maven Central has, unless the table has it.
newest-kafka: $(INSTALLED)
	release=$$($(BIN)/python tools/broker/newest.py) && { test -z "$$release" || $(MAKE) import KAFKA_VERSION=$$release; }

# The pictures of the explorer in docs/images, of captures in captures/.
screenshots: $(INSTALLED)
	$(BIN)/python tools/screenshots.py

$(INSTALLED): pyproject.toml requirements/dev.txt
	$(PYTHON) -m venv .venv
	sed -n '/^uv==/,/# via/p' requirements/dev.txt >.venv/uv.txt
	$(BIN)/python -m $(LOCKED) .venv/uv.txt
	$(call install,.venv,dev)
	$(BIN)/python $(THIS) --editable .
	touch $@

$(SPARK_INSTALLED): $(LIVE_INSTALLED)

.venv/.%-installed: $(INSTALLED) requirements/%.txt
	$(call install,.venv,$*)
	touch $@

# The newest packages that pyproject.toml allows, the same in all files; and the oldest.
PIN = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade \
	--group build pyproject.toml

lock: $(PACKAGE_INSTALLED)
	mkdir -p build
	$(PIN) --all-extras --output-file build/lock.txt
	$(foreach set,$(LOCKS),$(PIN) --constraint build/lock.txt $(addprefix --extra ,$($(set)_EXTRAS)) \
		--output-file requirements/$(set).txt &&) true
	$(PIN) --resolution lowest-direct --extra dev --output-file requirements/oldest.txt

clean:
	rm -rf .venv .venv-compiled .venv-oldest build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
