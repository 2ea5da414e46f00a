"""`psimlearn completion`: a script that completes commands, options and file names in a shell."""

import click

__all__ = ["completion"]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that lets a shell complete commands and options.

    \b
    bash:  psimlearn completion bash >> ~/.bashrc
    zsh:   psimlearn completion zsh >> ~/.zshrc
    fish:  psimlearn completion fish > ~/.config/fish/completions/psimlearn.fish
    """
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None  # click knows all choices
    click.echo(kind(root, {}, "psimlearn", "_PSIMLEARN_COMPLETE").source())
