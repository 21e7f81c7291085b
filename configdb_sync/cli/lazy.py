"""A group of commands that are imported when they are asked for, so that each starts without what the others need."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """``places``: module below ``configdb_sync.cli`` and name there of each command, by the name that users know."""

    def __init__(self, *args: Any, places: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._places = dict(places)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*super().list_commands(ctx), *self._places})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now; None if there is none of that name."""
        if cmd_name not in self.commands and cmd_name in self._places:
            module, name = self._places[cmd_name]
            self.add_command(getattr(importlib.import_module(f"configdb_sync.cli.{module}"), name), cmd_name)
        return super().get_command(ctx, cmd_name)

    def all_commands(self) -> dict[str, click.Command]:
        """Return all commands by name, imported now."""
        context = click.Context(self)
        found = {name: self.get_command(context, name) for name in self.list_commands(context)}
        return {name: command for name, command in found.items() if command is not None}
