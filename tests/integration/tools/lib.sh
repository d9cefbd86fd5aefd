# For the tests of the tools: expectations that say what was wanted, and a place that is removed. Needs $TOOLS, the directory of tcactl
# and tca-cluster.
# shellcheck shell=bash
set -u
PATH=$TOOLS:$PATH
# Short: socket names are in it.
PLACE=$(mktemp -d /tmp/tca-test.XXXXXX)
export TCA_CLUSTER_DIR=$PLACE/c
export TCA_WISDOM=$PLACE/wisdom
unset TCA_SOCKET TCA_NODE XDG_RUNTIME_DIR
failures=0
# MPICH's mpiexec forwards the end of its input to rank 0, and dies of SIGPIPE where a short rank has ended before: an input that
# brings nothing and never ends.
mkfifo "$PLACE/input" && exec <>"$PLACE/input"
# Others use /dev/shm meanwhile: only names that could be ours count.
our_shm()
{
    find /dev/shm -maxdepth 1 \( -name 'tca*' -o -name 'ofi*' -o -name 'fi_*' \) | sort
}
shm_before=$(our_shm)

fail()
{
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}

# expect CODE COMMAND...: its exit code; its output goes to $out.
expect()
{
    local wanted=$1 code
    shift
    out=$("$@" 2>&1)
    code=$?
    [[ $code == "$wanted" ]] || fail "$*: exit code $code instead of $wanted: $out"
}

# says PATTERN...: $out matches all of these regular expressions.
says()
{
    local pattern
    for pattern; do
        [[ $out =~ $pattern ]] || fail "\"$pattern\" is not in: $out"
    done
}

# eventually COMMAND...: succeeds, some time. The limit only keeps a test that hangs from hanging for ever; it counts looks, not time, in
# which the machine may have been at a standstill.
eventually()
{
    local -i looks
    for ((looks = 0; looks < 1200; looks++)); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.05
    done
    fail "not after $looks looks: $*"
    return 1
}

pid_of()
{
    cut -d' ' -f1 "$TCA_CLUSTER_DIR/node$1/pid"
}

# Processes that have this test's place in their command line or environment.
left_behind()
{
    local file
    for file in /proc/[0-9]*/cmdline; do
        file=${file%/cmdline}
        [[ ${file#/proc/} != "$$" && ${file#/proc/} != "$BASHPID" ]] || continue
        tr '\0' ' ' 2>/dev/null <"$file/cmdline" | grep -qF "$PLACE" && printf '%s ' "${file#/proc/}"
    done
    return 0
}

finish()
{
    local left
    [[ $BASHPID == "$$" ]] || return 0 # a child that was signalled before it became its program
    tca-cluster down -q 2>/dev/null
    left=$(left_behind)
    [[ -z $left ]] || fail "processes are left: $left"
    [[ ! -e $TCA_CLUSTER_DIR ]] || fail "files are left: $(ls -R "$TCA_CLUSTER_DIR")"
    [[ $(our_shm) == "$shm_before" ]] || fail "/dev/shm has changed: $(our_shm)"
    rm -rf "$PLACE"
    ((failures == 0)) || exit 1
}
trap finish EXIT
