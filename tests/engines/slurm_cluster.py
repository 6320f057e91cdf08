"""Slurm for tests: slurmctld and a slurmd per node, on this machine, without systemd and cgroups.

    with SlurmCluster(folder) as slurm:            # nodes n1..n4 on ports of the loopback
        subprocess.run(["sinfo"], env=slurm.environment)

Root, and Debian's slurmctld slurmd slurm-client munge libpmix2 (tools/setup.sh engines). With `hosts` ({name: address})
and `enter` (host, words -> words) each node is a host of its own, such as a network namespace: slurmctld is on the first. With `gpus`
each node has so many GPUs, as far as Slurm knows: they are device files of /dev/null's kind.
"""

import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess
import time

PROGRAMS = ["slurmctld", "slurmd", "sbatch", "scontrol", "munge", "munged"]
START_PATIENCE_S, STOP_PATIENCE_S, ASK_S = 60, 20, 30

CONFIGURATION = """
ClusterName=mlbench{mark}
SlurmctldHost={controller}({controller_address})
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
AccountingStorageType=accounting_storage/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
# Each node its own: else the PMIx folders of nodes on one machine are one folder.
TmpFS={folder}/tmp.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=20
InactiveLimit=0
MinJobAge=300
KillWait=5
JobRequeue=1
SchedulerParameters=sched_interval=2,bf_interval=3,requeue_delay=1
# What the executor is to be immune to.
KillOnBadExit=1
WaitTime=3
{nodes}
PartitionName=test Nodes={names} Default=YES MaxTime=60 State=UP
"""


def missing():
    """What keeps a cluster from being started here, or None."""
    if os.geteuid() != 0:
        return "root"
    absent = [program for program in PROGRAMS if not find(program)]
    return f"{', '.join(absent)} (tools/setup.sh engines)" if absent else None


