"""A command that Fuel's deployment calls (U14, F5).

Whatever ends it, the last line says what to do and the exit code whether the deployment goes on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from configdb_sync.errors import ProductError
from configdb_sync.exits import Exit, exit_of
from configdb_sync.sync.deployment import (
    DEFAULT_POLICY,
    FailureKind,
    NodeStatuses,
    Policy,
    deployment_result,
    deployment_result_of_error,
    error_lines,
    stage_lines,
)
from configdb_sync.sync.report import Report
from configdb_sync.sync.run_options import Stage

stage_option = click.option(
    "--stage",
    type=click.Choice([stage.value for stage in Stage]),
    help="Which task of Fuel's deployment this is: short output, and only failures that count fail it.",
)


@dataclass
class Deployment:
    """The deployment that calls. ``policy`` is the default one until the settings are read."""

    stage: Stage
    policy: Policy = DEFAULT_POLICY

    def read(self, failure_policy: Iterable[str]) -> None:
        """Take the policy of the settings."""
        self.policy = frozenset(map(FailureKind, failure_policy))

    def say(self, report: Report, nodes: NodeStatuses) -> Exit:
        """Print the lines about a run and return the exit code."""
        found = deployment_result(report, self.stage, self.policy, None if report.exit is Exit.OK else nodes.statuses)
        click.echo("\n".join(stage_lines(report, found)))
        return found.exit

    def say_error(self, error: ProductError, code: Exit) -> Exit:
        """Print the line about an error that ended the run and return the exit code."""
        found = deployment_result_of_error(error, code, self.stage, self.policy)
        click.echo("\n".join(error_lines(error, found)))
        return found.exit


def staged(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--stage``; it gets a ``Deployment``, or None, as ``deployment``. No error leaves it then."""

    @stage_option
    @functools.wraps(command)
    def wrapped(*args: Any, stage: str | None, **kwargs: Any) -> Any:
        if stage is None:
            return command(*args, deployment=None, **kwargs)
        deployment = Deployment(Stage(stage))
        try:
            return command(*args, deployment=deployment, **kwargs)
        except ProductError as error:
            return deployment.say_error(error, exit_of(error))
        except click.ClickException:
            raise
        except Exception as error:
            # Its text may hold anything, and the log is open to all.
            return deployment.say_error(_internal(error), Exit.INTERNAL)

    return wrapped


def _internal(error: Exception) -> ProductError:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" in {Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno}"
    return ProductError(
        f"a fault of the program itself: {type(error).__name__}{where}",
        way_out="run the same command without --stage to see all of it, and report it",
    )
