#compdef moectl
# Completes the words of moectl in zsh: source <(moectl completion zsh)

_moectl() {
    local -a lines closed open closed_shown open_shown
    local line value
    lines=("${(@f)$("${words[1]}" __complete zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for line in "${(@)lines[2,-1]}"; do
        value=${line%%$'\t'*}
        if [[ $value == *[=/.] ]]; then
            open+=("$value")
            open_shown+=("$value  ${line#*$'\t'}")
        else
            closed+=("$value")
            closed_shown+=("$value  ${line#*$'\t'}")
        fi
    done
    compadd -l -d closed_shown -a closed
    compadd -l -S '' -d open_shown -a open
    case $lines[1] in
        files)
            [[ $PREFIX == --*=* ]] && compset -P '*='
            _files ;;
        folders)
            [[ $PREFIX == --*=* ]] && compset -P '*='
            _files -/ ;;
    esac
}

if [[ $funcstack[1] == _moectl ]]; then
    _moectl "$@"
else
    compdef _moectl moectl
fi
