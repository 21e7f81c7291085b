"""Settings trees of environments of any size, as Fuel lays them on its nodes: the same for the same arguments.

Sizes and shape follow real environments: ``astute.yaml`` holds every node (about 2.25 KB for each, 28 KB for 3 nodes,
468 KB for 200); what differs from node to node is its network scheme, its volumes, its identity and a few scalars.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import yaml

Layout = Literal["fuel9", "fuel10"]

SERVICES = (
    "aodh",
    "ceilometer",
    "cinder",
    "glance",
    "heat",
    "ironic",
    "keystone",
    "murano",
    "mysql",
    "neutron",
    "nova",
)
MORE_SERVICES = ("rabbit", "sahara", "swift")
NETWORKS = {"fuelweb_admin": 20, "management": 30, "storage": 40, "public": 50, "private": 60}
BRIDGES = {"fuelweb_admin": "br-fw-admin", "management": "br-mgmt", "storage": "br-storage", "public": "br-ex"}
ROLES_ON_MANAGEMENT = (
    *(f"{service}/api" for service in (*SERVICES, *MORE_SERVICES) if service not in {"mysql", "rabbit"}),
    *("horizon", "mgmt/corosync", "mgmt/database", "mgmt/memcache", "mgmt/messaging", "mgmt/vip", "mongo/db"),
    *("nova/migration", "murano/cfapi", "neutron/mesh", "ironic/baremetal"),
)
ROLES_ON_STORAGE = ("ceph/replication", "cinder/iscsi", "storage", "swift/replication")
ROLES_ON_PUBLIC = ("ceph/radosgw", "ex", "neutron/floating", "public/vip")


def write_environment(root: Path, nodes: int, env: int, *, layout: Layout = "fuel9", listed: int | None = None) -> None:
    """Write the trees of an environment of ``nodes`` nodes to ``root/node-<id>``, with ids from 1 on.

    ``listed``: how many nodes the files name, and so their size; all of them unless it is given.
    """
    named = nodes if listed is None else listed
    shared = _Texts(_cluster(named, env))
    list_text = _dumped({"nodes": _node_list(named)})
    for number in range(1, nodes + 1):
        _write_node(root / f"node-{number}", env, shared, list_text, layout)


def astute_text(nodes: int, number: int, env: int) -> str:
    """Return the content of ``astute.yaml`` of one node of an environment."""
    return _Texts(_cluster(nodes, env)).with_keys(_node(number))


class _Texts:
    """Top-level keys as text, each dumped once."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._blocks = {key: _dumped({key: value}) for key, value in values.items()}

    def with_keys(self, values: Mapping[str, Any]) -> str:
        blocks = self._blocks | {key: _dumped({key: value}) for key, value in values.items()}
        return "---\n" + "".join(blocks[key] for key in sorted(blocks))


def _write_node(node: Path, env: int, shared: _Texts, listed: str, layout: Layout) -> None:
    number = int(node.name.removeprefix("node-"))
    hiera = node / "etc/hiera"
    hiera.mkdir(parents=True)
    if layout == "fuel9":
        (node / "etc/astute.yaml").write_text(shared.with_keys(_node(number)), encoding="utf-8")
        (hiera / "astute.yaml").symlink_to("../astute.yaml")
    else:
        (hiera / "cluster.yaml").write_text(shared.with_keys({}), encoding="utf-8")
        (hiera / "node.yaml").write_text(_Texts(_node(number)).with_keys({}), encoding="utf-8")
    (hiera / "nodes.yaml").write_text(listed, encoding="utf-8")
    for path, values in _small_files(number, env):
        (hiera / path).parent.mkdir(parents=True, exist_ok=True)
        (hiera / path).write_text(_dumped(values), encoding="utf-8")


def _small_files(number: int, env: int) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "globals.yaml", _globals(number)
    yield "deleted_nodes.yaml", {"deleted_nodes": []}
    yield "plugins/configdb-sync.yaml", {"configdb-sync": {"metadata": {"enabled": True}, "retries": 3, "env": env}}
    yield "plugins/ldap.yaml", {"ldap": {"url": "ldap://10.30.0.9", "metadata": {"enabled": number % 2 == 0}}}
    yield "override/common.yaml", {"debug": number % 5 == 0, "puppet": {"pool": f"pool-{number % 3}"}}
    yield (
        "override/plugins.yaml",
        {"tuning": {_digest("key", index)[:6]: _digest("value", index) for index in range(12)}},
    )
    yield f"override/node/{_fqdn(number)}.yaml", {"rack": f"r{number % 6}", "place": f"стойка {number}"}
    ratio = {"value": f"{4 + number % 4}.0"}
    yield "override/configuration.yaml", {"configuration": {"nova_config": {"DEFAULT/cpu_allocation_ratio": ratio}}}
    yield "override/configuration/cluster.yaml", {"configuration": {"keystone_config": {"token/expiration": 3600}}}
    yield "override/configuration/role.yaml", {"configuration": {"nova_config": {"DEFAULT/debug": number % 3 == 0}}}


