# Completes the words of moectl in bash: source <(moectl completion bash)

_moectl() {
    local rest=${COMP_LINE:0:COMP_POINT} bare word at candidate
    local -a words=()
    COMPREPLY=()
    # bash parts words at = and : too; what no blank parts is one word again.
    for ((at = 0; at <= COMP_CWORD; at++)); do
        bare=${rest#"${rest%%[![:space:]]*}"}
        word=${COMP_WORDS[at]}
        word=${word:0:${#bare}}
        if ((${#words[@]})) && [[ $bare == "$rest" ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        rest=${bare#"$word"}
    done
    while IFS= read -r candidate; do
        COMPREPLY+=("$candidate")
    done < <("$1" __complete bash "$COMP_WORDBREAKS" "${words[@]:1}" 2>/dev/null)
    if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *[=/.] ]]; then
        compopt -o nospace 2>/dev/null
    fi
    return 0
}

complete -F _moectl moectl
