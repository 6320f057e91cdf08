"""Hosts that are network namespaces of this machine, on a switch (a bridge, in a namespace of its own: nothing of this
machine reaches them, and they reach nothing of it). Each has its name, address, /etc/hosts, a link that can be shaped and
cut, and with `sshd` an OpenSSH server whose keys are made for it.

    with netns.Network(4, folder, sshd=True) as network:         # h1..h4, 10.77.0.1..4
        network.shape("h2", "100mbit")
        network.run("h1", ["ssh", "-F", network.ssh_config, "h2", "hostname"])
        network.cut("h3")

Root, and iproute2, with `sshd` openssh-server (tools/setup.sh engines). Programs and files are this machine's, all but the
folder `scratch`: each host has its own there. (bench/hosts.py joins each pair of hosts by a link of its own instead, for
one slow pair among fast ones.)
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

NETWORK = "10.77.0"
# The token bucket says what may leave at once, and how long a packet may wait.
BURST_S, LEAST_BURST, WAIT = 0.001, 32 * 1024, "50ms"
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def find(program):
    return shutil.which(program, path=PATH)


def missing(sshd=False):
    """Why there can be none here; empty: there can."""
    if os.geteuid() != 0:
        return "root"
    wanted = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux"}
    if sshd:
        wanted |= {"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
    for program, package in wanted.items():
        if find(program) is None:
            return f"{program} (package {package})"
    # Whether this machine lets its root make them (a container may not).
    probe = f"mlbprobe{os.getpid()}"
    if subprocess.run([find("ip"), "netns", "add", probe], stderr=subprocess.DEVNULL).returncode != 0:
        return "network namespaces"
    subprocess.run([find("ip"), "netns", "del", probe], check=False)
    return ""


def bits_per_second(rate):
    for unit, factor in UNITS.items():
        if rate.endswith(unit):
            return float(rate[:-len(unit)]) * factor
    raise ValueError(f"rate '{rate}': expected a number with {', '.join(UNITS)}")


class Network:
    def __init__(self, count, folder, sshd=False, prefix=None):
        self.folder = pathlib.Path(folder).resolve()
        self.names = [f"h{number}" for number in range(1, count + 1)]
        self.addresses = {name: f"{NETWORK}.{number}" for number, name in enumerate(self.names, 1)}
        self.prefix = prefix or f"mlb{os.getpid()}"
        self.scratch = self.folder / "scratch"
        self.ssh_config = str(self.folder / "ssh_config")
        self.with_sshd = sshd
        self.processes = []

    def space(self, name):
        return self.prefix + name

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_):
        self.down()

    # ---- up and down

    def up(self):
        self.scratch.mkdir(parents=True)
        switch = self.space("sw")
        call("ip", "netns", "add", switch)
        call("ip", "-n", switch, "link", "add", "br0", "type", "bridge", "forward_delay", "0", "stp_state", "0")
        call("ip", "-n", switch, "link", "set", "br0", "up")
        known = "".join(f"{address} {name}\n" for name, address in self.addresses.items())
        for name, address in self.addresses.items():
            space = self.space(name)
            call("ip", "netns", "add", space)
            call("ip", "-n", space, "link", "set", "lo", "up")
            call("ip", "-n", switch, "link", "add", f"p{name}", "type", "veth", "peer", "name", "eth0", "netns", space)
            call("ip", "-n", switch, "link", "set", f"p{name}", "master", "br0", "up")
            call("ip", "-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            call("ip", "-n", space, "link", "set", "eth0", "up")
            etc = pathlib.Path("/etc/netns", space)
            etc.mkdir(parents=True)
            (etc / "hosts").write_text("127.0.0.1 localhost\n" + known)
        if self.with_sshd:
            self.start_sshd()

    def start_sshd(self):
        ssh = self.folder / "ssh"
        ssh.mkdir(mode=0o700)
        for key in ("hostkey", "id"):
            call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(ssh / key))
        (ssh / "authorized_keys").write_text((ssh / "id.pub").read_text())
        host_key = (ssh / "hostkey.pub").read_text()
        (ssh / "known_hosts").write_text("".join(f"{name},{self.addresses[name]} {host_key}" for name in self.names))
        pathlib.Path(self.ssh_config).write_text(
            f"Host h*\n  User root\n  IdentityFile {ssh}/id\n  IdentitiesOnly yes\n  StrictHostKeyChecking yes\n"
            f"  UserKnownHostsFile {ssh}/known_hosts\n  LogLevel ERROR\n")
        pathlib.Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        for name, address in self.addresses.items():
            (ssh / f"sshd.{name}").write_text(
                f"ListenAddress {address}\nPort 22\nHostKey {ssh}/hostkey\nAuthorizedKeysFile {ssh}/authorized_keys\n"
                "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
                "PermitRootLogin prohibit-password\nMaxStartups 100\n")
            with open(ssh / f"log.{name}", "wb") as log:
                self.start(name, [find("sshd"), "-D", "-e", "-f", str(ssh / f"sshd.{name}")], stdout=log, stderr=log)
        for name in self.names:
            self.wait_for_sshd(name)

    def wait_for_sshd(self, name, patience_s=20):
        deadline = time.monotonic() + patience_s
        while True:
            said = self.run("h1", ["ssh", "-F", self.ssh_config, "-o", "BatchMode=yes", "-o", "ConnectTimeout=2", name,
                                   "hostname"], check=False)
            if said.returncode == 0 and said.stdout.strip() == name:
                return
            if time.monotonic() > deadline:
                log = (self.folder / "ssh" / f"log.{name}").read_text()
                raise RuntimeError(f"sshd of {name} does not answer: {said.stderr}{log}")
            time.sleep(0.1)

    def down(self):
        for name in [*self.names, "sw"]:
            space = self.space(name)
            for number in (signal.SIGTERM, signal.SIGKILL):
                for pid in self.pids(name):
                    try:
                        os.kill(pid, number)
                    except ProcessLookupError:
                        pass
                deadline = time.monotonic() + 2
                while self.pids(name) and time.monotonic() < deadline:
                    time.sleep(0.02)
            subprocess.run([find("ip"), "netns", "del", space], check=False, stderr=subprocess.DEVNULL)
            shutil.rmtree(pathlib.Path("/etc/netns", space), ignore_errors=True)
        for process in self.processes:
            process.wait(10)

    # ---- programs on hosts

    def enter(self, name, words):
        """The command that runs `words` on the host."""
        script = 'hostname "$0" && mount -t tmpfs scratch "$1" && shift && exec "$@"'
        return [find("ip"), "netns", "exec", self.space(name), find("unshare"), "--uts", "--mount", "sh", "-c", script,
                name, str(self.scratch), *map(str, words)]

    def start(self, name, words, **options):
        process = subprocess.Popen(self.enter(name, words), start_new_session=True, stdin=subprocess.DEVNULL, **options)
        self.processes.append(process)
        return process

    def run(self, name, words, timeout=60, check=True, **options):
        return subprocess.run(self.enter(name, words), timeout=timeout, check=check, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, **options)

    def pids(self, name):
        """Of what lives on the host; zombies do not."""
        said = subprocess.run([find("ip"), "netns", "pids", self.space(name)], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False)
        return [int(pid) for pid in said.stdout.split() if state(int(pid)) not in ("Z", "X", "")]

    def programs(self, name):
        """{pid: words} of what lives on the host, but its sshd."""
        return {pid: line for pid in self.pids(name) if (line := words_of(pid)) and "sshd" not in line.split()[0]}

    # ---- its link

    def shape(self, name, rate):
        """Both directions of the host's link ("100mbit", "1gbit"); None: as fast as it gets."""
        for space, device in ((self.space(name), "eth0"), (self.space("sw"), f"p{name}")):
            subprocess.run([find("tc"), "-n", space, "qdisc", "del", "dev", device, "root"], check=False,
                           stderr=subprocess.DEVNULL)
            if rate is not None:
                burst = max(LEAST_BURST, int(bits_per_second(rate) / 8 * BURST_S))
                call("tc", "-n", space, "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", str(burst),
                     "latency", WAIT)

    def shape_all(self, rate):
        for name in self.names:
            self.shape(name, rate)

    def cut(self, name):
        call("ip", "-n", self.space("sw"), "link", "set", f"p{name}", "down")

    def heal(self, name):
        call("ip", "-n", self.space("sw"), "link", "set", f"p{name}", "up")

    def bytes(self, name):
        """(sent, received) by the host so far."""
        said = subprocess.run([find("ip"), "-n", self.space(name), "-s", "-j", "link", "show", "eth0"], check=True,
                              text=True, stdout=subprocess.PIPE)
        counters = json.loads(said.stdout)[0]["stats64"]
        return counters["tx"]["bytes"], counters["rx"]["bytes"]


def call(program, *words):
    subprocess.run([find(program), *words], check=True, stdout=subprocess.DEVNULL)


def state(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def words_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
