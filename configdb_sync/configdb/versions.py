"""What was: versions, going back, all overrides, as the embedded server knows them; whom to tell where it doesn't
(U17)."""

from __future__ import annotations

from configdb_sync.configdb import answers, urls
from configdb_sync.configdb.calls import Call, Caller
from configdb_sync.configdb.change import Change, OnChange
from configdb_sync.configdb.documents import Documents
from configdb_sync.configdb.faults import UnsupportedError
from configdb_sync.configdb.model import OverrideNote, ServerKind, Version
from configdb_sync.errors import MissingError
from configdb_sync.jsonvalues import Json
from configdb_sync.names import LevelPath


class Versions(Documents):
    """The client's calls about what was. Those that ask raise ``UnsupportedError`` on a server without versions."""

    def __init__(self, caller: Caller) -> None:
        super().__init__(caller)
        self._on_change: OnChange | None = None

    def observe(self, on_change: OnChange) -> None:
        """Have ``on_change`` told of every change from now on, if the server keeps no versions itself."""
        self._on_change = on_change

    @property
    def observed(self) -> bool:
        """Whether changes are to be told with ``changed``."""
        return self._on_change is not None and not self.keeps_versions

    @property
    def keeps_versions(self) -> bool:
        """Whether the server keeps versions."""
        return self.server() is ServerKind.EMBEDDED

    def changed(self, change: Change) -> None:
        """Tell who observes of a change that was made. Raises what ``on_change`` raises."""
        if self._on_change is not None and not self.keeps_versions:
            self._on_change(change)

    def history(self, env: int, levels: LevelPath, definition: int, kind: str) -> list[Version]:
        """Return the versions that are kept of a document (``kind``: ``values`` or ``overrides``), newest first."""
        self._need_versions()
        path = f"{urls.document_path(env, levels, definition, kind)}/history"
        return self._documented(env, levels, definition, lambda: self._get(path, answers.versions))

    def version(self, env: int, levels: LevelPath, definition: int, kind: str, number: int) -> dict[str, Json]:
        """Return a document as it was in one version; ``MissingError`` if that isn't kept."""
        self._need_versions()
        path = f"{urls.document_path(env, levels, definition, kind)}?version={number}"
        return self._get(path, answers.document)

    def revert(self, env: int, levels: LevelPath, definition: int, kind: str, number: int) -> None:
        """Make a document what it was in one version; ``MissingError`` if that isn't kept. Twice is as good as once."""
        self._need_versions()
        path = f"{urls.document_path(env, levels, definition, kind)}/history/{number}/revert"
        self._call(Call("POST", path, b"{}", repeatable=True))

    def overrides_of(self, env: int) -> list[OverrideNote]:
        """Return all overrides of an environment: where, whose, and which effect each key of them has."""
        self._need_versions()
        try:
            return self._get(f"{urls.environment_path(env)}/overrides", answers.override_notes)
        except MissingError as error:
            raise MissingError(f"environment {env} isn't there at {self.base}", request_id=error.request_id) from None

    def _need_versions(self) -> None:
        if not self.keeps_versions:
            raise UnsupportedError(
                f"{self.base} is {self.server().value}, which keeps no versions and lists no overrides",
                way_out="use the embedded server; get --overrides --level ... shows those of one place",
            )
