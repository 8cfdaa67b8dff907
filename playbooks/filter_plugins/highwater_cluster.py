"""Filters for clusters with TLS and logins: names of certificates, users, faults of an inventory."""

from __future__ import annotations

import base64
import datetime
import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
except ImportError as _error:
    _MISSING = str(_error)
else:
    _MISSING = ""

Variables = Mapping[str, Any]
Acl = dict[str, str]

TLS = "tls"
_GROUPS = ("zookeeper", "brokers", "monitor", "bench", "spark_master", "spark_workers")
_ADDRESSES = ("zookeeper_address", "broker_address", "highwater_address", "ansible_host")
_LOCAL = ("localhost", "127.0.0.1")
# Uses of a certificate, by the identifiers of RFC 5280.
_USES = {"servers": "1.3.6.1.5.5.7.3.1", "clients": "1.3.6.1.5.5.7.3.2"}
# What the playbooks log in as, beside the brokers. Users of the inventory have other names.
_OURS = "highwater-"
_BY_BROKERS = "highwater-broker"
_LITERAL, _PREFIXED, _EVERY = "literal", "prefixed", "*"
_RESOURCES = ("topic", "group", "transactional_id", "cluster")
_OPERATIONS = {
    "topic": ("all", "read", "write", "create", "delete", "alter", "describe", "describe_configs", "alter_configs"),
    "group": ("all", "read", "delete", "describe"),
    "transactional_id": ("all", "write", "describe"),
    "cluster": ("all", "create", "alter", "describe", "cluster_action", "describe_configs", "alter_configs",
                "idempotent_write"),
}  # fmt: skip
_NAME_OF_CLUSTER = "kafka-cluster"
# Properties of brokers that follow from cluster_security, and how the names of more of them begin.
_MADE_HERE = (
    *("listeners", "advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name"),
    *("security.inter.broker.protocol", "authorizer.class.name", "super.users", "zookeeper.set.acl"),
    *("sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol", "sasl.jaas.config"),
)
_MADE_HERE_BEGIN = ("ssl.key", "ssl.truststore.", "zookeeper.ssl.", "zookeeper.sasl.")


def is_secure(variables: Variables) -> bool:
    """`hostvars[host] | highwater_is_secure`."""
    return str(variables.get("cluster_security", "none")) == TLS


def certificate_names(host: str, hostvars: Mapping[str, Variables]) -> list[str]:
    """`host | highwater_certificate_names(hostvars)`: by which others find it."""
    return list(dict.fromkeys([host, *_addresses(hostvars[host]), *_LOCAL]))


def _addresses(variables: Variables) -> list[str]:
    return [str(variables[name]) for name in _ADDRESSES if variables.get(name)]


def super_users(users: Iterable[Variables]) -> str:
    """`cluster_users | highwater_super_users`: as super.users of brokers has them."""
    return ";".join(f"User:{name}" for name in [_BY_BROKERS, *sorted(_super_names(users))])


def _super_names(users: Iterable[Variables]) -> list[str]:
    return [str(user["name"]) for user in users if user.get("super_user")]


def login_text(password: str, user: str) -> str:
    """`password | highwater_login(user)`: options of a login module of JAAS."""
    return f"username={_quoted(user)} password={_quoted(password)}"


def login_entry(password: str, user: str) -> str:
    """`password | highwater_login_entry(user)`: the entry of a user who may log in."""
    return f"user_{user}={_quoted(password)}"


