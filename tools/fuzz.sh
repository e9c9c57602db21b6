#!/usr/bin/env bash
# Runs fuzz targets, each for some seconds, also after one has found something. What a fuzzer finds on its way lies in target/fuzz, not among the seeds in fuzz/corpus.
#   fuzz.sh SECONDS [TARGET…]      default: all targets
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: fuzz.sh SECONDS [TARGET…]" >&2; exit 2; }
seconds=$1
shift
[ $# -gt 0 ] || mapfile -t names < <(cargo +nightly fuzz list)
[ $# = 0 ] || names=("$@")
target=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
failed=()
for name in "${names[@]}"; do
    case $name in
    elf | full | probe_target | symbolize) seeds=compile ;;
    convert) seeds=pprof ;;
    render) seeds=recording ;;
    *) seeds=$name ;;
    esac
    mkdir -p "$target/corpus/$name"
    CARGO_TARGET_DIR=$target cargo +nightly fuzz run "$name" "$target/corpus/$name" "fuzz/corpus/$seeds" -- \
        "-max_total_time=$seconds" -rss_limit_mb=2048 -timeout=10 -max_len=65536 || failed+=("$name")
done
[ ${#failed[@]} = 0 ] || { echo "error: found something: ${failed[*]}; the inputs are in fuzz/artifacts" >&2; exit 1; }
