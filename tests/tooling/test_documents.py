"""How documents are read for their commands."""

from __future__ import annotations

import pytest

from tests.support.documents import Command, commands, missing

DOCUMENT = """# Title

```console
$ script/demo
Plan for ...
$ configdb-sync plan \\
    --env 1
```

<!-- not run: it takes an hour -->
```console
$ sleep 3600
```

```yaml
$ not: a command
```
"""


def test_commands_stand_in_console_blocks() -> None:
    assert commands(DOCUMENT) == [
        Command("script/demo", 4, ("Plan for ...",)),
        Command("configdb-sync plan --env 1", 6, ()),
    ]


def test_a_block_without_a_command_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="line 2"):
        commands("```console\nconfigdb-sync plan\n```\n")


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (["one", "three"], None),
        (["one", "...", "th...e"], None),
        (["three", "one"], "one"),
        (["on"], "on"),
        (["t.o"], "t.o"),
        ([], None),
    ],
)
def test_what_is_shown_was_printed_in_that_order(shown: list[str], expected: str | None) -> None:
    assert missing(shown, "one\ntwo\nthree\n") == expected