def _quoted(text: str) -> str:
    escaped = str(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def users_of(cluster: str, users: Iterable[Variables], mirrors: Iterable[Variables]) -> list[dict[str, Any]]:
    """`name | highwater_cluster_users(cluster_users, cluster_mirrors)`: all of a cluster, with their ACLs."""
    mirroring = _acls_of_mirrors(cluster, mirrors)
    found: list[dict[str, Any]] = [
        {"name": f"{_OURS}verify", "acls": _acls_of_verify()},
        {"name": f"{_OURS}monitor", "acls": _acls_of_monitor()},
        {"name": f"{_OURS}bench", "acls": _acls_of_bench()},
    ]
    if mirroring:
        found.append({"name": f"{_OURS}mirror", "acls": mirroring})
    for user in users:
        acls = [acl for given in user.get("acls") or [] for acl in _given_acls(given)]
        found.append({"name": str(user["name"]), "acls": acls})
    return found


def passwords_of_users(passwords: Mapping[str, str], users: Iterable[Variables]) -> dict[str, str]:
    """`passwords | highwater_passwords_of_users(cluster_users)`: by the names of users; given are those of services."""
    ours = {f"{_OURS}{service}": str(password) for service, password in passwords.items()}
    return ours | {str(user["name"]): str(user["password"]) for user in users}


def key_store(key: str, certificate: str) -> str:
    """`key | highwater_key_store(certificate)`: one file of both, as Java and OpenSSL read it.

    A key that was given may be in another form than PKCS #8, which alone ZooKeeper reads, and the lookup of a file
    takes the end of its last line away.
    """
    if not (key and certificate):
        return f"{key}{certificate}"  # in check mode, of what is not made yet
    form = serialization.PrivateFormat.PKCS8
    private = serialization.load_pem_private_key(key.encode(), password=None)
    text = private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
    return f"{text.strip()}\n{certificate.strip()}\n"


def _acls(resource: str, name: str, pattern: str, *operations: str) -> list[Acl]:
    return [
        {"resource": resource, "name": name, "pattern": pattern, "operation": operation, "host": _EVERY}
        for operation in operations
    ]


def _given_acls(given: Variables) -> list[Acl]:
    resource = next(kind for kind in _RESOURCES if given.get(kind))
    name = _NAME_OF_CLUSTER if resource == "cluster" else str(given[resource])
    pattern = str(given.get("pattern", _LITERAL))
    operations = [str(operation).lower() for operation in given["operations"]]
    return [acl | {"host": str(given.get("host", _EVERY))} for acl in _acls(resource, name, pattern, *operations)]


def _acls_of_verify() -> list[Acl]:
    return [
        *_acls("topic", _EVERY, _LITERAL, "describe"),
        *_acls("topic", f"{_OURS}verify-", _PREFIXED, "create", "write", "read", "delete"),
    ]


def _acls_of_monitor() -> list[Acl]:
    """Return the ACLs that docs/monitor-collection.md lists."""
    return [
        *_acls("topic", _EVERY, _LITERAL, "describe", "describe_configs"),
        *_acls("group", _EVERY, _LITERAL, "describe"),
        *_acls("cluster", _NAME_OF_CLUSTER, _LITERAL, "describe", "describe_configs"),
    ]


def _acls_of_bench() -> list[Acl]:
    """Return the ACLs that docs/access-control.md lists."""
    return [
        *_acls("topic", _OURS, _PREFIXED, "create", "write", "read", "delete", "describe_configs"),
        *_acls("cluster", _NAME_OF_CLUSTER, _LITERAL, "describe_configs"),
        *_acls("transactional_id", _OURS, _PREFIXED, "write"),
    ]


def _acls_of_mirrors(cluster: str, mirrors: Iterable[Variables]) -> list[Acl]:
    """Return the ACLs that docs/access-control.md lists for each mirror that this cluster is a source or target of."""
    found: list[Acl] = []
    own = f"{_OURS}mirror-"
    for mirror in mirrors:
        groups = [str(group) for group in mirror.get("groups") or []]
        if cluster in (mirror.get("source"), mirror.get("target")):
            for group in groups:
                found += _acls("group", group, _LITERAL, "read")
            found += _acls("group", own, _PREFIXED, "read")
        if cluster == mirror.get("source"):
            for topic in mirror.get("topics") or []:
                found += _acls("topic", str(topic), _LITERAL, "read", "describe_configs")
        if cluster == mirror.get("target"):
            for prefix in (str(mirror.get("prefix", "")), own):
                operations = ("create", "write", "read", "alter", "describe_configs", "alter_configs")
                names = [prefix] if prefix else [str(topic) for topic in mirror.get("topics") or []]
                for name in names:
                    found += _acls("topic", name, _PREFIXED if prefix else _LITERAL, *operations)
            found += _acls("transactional_id", own, _PREFIXED, "write")
    return [acl for number, acl in enumerate(found) if acl not in found[:number]]


def found_on(looked: Mapping[str, Any], what: str) -> list[str]:
    """`registered | highwater_cluster_found('plain')`: units of hosts of which that was said."""
    return [
        f"{result['__cluster_host']} ({line.partition(' ')[2]})"
        for result in looked["results"]
        for line in str(result.get("stdout", "")).splitlines()
        if line.startswith(f"{what} ")
    ]


def strangers(looked: Mapping[str, Any], authority: str) -> list[str]:
    """`registered | highwater_cluster_strangers(authority)`: hosts where something runs that trusts none of these."""
    wanted = set(_certificates(authority))
    found = [
        (str(result["__cluster_host"]), base64.b64decode(line.partition(" ")[2]).decode())
        for result in looked["results"]
        for line in str(result.get("stdout", "")).splitlines()
        if line.startswith("authority ")
    ]
    return list(dict.fromkeys(host for host, text in found if wanted.isdisjoint(_certificates(text))))


def _certificates(text: str) -> list[str]:
    """Each certificate of a text in PEM, without its blanks."""
    found = (part.partition("-END CERTIFICATE-") for part in text.split("-BEGIN CERTIFICATE-")[1:])
    return ["".join(body.strip("-").split()) for body, end, _ in found if end]


def other_logins(looked: Mapping[str, Any], login: str) -> list[str]:
    """`registered | highwater_cluster_other_logins(login)`: hosts that printed something without this login."""
    told = {str(result["__cluster_host"]): str(result.get("stdout", "")) for result in looked["results"]}
    return [host for host, text in told.items() if text and login not in text]


def faults(hostvars: Mapping[str, Variables], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """`hostvars | highwater_cluster_security_faults(groups)`: what would go wrong; without any secret."""
    hosts = list(dict.fromkeys(host for group in _GROUPS for host in groups.get(group, []) if host in hostvars))
    secure = [host for host in hosts if is_secure(hostvars[host])]
    if not secure:
        return []
    found: list[str] = []
    if others := [host for host in hosts if host not in secure]:
        found.append(
            f"cluster_security is tls for {', '.join(secure)} and not for {', '.join(others)}; set it for all hosts, "
            "in group_vars/all.yml"
        )
    plain = [host for host in groups.get("reference_kafka", []) if host in hostvars]
    if plain:
        found.append(
            f"group reference_kafka has hosts ({', '.join(plain)}), and the playbooks set Apache Kafka up without TLS "
            "and logins alone, while its ZooKeeper would have both; leave the group out, or keep Apache Kafka in an "
            "inventory of its own"
        )
    told = dict.fromkeys(fault for host in secure for fault in _faults_of_logins(hostvars[host]))
    found += told
    members = {*groups.get("zookeeper", []), *groups.get("brokers", [])}
    for host in secure:
        found += [f"{host}: {fault}" for fault in _faults_of_host(host, hostvars, is_member=host in members)]
    return list(dict.fromkeys(found))


def _read(variables: Variables, name: str, default: Any) -> tuple[Any, str]:
    """The value, and a fault in its place when it names a variable that is not there."""
    try:
        return _whole(variables[name]) if name in variables else default, ""
    except Exception as error:  # whatever a template of the inventory's can raise
        reason = " ".join(str(error).split())
        return default, f"{name} cannot be read ({reason}); define what it names, in a vault of this inventory"


def _whole(value: Any) -> Any:
    """Return a copy with every inner value: Ansible resolves what a value names when the value is read."""
    if isinstance(value, Mapping):
        return {str(key): _whole(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(inner) for inner in value]
    return value


def _faults_of_logins(variables: Variables) -> Iterator[str]:
    passwords, unreadable = _read(variables, "cluster_passwords", {})
    if unreadable:
        yield unreadable
    for service, password in passwords.items() if isinstance(passwords, dict) else ():
        yield from (f"cluster_passwords.{service} {fault}" for fault in _faults_of_password(password))
    users, unreadable = _read(variables, "cluster_users", [])
    if unreadable:
        yield unreadable
    if not isinstance(users, list) or not all(isinstance(user, dict) for user in users):
        return  # the types of variables report it
    for name, count in Counter(str(user.get("name", "")) for user in users).items():
        if not name or name.startswith(_OURS) or not name.isprintable() or set(name) & set(" ;,=\"'\\"):
            yield (
                f"cluster_users has the name {name!r}; a name has no blank, quote, comma, semicolon or '=', and does "
                f"not begin with {_OURS}"
            )
        if count > 1:
            yield f"cluster_users names {name} {count} times; name it once"
    for user in users:
        yield from (f"cluster_users {user.get('name')}: its password {fault}"
                    for fault in _faults_of_password(user.get("password")))  # fmt: skip
        for acl in user.get("acls") or []:
            yield from (f"cluster_users {user.get('name')}: {fault}" for fault in _faults_of_acl(acl))


def _faults_of_password(password: Any) -> Iterator[str]:
    text = "" if password is None else str(password)
    if isinstance(password, bool | int | float):
        yield "is a number or a truth value for YAML, which may write it otherwise than you; put it into quotes"
    elif not text:
        yield "is empty; take it from a vault"
    elif not text.isprintable():
        yield "has several lines or control characters; give one line"


def _faults_of_acl(acl: Any) -> Iterator[str]:
    given = [kind for kind in _RESOURCES if isinstance(acl, Mapping) and acl.get(kind)]
    if len(given) != 1:
        yield f"an entry of acls names {len(given)} resources; name one of {', '.join(_RESOURCES)}"
        return
    if str(acl.get("pattern", _LITERAL)) not in (_LITERAL, _PREFIXED):
        yield f"an entry of acls has the pattern {acl['pattern']}, which is neither literal nor prefixed"
    operations = acl.get("operations") or []
    if not isinstance(operations, list) or not operations:
        yield f"acls of {given[0]} {acl[given[0]]} need operations, a list"
        return
    for operation in operations:
        if str(operation).lower() not in _OPERATIONS[given[0]]:
            known = ", ".join(_OPERATIONS[given[0]])
            yield f"acls of {given[0]} have the operation {operation}; known are {known}"


def _faults_of_host(host: str, hostvars: Mapping[str, Variables], *, is_member: bool) -> Iterator[str]:
    variables = hostvars[host]
    own, _ = _read(variables, "broker_properties", {})
    instances, _ = _read(variables, "broker_instances", [])
    for properties in [own, *(each.get("properties") or {} for each in instances if isinstance(each, dict))]:
        for name in properties if isinstance(properties, dict) else ():
            if name in _MADE_HERE or str(name).startswith(_MADE_HERE_BEGIN):
                yield f"property {name} of a broker follows from cluster_security: tls; remove it from its properties"
    texts = {}
    for name in ("cluster_authority", "cluster_certificate", "cluster_key"):
        texts[name], unreadable = _read(variables, name, "")
        if unreadable:
            yield unreadable
            return
    yield from _faults_of_texts(texts, _addresses(variables) or [host], is_member=is_member)


def _faults_of_texts(texts: Mapping[str, str], names: Sequence[str], *, is_member: bool) -> Iterator[str]:
    if not any(texts.values()):
        return
    if _MISSING:
        yield f"the controller's Python cannot read certificates ({_MISSING}); install cryptography"
        return
    if not texts["cluster_authority"]:
        yield "cluster_certificate needs cluster_authority, the certificate of who signed it"
        return
    if is_member and not (texts["cluster_certificate"] and texts["cluster_key"]):
        yield "cluster_authority needs cluster_certificate and cluster_key of each host of zookeeper and brokers"
        return
    try:
        authorities = x509.load_pem_x509_certificates(str(texts["cluster_authority"]).encode())
    except ValueError:
        yield "cluster_authority is not a certificate in PEM"
        return
    yield from (fault for each in authorities for fault in _faults_of_time("cluster_authority", each))
    if is_member:
        yield from _faults_of_pair(texts, authorities, names)


def _faults_of_pair(texts: Mapping[str, str], authorities: Sequence[Any], names: Sequence[str]) -> Iterator[str]:
    try:
        chain = x509.load_pem_x509_certificates(str(texts["cluster_certificate"]).encode())
    except ValueError:
        yield "cluster_certificate is not a certificate in PEM"
        return
    try:
        key: Any = serialization.load_pem_private_key(str(texts["cluster_key"]).encode(), password=None)
    except TypeError:
        yield "cluster_key is encrypted; give it without a password, from a vault"
        return
    except ValueError:
        yield "cluster_key is not a private key in PEM"
        return
    certificate = chain[0]
    if _public(key.public_key()) != _public(certificate.public_key()):
        yield "cluster_key does not belong to cluster_certificate; give the key that it was made for"
    if not any(_is_issued_by(chain[-1], each) for each in authorities):
        yield "cluster_certificate is not signed by cluster_authority; give the authority that signed it"
    yield from _faults_of_time("cluster_certificate", certificate)
    if lacking := [use for use, identifier in _USES.items() if not _may_be_used_by(certificate, identifier)]:
        yield (
            f"cluster_certificate may not be used by {' and '.join(lacking)}, and a host is server and client; have it "
            "made for both (extendedKeyUsage)"
        )
    own = _names_in(certificate)
    if missing := [name for name in names if name.lower() not in own]:
        yield (
            f"cluster_certificate is not for {', '.join(missing)}, by which others find the host; have it made for "
            "these names (subjectAltName)"
        )


def _faults_of_time(what: str, certificate: Any) -> Iterator[str]:
    now = datetime.datetime.now(datetime.UTC)
    end = certificate.not_valid_after_utc
    if end <= now:
        yield f"{what} expired on {end:%Y-%m-%d}; give a new one"


def _is_issued_by(certificate: Any, authority: Any) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:  # of whatever kind: it is another's
        return bool(certificate == authority)
    return True


def _public(key: Any) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return bytes(key.public_bytes(serialization.Encoding.DER, form))


def _may_be_used_by(certificate: Any, identifier: str) -> bool:
    """One that names no use may be used for each."""
    try:
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return identifier in {use.dotted_string for use in uses}


def _names_in(certificate: Any) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = {str(ipaddress.ip_address(each)) for each in found.get_values_for_type(x509.IPAddress)}
    return {name.lower() for name in found.get_values_for_type(x509.DNSName)} | addresses


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "highwater_certificate_names": certificate_names,
            "highwater_cluster_found": found_on,
            "highwater_cluster_other_logins": other_logins,
            "highwater_cluster_security_faults": faults,
            "highwater_cluster_strangers": strangers,
            "highwater_cluster_users": users_of,
            "highwater_is_secure": is_secure,
            "highwater_key_store": key_store,
            "highwater_login": login_text,
            "highwater_login_entry": login_entry,
            "highwater_passwords_of_users": passwords_of_users,
            "highwater_super_users": super_users,
        }
