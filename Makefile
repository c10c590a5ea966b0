# The commands of the README. All logic is in Python: labgpu/run for running, tests/suite.py and tests/check.py for checking.

PYTHON ?= python3
VENV = .venv/bin/python

.PHONY: run demo test torture check bench bench-full screens messages help environment environment-dev

help:  ## these lines
	@sed -n 's/^\([a-z-]*\):.*## /make \1: /p' Makefile

run: environment  ## start your lab: site, workers, clock and broker (PORT=, DATA_DIR=)
	@exec $(VENV) -m labgpu.run --end-with-parent

demo: environment  ## the same with a simulated lab to try
	@exec $(VENV) -m labgpu.run demo --end-with-parent

test: environment-dev  ## all tests, on SQLite and on PostgreSQL, browser included (SKIP_E2E=1 leaves that out)
	@exec $(VENV) -m tests.suite

torture: environment-dev  ## ten thousand random sequences against the plain model of the law, for before a release
	@exec $(VENV) -m tests.torture

check: environment-dev  ## style, types, import directions, migrations, translations, vendored files
	@exec $(VENV) -m tests.check

bench: environment-dev  ## measure against the fixed floor; writes var/bench.json
	@exec $(VENV) -m tests.bench

bench-full: environment-dev  ## the same with a million reservations stored, and a thousand races: takes a while
	@BENCH_STORED=$${BENCH_STORED:-1000000} BENCH_RACES=$${BENCH_RACES:-1000} exec $(VENV) -m tests.bench

screens: environment-dev  ## make the README's screenshots from the demo lab
	@exec $(VENV) -m tests.screens

messages: environment-dev  ## collect texts to translate into locale/ (developers; needs gettext)
	@exec $(VENV) -m tests.messages

environment:
	@command -v $(PYTHON) >/dev/null 2>&1 || { echo "labgpu: $(PYTHON) was not found: install Python 3.11 or newer." >&2; exit 2; }
	@$(PYTHON) labgpu/run/environment.py run

environment-dev:
	@command -v $(PYTHON) >/dev/null 2>&1 || { echo "labgpu: $(PYTHON) was not found: install Python 3.11 or newer." >&2; exit 2; }
	@$(PYTHON) labgpu/run/environment.py dev