def find(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def environment_of(pid):
    try:
        entries = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return dict(entry.decode(errors="replace").partition("=")[::2] for entry in entries if b"=" in entry)


def status_of(pid):
    """(name, state, parent) or None."""
    try:
        name, _, rest = pathlib.Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return None
    words = rest.split()
    return name, words[0], int(words[1])


def pids():
    return [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]


def alive(pid):
    status = status_of(pid)
    return status is not None and status[1] != "Z"


def free_ports(count):
    """So many in a row, of which none is taken at this moment."""
    for first in range(21000, 60000, count):
        sockets = []
        try:
            for port in range(first, first + count):
                one = socket.socket()
                sockets.append(one)
                one.bind(("0.0.0.0", port))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    raise RuntimeError("no ports are free")


class Started:
    """`with` calls start(), and stop() at the end or where start() fails."""

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()


class SlurmCluster(Started):
    def __init__(self, folder, nodes=4, hosts=None, enter=None, gpus=0):
        self.folder = pathlib.Path(folder).resolve()
        self.names = list(hosts) if hosts else [f"n{number}" for number in range(1, nodes + 1)]
        self.gpus = gpus
        self.hosts, self.enter = hosts, enter or (lambda host, words: words)
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        self.environment["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        self.own_munge = False

    # ---- the daemons

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "state").mkdir()
        for name in self.names:
            (self.folder / f"tmp.{name}").mkdir()
            (self.folder / f"spool.{name}").mkdir()
        # Keeps slurmd from looking for a version where /sys/fs/cgroup is empty; nothing here uses cgroups.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        port = free_ports(len(self.names) + 1)
        size = "CPUs=2 RealMemory=1000 State=UNKNOWN"
        types = ""
        if self.gpus:
            size += f" Gres=gpu:{self.gpus}"
            types = "GresTypes=gpu\n"
            for number in range(self.gpus):
                os.mknod(self.folder / f"gpu{number}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
            (self.folder / "gres.conf").write_text(
                f"Name=gpu Flags=nvidia_gpu_env File={self.folder}/gpu[0-{self.gpus - 1}]\n")
        if self.hosts:
            nodes = [f"NodeName={name} NodeAddr={address} Port={port + 1} {size}" for name, address in self.hosts.items()]
            controller, address = self.names[0], self.hosts[self.names[0]]
        else:
            nodes = [
                f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port + number} {size}"
                for number, name in enumerate(self.names, 1)
            ]
            controller, address = "localhost", "127.0.0.1"
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(folder=self.folder, port=port, mark=os.getpid(), controller=controller,
                                 controller_address=address, nodes=types + "\n".join(nodes),
                                 names=",".join(self.names)))
        self.start_munge()
        self.run(self.enter(controller, ["slurmctld", "-c", "-f", str(self.folder / "slurm.conf")]))
        for name in self.names:
            self.start_node(name)
        self.wait_for(lambda: all(self.node_state(name) == "IDLE" for name in self.names), "all nodes are idle",
                      START_PATIENCE_S)

    def start_node(self, name):
        words = ["slurmd", "-f", str(self.folder / "slurm.conf")]
        self.run(self.enter(name, words if self.hosts else words + ["-N", name]))

    def start_munge(self):
        if subprocess.run(["munge", "-n"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=ASK_S).returncode == 0:
            return
        pathlib.Path("/run/munge").mkdir(exist_ok=True)
        shutil.chown("/run/munge", "munge", "munge")
        self.run(["runuser", "-u", "munge", "--", find("munged"), f"--pid-file=/run/munge/munged.{os.getpid()}.pid"])
        self.own_munge = True

    def stop(self):
        try:
            subprocess.run(["scancel", "--state=PENDING,RUNNING", "--user=root"], env=self.environment, timeout=ASK_S,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if (self.folder / "slurmctld.pid").exists():
                self.wait_for(lambda: not self.jobs(), "all jobs are gone", STOP_PATIENCE_S)
        except (OSError, subprocess.SubprocessError, TimeoutError) as error:
            print("slurm:", error)
        files = [*self.folder.glob("slurmd.*.pid"), self.folder / "slurmctld.pid"]
        if self.own_munge:
            files.append(pathlib.Path(f"/run/munge/munged.{os.getpid()}.pid"))
        daemons = [pid for pid in map(self.pid_in, files) if pid and alive(pid)]
        steps = [pid for name in self.names for pid in self.processes_of(name)]
        for pid in daemons:
            self.signal(pid, signal.SIGTERM)
        end = time.monotonic() + STOP_PATIENCE_S
        while any(map(alive, daemons)) and time.monotonic() < end:
            time.sleep(0.1)
        for pid in filter(alive, daemons + steps):
            self.signal(pid, signal.SIGKILL)

    @staticmethod
    def signal(pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    @staticmethod
    def pid_in(path):
        try:
            return int(path.read_text())
        except (OSError, ValueError):
            return None

    def run(self, words):
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=ASK_S)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: exit code {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout

    @staticmethod
    def wait_for(condition, what, patience_s):
        end = time.monotonic() + patience_s
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"not within {patience_s} s: {what}")
            time.sleep(0.2)

    # ---- what Slurm says

    def scontrol(self, *words):
        return self.run(self.enter(self.names[0], ["scontrol", "--oneliner", *words]) if self.hosts
                        else ["scontrol", "--oneliner", *words])

    @staticmethod
    def fields(line):
        return dict(reversed([word.partition("=")[::2] for word in line.split() if "=" in word]))

    def node_state(self, name):
        try:
            return self.fields(self.scontrol("show", "node", name)).get("State", "")
        except RuntimeError:
            return ""

    def job(self, number):
        return self.fields(self.scontrol("show", "job", str(number)))

    def jobs(self):
        """Of those that are not over: their numbers."""
        text = self.run(self.enter(self.names[0], ["squeue", "--noheader", "--format=%i"]) if self.hosts
                        else ["squeue", "--noheader", "--format=%i"])
        return text.split()

    # ---- faults

    def processes_of(self, name):
        """The steps of a node: slurmstepd and all below."""
        ours = set()
        for pid in pids():
            environment = environment_of(pid)
            if environment.get("SLURMD_NODENAME") != name or environment.get("SLURM_CONF") != self.environment["SLURM_CONF"]:
                continue
            while pid > 1 and (status := status_of(pid)) and not status[0].startswith("slurmd"):
                ours.add(pid)
                if status[0].startswith("slurmstepd"):
                    break
                pid = status[2]
        return sorted(ours)

    def kill_node(self, name):
        """As if its machine lost power: slurmd, and all of its jobs' processes."""
        victims = [self.pid_in(self.folder / f"slurmd.{name}.pid"), *self.processes_of(name)]
        for pid in filter(None, victims):
            self.signal(pid, signal.SIGSTOP)
        victims += self.processes_of(name)
        for pid in filter(None, victims):
            self.signal(pid, signal.SIGKILL)
