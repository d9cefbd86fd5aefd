# shellcheck shell=bash
# A virtual machine for tests: QEMU without KVM runs Debian's kernel on this machine's own root file system, which it sees
# read-only, below a tmpfs that takes what is written. To be sourced; leaves nothing behind but the downloaded kernel package.
#
# MACHINE_PLACE is a directory of the test, removed at its end. What is put into $MACHINE_PLACE/tree lies over the guest's root.

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
    MACHINE_QEMU=
    trap machine_end EXIT
    trap 'exit 143' TERM
    trap 'exit 130' INT
    mkdir "$MACHINE_PLACE/tree"
}

machine_end() {
    if [[ $MACHINE_QEMU ]]; then
        # To timeout, which passes it on.
        kill -TERM "$MACHINE_QEMU" 2>/dev/null || true
        wait "$MACHINE_QEMU" 2>/dev/null || true
    fi
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

# machine_run SECONDS unit=UNIT|init=PROGRAM: boots, starts systemd with the unit, or the program as PID 1, which writes its report to
# ttyS1 and powers off; the report is this function's output. 0 when the last line of the report is "passed".
machine_run() {
    local limit=$1 what=$2 report=$MACHINE_PLACE/report code=0 follower
    : >"$report"
    timeout --foreground --kill-after=5 "$limit" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1024 -display none -no-reboot \
        -kernel "$MACHINE_PLACE/kernel/boot/vmlinuz-$MACHINE_VERSION" -initrd "$MACHINE_PLACE/initrd" \
        -append "console=ttyS0 panic=-1 quiet systemd.show_status=no mitigations=off random.trust_cpu=on tcad.place=$MACHINE_PLACE tcad.$what" \
        -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
        -nic none -monitor none -serial "file:$MACHINE_PLACE/console" -serial "file:$report" \
        </dev/null >"$MACHINE_PLACE/qemu" 2>&1 &
    MACHINE_QEMU=$!
    tail -n +1 -f --pid="$MACHINE_QEMU" "$report" &
    follower=$!
    wait "$MACHINE_QEMU" || code=$?
    MACHINE_QEMU=
    wait "$follower"
    ((code != 124)) || echo "the virtual machine was not done after $limit s"
    [[ $(tail -n 1 "$report") == passed ]] && return 0
    echo "---- QEMU ended with $code; its messages, and the end of the console:"
    cat "$MACHINE_PLACE/qemu"
    tail -n 40 "$MACHINE_PLACE/console"
    return 1
}
