"""``script/lab``: a laboratory to try things in, until it is interrupted."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading

import click

from tests.lab import laboratory


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--nodes", default=4, show_default=True, type=click.IntRange(1, 50), help="How many nodes.")
@click.option("--debug", is_flag=True, help="Let the nodes log as Fuel's do.")
@click.pass_context
def lab(context: click.Context, nodes: int, debug: bool) -> None:
    """Run RabbitMQ and MCollective daemons on loopback until interrupted. Needs root."""
    if context.invoked_subcommand is not None:
        return
    reason = laboratory.unavailable()
    if reason is not None:
        raise click.ClickException(reason)
    identities = [str(number) for number in range(1, nodes + 1)]
    with laboratory.running(identities, level="debug" if debug else "info") as found:
        click.echo(f"configdb-sync ping --mco-config {found.config}")
        for node in found.nodes.values():
            click.echo(f"node {node.identity}: /etc is {node.etc}, its log is {node.folder}/mcollective.log")
        click.echo("Interrupt (Ctrl-C) ends it all.")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    lab(prog_name="script/lab")
