"""Keys operations as requests carry them: their body, their refusals, what bounds their results."""

from __future__ import annotations

from configdb_sync.configdb_server import keys
from configdb_sync.configdb_server.call import Call
from configdb_sync.configdb_server.contents import check_count, checked_text
from configdb_sync.configdb_server.refusals import refuse
from configdb_sync.jsonvalues import Json, check_depth


def read_paths(call: Call) -> list[list[Json]]:
    """Return the body of a keys operation. Raises ``RefusalError`` 422 for anything but a list of lists."""
    body = call.body()
    if not keys.is_paths(body):
        raise refuse(422, "a keys operation takes an array of paths, each an array")
    return body


def operate(operation: str, value: Json, paths: list[list[Json]]) -> Json:
    """Return what a keys operation makes of ``value``. Raises ``RefusalError`` 409."""
    operations = {"set": keys.set_keys, "delete": keys.delete_keys, "get": keys.get_keys}
    try:
        return operations[operation](value, paths)
    except keys.KeysError as fault:
        raise refuse(409, fault.what) from None


def checked_result(value: Json, limit: int) -> str:
    """Return the JSON text of what a keys operation made. Raises ``RefusalError`` 413, 422."""
    try:
        check_depth(value)
    except ValueError as error:
        raise refuse(422, f"the result would be {error}") from None
    text = checked_text(value)
    check_count(text, "the result")
    if len(text) > limit:
        raise refuse(413, f"the result would be larger than {limit} bytes")
    return text
