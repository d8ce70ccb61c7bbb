# fish completion for tensorctl
set -l commands daemons status sessions tensors names models drop queues groups segments devices turns loaders top run program ops doctor bench
complete -c tensorctl -f
complete -c tensorctl -n "not __fish_seen_subcommand_from $commands" -a "$commands"
complete -c tensorctl -n "__fish_seen_subcommand_from ops" -a "(tensorctl ops 2>/dev/null | cut -d' ' -f1)"
complete -c tensorctl -n "__fish_seen_subcommand_from drop" -a "(tensorctl --json names 2>/dev/null | sed -n 's/.*{\"name\": \"\([^\"\\\\]*\)\".*/\1/p')"
complete -c tensorctl -n "__fish_seen_subcommand_from program" -a "show code passes dot svg check plan"
complete -c tensorctl -n "__fish_seen_subcommand_from run program" -F
complete -c tensorctl -l in -x -d "An argument of run: NAME=VALUE"
complete -c tensorctl -l out -r -F -d "Where a result of run goes"
complete -c tensorctl -l entry -x -d "One of several programs of a file"
complete -c tensorctl -l repeat -x -d "So often"
complete -c tensorctl -l device -x -a cuda -d "What each op has there"
complete -c tensorctl -s s -l socket -r -F -d "The daemon that listens there"
complete -c tensorctl -s p -l pid -x -d "The private daemon of that program" -a "(tensorctl --json daemons 2>/dev/null | sed -n 's/.*\"program\": \"\(.*\) (pid \([0-9]*\))\".*/\2\t\1/p')"
complete -c tensorctl -s j -l json -d "For programs"
complete -c tensorctl -l prometheus -d "As Prometheus reads it"
complete -c tensorctl -s i -l interval -x -d "Seconds between top's looks"
complete -c tensorctl -s n -l count -x -d "How often top looks"
complete -c tensorctl -s h -l help -d "Say how it is used"
complete -c tensorctl -s V -l version -d "Say the version"
