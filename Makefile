# The commands of this repository; each says itself what it needs. Options for truth and bench: ARGS="--seconds 10".

SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/local/go/bin

.PHONY: help build demo test truth bench fuzz format

help:
	@echo "make demo    install what is missing, build, profile a real program: flame graph and pprof in out/"
	@echo "make test    the whole gate: formatting, lints, documentation, licences, tests, other kernels"
	@echo "make build   target/release/perf-agent"
	@echo "make truth   known-answer programs under perf-agent and perf record, as one table"
	@echo "make bench   cost per sample, slowdown, start-up, footprint, real programs"
	@echo "make fuzz    each fuzz target for FUZZ_SECONDS (600)"
	@echo "make format  format Rust and C"

build:
	@tools/packages.sh build
	cargo build --release --locked -p cli

demo:
	@tools/demo.sh

test:
	@tools/gate.sh

truth:
	@tools/packages.sh build truth
	cargo build --release --locked -p cli -p truth -p bench
	PATH=$$(tools/go.sh):$$PATH target/release/truth table $(ARGS)
	target/release/bench cost --seconds 5

bench:
	@tools/packages.sh build truth
	cargo build --release --locked -p cli -p bench
	for measurement in cost slowdown "startup --fleet" footprint real; do target/release/bench $$measurement $(ARGS) || exit 1; done

FUZZ_SECONDS (600)"
	@echo "make format  format Rust and C"

build:
	@tools/packages.sh build
	cargo build --release --locked -p cli

demo:
	@tools/demo.sh

test:
	@tools/gate.sh

truth:
	@tools/packages.sh build truth
	cargo build --release --locked -p cli -p truth
	PATH=$$(tools/go.sh):$$PATH target/release/truth table $(ARGS)

bench:
	@tools/packages.sh build truth
	cargo build --release --locked -p cli -p truth
	for measurement in cost slowdown "startup --crowd" footprint real; do target/release/truth $$measurement $(ARGS) || exit 1; done

FUZZ_SECONDS ?= 600
fuzz:
	@command -v cargo-fuzz > /dev/null || { echo "error: cargo-fuzz is missing: cargo install --locked cargo-fuzz" >&2; exit 1; }
	for t in $$(cargo +nightly fuzz list); do \
	    cargo +nightly fuzz run $$t -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=10 -max_len=65536 || exit 1; done

format:
	cargo fmt --all
	clang-format -i bpf/*.[ch] bench/bpf/*.[ch]
