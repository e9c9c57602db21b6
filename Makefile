# The commands of this repository; each says itself what it needs. Options for truth and bench: ARGS="--seconds 10".

SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/local/go/bin

PREFIX ?= /usr/local

# Debian's interpreter, as tools/packages.sh installs it.
PYTHON := /usr/bin/python3

.PHONY: help build install deb demo lint test test-fast test-kernels test-long test-new-machine truth bench fuzz format

help:
	@echo "make demo       install what is missing, build, profile a real program: flame graph and pprof in out/"
	@echo "make test       builds and runs the tests; of those whose name contains a word: ARGS='-- WORD'"
	@echo "make test-fast  formats, rules of the workspace, and the tests that need no root and no whole capture"
	@echo "make lint       formats, lints, documentation, licences, rules of the workspace, packaging"
	@echo "make test-kernels      the release binary on other kernels, in guests"
	@echo "make test-new-machine  README's first two commands in an empty Debian 12; the tests in one, confined as in most containers, or as a user: ARGS=--container, ARGS=--user"
	@echo "make test-long  what takes longer: a new machine, container and user, aarch64 and full preemption in emulation, endurance, chaos, injection, each fuzz target for FUZZ_SECONDS (60)"
	@echo "make build      target/dist/perf-agent, small, its manual pages and shell completions"
	@echo "make install    what was built: program, its debug file, manual pages, completions (PREFIX=/usr/local, DESTDIR)"
	@echo "make deb        Debian packages of what was built: perf-agent and perf-agent-dbgsym, in target/debian"
	@echo "make truth      known-answer programs under perf-agent and perf record, as one table; cost per sample"
	@echo "make bench      cost per sample, slowdown, start-up, footprint, real programs"
	@echo "make fuzz       each fuzz target for TIME seconds (600)"
	@echo "make format     format Rust and C"

build:
	@command -v cargo > /dev/null || { echo "error: cargo is missing: install stable Rust, see https://rustup.rs" >&2; exit 1; }
	@tools/packages.sh build
	cargo build --profile dist --locked -p cli
	cargo run --profile dist --locked --quiet -p cli --example pages -- $(or $(CARGO_TARGET_DIR),target)/dist/pages

install:
	@tools/install.sh "$(or $(CARGO_TARGET_DIR),target)/dist" "$(DESTDIR)$(PREFIX)"

deb: build
	@tools/packages.sh deb
	@tools/deb.sh "$(or $(CARGO_TARGET_DIR),target)/dist" "$(or $(CARGO_TARGET_DIR),target)/debian"

demo:
	@tools/demo.sh

lint:
	@tools/packages.sh build lint
	@$(PYTHON) tools/lint.py $(ARGS)

# Without root the tests of what is missing are skipped.
test:
	@tools/packages.sh build
	@tools/packages.sh test || [ "$$(id -u)" != 0 ]
	@$(PYTHON) tools/test.py $(ARGS)

test-fast:
	@tools/packages.sh build
	@$(PYTHON) tools/lint.py --sources
	@$(PYTHON) tools/test.py --parts $(ARGS)

test-kernels:
	@tools/packages.sh build kernels
	@tools/kernels.sh

test-new-machine:
	@tools/packages.sh new-machine
	@tools/new_machine.sh $(ARGS)

test-long:
	@tools/packages.sh build test kernels long
	@FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60) $(PYTHON) tools/long.py

truth:
	@tools/packages.sh build truth
	cargo build --release --locked -p cli -p truth -p bench
	PATH=$$(tools/go.sh):$$PATH target/release/truth table $(ARGS)
	target/release/bench cost --seconds 5

bench:
	@tools/packages.sh build truth
	cargo build --release --locked -p cli -p bench
	for measurement in cost slowdown "startup --fleet" footprint real; do target/release/bench $$measurement $(ARGS) || exit 1; done

fuzz:
	@command -v cargo-fuzz > /dev/null || { echo "error: cargo-fuzz is missing: cargo install --locked cargo-fuzz" >&2; exit 1; }
	@tools/fuzz.sh $(or $(TIME),$(FUZZ_SECONDS),600)

format:
	cargo fmt --all
	clang-format -i bpf/*.[ch] bpf/abi/*.h bench/bpf/*.[ch]
