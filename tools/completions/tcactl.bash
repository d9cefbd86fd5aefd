# bash completion for tcactl(1)
_tcactl()
{
    local current=$2 previous=$3 word verb='' second=''
    local verbs='status ready nodes topology sessions users regions offload plans plan stats watch ping why reload drain calibrate place simulate env wisdom config help'
    local options='--socket --node --timeout --json --no-color --help --version'
    local -a where=() # the options that select the daemon
    local -i i

    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
            -s | --socket | -N | --node)
                where=("$word" "${COMP_WORDS[i + 1]}")
                i+=1
                ;;
            -t | --timeout | -c | --count | -n | -i | --interval | --wait | --state | --job | --svg | --cluster | --ppn | --ranks | --subcluster | --root | --segment | --algorithm) i+=1 ;;
            -*) ;;
            *)
                if [[ -z $verb ]]; then verb=$word; elif [[ -z $second ]]; then second=$word; fi
                ;;
        esac
    done
    case $previous in
        -s | --socket | --svg | --cluster)
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        -N | --node)
            local dir=${TCA_CLUSTER_DIR:-${XDG_RUNTIME_DIR:+$XDG_RUNTIME_DIR/tca-cluster}}
            dir=${dir:-/tmp/tca-cluster-$UID}
            mapfile -t COMPREPLY < <(compgen -W "$(cd "$dir" 2>/dev/null && printf '%s\n' node*/ | tr -dc '0-9\n')" -- "$current")
            return
            ;;
        -t | --timeout | -c | --count | -n | -i | --interval | --wait | --job | --ppn | --ranks | --subcluster | --root | --segment) return ;;
        --state)
            mapfile -t COMPREPLY < <(compgen -W 'self up down idle connecting reconnecting' -- "$current")
            return
            ;;
        --algorithm)
            mapfile -t COMPREPLY < <(compgen -W 'direct binomial chain trinary ring doubling hierarchical' -- "$current")
            return
            ;;
    esac
    case $verb in
        status) options+=' --strict' ;;
        ready) options+=' --alone --wait' ;;
        topology) options+=' --dot --svg' ;;
        stats) options+=' --openmetrics' ;;
        watch) options+=' --interval --count' ;;
        nodes) options+=' --state' ;;
        sessions) options+=' --job' ;;
        drain) options+=' --wait' ;;
        ping) options+=' --count --all' ;;
        place) options+=' --ppn --rankfile --hostlist' ;;
        simulate) options+=' --ranks --ppn --subcluster --root --algorithm --segment --steps' ;;
        config) options+=' --cluster' ;;
    esac
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
        return
    fi
    case $verb in
        '') mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$current") ;;
        help) mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$current") ;;
        drain) mapfile -t COMPREPLY < <(compgen -W 'on off' -- "$current") ;;
        simulate) mapfile -t COMPREPLY < <(compgen -W 'barrier broadcast allgather reduce allreduce reduce-scatter alltoall' -- "$current") ;;
        wisdom) mapfile -t COMPREPLY < <(compgen -W 'clear' -- "$current") ;;
        plan)
            mapfile -t COMPREPLY < <(compgen -W "explain $(tcactl "${where[@]}" plans --no-color -t 1 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$current")
            ;;
        nodes | ping | why)
            mapfile -t COMPREPLY < <(compgen -W "$(tcactl "${where[@]}" nodes --no-color -t 1 2>/dev/null | awk 'NR > 1 { print $2 }')" -- "$current")
            ;;
        config)
            if [[ -z $second ]]; then
                mapfile -t COMPREPLY < <(compgen -W 'check' -- "$current")
            else
                mapfile -t COMPREPLY < <(compgen -f -- "$current")
            fi
            ;;
    esac
}
complete -o filenames -F _tcactl tcactl
