# The commands of this repository; each says itself what it needs. Options for truth and bench: ARGS="--seconds 10".

SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/local/go/bin

PREFIX ?= /usr/local

.PHONY: help build install deb demo test test-fast test-long truth bench fuzz format

help:
	@echo "make demo       install what is missing, build, profile a real program: flame graph and pprof in out/"
	@echo "make test       the whole gate: formatting, lints, documentation, licences, tests, other kernels"
	@echo "make test-fast  the tests of parts: without root, other kernels and whole captures"
	@echo "make test-long  what takes longer: aarch64 and full preemption in emulation, endurance, chaos, injection, each fuzz target for FUZZ_SECONDS (60)"
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

test:
	@tools/gate.sh

test-fast:
	@tools/gate.sh fast

test-long:
	@FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60) tools/gate.sh long

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
