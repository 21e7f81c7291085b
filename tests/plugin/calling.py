"""The task called as Astute calls it, in a root that the plugin is installed in, with settings as Fuel gives them."""

from __future__ import annotations

import subprocess
from typing import Any

import yaml

from tests.plugin.conftest import ROOT
from tests.plugin.jail import Jail

TASKS = {each["id"]: each["parameters"] for each in yaml.safe_load((ROOT / "deployment_tasks.yaml").read_text())}
STAGES = {
    "pre": "upload_data_to_configdb_pre",
    "main": "upload_data_to_configdb",
    "post": "upload_data_to_configdb_post",
}


def section(**changed: Any) -> dict[str, Any]:
    """The plugin's settings as Fuel gives them: the defaults, and what the user changed."""
    attributes = yaml.safe_load((ROOT / "environment_config.yaml").read_text())["attributes"]
    metadata = attributes.pop("metadata") | {"class": "plugin", "enabled": True, "plugin_version": "0.1.0"}
    return {name: one["value"] for name, one in attributes.items()} | changed | {"metadata": metadata}


def enable(
    master: Jail,
    path: str,
    env: int,
    base: dict[str, Any] | None = None,
    constants: dict[str, str] | None = None,
    **changed: Any,
) -> None:
    """Write the environment's file on the master, as `upload_configuration` does."""
    file = master.root / path
    file.parent.mkdir(parents=True)
    own = section(**changed)
    own["metadata"] |= constants or {}
    whole = (base or {"deployment_id": env, "uid": "master"}) | {"configdb-sync": own}
    file.write_text(yaml.safe_dump(whole | {"master_ip": "127.0.0.1"}))


def command(stage: str, env: int) -> str:
    """The task's command line as Astute runs it: `cd` to the plugin, the environment's number put in."""
    task = TASKS[STAGES[stage]]
    return f"cd {task['cwd']} && {task['cmd'].replace('{CLUSTER_ID}', str(env))}"


def astute(master: Jail, stage: str, env: int, *more: str) -> subprocess.CompletedProcess[str]:
    """Run the task as Astute does."""
    return master.run(" ".join([command(stage, env), *more]))