def _dumped(values: Mapping[str, Any]) -> str:
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    # A fresh copy by way of text holds no value twice, so no anchors come out.
    return str(yaml.dump(dict(values), Dumper=_without_aliases(dumper), default_flow_style=False, allow_unicode=True))


def _without_aliases(dumper: Any) -> Any:
    return type("Plain", (dumper,), {"ignore_aliases": lambda _self, _value: True})


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _password(*parts: object) -> str:
    return _digest("password", *parts)[:24]


def _fqdn(number: int) -> str:
    return f"node-{number}.domain.tld"


def _address(network: str, number: int) -> str:
    return f"10.{NETWORKS[network]}.{(number + 9) // 250}.{(number + 9) % 250 + 1}"


def _roles(number: int) -> list[str]:
    if number == 1:
        return ["primary-controller"]
    return ["controller"] if number <= 3 else [("compute", "ceph-osd", "cinder", "compute", "mongo")[number % 5]]


def _node_in_metadata(number: int) -> dict[str, Any]:
    roles = dict.fromkeys(ROLES_ON_MANAGEMENT, _address("management", number))
    roles |= dict.fromkeys(ROLES_ON_STORAGE, _address("storage", number))
    roles |= dict.fromkeys(ROLES_ON_PUBLIC, _address("public", number))
    roles |= dict.fromkeys(("admin/pxe", "fw-admin"), _address("fuelweb_admin", number))
    pages = {"2048": (number % 3) * 512, "1048576": 0, "DEFAULT": "2048"}
    return {
        "attributes": {
            "cpu_pinning": {"dpdk": {"value": 0}, "nova": {"value": number % 4}},
            "hugepages": {"dpdk": {"value": 0}, "nova": {"value": pages}},
            "hypervisor": {"hypervisor_id": _digest("hypervisor", number)[:8]},
        },
        "fqdn": _fqdn(number),
        "mac": ":".join(_digest("mac", number)[place : place + 2] for place in range(0, 12, 2)),
        "name": f"node-{number}",
        "network_roles": {**roles, "neutron/private": None},
        "node_roles": _roles(number),
        "nova_cpu_pinning_enabled": number % 7 == 0,
        "nova_hugepages_enabled": number % 11 == 0,
        "swift_zone": str(number),
        "uid": str(number),
        "user_node_name": f"Untitled ({_digest(number)[:2]}:{_digest(number)[2:4]})",
    }


def _node_list(nodes: int) -> list[dict[str, Any]]:
    return [
        {
            "fqdn": _fqdn(number),
            "internal_address": _address("management", number),
            "internal_netmask": "255.255.0.0",
            "name": f"node-{number}",
            "public_address": _address("public", number),
            "public_netmask": "255.255.0.0",
            "role": role,
            "storage_address": _address("storage", number),
            "storage_netmask": "255.255.0.0",
            "swift_zone": str(number),
            "uid": str(number),
            "user_node_name": f"Untitled ({_digest(number)[:2]}:{_digest(number)[2:4]})",
        }
        for number in range(1, nodes + 1)
        for role in (*_roles(number), *(("cinder",) if number % 5 < 2 else ()))
    ]


def _service(name: str) -> dict[str, Any]:
    restriction = {"condition": f"settings:additional_components.{name}.value == false", "action": "hide"}
    return {
        "db_password": _password(name, "db"),
        "enabled": True,
        "metadata": {
            "group": "openstack",
            "label": f"OpenStack {name.title()}",
            "restrictions": [restriction, {"message": f"{name.title()} needs its database and its queue to be there."}],
            "toggleable": False,
            "weight": 20,
        },
        "user_password": _password(name, "user"),
        "workers": {"api": 4, "engine": 2},
    }


