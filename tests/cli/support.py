"""How the commands about data sources are run in tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner, Result

from configdb_sync.cli.main import cli
from configdb_sync.errors import ProductError

ENV = 7
NODE = (("nodes", "46"),)


@dataclass(frozen=True)
class Run:
    """Runs a command on one ConfigDB; what the command raises is raised."""

    state: Path
    configdb: tuple[str, ...]

    def __call__(
        self, command: str, *arguments: str, node: str | None = "46", source: str = "globals", stdin: str = ""
    ) -> Result:
        """Run a command about a data source, of node 46 unless told otherwise; None is the root."""
        level = ["--level", f"nodes={node}"] if node else []
        return self.bare(command, "--env", str(ENV), "--data-source", source, *level, *arguments, stdin=stdin)

    def bare(self, command: str, *arguments: str, stdin: str = "") -> Result:
        """Run any command."""
        line = [command, *self.configdb, "--state", str(self.state), *arguments]
        result = CliRunner().invoke(cli, line, input=stdin)
        if isinstance(result.exception, ProductError):
            raise result.exception
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result
