# shellcheck shell=bash
# Checks and their results, for the scripts in the virtual machine. To be sourced.
failures=0

say() {
    printf '[guest %3d s] %s\n' "$SECONDS" "$*"
}

fail() {
    say "FAILED: $*"
    failures=$((failures + 1))
}

# check WHAT COMMAND...: succeeds; or what it said is shown.
check() {
    local what=$1 out
    shift
    if out=$("$@" 2>&1); then
        say "ok: $what"
    else
        fail "$what (exit status $?): $* said: $out"
    fi
}

# eventually WHAT COMMAND...: succeeds at last; only what hangs is given up.
eventually() {
    local what=$1 end=$((SECONDS + 120))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || { fail "$what: not within 120 s: $*"; return; }
        sleep 0.2
    done
    say "ok: $what"
}
