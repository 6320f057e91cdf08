"""Hosts that are network namespaces of this machine (root, iproute2), each pair joined by a link of its own (veth), which
can be shaped: tbf at both of its ends. Host i has the address 10.77.0.(i+1) and no way out.

    with Hosts(4) as hosts:
        hosts.shape(0, 1, "100mbit")
        hosts.ranks(worker, spec, folder)
"""
import itertools
import json
import os
import pathlib
import secrets
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "engines"))
from netns import call, missing  # noqa: E402

BURST, LATENCY = "32k", "200ms"  # of tbf


class Hosts:
    def __init__(self, count, prefix=None):
        self.count = count
        self.prefix = prefix or f"mlb{os.getpid()}h"
        self.processes = []

    def name(self, host):
        return f"{self.prefix}{host}"

    @staticmethod
    def address(host):
        return f"10.77.0.{host + 1}"

    def __enter__(self):
        try:
            for host in range(self.count):
                call("ip", "netns", "add", self.name(host))
                call("ip", "-n", self.name(host), "link", "set", "lo", "up")
                call("ip", "-n", self.name(host), "addr", "add", self.address(host) + "/32", "dev", "lo")
            for one, other in itertools.combinations(range(self.count), 2):
                call("ip", "-n", self.name(one), "link", "add", f"to{other}", "type", "veth", "peer", "name", f"to{one}",
                     "netns", self.name(other))
                for here, there in ((one, other), (other, one)):
                    call("ip", "-n", self.name(here), "link", "set", f"to{there}", "up")
                for here, there in ((one, other), (other, one)):
                    call("ip", "-n", self.name(here), "route", "add", self.address(there) + "/32", "dev", f"to{there}",
                         "src", self.address(here))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for host in range(self.count):
            subprocess.run(["ip", "netns", "del", self.name(host)], check=False, stderr=subprocess.DEVNULL)

    def shape(self, one, other, rate, both=True):
        """The link of two hosts, or only its direction from `one` to `other`; None: as fast as it gets."""
        for here, there in ((one, other), (other, one))[:2 if both else 1]:
            device = ("dev", f"to{there}")
            subprocess.run(["tc", "-n", self.name(here), "qdisc", "del", *device, "root"], check=False,
                           stderr=subprocess.DEVNULL)
            if rate is not None:
                call("tc", "-n", self.name(here), "qdisc", "add", *device, "root", "tbf", "rate", rate, "burst", BURST,
                     "latency", LATENCY)

    def shape_all(self, rate):
        for one, other in itertools.combinations(range(self.count), 2):
            self.shape(one, other, rate)

    def ranks(self, worker, spec, folder, timeout=600):
        """One rank of the run per host, in `folder`, until all have ended; the run's record. RuntimeError where one
        failed, with its last lines."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True)
        (folder / "spec.json").write_text(json.dumps(spec))
        secret = secrets.token_hex(16)
        self.processes = []
        for rank in range(self.count):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(self.count), "MLBENCH_SECRET": secret,
                           "MASTER_ADDR": self.address(0), "MASTER_PORT": "29500",
                           "GLOO_SOCKET_IFNAME": self.address(rank)}
            environment.pop("MLBENCH_RUN_ID", None)
            with open(folder / f"rank-{rank}.log", "wb") as log:
                self.processes.append(subprocess.Popen(
                    ["ip", "netns", "exec", self.name(rank), "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"',
                     f"host-{rank}", str(worker), "--spec", str(folder / "spec.json"),
                     "--run-dir", str(folder)], env=environment, stdout=log, stderr=log))
        codes = [process.wait(timeout) for process in self.processes]
        for rank, code in enumerate(codes):
            if code != 0:
                last = (folder / f"rank-{rank}.log").read_text().splitlines()[-3:]
                raise RuntimeError(f"rank {rank} ended with {code}: " + "\n".join(last))
        return json.loads((folder / "run.json").read_text())
