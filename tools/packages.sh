#!/usr/bin/env bash
# Installs the Debian packages that are missing for a purpose. Does nothing if all are installed.
# crates/testkit/needs.txt is the table of packages.
#   packages.sh PURPOSE…           build | deb | demo | lint | test | truth | kernels | new-machine | long
#   packages.sh --list PURPOSE…    prints the packages, installed or not
set -euo pipefail
table=$(dirname "$0")/../crates/testkit/needs.txt
PATH=$PATH:/usr/sbin:/sbin:/usr/local/go/bin

list=
[ "${1:-}" != --list ] || { list=yes; shift; }
machine=$(uname -m)
rows=() known=,
while read -r name package proof for_machine purposes; do
    case $name in '' | '#'*) continue ;; esac
    known+=$purposes,
    case $for_machine in any | "$machine") rows+=("$package $proof ,$purposes,") ;; esac
done < "$table"

present() {
    case $1 in
    /*) [ -e "$1" ] ;;
    *) type -P "$1" > /dev/null ;;
    esac
}

wanted=()
for purpose in "$@"; do
    [[ $known == *,$purpose,* ]] || { echo "packages.sh: unknown purpose $purpose (see the last column of $table)" >&2; exit 2; }
    for row in "${rows[@]}"; do
        read -r package proof purposes <<< "$row"
        [[ $purposes == *,$purpose,* ]] || continue
        [[ " ${wanted[*]} " != *" $package "* ]] || continue
        if [ -n "$list" ] || ! present "$proof"; then wanted+=("$package"); fi
    done
done
[ ${#wanted[@]} -gt 0 ] || exit 0
if [ -n "$list" ]; then
    printf '%s\n' "${wanted[@]}"
    exit 0
fi

if ! command -v apt-get > /dev/null; then
    echo "error: these are missing (names of Debian packages): ${wanted[*]}" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "error: packages are missing; as root: apt-get install ${wanted[*]}" >&2
    exit 1
fi
echo "installing: ${wanted[*]}"
export DEBIAN_FRONTEND=noninteractive
# Servers are installed as programs for tests; none is started as a service.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
fi
install() { apt-get install -y -qq --no-install-recommends "${wanted[@]}" > /dev/null; }
install 2> /dev/null || { apt-get update -qq && install; }
