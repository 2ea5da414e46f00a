"""`psimlearn completion`: what a shell needs to complete commands, options and file names."""

import click

__all__ = ["completion"]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  psimlearn completion bash >> ~/.bashrc
    zsh:   psimlearn completion zsh >> ~/.zshrc
    fish:  psimlearn completion fish > ~/.config/fish/completions/psimlearn.fish
    """
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None  # the choices are those that click knows
    click.echo(kind(root, {}, "psimlearn", "_PSIMLEARN_COMPLETE").source())
