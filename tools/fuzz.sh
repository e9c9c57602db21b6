#!/usr/bin/env bash
# Runs fuzz targets, each for some seconds. What a fuzzer finds on its way lies in target/fuzz, not among the seeds in fuzz/corpus.
#   fuzz.sh SECONDS [TARGET…]      default: all targets
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: fuzz.sh SECONDS [TARGET…]" >&2; exit 2; }
seconds=$1
shift
[ $# -gt 0 ] || mapfile -t names < <(cargo +nightly fuzz list)
[ $# = 0 ] || names=("$@")
target=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
for name in "${names[@]}"; do
    case $name in
    elf | full | probe_target | symbolize) seeds=compile ;;
    *) seeds=$name ;;
    esac
    mkdir -p "$target/corpus/$name"
    CARGO_TARGET_DIR=$target cargo +nightly fuzz run "$name" "$target/corpus/$name" "fuzz/corpus/$seeds" -- \
        "-max_total_time=$seconds" -rss_limit_mb=2048 -timeout=10 -max_len=65536
done
