"""Chaos: ten minutes of faults at random while 50 small runs of three kinds are submitted.

Kills and stops of ranks, supervisors, masters and commands, a full disk for moments, a shortage of descriptors,
strangers on every port, and, beside the 50, runs on two hosts one of which means harm (tests/support/hostile_guard.cpp).
Then quiet, in which whatever failed is resumed. At the end each run that was acknowledged is finished, failed with a
culprit that the faults explain, or stopped as asked; none is lost, none was made or started twice, none that was
refused exists; no process, lock, port or temporary file is left, and no words of a host ran as code; and runs that were
resumed have the weights of one that nobody disturbed.

    chaos.py [--seed N] [--seconds S] [--runs N]       needs MLBENCH_TEST_MLBENCH; for the full disk: root, tmpfs

A seed fixes what is drawn, not how the threads interleave.
"""

import argparse
import collections
import datetime
import fcntl
import json
import os
import pathlib
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

MLBENCH = os.environ["MLBENCH_TEST_MLBENCH"]
HOSTILE_GUARD = pathlib.Path(MLBENCH).parent.parent / "tests" / "hostile_guard"
FAKE_SLURM = pathlib.Path(__file__).parents[2] / "src/mlbench/exec/slurm/fake_slurm.sh"
DISK_MB = 4000
COMM_TIMEOUT_S = 5
# Shorter than the timeout by enough, or longer by enough, that it is clear what is to follow.
SHORT_STOP_S, LONG_STOP_S = (0.1, 1.0), (12.0, 14.0)
STEPS, CHECKPOINT_STEPS = 80, 40
SETTINGS = ["batch_size=50", "goal.target=1000"]
QUIET_S = 600
KINDS = ["gloo", "mpi", "shm", "command"]
COMMAND = ["sh", "-c", 'echo "$RANK" >> "$MLBENCH_RUN_DIR/started"; sleep 1000 & sleep 2']
ENDED = ("finished", "failed", "stopped")

failures = []


def check(good, text):
    if not good:
        failures.append(text)
        print("WRONG:", text, flush=True)


def say(text):
    print(f"{time.monotonic() - say.begin:7.1f}  {text}", flush=True)


say.begin = time.monotonic()


def now():
    return datetime.datetime.now(datetime.timezone.utc)


class Marked:
    """All processes that this program started, and theirs: found by a variable, whoever their parent is by now."""

    def __init__(self):
        self.text = f"MLBENCH_TEST_MARK=chaos-{os.getpid()}-{time.time_ns()}"
        name, value = self.text.split("=")
        os.environ[name] = value

    def is_ours(self, pid):
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
            return self.text.encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False

    def processes(self):
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if pid != os.getpid() and self.is_ours(pid)]

    def signal(self, pid, number):
        """Whether it was there to be signalled."""
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            if not self.is_ours(pid):
                return False
            signal.pidfd_send_signal(handle, number)
            return True
        except OSError:
            return False
        finally:
            os.close(handle)


class Home:
    """On a disk of its own, where the machine allows it, so that it can be full."""

    def __init__(self, folder):
        self.mount = folder / "disk"
        self.mount.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", self.mount], capture_output=True, check=False)
        self.mounted = made.returncode == 0
        if not self.mounted:
            print("missing capability: mount, for a disk that is full (the other faults are tried)")
        self.path = self.mount / "home"
        self.runs = self.path / "runs"

    def fill(self):
        with open(self.mount / "filler", "wb") as file:
            size = os.statvfs(self.mount).f_bavail * os.statvfs(self.mount).f_frsize
            while size >= 4096:  # others write, too
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
                except OSError:
                    size //= 2

    def empty(self):
        (self.mount / "filler").unlink(missing_ok=True)

    def close(self):
        if self.mounted:
            subprocess.run(["umount", "--lazy", self.mount], check=False)

    def record(self, name):
        try:
            return json.loads((self.runs / name / "run.json").read_text())
        except (OSError, ValueError):
            return None

    def lease(self, name):
        try:
            return json.loads((self.runs / name / "lease").read_text())
        except (OSError, ValueError):
            return None


class Refused(Exception):
    pass


class Unknown(Exception):
    """No answer: whether it was done is for the folders to say."""


