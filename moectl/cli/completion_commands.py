"""Declaration of the command that prints completion scripts."""

from __future__ import annotations

from moectl.cli.command import Argument, Command


def completion_commands() -> tuple[Command, ...]:
    """Return the commands."""
    return (
        Command(
            "completion",
            "Print the script that completes moectl's words in bash, zsh or fish.",
            "moectl.cli.completion:run",
            (Argument("shell", "bash, zsh or fish.", of="shells"),),
            examples=("moectl completion bash", "moectl completion zsh", "moectl completion fish"),
            detail="Completed are commands, options, presets, runs, files, paths and MaxText keys "
            "of --set with some of their values, XLA flags, platforms and codes. In bash: "
            "`source <(moectl completion bash)`; for good, put it into "
            "~/.local/share/bash-completion/completions/moectl. In zsh: as _moectl into a folder "
            "of $fpath. In fish: into ~/.config/fish/completions/moectl.fish.",
        ),
    )
