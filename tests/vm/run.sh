#!/usr/bin/env bash
# Boots Debian kernels under QEMU and checks perf-agent in them on the known-answer programs that need no library, and on programs in Python.
#   run.sh [VERSION…]      default: 5.10 6.1 6.12 newest
# Needs: qemu-system-x86, cpio, gcc, binutils, a release build of perf-agent (or $PERF_AGENT) and of truth. Without QEMU: one line, and
# success.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
agent=${PERF_AGENT:-$target/release/perf-agent}
truth=${TRUTH:-$target/release/truth}
[ $# -gt 0 ] || set -- 5.10 6.1 6.12 newest

. "$here/boot.sh"
require tests/vm "$agent" "$truth"

programs=recurse-gcc-O2-static-36,recurse-gcc-O3-lto-static-pie-500,threads-musl-static,signal-altstack-static,vdso-static
programs+=,syscalls-static,threads-64-static,uprobes-static,high-addresses-static
# Several guests may be prepared at once.
mkdir -p "$target/truth"
flock "$target/truth" "$truth" build --out "$target/truth" --standalone --only "$programs"

gcc -O2 -shared -fPIC -o "$work/loads.so" "$here/loads.c" -ldl

# Debian's interpreter, and the newest one of pyenv and tools/pythons.sh that has its layout in itself, with the files that they need.
pythons=$(realpath /usr/bin/python3)
IFS=: read -r -a others <<< "${PERFAGENT_PYTHONS-$("$root/tools/pythons.sh")}"
newest=$(for python in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[3-9].*/bin/python3 "${others[@]}"; do
    # Python 2 refuses the options, and an unmatched pattern is no program.
    "$python" -I -S -c 'import sys; print(*sys.version_info[:3], sep=".", end=" "); print(sys.argv[1])' "$(realpath "$python")" || true
done 2> /dev/null | sort -V | sed -n '$s/^3\.1[3-9][^ ]* //p')
pythons+=${newest:+ $newest}
put_pythons() {
    local python file
    put "$here/python.py" /python.py
    for python in $pythons; do
        put "$python" "$python"
        for file in $("$python" -I -S "$here/python.py" files | grep '^/.*/lib/'); do put "$file" "$file"; done
        # By this folder the interpreter finds its place.
        mkdir -p "$tree$("$python" -I -S -c 'import os; print(os.path.dirname(os.__file__))')/lib-dynload"
    done
}

for version in "$@"; do
    kernel=$("$here/kernel.sh" "$version")
    plant "$kernel"
    put_stripped "$agent" /bin/perf-agent
    put_stripped "$truth" /bin/truth
    put "$work/loads.so" /lib/loads.so
    put "$here/checks.sh" /checks
    put_pythons
    mkdir "$tree/truth"
    find "$target/truth" -maxdepth 1 -type f -perm -u+x -exec cp {} "$tree/truth/" \;
    init ttyS1 << INIT
sh /checks $programs $pythons
status=\$?
INIT
    boot_x86 "$version" "$kernel"
done
exit "$failed"