class Master:
    def __init__(self, home, log):
        self.home, self.log = home, log
        self.process = None
        self.lock = threading.Lock()
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [MLBENCH, "serve", "--home", self.home.path, "--listen", "127.0.0.1:0"], stdout=log, stderr=log)

    def keep_alive(self):
        with self.lock:
            if self.process.poll() is not None:
                self.start()

    def address(self):
        try:
            address = json.loads((self.home.path / "serve.lock").read_text())
            return address["url"].rstrip("/"), (self.home.path / "token").read_text().strip()
        except (OSError, ValueError, KeyError) as error:
            raise Unknown(str(error)) from error

    def call(self, method, path, body=None):
        url, token = self.address()
        request = urllib.request.Request(
            url + "/api/v1" + path, method=method, data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": "Bearer " + token, "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Refused(f"{error.code} {error.read()[:200]!r}") from error
        except (OSError, ValueError) as error:
            raise Unknown(str(error)) from error


class Ledger:
    """What was promised, and what was done to whom."""

    def __init__(self):
        self.lock = threading.Lock()
        self.acknowledged = {}  # name: kind
        self.maybe = []  # lists of names: all or none
        self.refused = set()
        self.stops = set()  # of these a stop was acknowledged
        self.faults = collections.defaultdict(list)  # name: (kind of fault, rank)
        self.full = []  # from when to when the disk was
        self.resumes = collections.Counter()
        self.failed = []  # (name, failure) as seen

    def note(self, name, fault, rank=None):
        with self.lock:
            self.faults[name].append((fault, rank))

    # With those of the disk, which is everybody's.
    def done_to(self, name, record):
        begin, end = (datetime.datetime.fromisoformat(record[key]) for key in ("created_at", "finished_at"))
        with self.lock:
            full = any(a <= end and (b is None or begin <= b) for a, b in self.full)
            return self.faults[name] + ([("full disk", None)] if full else [])

    def names(self):
        with self.lock:
            return list(self.acknowledged) + [name for names in self.maybe for name in names]


def request_of(kind, name, workers):
    if kind == "command":
        return {"name": name, "workers": workers, "command": COMMAND, "work_dir": "/"}
    return {"name": name, "workers": workers, "task": "fashion-mnist", "framework": "native", "synthetic": True,
            "set": SETTINGS, "max_steps": str(STEPS), "checkpoint_every": str(CHECKPOINT_STEPS), "threads_per_worker": "1", "backend": kind,
            "comm_timeout": f"{COMM_TIMEOUT_S}s"}


def arguments_of(kind, name, workers):
    words = ["run", name, *map(str, workers)]
    if kind == "command":
        return words + ["--", *COMMAND]
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    return words + ["--task", "fashion-mnist", "--framework", "native", "--synthetic", *settings, "--max-steps",
                    str(STEPS), "--checkpoint-every", str(CHECKPOINT_STEPS), "--threads-per-worker", "1", "--backend",
                    kind, "--comm-timeout", f"{COMM_TIMEOUT_S}s"]


def command(*words):
    before = words.index("--") if "--" in words else len(words)
    return [MLBENCH, *words[:before], *words[before:]]


class Submitter(threading.Thread):
    def __init__(self, chaos, count, seconds):
        super().__init__(name="submitter")
        self.chaos, self.count, self.pause = chaos, count, 0.8 * seconds / count
        self.random = random.Random(f"{chaos.seed} submitter")
        self.commands = []

    def run(self):
        made = number = 0
        while made < self.count and not self.chaos.ending.is_set():
            kind, name = self.random.choice(KINDS), f"c{number:03}"
            number += 1
            way = self.random.choice(["rest", "rest", "rest-twins", "detach", "attached"])
            made += getattr(self, way.replace("-", "_"))(kind, name)
            time.sleep(self.random.uniform(0.2, 1.8) * self.pause)

    def rest(self, kind, name, workers=(2,)):
        ledger, names = self.chaos.ledger, [f"{name}-{count}" for count in workers]
        try:
            answer = self.chaos.master.call("POST", "/runs", request_of(kind, name, list(workers)))
        except Refused as reason:
            say(f"{name} is refused: {reason}")
            with ledger.lock:
                ledger.refused.update(names)
            return 0
        except Unknown:
            with ledger.lock:
                ledger.maybe.append(names)
            return 0
        check([run["name"] for run in answer["runs"]] == names, f"{name}: {answer}")
        with ledger.lock:
            ledger.acknowledged.update({one: kind for one in names})
        return len(names)

    # Two ask for the same names at once: one gets all of them.
    def rest_twins(self, kind, name):
        answers = []
        before = self.snapshot()
        threads = [threading.Thread(target=lambda: answers.append(self.rest(kind, name, (1, 2)))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check(sorted(answers) in ([0, 0], [0, 2]), f"{name}: both of two submissions were taken")
        if sum(answers) > 0:  # what the other one was refused does exist
            with self.chaos.ledger.lock:
                self.chaos.ledger.refused = before | (self.chaos.ledger.refused - {f"{name}-1", f"{name}-2"})
        return sum(answers)

    def snapshot(self):
        with self.chaos.ledger.lock:
            return set(self.chaos.ledger.refused)

    def detach(self, kind, name):
        words = arguments_of(kind, name, [2])
        place = words.index("--") if "--" in words else len(words)
        words[place:place] = ["--detach", "--json", "--home", str(self.chaos.home.path)]
        done = subprocess.run([MLBENCH, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        ledger = self.chaos.ledger
        with ledger.lock:
            if done.returncode == 0:
                ledger.acknowledged[f"{name}-2"] = kind
                return 1
            ledger.maybe.append([f"{name}-2"])  # its run may have failed at once, or the master did not answer in time
        return 0

    def attached(self, kind, name):
        words = arguments_of(kind, name, [2])
        place = words.index("--") if "--" in words else len(words)
        words[place:place] = ["--local", "--home", str(self.chaos.home.path)]
        process = subprocess.Popen([MLBENCH, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.commands.append((process, f"{name}-2"))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            if (self.chaos.home.runs / f"{name}-2" / "spec.json").exists():
                with self.chaos.ledger.lock:
                    self.chaos.ledger.acknowledged[f"{name}-2"] = kind
                return 1
            time.sleep(0.02)
        with self.chaos.ledger.lock:
            self.chaos.ledger.maybe.append([f"{name}-2"])
        return 0


class Strangers(threading.Thread):
    """Connect to whatever listens, and say nothing, nonsense, or what looks like the protocol."""

    LINES = [
        b"",
        b"GET / HTTP/1.0\r\n\r\n",
        b"\x1b]0;forged\x07\n" * 50,
        struct.pack("=6Q", 48, 0, 0, 0, 64, 2**64 - 64) + b"x" * 64,  # of Gloo, writing before its buffer
        struct.pack(">I", 0xFFFFFFFF) + b"\xa1" * 100,
        struct.pack(">I", 40) + b"\xa2bophello".ljust(40, b"\0"),
        bytes(range(256)) * 16,
    ]

    def __init__(self, chaos):
        super().__init__(name="strangers")
        self.chaos = chaos
        self.random = random.Random(f"{chaos.seed} strangers")
        self.connected = 0

    def listeners(self):
        sockets = {}
        for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                sockets[f"socket:[{words[9]}]"] = int(words[1].rpartition(":")[2], 16)
        ports = set()
        for pid in self.chaos.marked.processes():
            try:
                if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "mpirun":
                    continue  # its own ports: docs/threats.md
                for link in os.scandir(f"/proc/{pid}/fd"):
                    ports.add(sockets.get(os.readlink(link.path)))
            except OSError:
                pass
        return sorted(ports - {None})

    def run(self):
        held = collections.deque()
        while not self.chaos.ending.is_set():
            for port in self.listeners():
                try:
                    connection = socket.create_connection(("127.0.0.1", port), timeout=0.2)
                    connection.setblocking(False)
                    connection.send(self.random.choice(self.LINES))
                    held.append(connection)
                    self.connected += 1
                except OSError:
                    pass
            while len(held) > 60 or (held and self.random.random() < 0.3):
                held.popleft().close()
            time.sleep(0.15)
        for connection in held:
            connection.close()


class HostileHosts(threading.Thread):
    """Submits runs of two hosts, the second of which proves the run's secret and then says what no host says."""

    PAUSE_S = (5, 25)

    def __init__(self, chaos, folder):
        super().__init__(name="hostile hosts")
        self.chaos = chaos
        self.random = random.Random(f"{chaos.seed} hostile hosts")
        self.mark, self.scratch = folder / "mark", folder / "scratch"
        self.names = subprocess.run([HOSTILE_GUARD], capture_output=True, text=True, check=True).stdout.split()
        slurm = folder / "slurm"
        (slurm / "bin").mkdir(parents=True)
        for program in ("sbatch", "scancel", "scontrol", "sinfo", "srun"):
            (slurm / "bin" / program).symlink_to(FAKE_SLURM)
        os.environ.update(PATH=f"{slurm / 'bin'}:{os.environ['PATH']}", FAKE_SLURM=str(slurm),
                          FAKE_SLURM_HOSTILE_GUARD=str(HOSTILE_GUARD))

    def run(self):
        number = 0
        while not self.chaos.ending.wait(self.random.uniform(*self.PAUSE_S)):
            fault = self.random.choice(self.names)
            name = f"h{number:03}-{fault}"
            number += 1
            request = {"name": name, "workers": [2], "executor": "slurm", "scratch": str(self.scratch), "work_dir": "/",
                       "env": [f"HOSTILE_FAULT={fault}", f"HOSTILE_MARK={self.mark}"],
                       "command": ["bash", "-c", "echo {hosts}; sleep 20"]}
            try:
                self.chaos.master.call("POST", "/runs", request)
            except Refused as reason:
                say(f"{name} is refused: {reason}")
                with self.chaos.ledger.lock:
                    self.chaos.ledger.refused.add(f"{name}-2")
            except Unknown:
                with self.chaos.ledger.lock:
                    self.chaos.ledger.maybe.append([f"{name}-2"])
            else:
                with self.chaos.ledger.lock:
                    self.chaos.ledger.acknowledged[f"{name}-2"] = "hostile"


class Faults(threading.Thread):
    def __init__(self, chaos):
        super().__init__(name="faults")
        self.chaos = chaos
        self.random = random.Random(f"{chaos.seed} faults")
        self.counts = collections.Counter()
        self.later = []  # (time, what to do)

    def run(self):
        ways = [self.kill_rank] * 3 + [self.stop_rank] * 2 + [self.kill_supervisor] * 2 + [
            self.stop_supervisor, self.kill_master, self.kill_master, self.stop_master, self.kill_command, self.full_disk,
            self.few_descriptors, self.ask_to_stop]
        while not self.chaos.ending.is_set():
            way = self.random.choice(ways)
            if way():
                self.counts[way.__name__] += 1
            until = time.monotonic() + self.random.uniform(0.3, 4)
            while time.monotonic() < until:
                self.do_later(time.monotonic())
                self.chaos.master.keep_alive()
                time.sleep(0.05)
        self.do_later(float("inf"))

    def do_later(self, now):
        due = [one for one in self.later if one[0] <= now]
        self.later = [one for one in self.later if one[0] > now]
        for _, act in due:
            act()

    # A run that has ranks: (name, supervisor, ranks).
    def victim(self):
        running = []
        for name in self.chaos.ledger.names():
            record, lease = self.chaos.home.record(name), self.chaos.home.lease(name)
            ranks = [rank["pid"] for rank in (lease or {}).get("ranks") or [] if rank.get("pid")]  # those of this host
            if record and ranks and record["state"] == "running":
                running.append((name, lease["pid"], ranks))
        return self.random.choice(running) if running else None

    def kill_rank(self):
        found = self.victim()
        if not found:
            return False
        name, _, ranks = found
        rank = self.random.randrange(len(ranks))
        self.chaos.ledger.note(name, "kill", rank)
        return self.chaos.marked.signal(ranks[rank], signal.SIGKILL)

    def stop_rank(self):
        found = self.victim()
        if not found:
            return False
        name, _, ranks = found
        rank = self.random.randrange(len(ranks))
        long = self.random.random() < 0.5
        self.chaos.ledger.note(name, "long stop" if long else "short stop", rank)
        return self.stop(ranks[rank], LONG_STOP_S if long else SHORT_STOP_S)

    def stop(self, pid, seconds):
        if not self.chaos.marked.signal(pid, signal.SIGSTOP):
            return False
        self.later.append((time.monotonic() + self.random.uniform(*seconds),
                           lambda: self.chaos.marked.signal(pid, signal.SIGCONT)))
        return True

    def kill_supervisor(self):
        found = self.victim()
        if not found:
            return False
        self.chaos.ledger.note(found[0], "kill supervisor")
        return self.chaos.marked.signal(found[1], signal.SIGKILL)

    def stop_supervisor(self):
        found = self.victim()
        return bool(found) and self.stop(found[1], (0.5, 8))

    def kill_master(self):
        with self.chaos.master.lock:
            self.chaos.master.process.kill()
            self.chaos.master.process.wait()
        time.sleep(self.random.uniform(0, 2))
        return True

    def stop_master(self):
        return self.stop(self.chaos.master.process.pid, (0.5, 5))

    def kill_command(self):
        running = [one for one in self.chaos.submitter.commands if one[0].poll() is None]
        if not running:
            return False
        process, name = self.random.choice(running)
        number = self.random.choice([signal.SIGKILL, signal.SIGINT])
        self.chaos.ledger.note(name, "kill command" if number == signal.SIGKILL else "interrupt")
        process.send_signal(number)
        return True

    def full_disk(self):
        if not self.chaos.home.mounted:
            return False
        self.chaos.ledger.full.append([now(), None])
        self.chaos.home.fill()
        time.sleep(self.random.uniform(0.3, 2))
        self.chaos.home.empty()
        self.chaos.ledger.full[-1][1] = now()
        return True

    def few_descriptors(self):
        pid = self.chaos.master.process.pid
        try:
            held = len(os.listdir(f"/proc/{pid}/fd"))
            before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (held + self.random.randrange(3), before[1]))
        except OSError:
            return False

        def restore():
            try:
                resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            except OSError:
                pass

        self.later.append((time.monotonic() + self.random.uniform(1, 4), restore))
        return True

    def ask_to_stop(self):
        active = [name for name in self.chaos.ledger.names()
                  if (self.chaos.home.record(name) or {"state": ""})["state"] in ("queued", "running")]
        if not active:
            return False
        name = self.random.choice(active)
        try:
            self.chaos.master.call("POST", f"/runs/{name}/stop", {})
        except (Refused, Unknown):
            self.chaos.ledger.note(name, "interrupt")  # it may have been heard
            return False
        with self.chaos.ledger.lock:
            self.chaos.ledger.stops.add(name)
        return True


# Which faults explain a failure of this kind; and whether its rank is to be the fault's.
EXPLAINED = {
    "rank_died": {"kill": True, "full disk": False},
    "comm_timeout": {"long stop": True},
    "comm_error": {"kill": True, "long stop": True, "full disk": False},
    "supervisor_lost": {"kill supervisor": False, "full disk": False},
    "launcher_lost": {"kill command": False},
    "disk_full": {"full disk": False},
    "io_error": {"full disk": False},
    "rank_error": {"full disk": False},
    "start_failed": {"full disk": False, "kill": False},
}


class Chaos:
    SAME_WEIGHTS = ("gloo", "mpi", "shm")

    def __init__(self, options, folder, home, marked):
        self.seed = options.seed
        self.marked = marked
        self.home = home
        self.core_lock = folder / "cores.lock"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        os.environ.update(MLBENCH_CORE_LOCK=str(self.core_lock), TMPDIR=str(self.temporary))
        self.ending = threading.Event()
        self.ledger = Ledger()
        self.shared_memory = set(os.listdir("/dev/shm"))
        self.references = self.undisturbed()
        self.hostile_hosts = HostileHosts(self, folder)
        self.master = Master(self.home, folder / "master.log")
        self.submitter = Submitter(self, options.runs, options.seconds)
        self.strangers = Strangers(self)
        self.faults = Faults(self)
        self.actors = [self.strangers, self.submitter, self.faults, self.hostile_hosts]

    # The weights that runs are to end with, by back end and number of workers.
    def undisturbed(self):
        hashes = {}
        for kind in self.SAME_WEIGHTS:
            done = subprocess.run(
                [MLBENCH, *arguments_of(kind, "reference-" + kind, [1, 2]), "--local", "--json", "--home", self.home.path],
                capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
            if done.returncode != 0:
                sys.exit(f"the reference runs fail: {done.stderr}")
            for record in json.loads(done.stdout):
                hashes[kind, record["workers"]] = record["weights_sha256"]
        return hashes

    def wait_until_ended(self, names, deadline):
        active = list(names)
        while active and time.monotonic() < deadline:
            self.master.keep_alive()
            active = [name for name in active if (self.home.record(name) or {"state": ""})["state"] not in ENDED]
            time.sleep(0.3)
        return active

    def judge(self, name, record):
        """Whether what was done to the run explains how it ended."""
        if record["state"] != "failed":
            return
        failure = record["failure"]
        self.ledger.failed.append((name, failure))
        explained = EXPLAINED.get(failure["kind"], {})
        faults = self.ledger.done_to(name, record)
        good = any(fault in explained and (not explained[fault] or rank == failure["rank"]) for fault, rank in faults)
        good |= self.ledger.acknowledged.get(name) == "hostile" and failure["rank"] == 1
        check(good, f"{name} failed as {failure['kind']}, rank {failure['rank']}: \"{failure['message']}\"; done to it: {faults}")

    def resume(self, name):
        done = subprocess.run([MLBENCH, "resume", name, "--detach", "--home", self.home.path], capture_output=True,
                              text=True, check=False, stdin=subprocess.DEVNULL)
        with self.ledger.lock:
            self.ledger.resumes[name] += 1
        check(done.returncode == 0, f"{name} cannot be resumed ({done.returncode}): {done.stderr}")

    def torment(self, seconds):
        for thread in self.actors:
            thread.start()
        until = time.monotonic() + seconds
        judged = {}
        rng = random.Random(f"{self.seed} resumes")
        while time.monotonic() < until:
            for name in list(self.ledger.acknowledged):
                record = self.home.record(name)
                if record and record["state"] == "failed" and judged.get(name) != record["finished_at"]:
                    judged[name] = record["finished_at"]
                    self.judge(name, record)
                    checkpoints = list((self.home.runs / name / "checkpoints").glob("step-*"))
                    if checkpoints and self.ledger.acknowledged[name] in self.SAME_WEIGHTS and rng.random() < 0.5:
                        subprocess.run([MLBENCH, "resume", name, "--detach", "--home", self.home.path], check=False,
                                       capture_output=True, stdin=subprocess.DEVNULL)
                        self.ledger.resumes[name] += 1
            time.sleep(0.5)
        self.ending.set()
        for thread in self.actors:
            thread.join()
        return judged

    def run(self, seconds):
        say(f"seed {self.seed}")
        judged = self.torment(seconds)
        say(f"quiet: {dict(self.faults.counts)}, {self.strangers.connected} connections of strangers")
        deadline = time.monotonic() + QUIET_S
        self.settle_maybes()
        names = list(self.ledger.acknowledged)
        active = self.wait_until_ended(names, deadline)
        check(not active, f"these never ended: {[(name, self.home.record(name)) for name in active]}")
        for name in names:
            record = self.home.record(name)
            if record and judged.get(name) != record["finished_at"]:
                self.judge(name, record)
        for name in names:
            record = self.home.record(name)
            if record and record["state"] == "failed" and any((self.home.runs / name / "checkpoints").glob("step-*")):
                self.resume(name)
        active = self.wait_until_ended(names, deadline)
        check(not active, f"these were resumed and never ended: {active}")
        self.check_runs()
        self.check_listing()
        self.check_nothing_left()

    # Without an answer the folders say what was done: all of it or nothing.
    def settle_maybes(self):
        self.master.keep_alive()
        time.sleep(3)
        for names in self.ledger.maybe:
            there = [name for name in names if (self.home.runs / name).exists()]
            check(there in ([], names), f"of {names} only {there} exist")
            for name in there:
                kind = json.loads((self.home.runs / name / "spec.json").read_text())["backend"]
                custom = json.loads((self.home.runs / name / "spec.json").read_text())["division"] == "custom"
                self.ledger.acknowledged[name] = "hostile" if name.startswith("h") else "command" if custom else kind

    def check_runs(self):
        ids = collections.Counter()
        states = collections.Counter()
        compared = 0
        for name, kind in self.ledger.acknowledged.items():
            record = self.home.record(name)
            check(record is not None, f"{name} was acknowledged and is lost")
            if record is None:
                continue
            ids[record["id"]] += 1
            states[record["state"]] += 1
            if record["state"] == "stopped":
                asked = name in self.ledger.stops or any(fault == "interrupt" for fault, _ in self.ledger.faults[name])
                check(asked, f"{name} is stopped, and nobody asked")
            check(record["state"] != "finished" or kind != "hostile", f"{name} finished, and its second rank never ran")
            if record["state"] == "finished" and kind in self.SAME_WEIGHTS:
                compared += 1
                reference = self.references[kind, record["workers"]]
                check(record["weights_sha256"] == reference,
                      f"{name} has other weights than an undisturbed run ({self.ledger.resumes[name]} resumes)")
            segments = len(record["segments"])
            check(segments <= 1 + self.ledger.resumes[name], f"{name} was started {segments} times")
            started = self.home.runs / name / "started"
            if started.exists():
                lines = started.read_text().split()
                check(len(lines) == len(set(lines)), f"{name}: ranks were started twice: {lines}")
        check(max(ids.values(), default=1) == 1, f"an id was given twice: {ids.most_common(3)}")
        resumed = [name for name in self.ledger.resumes if (self.home.record(name) or {"state": ""})["state"] == "finished"]
        say(f"{len(self.ledger.acknowledged)} runs: {dict(states)}; {len(self.ledger.failed)} failures explained by faults, "
            f"{compared} hashes compared, {len(resumed)} of runs that were resumed; {len(self.ledger.refused)} refused; "
            f"{sum(kind == 'hostile' for kind in self.ledger.acknowledged.values())} runs with a hostile host")
        for name in self.ledger.refused:
            check(not (self.home.runs / name).exists(), f"{name} was refused and exists")

    def check_listing(self):
        self.master.keep_alive()
        deadline = time.monotonic() + 30
        wanted = set(self.ledger.acknowledged)
        while True:
            try:
                listed = {run["name"]: run["state"] for run in self.master.call("GET", "/runs?limit=1000")["runs"]}
            except (Refused, Unknown):
                listed = {}
            got = {name for name in listed if not name.startswith("reference-")}
            damaged = [name for name, state in listed.items() if state == "damaged"]
            if (got == wanted and not damaged) or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        check(got == wanted, f"the master lists other runs: missing {wanted - got}, strange {got - wanted}")
        check(not damaged, f"damaged: {damaged}")
        table = subprocess.run([MLBENCH, "status", "--json", "--home", self.home.path], capture_output=True, text=True, check=False)
        check(table.returncode == 0, f"status fails: {table.stderr}")

    def check_nothing_left(self):
        self.master.process.terminate()
        self.master.process.wait(timeout=60)
        deadline = time.monotonic() + 30
        while self.marked.processes() and time.monotonic() < deadline:
            time.sleep(0.2)
        left = [(pid, pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()) for pid in self.marked.processes()]
        check(not left, f"processes are left: {left}")  # and with them ports
        with open(self.core_lock, "ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                check(False, "the cores are still locked")
        # Whoever locks the runs next clears up after those that were killed.
        done = subprocess.run([MLBENCH, "run", "last", "1", "--home", self.home.path, "--", "true"], capture_output=True,
                              text=True, check=False, stdin=subprocess.DEVNULL)
        check(done.returncode == 0, f"a last run fails: {done.stderr}")
        # The next group over shared memory removes what a start that was killed left there.
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run([MLBENCH, *arguments_of("shm", "last", [2]), "--local", "--home", home],
                                  capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        check(done.returncode == 0, f"a last run over shared memory fails: {done.stderr}")
        staging = self.home.runs / ".staging"
        check(not staging.exists() or not any(staging.iterdir()), f"{staging} holds what nobody will finish")
        hidden = {".lock", ".next-id", ".staging"}
        strange = [str(path) for path in self.home.runs.iterdir() if path.name.startswith(".") and path.name not in hidden]
        strange += [str(path) for path in self.home.path.rglob("*") if ".tmp" in path.name]
        strange += [str(path) for path in self.temporary.iterdir()]
        strange += ["/dev/shm/" + name for name in set(os.listdir("/dev/shm")) - self.shared_memory]
        check(not strange, f"files are left: {strange}")
        check(not self.hostile_hosts.mark.exists(), "words of a hostile host ran as code")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--runs", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Home(pathlib.Path(folder))
        marked = Marked()
        try:
            Chaos(options, pathlib.Path(folder), home, marked).run(options.seconds)
        finally:
            for pid in marked.processes():
                marked.signal(pid, signal.SIGKILL)
            time.sleep(0.5)
            home.close()
    print(f"seed {options.seed}: {len(failures)} wrong")
    for text in failures:
        print("  ", text)
    if failures:
        print(f"again: MLBENCH_TEST_MLBENCH={MLBENCH} python3 {sys.argv[0]} --seed {options.seed} --seconds "
              f"{options.seconds:g} --runs {options.runs}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
