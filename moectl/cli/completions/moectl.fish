# Completes the words of moectl in fish: moectl completion fish | source

function __moectl_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l plain (string unescape -- "$current")
    test -n "$plain"; or set plain (string trim --left --chars '"\'' -- "$current")
    set -l lines ($before[1] __complete fish $before[2..] "$plain" 2>/dev/null)
    for line in $lines[2..]
        echo -- $line
    end
    switch "$lines[1]"
        case files
            __fish_complete_path "$plain"
        case folders
            __fish_complete_directories "$plain"
    end
end

complete -c moectl -f -a '(__moectl_complete)'
