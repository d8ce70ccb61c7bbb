# bash completion for tensorctl
_tensorctl()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    case $before in
    --socket | -s)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    --pid | -p)
        mapfile -t COMPREPLY < <(compgen -W "$(tensorctl --json daemons 2>/dev/null | sed -n 's/.*(pid \([0-9]*\))".*/\1/p')" -- "$word")
        return
        ;;
    drop)
        mapfile -t COMPREPLY < <(compgen -W "$(tensorctl --json names 2>/dev/null | sed -n 's/.*{"name": "\([^" ]*\)".*/\1/p')" -- "$word")
        return
        ;;
    ops)
        mapfile -t COMPREPLY < <(compgen -W "$(tensorctl ops 2>/dev/null | cut -d' ' -f1)" -- "$word")
        return
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "daemons status sessions tensors names drop queues segments loaders top ops doctor bench
        --socket --pid --json --prometheus --interval --count --help --version" -- "$word")
}
complete -F _tensorctl tensorctl
