"""A real slurmdbd on a real MariaDB, with the spec's accounts, users and qualities of service. Runs inside the lab."""

from __future__ import annotations

from collections.abc import Iterator

from muster.runner import ProgramResult, checked, run
from muster_lab import daemons, paths
from muster_lab.spec import LabSpec, Options


def start_database(spec: LabSpec) -> None:
    """Start MariaDB and slurmdbd, and tell it who may charge what."""
    data = paths.STATE / "mariadb"
    server_options = ["--no-defaults", f"--datadir={data}", "--user=root"]
    checked(
        run(
            ["mariadb-install-db", *server_options, "--auth-root-authentication-method=normal", "--skip-test-db"],
            env=daemons.ENVIRONMENT,
        )
    )
    socket = paths.DATABASE / "mysqld.sock"
    # Debian's clients look in /run/mysqld, since MariaDB 11.8.9 in /run/mariadbd.
    (paths.RUN / "mariadbd").symlink_to(paths.DATABASE)
    database = daemons.start("mariadbd", *server_options, *_SMALL, f"--socket={socket}", f"--pid-file={data / 'pid'}")
    daemons.wait_until(socket.exists, database, "mariadbd", timeout_s=60)
    keeper = daemons.start("slurmdbd", "-D")
    daemons.wait_until(_answers, keeper, "slurmdbd", timeout_s=60)
    for words in sacctmgr_words(spec):
        checked(_sacctmgr(*words))


# A lab's database holds a few hundred rows; the defaults ask for 128 MiB.
_SMALL = (
    "--skip-networking",
    "--skip-log-bin",
    "--innodb-buffer-pool-size=16M",
    "--innodb-log-file-size=8M",
    "--innodb-flush-log-at-trx-commit=0",
    "--performance-schema=OFF",
)


def sacctmgr_words(spec: LabSpec) -> Iterator[list[str]]:
    """Yield what sacctmgr is told, in order: the cluster, qualities of service, accounts, users."""
    yield ["add", "cluster", spec.cluster]
    for qos in spec.qos:
        if qos.name == "normal":  # every cluster has it
            yield ["modify", "qos", "normal", "set", *_pairs(qos.options)]
        else:
            yield ["add", "qos", qos.name, *_pairs(qos.options)]
    names = ",".join(dict.fromkeys(["normal", *(qos.name for qos in spec.qos)]))
    for account in spec.accounts:
        yield ["add", "account", account.name, f"Cluster={spec.cluster}", f"QOS={names}", *_pairs(account.options)]
        for user in ("root", *account.users):
            yield ["add", "user", user, f"Account={account.name}", f"Cluster={spec.cluster}"]
    if spec.accounts:  # Slurm's own default for root is an account "root"
        yield ["modify", "user", "where", "name=root", "set", f"DefaultAccount={spec.accounts[0].name}"]


def _pairs(options: Options) -> list[str]:
    return [f"{key}={value}" for key, value in options]


def _answers() -> bool:
    return _sacctmgr("list", "cluster").ok


def _sacctmgr(*words: str) -> ProgramResult:
    return run(["sacctmgr", "--immediate", "--quiet", *words], env=daemons.ENVIRONMENT)
