"""F1, F2, F4, F5: the RPM, installed into an empty root, does the whole job there as Astute would call it."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.plugin import jail as jails
from tests.plugin.calling import astute, enable
from tests.plugin.conftest import ROOT, VERSION
from tests.plugin.jail import Jail
from tests.support.product import contents
from tests.support.trees import make_trees

FOLDER = "var/www/nailgun/plugins/configdb-sync-0.1"
TASKS = {each["id"]: each["parameters"] for each in yaml.safe_load((ROOT / "deployment_tasks.yaml").read_text())}
STAGES = {
    "pre": "upload_data_to_configdb_pre",
    "main": "upload_data_to_configdb",
    "post": "upload_data_to_configdb_post",
}


def test_what_is_in_the_package(rpm: Path) -> None:
    listed = subprocess.run(["rpm", "-qpl", rpm], capture_output=True, text=True, check=True).stdout.split("\n")
    inside = {line.removeprefix(f"/{FOLDER}/") for line in listed if line}
    top = {name.split("/")[0] for name in inside if not name.startswith("/")}
    assert top == {
        *("metadata.yaml", "environment_config.yaml", "deployment_tasks.yaml", "deployment_scripts", "repositories"),
        *("pre_build_hook", "pre_install.sh", "post_install.sh", "uninstall.sh", "services", "configdb_sync"),
        *("runtime", "vendor", "docs", "share", "script", "licences", "bom.cdx.json"),
        *(
            "LICENSE",
            "README.md",
            "CHANGELOG.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
            "requirements.txt",
            "checksums.sha1",
        ),
    }
    bad = ("__pycache__", "/tests/", ".git/", ".pyc", ".egg-info", "libtcl", "/tkinter/", "/idlelib/", "/include/")
    assert [name for name in inside if any(part in f"/{name}/" for part in bad)] == []
    assert {f"vendor/cp{VERSION.replace('.', '')}", "runtime/bin/python3", "vendor/common/requests"} <= inside
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "configdb_sync").rglob("*.py")}
    assert modules <= inside
    backend = {
        str(path.relative_to(ROOT)) for path in (ROOT / "deployment_scripts/puppet").rglob("*") if path.is_file()
    }
    assert {"deployment_scripts/hiera_backend"} | backend <= inside
    text = subprocess.run(["rpm", "-qp", "--scripts", rpm], capture_output=True, text=True, check=True).stdout
    assert f"plugin=/{FOLDER}\n" in text
    assert "%{" not in text
    assert "%%" not in text


def test_a_masters_old_rpm_can_read_it(rpm: Path) -> None:
    import build_plugin

    assert list(build_plugin.faults_of(rpm)) == []
    assert [one for one in build_plugin.features(["rpmlib(PayloadIsZstd) <= 5.4.18-1"]) if "Zstd" in one]


def test_all_that_is_bundled_is_listed_with_version_and_licence(master: Jail) -> None:
    """F2: the bill is one that CycloneDX's own library reads, and each thing in it has its licence's text."""
    import bill
    import pip_folder

    top = master.root / FOLDER
    sys.path.append(str(pip_folder.obtain(bill.PINS, ROOT / ".cache/bill")))
    from cyclonedx.model.bom import Bom

    text = json.loads((top / "bom.cdx.json").read_text())
    found = {one.name: one for one in Bom.from_json(text).components}
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements.txt").read_text(), flags=re.MULTILINE))
    laid = {re.split(r"-\d", path.name)[0].replace("_", "-").lower() for path in top.glob("vendor/*/*.dist-info")}
    assert laid <= found.keys()
    assert locked - found.keys() <= {"setuptools", "legacy-cgi"}
    assert found["CPython"].version == platform.python_version()
    assert {"OpenSSL", "libpq", "MIT Kerberos", "LibYAML"} <= found.keys()
    unversioned = {"LibYAML", "libffi"}  # in their packages' own code, which doesn't say
    assert [name for name, one in found.items() if not one.licenses or not (one.version or name in unversioned)] == []
    assert len(list((top / "licences").iterdir())) == len(text["components"])
    assert [
        path for path in (top / "licences").iterdir() if not any(each.stat().st_size for each in path.iterdir())
    ] == []


def test_the_driver_of_postgresql_is_in_it(master: Jail) -> None:
    """Two masters need one database (Limits in docs/plugin.md), and a master has no internet."""
    done = master.run("configdb-sync runs --database postgresql+psycopg://nobody@127.0.0.1:9/none")
    assert "Connection refused" in done.stderr, done.stderr


def test_there_is_no_python_in_the_root_but_the_plugins(master: Jail) -> None:
    assert master.run("python3 --version").returncode == 127
    done = master.run("configdb-sync --version")
    assert done.stdout.startswith("configdb-sync, version 0.1"), done.stderr


def test_nothing_is_written_beside_the_packages_files(master: Jail) -> None:
    master.run("configdb-sync --version")
    changed = master.rpm("--verify", "--nodeps", "configdb-sync-0.1")
    assert changed.stdout == ""
    assert not list((master.root / FOLDER).rglob("__pycache__"))
    assert (master.root / "var/cache/configdb-sync").stat().st_mode & 0o777 == 0o700


def test_a_deployment_then_an_override_then_another(master: Jail) -> None:
    """The three tasks of two deployments, on nodes as Fuel 9 has them; the password of the settings shows nowhere."""
    trees = make_trees(master.root / "trees", "1", "2")
    enable(master, "etc/fuel/cluster/5/astute.yaml", 5, configdb="embedded", password="CANARY", parallel="2")
    start = contents(trees)
    printed = ""
    for stage in ("pre", "main", "post"):
        done = astute(master, stage, 5, "--from", "/trees")
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.splitlines()[-1].startswith("ok:"), done.stdout
        printed += done.stdout + done.stderr
    assert contents(trees) == start
    state = master.root / "var/lib/configdb-sync"
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "configdb.sqlite").exists()
    # By hand, without --stage: the same settings, found in the environment's file.
    place = "--env 5 --level nodes=2 --data-source astute --key debug"
    done = master.run(f"configdb-sync override {place} --value true --type bool", CONFIGDB_SYNC_STATE="")
    assert done.returncode == 0, done.stderr
    done = astute(master, "pre", 5, "--from", "/trees")
    assert done.returncode == 0, done.stdout
    assert "1 file written" in done.stdout
    printed += done.stdout + done.stderr
    file = trees / "node-2/etc/fuel/cluster/5/astute.yaml"
    assert yaml.safe_load(file.read_text())["debug"] is True
    assert "CANARY" not in printed
    assert max(map(len, printed.splitlines())) < 400


@pytest.mark.parametrize(
    ("number", "release", "data", "path"),
    [
        (16, "9.0.1", "astute-master.yaml", "etc/fuel/cluster/16/astute.yaml"),
        (7, "newton", "cluster.yaml", "var/lib/fuel/configs/7/cluster.yaml"),
    ],
)
def test_real_environments_of_fuel_9_and_10(
    master: Jail, environment: Callable[[int], Path], number: int, release: str, data: str, path: str
) -> None:
    shutil.copytree(environment(number), master.root / "trees", symlinks=True)
    source = yaml.safe_load((Path(_data()) / release / data).read_text())
    enable(master, path, number, source, configdb="embedded")
    start = contents(master.root / "trees")
    for stage in ("pre", "main"):
        done = astute(master, stage, number, "--from", "/trees")
        assert done.returncode == 0, done.stdout + done.stderr
    assert "3 nodes" in done.stdout
    assert "0 documents uploaded, 0 files written" in done.stdout
    assert contents(master.root / "trees") == start


def _data() -> Path:
    from tests.support.fixtures import require_data

    return require_data() / "nailgun"


def test_what_goes_wrong_is_the_last_line_and_the_exit_code(master: Jail) -> None:
    make_trees(master.root / "trees", "1")
    enable(master, "etc/fuel/cluster/5/astute.yaml", 5, configdb="url", configdb_url="http://127.0.0.1:9")
    done = astute(master, "main", 5, "--from", "/trees", "--time-limit", "20")
    assert done.returncode in {7, 11}
    assert done.stdout.splitlines()[-1].startswith("failed:"), done.stdout
    # Post never fails the deployment unless set so.
    done = astute(master, "post", 5, "--from", "/trees", "--time-limit", "20")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("warning:")


def test_what_is_withheld_as_unsafe_is_let_through_by_a_word_on_the_master(master: Jail) -> None:
    trees = make_trees(master.root / "trees", "1")
    enable(master, "etc/fuel/cluster/5/astute.yaml", 5, configdb="embedded")
    assert astute(master, "main", 5, "--from", "/trees").returncode == 0
    (trees / "node-1/etc/hiera/globals.yaml").write_text("{}\n")
    done = astute(master, "main", 5, "--from", "/trees")
    assert done.returncode == 5
    found = re.search(r"configdb-sync approve (\S+)`", done.stdout.splitlines()[-1])
    assert found
    assert master.run(f"configdb-sync approve {found[1]}").returncode == 0
    done = astute(master, "main", 5, "--from", "/trees")
    assert done.returncode == 0, done.stdout


@pytest.mark.long
def test_the_builder_by_itself_builds_it_too(tmp_path: Path) -> None:
    """`fpb --build .` in the project's own folder: everything that isn't hidden goes in, tests too."""
    folder = tmp_path / "project"
    hidden = shutil.ignore_patterns(".*", "*.egg-info", "dist", "build", "runtime", "vendor")
    shutil.copytree(ROOT, folder, symlinks=True, ignore=hidden)
    (folder / "configdb_sync/__pycache__").mkdir(exist_ok=True)
    (folder / "configdb_sync/__pycache__/x.pyc").touch()
    (folder / "repositories/ubuntu").mkdir(parents=True, exist_ok=True)
    mine = {"PYTHON": sys.executable, "CONFIGDB_SYNC_RUNTIME": "none", "CONFIGDB_SYNC_PYTHONS": VERSION}
    command = [sys.executable, str(ROOT / "script/support/fpb.py"), "--build", "."]
    done = subprocess.run(command, cwd=folder, env=os.environ | mine, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (rpm,) = folder.glob("configdb-sync-*.noarch.rpm")
    listed = subprocess.run(["rpm", "-qpl", rpm], capture_output=True, text=True, check=True).stdout
    for name in ("tests/plugin/test_package.py", "vendor/common/click/__init__.py", "deployment_scripts/configdb-sync"):
        assert f"/{FOLDER}/{name}\n" in listed
    assert "__pycache__" not in listed


def test_a_wrong_setting_is_named_with_its_place(master: Jail) -> None:
    enable(master, "etc/fuel/cluster/5/astute.yaml", 5, configdb="embedded", parallel="many")
    done = astute(master, "pre", 5, "--from", "/trees")
    assert done.returncode == 2
    assert "/etc/fuel/cluster/5/astute.yaml (configdb-sync): parallel" in done.stdout


def test_removed_the_plugin_leaves_what_is_the_operators(rpm: Path, tmp_path: Path) -> None:
    jail = jails.make(tmp_path)
    assert jail.rpm("--install", "--nodeps", "--nosignature", rpm).returncode == 0
    assert jail.run("configdb-sync runs").returncode == 0
    assert (tmp_path / "etc/configdb-sync").stat().st_mode & 0o777 == 0o700
    done = jail.rpm("--erase", "--nodeps", "configdb-sync-0.1")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "usr/bin/configdb-sync").is_symlink()
    assert not (tmp_path / FOLDER).exists()
    assert not (tmp_path / "var/cache/configdb-sync").exists()
    assert (tmp_path / "var/lib/configdb-sync").is_dir()
    assert (tmp_path / "etc/configdb-sync").is_dir()
