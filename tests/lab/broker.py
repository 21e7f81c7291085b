"""A RabbitMQ of one's own with STOMP, in plain and over TLS, set up as Fuel does: vhost, user, two exchanges."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.lab.certificates import Authority, make_authority
from tests.lab.processes import PATH, Program, listens
from tests.support.ports import free_port

PROGRAMS = Path("/usr/lib/rabbitmq/bin")
ACCOUNT = "rabbitmq"
VHOST = "mcollective"
USER = "mcollective"
START = 90
# Fuel's RabbitMQ has no such limit; those of RabbitMQ 4 are below what tests of oversize answers send.
LARGEST = 128 * 1024 * 1024


@dataclass(frozen=True)
class Broker:
    """A broker in ``folder``. ``password``: of the user ``mcollective``."""

    folder: Path
    password: str
    stomp: int
    tls: int
    authority: Authority
    names: Program
    server: Program

    def start(self) -> None:
        """Start it and wait until it takes connections. Raises RuntimeError if something else has its ports."""
        if listens(self.stomp):
            raise RuntimeError(f"something listens on port {self.stomp} already")
        if not self.names.running:
            self.names.start()
            self.names.await_(lambda: listens(int(self.names.command[2])), START, "epmd")
        self.server.start()
        self.server.await_(lambda: listens(self.stomp) and listens(self.tls), START, "RabbitMQ")

    def stop(self) -> None:
        """End all of it."""
        self.server.stop(60)
        self.names.stop()

    def control(self, *words: str) -> str:
        """Run ``rabbitmqctl`` and return what it prints."""
        done = subprocess.run(
            ["setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--init-groups", PROGRAMS / "rabbitmqctl", *words],
            env=dict(self.server.environ),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            cwd="/",
        )
        return done.stdout


def make_broker(folder: Path, password: str) -> Broker:
    """Make a broker in ``folder`` (which all users can enter); it doesn't run yet."""
    for name in ("data", "log"):
        (folder / name).mkdir(parents=True)
    amqp, stomp, tls, epmd, distribution = (free_port() for _ in range(5))
    authority = make_authority(folder, "ca")
    certificate, key = authority.sign("broker", "DNS:localhost", "IP:127.0.0.1")
    # Older versions refuse this one's name in rabbitmq.conf, and pass it over here.
    (folder / "advanced.config").write_text(f"[{{rabbitmq_stomp, [{{max_frame_size, {LARGEST}}}]}}].\n")
    (folder / "rabbitmq.conf").write_text(
        f"listeners.tcp.1 = 127.0.0.1:{amqp}\n"
        f"stomp.listeners.tcp.1 = 127.0.0.1:{stomp}\n"
        f"stomp.listeners.ssl.1 = 127.0.0.1:{tls}\n"
        f"ssl_options.cacertfile = {authority.certificate}\n"
        f"ssl_options.certfile = {certificate}\n"
        f"ssl_options.keyfile = {key}\n"
        "ssl_options.verify = verify_none\n"
        "ssl_options.fail_if_no_peer_cert = false\n"
        f"load_definitions = {folder}/definitions.json\n"
        f"max_message_size = {LARGEST}\n"
        "log.file.level = info\n"
    )
    (folder / "enabled_plugins").write_text("[rabbitmq_stomp].\n")
    (folder / "definitions.json").write_text(json.dumps(_definitions(password)))
    for path in (folder, *folder.rglob("*")):
        shutil.chown(path, ACCOUNT, ACCOUNT)
    environ = {
        "PATH": PATH,
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "ERL_EPMD_PORT": str(epmd),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": "lab@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(amqp),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false",
        # The start script then becomes the server, instead of waiting for it: a signal reaches the right one.
        "RUNNING_UNDER_SYSTEMD": "true",
    }
    return Broker(
        folder,
        password,
        stomp,
        tls,
        authority,
        Program(
            [_epmd(), "-port", str(epmd), "-address", "127.0.0.1", "-relaxed_command_check"],
            {"PATH": PATH},
            folder / "epmd.log",
            ACCOUNT,
        ),
        Program([str(PROGRAMS / "rabbitmq-server")], environ, folder / "console.log", ACCOUNT),
    )


def _definitions(password: str) -> object:
    exchange = {"vhost": VHOST, "durable": True, "auto_delete": False, "internal": False, "arguments": {}}
    return {
        "vhosts": [{"name": "/"}, {"name": VHOST}],
        "users": [{"name": USER, "password": password, "tags": "administrator"}],
        "permissions": [{"user": USER, "vhost": VHOST, "configure": ".*", "write": ".*", "read": ".*"}],
        "exchanges": [
            {"name": "mcollective_broadcast", "type": "topic", **exchange},
            {"name": "mcollective_directed", "type": "direct", **exchange},
        ],
    }


def _epmd() -> str:
    found = shutil.which("epmd")
    return found or str(max(Path("/usr/lib/erlang").glob("erts-*/bin/epmd")))
