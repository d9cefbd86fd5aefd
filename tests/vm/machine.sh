# shellcheck shell=bash
# A virtual machine for tests: QEMU without KVM runs Debian's kernel on this machine's own root file system, which it sees
# read-only, below a tmpfs that takes what is written. To be sourced; leaves nothing behind but the downloaded kernel package.
#
# MACHINE_PLACE is a directory of the test, removed at its end. What is put into $MACHINE_PLACE/tree lies over the guest's root.
# MACHINE_MEMORY: MiB of each guest (1024).

MACHINE_CACHE=${TCAD_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tcad-vm}
MACHINE_MODULES=(virtio_pci 9pnet_virtio 9p overlay)

machine_skip() {
    echo "skipped: $*" >&2
    exit 77
}

machine_say() {
    printf '[%3d s] %s\n' "$SECONDS" "$*"
}

machine_init() {
    local program
    # Debian keeps some of these where ordinary users do not look.
    PATH=$PATH:/usr/sbin:/sbin
    for program in qemu-system-x86_64 busybox cpio depmod modprobe dpkg; do
        command -v "$program" >/dev/null || machine_skip "$program is missing: tools/setup --vm installs it"
    done
    [[ $(uname -m) == x86_64 ]] || machine_skip "the virtual machine is an x86_64, this machine is not"
    MACHINE_PLACE=$(mktemp -d "${TMPDIR:-/tmp}/tcad-vm.XXXXXX")
    MACHINE_QEMUS=()
    trap machine_end EXIT
    trap 'exit 143' TERM
    trap 'exit 130' INT
    mkdir "$MACHINE_PLACE/tree"
}

machine_end() {
    local qemu
    for qemu in "${MACHINE_QEMUS[@]}"; do
        # To timeout, which passes it on.
        kill -TERM "$qemu" 2>/dev/null || true
        wait "$qemu" 2>/dev/null || true
    done
    rm -rf "$MACHINE_PLACE"
}

# The kernel package: the one that is in the cache, else that behind linux-image-amd64, downloaded.
machine_package() {
    local package name new=$MACHINE_PLACE/download
    mkdir -p "$MACHINE_CACHE" || machine_skip "$MACHINE_CACHE cannot be made, TCAD_VM_CACHE can name another directory"
    package=$(find "$MACHINE_CACHE" -maxdepth 1 -name 'linux-image-*.deb' | sort -V | tail -n 1)
    if [[ -z $package ]]; then
        name=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-[0-9]/ { print $2; exit }')
        [[ $name ]] || machine_skip "linux-image-amd64 is not in the package lists: apt-get update brings them"
        mkdir "$new"
        (cd "$new" && apt-get -qq download "$name") >"$new/said" 2>&1 ||
            machine_skip "the kernel package cannot be downloaded: $(grep -m 1 '^E:' "$new/said" || echo "no reason given")"
        package=$MACHINE_CACHE/$(basename "$new"/linux-image-*.deb)
        # Under its name it is complete.
        cp "$new"/linux-image-*.deb "$MACHINE_CACHE/partial.$$"
        mv "$MACHINE_CACHE/partial.$$" "$package"
    fi
    echo "$package"
}

# Kernel and initramfs: busybox, the modules that mount the root in the order in which they need each other, and guest/init.
machine_prepare() {
    local package module kernel=$MACHINE_PLACE/kernel image=$MACHINE_PLACE/initramfs
    package=$(machine_package)
    machine_say "unpacking $(basename "$package")"
    dpkg -x "$package" "$kernel"
    MACHINE_VERSION=$(basename "$kernel"/boot/vmlinuz-*)
    MACHINE_VERSION=${MACHINE_VERSION#vmlinuz-}
    depmod -b "$kernel" "$MACHINE_VERSION"
    mkdir -p "$image/bin" "$image/modules"
    cp "$(command -v busybox)" "$image/bin/busybox"
    cp "$MACHINE_SOURCE/guest/init" "$image/init"
    chmod 755 "$image/init"
    for module in "${MACHINE_MODULES[@]}"; do
        modprobe -d "$kernel" -S "$MACHINE_VERSION" --show-depends "$module"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$MACHINE_PLACE/modules"
    while read -r module; do
        cp "$module" "$image/modules/"
        basename "$module"
    done <"$MACHINE_PLACE/modules" >"$image/modules/order"
    (cd "$image" && find . | cpio --quiet -o -H newc) >"$MACHINE_PLACE/initrd"
}

# machine_boot NAME SECONDS unit=UNIT|init=PROGRAM [OPTION...]: boots a guest with further options of QEMU, which starts systemd with the
# unit, or the program as PID 1. What it writes to ttyS1 goes to $MACHINE_PLACE/NAME.report. Without no_timer_check, a kernel that gets too
# little of a busy processor finds its timer broken, and panics.
machine_boot() {
    local name=$MACHINE_PLACE/$1 limit=$2 what=$3
    shift 3
    : >"$name.report"
    timeout --foreground --kill-after=5 "$limit" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m "${MACHINE_MEMORY:-1024}" -display none -no-reboot \
        -kernel "$MACHINE_PLACE/kernel/boot/vmlinuz-$MACHINE_VERSION" -initrd "$MACHINE_PLACE/initrd" \
        -append "console=ttyS0 panic=-1 quiet no_timer_check systemd.show_status=no mitigations=off random.trust_cpu=on tcad.place=$MACHINE_PLACE tcad.$what" \
        -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
        -nic none -monitor none -serial "file:$name.console" -serial "file:$name.report" "$@" \
        </dev/null >"$name.qemu" 2>&1 &
    MACHINE_QEMUS+=($!)
}

# machine_show NAME: what QEMU said, and the end of the console.
machine_show() {
    echo "---- QEMU of $1, and the end of the console:"
    cat "$MACHINE_PLACE/$1.qemu"
    tail -n 40 "$MACHINE_PLACE/$1.console"
}

# machine_run SECONDS unit=UNIT|init=PROGRAM: boots one guest, which powers off at the end; its report is this function's output.
# 0 when the last line of the report is "passed".
machine_run() {
    local limit=$1 code=0 report=$MACHINE_PLACE/guest.report follower
    machine_boot guest "$limit" "$2"
    tail -n +1 -f --pid="$!" "$report" &
    follower=$!
    wait "${MACHINE_QEMUS[0]}" || code=$?
    wait "$follower"
    ((code != 124)) || echo "the virtual machine was not done after $limit s"
    [[ $(tail -n 1 "$report") == passed ]] && return 0
    echo "QEMU ended with $code"
    machine_show guest
    return 1
}
