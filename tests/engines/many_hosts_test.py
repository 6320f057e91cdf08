"""32 ranks on 32 hosts through a master: network namespaces of this machine (netns.py) that mpirun reaches by ssh, as
root. All share its cores: what is asked for is that nothing goes wrong, not that it is fast.

    many_hosts_test.py [unittest arguments]      needs MLBENCH_BIN_DIR (or MLBENCH_TEST_MLBENCH), root, Open MPI, OpenSSH

With MLBENCH_DATA_DIR the real fashion-mnist, else made data. Prints what the master took of the time.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import netns
from engine_case import main, mlbench_path
from mpirun_test import DATA

HOSTS = 32
STEPS = 20
SIZES = 10
TICKS = os.sysconf("SC_CLK_TCK")
ASK = """
import pathlib, sys, urllib.request
question = urllib.request.Request(sys.argv[1])
question.add_header("Authorization", "Bearer " + pathlib.Path(sys.argv[2]).read_text().strip())
with urllib.request.urlopen(question, timeout=20) as answer:
    sys.stdout.write(answer.read().decode())
"""


class ManyHostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="mlm", dir="/tmp")))
        cls.network = cls.enterClassContext(netns.Network(HOSTS, cls.folder / "net", sshd=True))
        cls.environment = {**os.environ, "MLBENCH_HOME": str(cls.folder / "home"),
                           "MLBENCH_CORE_LOCK": str(cls.folder / "cores")}
        cls.master = cls.network.start("h1", [mlbench_path(), "serve", "--listen", "127.0.0.1:0", "--json"],
                                       env=cls.environment, stdout=subprocess.PIPE, text=True)
        said = ""
        while not said.endswith("}\n"):
            line = cls.master.stdout.readline()
            assert line, "the master does not start: " + said
            said += line
        cls.master_at = json.loads(said)

    def engine(self):
        return ["--executor", "mpirun", "--hosts", ",".join(self.network.names), "--ssh-config", self.network.ssh_config,
                "--scratch", str(self.network.scratch)]

    def ask(self, path):
        """What the master answers on the host where it is."""
        return json.loads(self.network.run("h1", [sys.executable, "-c", ASK, self.master_at["url"].rstrip("/") + "/api/v1" +
                                                  path, self.master_at["token_file"]]).stdout)

    def master_cpu_s(self):
        """What the master has used, and the supervisor of a run apart."""
        used = {"serve": 0.0, "supervise": 0.0}
        for pid, words in self.network.programs("h1").items():
            parts = words.split()
            if len(parts) > 1 and parts[1] in used and pathlib.Path(parts[0]).name == "mlbench":
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                used[parts[1]] += (int(fields[11]) + int(fields[12])) / TICKS
        return used

    def watch(self, run, words):
        """Starts `mlbench run ...` through the master and looks at the run until it is over: its record, and what the
        master and the run's supervisor took of one core meanwhile."""
        client = self.network.start("h1", [mlbench_path(), *words, *self.engine()], env=self.environment,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        began, first = time.monotonic(), self.master_cpu_s()["serve"]
        supervisor, seen = 0.0, []
        while client.poll() is None:
            self.assertLess(time.monotonic() - began, 1200, "the run does not end")
            time.sleep(2)
            supervisor = max(supervisor, self.master_cpu_s()["supervise"])
            for summary in self.ask("/runs")["runs"]:
                if summary["name"] == run:
                    seen.append(summary["state"])
                    if summary["state"] == "running":
                        self.assertEqual(len(self.ask(f"/runs/{run}")["placement"]), HOSTS)
        self.assertEqual(client.returncode, 0, client.stdout.read())
        client.stdout.close()
        wall = time.monotonic() - began
        self.assertIn("running", seen)
        print(f"{run}: {wall:.0f} s; of a core the master took {(self.master_cpu_s()['serve'] - first) / wall:.2%}, the "
              f"supervisor {supervisor / wall:.2%}; seen as {collections.Counter(seen)}", flush=True)
        record = self.ask(f"/runs/{run}")
        self.assertEqual(record["state"], "finished", record["failure"])
        self.assertEqual(record["exit_codes"], [0] * HOSTS)
        self.assertEqual([(place["rank"], place["host"]) for place in record["placement"]],
                         list(enumerate(self.network.names)))
        self.assertEqual([host["name"] for host in record["hosts"]], self.network.names)
        return record

    def test_training(self):
        self.watch("many-32", ["run", "many", str(HOSTS), "--task", "fashion-mnist", "--threads-per-worker", "1", *DATA,
                               "--max-steps", str(STEPS), "--comm-timeout", "300s"])
        logs = self.ask("/runs/many-32/logs")
        self.assertEqual({log["rank"] for log in logs["logs"]} - {"supervisor"}, set(range(HOSTS)))
        home = pathlib.Path(self.environment["MLBENCH_HOME"])
        spools = list((home / "runs/many-32/spool").glob("rank-*.seg-1.steps"))
        self.assertEqual(len(spools), HOSTS)
        self.assertEqual(len({spool.stat().st_size for spool in spools}), 1, "each rank's spool holds the same steps")

    def test_all_reduce(self):
        record = self.watch("sizes-32", ["bench", "collectives", "all_reduce", "--name", "sizes", "-k", str(HOSTS), "-b", "8",
                                         "-e", str(8 << 2 * (SIZES - 1)), "-f", "4", "-n", "3", "-w", "1",
                                         "--comm-timeout", "300s"])
        rows = record["collectives"]["results"]
        self.assertEqual(len(rows), SIZES)
        for row in rows:
            for form in ("in_place", "out_of_place"):
                self.assertEqual(row[form]["nwrong"], 0)


if __name__ == "__main__":
    main(netns.missing(sshd=True) or ("" if netns.find("mpirun") else "mpirun (package openmpi-bin)"))
