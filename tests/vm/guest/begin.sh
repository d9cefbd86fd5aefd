# shellcheck shell=bash
# What PID 1 of a virtual machine does first: mounts, and the report as its output. To be sourced.
export PATH=/opt/tcad-vm:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
for directory in /dev/shm /run; do mount -t tmpfs tmpfs $directory; done
stty -opost </dev/ttyS1
exec >/dev/ttyS1 2>&1 </dev/null
cd /tmp || exit
. /opt/tcad-vm/say.sh
if [[ -e /opt/tcad-vm/environment ]]; then
    mkdir -m 1777 /tmp/sanitizer
    . /opt/tcad-vm/environment
fi
mount --bind /dev/null /proc/kallsyms # libfabric would read all of it at the start of each program
ulimit -l unlimited
ldconfig
ip link set lo up
