# Sourced by run.sh and arm64.sh: a guest from its tree of files to its verdict. A guest is a kernel, a static busybox and the
# programs under test, all in memory: no disk, no network, no login. Its /init writes to the second serial port, and in the last line
# "exit status N". Sets `work`, a folder that goes when the script ends, and `failed`, 1 once a guest has failed. `options` are further
# options of the kernel.

work=$(mktemp -d "${TMPDIR:-/tmp}/perf-agent-vm.XXXXXX")
failed=0
options=
qemu=
cleanup() {
    [ -z "$qemu" ] || kill "$qemu" 2> /dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Ends the script where a guest of x86-64 cannot be made: without QEMU with one line and success, without a binary with an error.
require() { # WHAT BINARY…
    local what=$1 tool binary
    shift
    for tool in qemu-system-x86_64:qemu-system-x86 cpio:cpio; do
        command -v "${tool%%:*}" > /dev/null || { echo "skipped: $what because ${tool%%:*} is missing (package ${tool#*:})"; exit 0; }
    done
    for binary in "$@"; do
        [ -x "$binary" ] || { echo "$(basename "$0"): $binary is missing: cargo build --release -p cli -p truth" >&2; exit 1; }
    done
}

# An empty tree with the busybox of a kernel from kernel.sh; sets `tree`.
plant() { # KERNEL
    tree=$work/tree
    rm -rf "$tree"
    mkdir -p "$tree"/{bin,lib,proc,sys,dev,tmp,root}
    cp "$(dirname "$(dirname "$1")")/busybox" "$tree/bin/busybox"
}

# Puts a program into the tree without its debug information, which the guest would unpack and hash.
put_stripped() { # FILE DESTINATION
    put "$1" "$2"
    strip "$tree$2"
}

# Puts a file into the tree, with the shared libraries that it needs.
put() { # FILE DESTINATION
    mkdir -p "$tree$(dirname "$2")"
    cp -L "$1" "$tree$2"
    { ldd "$1" 2> /dev/null || true; } | awk '/=> \// { print $3 } /^[ \t]*\// { print $1 }' | while read -r library; do
        mkdir -p "$tree$(dirname "$library")"
        [ -e "$tree$library" ] || cp -L "$library" "$tree$library"
    done
}

# Writes /init: the common beginning, then standard input.
init() { # PORT
    {
        cat << INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
stty -F /dev/$1 raw -echo
# The kernel would lower the sampling rate because emulated interrupts take long.
echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent
(sleep 1800; echo "ended after half an hour" > /dev/$1; poweroff -f) > /dev/null 2>&1 &
exec > /dev/$1 2>&1
INIT
        cat
        echo 'echo "exit status $status"'
        # The kernel sends the rest of the output when the last writer has closed the port.
        echo 'exec > /dev/null 2>&1'
        echo 'poweroff -f'
    } > "$tree/init"
    chmod +x "$tree/init"
}

# Boots the tree, prints the guest's output and judges it. The emulator's own options follow.
boot() { # NAME KERNEL CONSOLE EMULATOR OPTION…
    local name=$1 kernel=$2 console=$3 emulator=$4
    shift 4
    (cd "$tree" && find . -print0 | cpio --null -o -H newc --quiet -R 0:0) > "$work/initrd"
    : > "$work/output"
    timeout 3600 "$emulator" -nodefaults -no-user-config -display none -no-reboot -accel tcg,thread=single,tb-size=512 \
        -kernel "$(find "$kernel/boot" -name 'vmlinuz-*' -print -quit)" -initrd "$work/initrd" \
        -chardev "file,id=console,path=$work/console" -serial chardev:console -chardev "file,id=output,path=$work/output" "$@" \
        -append "console=$console rdinit=/init panic=-1 oops=panic quiet nokaslr no_timer_check tsc=reliable $options" &
    qemu=$!
    wait "$qemu" || true
    qemu=
    echo "== kernel $name"
    tr -d '\r' < "$work/output"
    if ! grep -q '^exit status 0' "$work/output"; then
        failed=1
        echo "perf-agent failed on kernel $name; end of the console:" >&2
        tail -n 15 "$work/console" >&2
    fi
}

# Boots the tree on x86-64, with two CPUs. The guest's clock counts instructions, 8 ns each, and jumps to the next timer while both CPUs are
# idle. So other work on the host costs the guest no time of its own. The CPUs take turns, each until the next timer is due. The time stamp
# counter counts the ns of that clock. With erms, each byte that the kernel copies would be an instruction.
#
# QEMU before 8.1 gives an empty turn to the CPU that follows when a timer is due, so that CPU could starve. A third CPU, which Linux
# never starts, takes the empty turns: it is the second for QEMU, by the order of the options, and the last for Linux, by its socket.
boot_x86() { # NAME KERNEL
    local options="tsc_early_khz=1000000 maxcpus=2 $options" cpu=max-x86_64-cpu,erms=off,core-id=0,thread-id=0
    boot "$1" "$2" ttyS0 qemu-system-x86_64 -machine q35,hpet=off -m 2048 -serial chardev:output \
        -icount shift=3,sleep=off -rtc clock=vm -cpu max,erms=off \
        -smp 1,sockets=3,maxcpus=3 -device $cpu,socket-id=2 -device $cpu,socket-id=1
}