def _repositories() -> list[dict[str, Any]]:
    base = "http://10.20.0.2:8080"
    ubuntu = [
        (f"ubuntu{part}", None, "main universe multiverse", f"trusty{part}") for part in ("", "-updates", "-security")
    ]
    mos = [
        (f"mos{part}", 1050, "main restricted", f"mos9.0{part}") for part in ("", "-updates", "-security", "-holdback")
    ]
    return [
        {"name": name, "priority": priority, "section": section, "suite": suite, "type": "deb", "uri": f"{base}/{name}"}
        for name, priority, section, suite in (*ubuntu, *mos)
    ]


def _certificate() -> str:
    lines = [_digest("certificate", line) for line in range(40)]
    return "\n".join(["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""])


def _vip(number: int) -> dict[str, Any]:
    address = _address("management", 40_000 + number)
    return {"ipaddr": address, "is_user_defined": False, "namespace": "haproxy", "network_role": "mgmt/vip"}


def _cluster(nodes: int, env: int) -> dict[str, Any]:
    vips = ("management", "public", "vrouter", "vrouter_pub", "murano", "baremetal")
    values: dict[str, Any] = {name: _service(name) for name in (*SERVICES, *MORE_SERVICES)}
    values |= {
        "access": {"email": "admin@localhost", "password": _password("admin"), "tenant": "admin", "user": "admin"},
        "auto_assign_floating_ip": False,
        "cluster": {
            "id": env,
            "mode": "ha_compact",
            "name": f"env-{env}",
            "net_provider": "neutron",
            "status": "deployment",
        },
        "corosync": {"group": "226.94.1.1", "port": "12000", "verified": False},
        "debug": False,
        "deployment_id": env,
        "deployment_mode": "ha_compact",
        "external_dns": {
            "dns_list": ["8.8.8.8", "8.8.4.4"],
            "metadata": {"label": "Host OS DNS Servers", "weight": 20},
        },
        "external_ntp": {"ntp_list": [f"{number}.fuel.pool.ntp.org" for number in range(3)]},
        "fail_if_error": False,
        "fuel_version": "9.0",
        "kernel_params": {"kernel": "console=tty0 net.ifnames=1 biosdevname=0 rootdelay=90 nomodeset"},
        "management_network_range": "10.30.0.0/16",
        "management_vip": "10.30.0.3",
        "master_ip": "10.20.0.2",
        "network_metadata": {
            "nodes": {f"node-{number}": _node_in_metadata(number) for number in range(1, nodes + 1)},
            "vips": {name: _vip(number) for number, name in enumerate(vips)},
        },
        "nodes": _node_list(nodes),
        "openstack_version": "mitaka-9.0",
        "operator_user": {
            "authkeys": f"ssh-rsa {_digest('key') * 6} root@fuel",
            "name": "fueladmin",
            "password": _password("o"),
        },
        "provision": {"codename": "trusty", "method": "image", "packages": _packages()},
        "public_ssl": {
            "cert_data": {"content": _certificate(), "name": "haproxy.pem"},
            "hostname": "public.fuel.local",
        },
        "public_vip": "10.50.0.3",
        "puppet": {
            "manifests": "rsync://10.20.0.2:/puppet/mitaka-9.0/manifests/",
            "modules": "rsync://10.20.0.2:/modules/",
        },
        "quantum": True,
        "quantum_settings": _neutron(),
        "release": {"attributes_metadata": {}, "name": "Mitaka on Ubuntu 14.04", "version": "mitaka-9.0"},
        "repo_setup": {"metadata": {"label": "Repositories", "weight": 50}, "repos": _repositories()},
        "service_user": {
            "homedir": "/var/lib/fuel",
            "name": "fuel",
            "password": _password("s"),
            "sudo": "ALL=(ALL) ALL",
        },
        "storage": {"fsid": _digest("fsid")[:32], "mon_key": _password("mon"), "osd_pool_size": "3", "pg_num": 128},
        "storage_network_range": "10.40.0.0/16",
        "syslog": {"syslog_port": "514", "syslog_server": "", "syslog_transport": "tcp"},
        "test_vm_image": {"container_format": "bare", "disk_format": "qcow2", "img_name": "TestVM", "min_ram": 64},
        "use_cow_images": True,
        "workloads_collector": {"enabled": True, "password": _password("w"), "tenant": "services", "username": "stats"},
    }
    return values


def _packages() -> str:
    return "".join(f"package-{_digest('package', number)[:8]}\n" for number in range(60))


def _neutron() -> dict[str, Any]:
    network = {
        "L2": {"network_type": "vlan", "segment_id": None},
        "L3": {"enable_dhcp": True, "subnet": "192.168.111.0/24"},
    }
    return {
        "L2": {
            "base_mac": "fa:16:3e:00:00:00",
            "phys_nets": {"physnet1": {"bridge": "br-prv", "vlan_range": "1000:1030"}},
        },
        "L3": {"use_namespaces": True},
        "database": {"passwd": _password("neutron", "db")},
        "predefined_networks": {"admin_floating_net": network, "admin_internal_net": network},
    }


def _scheme(number: int) -> dict[str, Any]:
    bridges = [{"action": "add-br", "name": name} for name in (*BRIDGES.values(), "br-prv", "br-aux", "br-floating")]
    ports = [
        {"action": "add-port", "bridge": name, "name": f"enp0s{3 + index % 3}.{100 + index}"}
        for index, name in enumerate(BRIDGES.values())
    ]
    bond = {
        "action": "add-bond",
        "bond_properties": {"lacp_rate": "slow", "mode": "802.3ad", "xmit_hash_policy": "layer2"},
        "bridge": "br-aux",
        "interfaces": ["enp0s6", "enp0s7"],
        "name": "bond0",
    }
    patch = {"action": "add-patch", "bridges": ["br-prv", "br-aux"], "mtu": 65000, "provider": "ovs"}
    roles = dict.fromkeys(ROLES_ON_MANAGEMENT[:12], "br-mgmt") | dict.fromkeys(ROLES_ON_STORAGE, "br-storage")
    return {
        "endpoints": {bridge: {"IP": [f"{_address(name, number)}/16"]} for name, bridge in BRIDGES.items()},
        "interfaces": {
            f"enp0s{port}": {"vendor_specific": {"bus_info": f"0000:00:{port:02x}.0"}} for port in range(3, 8)
        },
        "provider": "lnx",
        "roles": roles,
        "transformations": [*bridges, *ports, bond, patch],
        "version": "1.1",
    }


def _volumes(number: int) -> list[dict[str, Any]]:
    parts = [
        {"size": 300, "type": "boot"},
        {"file_system": "ext2", "mount": "/boot", "name": "Boot", "size": 200, "type": "raid"},
        {"size": 0, "type": "lvm_meta_pool"},
        {"lvm_meta_size": 64, "size": 65536, "type": "pv", "vg": "os"},
    ]
    disks = [
        {
            "bootable": disk == "a",
            "extra": [
                f"disk/by-id/wwn-0x{_digest(number, disk)[:16]}",
                f"disk/by-id/scsi-{_digest(number, disk)[16:40]}",
            ],
            "free_space": 101836,
            "id": f"vd{disk}",
            "name": f"vd{disk}",
            "size": 102400,
            "type": "disk",
            "volumes": parts,
        }
        for disk in "abcd"
    ]
    root = {"file_system": "ext4", "mount": "/", "name": "root", "size": 50000, "type": "lv"}
    return [*disks, {"id": "os", "label": "Base System", "min_size": 52000, "type": "vg", "volumes": [root]}]


def _node(number: int) -> dict[str, Any]:
    return {
        "fqdn": _fqdn(number),
        "last_controller": "node-3",
        "network_scheme": _scheme(number),
        "node_volumes": _volumes(number),
        "online": True,
        "priority": 100 * (number % 9),
        "role": _roles(number)[0],
        "roles": _roles(number),
        "status": "ready",
        "swift_zone": str(number),
        "uid": str(number),
        "user_node_name": f"Untitled ({_digest(number)[:2]}:{_digest(number)[2:4]})",
        "vms_conf": [],
    }


def _globals(number: int) -> dict[str, Any]:
    values: dict[str, Any] = {f"{name}_hash": _service(name) for name in SERVICES}
    return values | {
        "amqp_hosts": ",".join(f"{_address('management', controller)}:5673" for controller in (1, 2, 3)),
        "controller_nodes": [node for node in _node_list(3) if "controller" in node["role"]],
        "database_vip": "10.30.0.3",
        "deploy_vrouter": True,
        "haproxy_stats_bind": {"ip": "10.30.0.3", "port": 10000},
        "max_retries": -1,
        "network_scheme": _scheme(number),
        "node": _node_in_metadata(number),
        "node_role": _roles(number)[0],
        "ratio": 1.5,
        "region": "RegionOne",
        "use_syslog": True,
    }
