# bash completion for tca-cluster(1)
_tca_cluster()
{
    local current=$2 previous=$3 command=${COMP_WORDS[1]-} options='--dir --quiet --help --version'
    local up='--nodes --option --subclusters --tls --plain --boards --no-boards --rings --host-network --timeout'
    local -i i

    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W 'up down restart status run mpirun env exec help --help --version' -- "$current")
        return
    fi
    # After "--": a program and its arguments.
    for ((i = 2; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then
            if ((i + 1 == COMP_CWORD)); then
                mapfile -t COMPREPLY < <(compgen -c -- "$current" && compgen -f -- "$current")
            else
                mapfile -t COMPREPLY < <(compgen -f -- "$current")
            fi
            return
        fi
    done
    case $previous in
        --dir)
            mapfile -t COMPREPLY < <(compgen -d -- "$current")
            return
            ;;
        --map)
            mapfile -t COMPREPLY < <(compgen -W 'rank node' -- "$current")
            return
            ;;
        --rings)
            mapfile -t COMPREPLY < <(compgen -W '1 2' -- "$current")
            return
            ;;
        -n | --nodes | -o | --option | -e | --env | --subclusters | --timeout | --ppn | --launcher) return ;;
    esac
    case $command in
        up) options+=" $up" ;;
        run) options+=" $up --ppn --env --map --tag --bind --" ;;
        mpirun) options+=" $up --ppn --env --launcher --" ;;
        exec) options+=' --' ;;
        status) options+=' --json' ;;
        help) options='up down restart status run mpirun env exec' ;;
        restart) options+=' --timeout' ;;
    esac
    # The nodes of the cluster in the default directory.
    if [[ $command == @(restart|env) && $current != -* ]]; then
        local dir=${TCA_CLUSTER_DIR:-${XDG_RUNTIME_DIR:+$XDG_RUNTIME_DIR/tca-cluster}}
        dir=${dir:-/tmp/tca-cluster-$UID}
        options=$(cd "$dir" 2>/dev/null && printf '%s\n' node*/ | tr -dc '0-9\n')
    fi
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
}
complete -o filenames -F _tca_cluster tca-cluster
