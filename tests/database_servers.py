"""Real PostgreSQL, MariaDB and MySQL for tests: Debian's packages, unpacked into the user's cache and not installed.

MariaDB speaks MySQL's protocol and serves both names in most tests. MySQL itself is in Debian's unstable release alone:
it comes with the libraries of that release, libc among them. PostgreSQL refuses to run as root: then it runs in a user
namespace in which root has another number, so that its files stay where they are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

import psutil

from highwater.bench.user_cache import cached, run_step
from highwater.common.errors import UsageError
from highwater.common.ports import free_ports
from tests.processes import runs
from tests.waiting import wait_until

PASSWORD: Final = "s3cr3t:p@ss/word"  # noqa: S105 - of a server that lives as long as a test
"""Has every character that a URL has to escape."""
PASSWORD_IN_URL: Final = "s3cr3t%3Ap%40ss%2Fword"  # noqa: S105
USER: Final = "writer"
_START_S: Final = 120.0
_MARIADB: Final = "mariadb-server-core"
_ACCOUNT: Final = f"create user '{USER}'@'%' identified by '{PASSWORD}';\ngrant all on *.* to '{USER}'@'%';\n"
_UNSTABLE: Final = (
    "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian unstable main"
)


class Server:
    """A process of a database server on loopback, which can be killed and started again on its files."""

    def __init__(
        self, url: str, command: Sequence[str], environment: Mapping[str, str], folder: Path, port: int
    ) -> None:
        self.url = url
        self.port = port
        self._command = command
        self._environment = environment
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_until(self._answers, f"an answer of {self._command[0]} (see {self._folder}/server.log)", _START_S)

    def kill(self) -> None:
        """SIGKILL to all its processes: PostgreSQL has one for each connection."""
        assert self._process is not None
        server = psutil.Process(self._process.pid)
        processes = [server, *server.children(recursive=True)]
        for each in processes:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self._process.wait()
        wait_until(lambda: not any(map(runs, processes)), "the end of the server's processes")

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def _answers(self) -> bool:
        raise NotImplementedError


class Postgresql(Server):
    def _answers(self) -> bool:
        import psycopg

        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "server.log").read_text("utf-8")[-2000:]
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


class Mysql(Server):
    """MariaDB too."""

    def _answers(self) -> bool:
        import pymysql

        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "server.log").read_text("utf-8")[-2000:]
        try:
            pymysql.connect(host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, database="results").close()
        except pymysql.err.OperationalError:
            return False
        return True


@contextmanager
def running_postgresql(folder: Path, *more: str) -> Iterator[Server]:
    """more: settings, such as `fsync=off`, with which a killed process loses nothing, and a killed host all."""
    root = _postgresql()
    (programs,) = root.glob("usr/lib/postgresql/*/bin")
    environment = _environment(root)
    data = folder / "data"
    (folder / "password").write_text(PASSWORD, "utf-8")
    as_somebody = ["unshare", "--user", "--map-user=1000"] if os.geteuid() == 0 else []
    make = ["--no-sync", "--auth=scram-sha-256", f"--username={USER}", f"--pwfile={folder / 'password'}"]
    run(
        [*as_somebody, str(programs / "initdb"), *make, "--encoding=UTF8", "--locale=C", f"--pgdata={data}"],
        environment,
    )
    (port,) = free_ports(1)
    settings = ["listen_addresses=127.0.0.1", f"port={port}", "unix_socket_directories=", "max_connections=30", *more]
    command = [*as_somebody, str(programs / "postgres"), "-D", str(data)]
    for setting in settings:
        command += ["-c", setting]
    url = f"postgresql://{USER}:{PASSWORD_IN_URL}@127.0.0.1:{port}/postgres"
    with running(Postgresql(url, command, environment, folder, port)) as server:
        yield server


@contextmanager
def running_mariadb(folder: Path, *more: str) -> Iterator[Server]:
    root = _mariadb()
    environment = _environment(root)
    data = folder / "data"
    data.mkdir(parents=True)
    share = root / "usr/share/mysql"
    mariadbd = str(root / "usr/sbin/mariadbd")
    base = [mariadbd, "--no-defaults", f"--basedir={root / 'usr'}", f"--datadir={data}", f"--lc-messages-dir={share}"]
    if os.geteuid() == 0:
        base.append("--user=root")
    tables = "".join(
        (share / name).read_text("utf-8")
        for name in ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
    )
    results = "create database results character set utf8mb4;\nflush privileges;\n"
    script = f"create database mysql;\nuse mysql;\n{tables}\n{results}{_ACCOUNT}"
    run([*base, "--bootstrap"], environment, script)
    (port,) = free_ports(1)
    command = [
        *base,
        "--bind-address=127.0.0.1",
        f"--port={port}",
        f"--socket={folder / 'mariadb.sock'}",
        f"--pid-file={folder / 'mariadb.pid'}",
        "--innodb-buffer-pool-size=64M",
        "--skip-name-resolve",
        "--character-set-server=utf8mb4",
        *more,
    ]
    url = f"mysql://{USER}:{PASSWORD_IN_URL}@127.0.0.1:{port}/results"
    with running(Mysql(url, command, environment, folder, port)) as server:
        yield server


@contextmanager
def running_mysql(folder: Path) -> Iterator[Server]:
    root = _mysql()
    libraries = root / "usr/lib" / sysconfig.get_config_var("MULTIARCH")
    (loader,) = libraries.glob("ld-linux-*")
    base = [str(loader), "--library-path", f"{libraries}:{libraries}/mysql", str(root / "usr/sbin/mysqld")]
    base += ["--no-defaults", f"--basedir={root / 'usr'}", f"--datadir={folder / 'data'}", "--secure-file-priv="]
    base.append(f"--lc-messages-dir={root / 'usr/share/mysql'}")
    if os.geteuid() == 0:
        base.append("--user=root")
    (folder / "account.sql").write_text(f"create database results; {_ACCOUNT.replace(chr(10), ' ')}", "utf-8")
    environment = {**_environment(root), "LD_LIBRARY_PATH": ""}
    run([*base, "--initialize-insecure", f"--init-file={folder / 'account.sql'}"], environment)
    (port,) = free_ports(1)
    command = [
        *base,
        "--bind-address=127.0.0.1",
        f"--port={port}",
        f"--socket={folder / 'mysql.sock'}",
        f"--pid-file={folder / 'mysql.pid'}",
        "--mysqlx=0",
        "--skip-name-resolve",
    ]
    url = f"mysql://{USER}:{PASSWORD_IN_URL}@127.0.0.1:{port}/results"
    with running(Mysql(url, command, environment, folder, port)) as server:
        yield server


@contextmanager
def running(server: Server) -> Iterator[Server]:
    try:
        server.start()
        yield server
    finally:
        server.stop()


def run(command: Sequence[str], environment: Mapping[str, str], given: str = "") -> None:
    done = subprocess.run(
        command, env=environment, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]


def _environment(root: Path) -> dict[str, str]:
    libraries = root / "usr/lib" / sysconfig.get_config_var("MULTIARCH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "MYSQL"))}
    return {**kept, "LD_LIBRARY_PATH": str(libraries), "LC_ALL": "C", "TZ": "UTC"}


@cache
def _postgresql() -> Path:
    return cached("postgresql-debian", "Debian's PostgreSQL", lambda folder: _unpack(_postgresql_package(), folder))


@cache
def _mariadb() -> Path:
    return cached("mariadb-debian", "Debian's MariaDB", lambda folder: _unpack(_MARIADB, folder))


@cache
def _mysql() -> Path:
    return cached("mysql-debian-unstable", "MySQL of Debian's unstable", _unpack_mysql)


def _unpack_mysql(folder: Path) -> None:
    """By an apt that knows neither this host's sources nor what is installed here."""
    state = folder / "apt"
    for each in ("lists/partial", "cache/archives/partial"):
        (state / each).mkdir(parents=True)
    (state / "status").touch()
    (state / "sources.list").write_text(f"{_UNSTABLE}\n", "utf-8")
    options = {
        "Dir::Etc::SourceList": state / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State": state,
        "Dir::State::Lists": state / "lists",
        "Dir::State::Status": state / "status",
        "Dir::Cache": state / "cache",
        "APT::Sandbox::User": "root",
    }
    apt = [each for name, value in options.items() for each in ("-o", f"{name}={value}")]
    run_step(["apt-get", *apt, "update"], folder)
    _download("mysql-server-core", folder, apt)
    _extract(folder)
    shutil.rmtree(state)


def _postgresql_package() -> str:
    """`postgresql` is an empty package that depends on the one of this release."""
    try:
        depends = run_step(["apt-cache", "depends", "postgresql"], Path("/"))
    except UsageError:
        depends = ""
    found = re.search(r"postgresql-\d+", depends)
    return found[0] if found else "postgresql"


def _unpack(package: str, folder: Path) -> None:
    """The package, and of what it depends on all that this machine lacks."""
    try:
        _download(package, folder)
    except UsageError:  # a machine whose lists of packages are missing or old
        run_step(["apt-get", "update"], folder)
        _download(package, folder)
    _extract(folder)


def _extract(folder: Path) -> None:
    for each in folder.glob("*.deb"):
        run_step(["dpkg-deb", "--extract", each, folder], folder)
        each.unlink()


def _download(package: str, folder: Path, options: Sequence[str] = ()) -> None:
    apt = ["apt-get", *options]
    would_install = run_step([*apt, "--simulate", "install", "--no-install-recommends", package], folder)
    names = {package, *re.findall(r"^Inst (\S+)", would_install, re.MULTILINE)}
    run_step([*apt, "download", *sorted(names)], folder)
    assert shutil.which("dpkg-deb")
