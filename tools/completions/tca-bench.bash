# bash completion for tca-bench(1)
_tca_bench()
{
    # Not $2 and $3: bash takes the parts of a rail's name, between colons, for words.
    local line=${COMP_LINE:0:COMP_POINT} values=''
    local current=${line##*[[:space:]]}
    local -a before
    read -ra before <<<"${line%"$current"}"

    COMPREPLY=()
    case ${before[-1]} in
        -b | --bench) values='pingpong untouched bandwidth start overlap beside breakdown' ;;
        -r | --rail)
            values="shm tcp ofi hca peach2 $(tcactl -t 1 --json status 2>/dev/null | grep -oE '"rail":"[^"]+:[^"]+"' | cut -d'"' -f4)"
            ;;
        -e | --seat) values='client daemon' ;;
        -l | --layout) values='contiguous block-stride' ;;
        -j | --json)
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        -s | --sizes | -t | --seconds | -c | --cpus) return ;;
        *) values='--bench --sizes --rail --seat --layout --seconds --cpus --json --line --stores --memory --help --version' ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
    COMPREPLY=("${COMPREPLY[@]#"${current%"${current##*:}"}"}")
}
complete -o filenames -F _tca_bench tca-bench
