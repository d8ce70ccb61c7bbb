# bash completion for tensorctl

# The lines of the input that begin with what was typed, quoted. (compgen -W would run what they contain.)
_tensorctl_offer()
{
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        printf -v line %q "$line"
        [[ $line != "$1"* ]] || COMPREPLY+=("$line")
    done
}

_tensorctl()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    case $before in
    --socket | -s)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    --pid | -p)
        _tensorctl_offer "$word" < <(tensorctl --json daemons 2>/dev/null | sed -n 's/.*(pid \([0-9]*\))".*/\1/p')
        return
        ;;
    drop)
        _tensorctl_offer "$word" < <(tensorctl --json names 2>/dev/null | sed -n 's/.*{"name": "\([^"\\]*\)".*/\1/p')
        return
        ;;
    run | plan | show | code | passes | dot | svg | check | --out)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    program)
        mapfile -t COMPREPLY < <(compgen -W "show code passes dot svg check plan" -- "$word")
        return
        ;;
    ops)
        _tensorctl_offer "$word" < <(tensorctl ops 2>/dev/null | cut -d' ' -f1)
        return
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "daemons status sessions tensors names models drop queues groups segments devices turns loaders top run program ops doctor bench
        --in --out --entry --repeat --device --socket --pid --json --prometheus --interval --count --help --version" -- "$word")
}
complete -F _tensorctl tensorctl
