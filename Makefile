# `make demo` and `make test` need Python 3.11+, git and make; nothing else has to be installed.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
SPARK_INSTALLED := .venv/.spark-installed

.PHONY: demo test test-all lint docs fuzz clean

demo: $(INSTALLED)
	$(BIN)/kinspect read captures/4.4.0/txn_librdkafka.pcap.gz --format table

test: lint
	$(BIN)/pytest -n auto -m "not tools"

# What needs programs beyond Python (tshark, Java 17 for Spark); each test names what is missing. The tests of a file
# stay together: those of Spark share a session.
test-all: $(SPARK_INSTALLED)
	$(BIN)/pytest -n auto --dist loadfile -m tools

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Each target of tests/fuzz for FUZZ_SECONDS, two at a time.
FUZZ_SECONDS ?= 600

fuzz: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable ".[fuzz]"
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

# The pages of docs/ that are made from the code.
docs: $(INSTALLED)
	$(BIN)/python tools/generate_docs.py

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

$(SPARK_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable ".[dev,spark,spark-test]"
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
