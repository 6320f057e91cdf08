"""Runs over hosts that mpirun reaches by ssh: network namespaces of this machine (netns.py), as root.

    mpirun_test.py [unittest arguments]          needs MLBENCH_BIN_DIR (or MLBENCH_TEST_MLBENCH), root, Open MPI, OpenSSH

With MLBENCH_DATA_DIR the real fashion-mnist, else made data.
"""

import json
import os
import pathlib
import signal
import sys
import tempfile
import time

import netns
from engine_case import EngineCase, main, mlbench_path

SETTINGS = ["--task", "fashion-mnist", "--threads-per-worker", "1"]
DATA = [] if "MLBENCH_DATA_DIR" in os.environ else ["--synthetic"]
STEPS = 20
HOSTS = "h1,h2,h3,h4"
RUN_FAILED, INPUT = 5, 2
LOST_WITHIN_S = 15
# Guards of a supervisor that is gone wait 10 s for it, and have 3 s for their ranks.
GONE_WITHIN_S = 40



# A command that finds its ranks by what it is told. Arguments: {rank} and {hosts}.
MEETING = '''
import os, socket, sys
def told(name):
    return f"{os.environ[f'HOROVOD_{name}RANK']}/{os.environ[f'HOROVOD_{name}SIZE']}"
place = " ".join([sys.argv[2], os.environ["MASTER_ADDR"], os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"],
                  os.environ["HOROVOD_CONTROLLER"], told(""), told("LOCAL_"), told("CROSS_")])
at = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if sys.argv[1] == "0":
    with socket.create_server(at) as server:
        server.settimeout(60)
        places = [place]
        while len(places) < int(os.environ["WORLD_SIZE"]):
            with server.accept()[0] as peer:
                places.append(peer.makefile().read())
        print("\\n".join(sorted(places, key=lambda one: one.split()[4])))
else:
    for attempt in range(600):
        try:
            with socket.create_connection(at, 5) as peer:
                peer.sendall(place.encode())
            break
        except ConnectionRefusedError:
            import time
            time.sleep(0.1)
    else:
        sys.exit("nobody listens at " + str(at))
'''


class MpirunTest(EngineCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="mlm", dir="/tmp")))
        cls.network = cls.enterClassContext(netns.Network(4, cls.folder / "net", sshd=True))

    def setUp(self):
        self.home = self.folder / self._testMethodName
        self.environment = {**os.environ, "MLBENCH_HOME": str(self.home), "MLBENCH_CORE_LOCK": str(self.folder / "cores")}
        for name in self.network.names:
            self.network.heal(name)
            self.network.shape(name, None)

    def tearDown(self):
        for name in self.network.names:
            self.network.heal(name)
        self.wait_for(lambda: not self.left(), f"something stays: {self.left()}", GONE_WITHIN_S)

    # ---- helpers

    def left(self):
        return {name: programs for name in self.network.names if (programs := self.network.programs(name))}

    def engine(self, hosts=HOSTS):
        return ["--executor", "mpirun", "--hosts", hosts, "--ssh-config", self.network.ssh_config, "--scratch",
                str(self.network.scratch), "--local"]

    def mlbench(self, *words, code=0, timeout=300, program=None):
        """On h1, to its end."""
        done = self.network.run("h1", [*(program or [mlbench_path()]), *words], check=False, timeout=timeout,
                                env=self.environment)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def begin(self, name, *words, ranks=4, hosts=HOSTS):
        """A run that goes on and on, once all of its ranks train."""
        output = open(self.folder / f"{self._testMethodName}.out", "wb")
        self.addCleanup(output.close)
        process = self.network.start(
            "h1", [mlbench_path(), "run", name, str(ranks), *SETTINGS, "--synthetic", "--max-steps", "1000000", "--set",
                   "epochs=10000", *words, *self.engine(hosts)], env=self.environment, stdout=output, stderr=output)

        def trains():
            self.assertIsNone(process.poll(), pathlib.Path(output.name).read_text())
            return all(spool.exists() and spool.stat().st_size > 2000 for spool in self.spools(name, ranks))
        self.wait_for(trains, "all ranks train", 120)
        return process

    def run_folder(self, name, ranks=4):
        return self.home / "runs" / f"{name}-{ranks}"

    def spools(self, name, ranks=4):
        return [self.run_folder(name, ranks) / "spool" / f"rank-{rank}.seg-1.steps" for rank in range(ranks)]

    def record(self, name, ranks=4):
        return json.loads((self.run_folder(name, ranks) / "run.json").read_text())

    def pid_of(self, host, word):
        """Of the first word of a command, or the second (`mlbench supervise`)."""
        found = [pid for pid, words in self.network.programs(host).items()
                 if any(pathlib.Path(part).name == word for part in words.split()[:2])
                 and "mlbench-guard" not in words.split()[0]]
        self.assertTrue(found, f"no {word} on {host}: {self.network.programs(host)}")
        return found[0]

    def pid_of_guard(self, host):
        found = [pid for pid, words in self.network.programs(host).items()
                 if pathlib.Path(words.split()[0]).name == "mlbench-guard"]
        self.assertEqual(len(found), 1, f"guards on {host}: {self.network.programs(host)}")
        return found[0]

    def expect_failed(self, process, name, began, within_s=LOST_WITHIN_S):
        self.assertEqual(process.wait(60), RUN_FAILED)
        self.assertLess(time.monotonic() - began, within_s)
        record = self.record(name)
        self.assertEqual(record["state"], "failed")
        return record

    def fail_by(self, host, word, name):
        """The record of a run in which that program was killed on the host; what had arrived is there."""
        process = self.begin(name)
        arrived = [spool.read_bytes() for spool in self.spools(name)]
        pid, began = self.pid_of(host, word), time.monotonic()
        os.kill(pid, signal.SIGKILL)
        record = self.expect_failed(process, name, began)
        self.expect_kept(name, arrived)
        return record

    def expect_kept(self, name, arrived):
        for spool, before in zip(self.spools(name), arrived):
            self.assertTrue(spool.read_bytes().startswith(before), f"{spool.name} lost what it had")

    # ---- what works

    def over_four_hosts(self, backend):
        sent_before = [sum(self.network.bytes(name)) for name in self.network.names]
        self.mlbench("run", "over", "4", *SETTINGS, *DATA, "--backend", backend, "--max-steps", str(STEPS), *self.engine())
        record = self.record("over")
        self.assertEqual(record["state"], "finished")
        self.assertEqual(record["exit_codes"], [0, 0, 0, 0])
        self.assertEqual([(place["rank"], place["host"], place["local_rank"]) for place in record["placement"]],
                         [(rank, f"h{rank + 1}", 0) for rank in range(4)])
        self.assertEqual([host["name"] for host in record["hosts"]], ["h1", "h2", "h3", "h4"])
        # Each rank sends and receives 2 (k - 1) / k of all gradients in each step.
        least = 2 * STEPS * 2 * 3 / 4 * record["parameters"] * 4
        for name, before in zip(self.network.names, sent_before):
            self.assertGreater(sum(self.network.bytes(name)) - before, 0.95 * least, name)
        return record

    def test_gloo_over_four_hosts_has_the_weights_of_a_local_run(self):
        record = self.over_four_hosts("gloo")
        self.mlbench("run", "here", "4", *SETTINGS, *DATA, "--backend", "gloo", "--max-steps", str(STEPS), "--local")
        self.assertEqual(record["weights_sha256"], self.record("here")["weights_sha256"])

    def test_mpi_over_four_hosts(self):
        self.over_four_hosts("mpi")

    def test_ranks_are_where_they_are_asked_for(self):
        # mpirun's own host comes last: mapped by slot its ranks would be the first.
        self.mlbench("run", "order", "4", *SETTINGS, "--synthetic", "--max-steps", "2", *self.engine("h3:2,h2,h1"))
        self.assertEqual([(place["host"], place["local_rank"]) for place in self.record("order")["placement"]],
                         [("h3", 0), ("h3", 1), ("h2", 0), ("h1", 0)])

    def test_collectives_are_right(self):
        for backend in ("gloo", "mpi"):
            with self.subTest(backend):
                done = self.mlbench("bench", "collectives", "all_reduce", "-k", "4", "--backend", backend, "-b", "4K", "-e",
                                    "1M", "-f", "16", "-n", "3", "--json", *self.engine())
                rows = json.loads(done.stdout)[0]["results"]
                self.assertEqual([row["size"] for row in rows], [4096, 65536, 1048576])
                self.assertEqual([row[form]["nwrong"] for row in rows for form in ("out_of_place", "in_place")], [0] * 6)

    def test_a_command_of_your_own(self):
        self.mlbench("run", "own", "4", *self.engine("h1:2,h2:2"), "--", "sh", "-c",
                     "echo {rank} $RANK on $(hostname); echo wrong on $RANK >&2")
        logs = self.run_folder("own") / "logs"
        self.assertEqual([(logs / f"rank-{rank}.seg-1.out").read_text() for rank in range(4)],
                         ["0 0 on h1\n", "1 1 on h1\n", "2 2 on h2\n", "3 3 on h2\n"])
        self.assertEqual([(logs / f"rank-{rank}.seg-1.err").read_text() for rank in range(4)],
                         [f"wrong on {rank}\n" for rank in range(4)])

    def test_ranks_of_a_command_find_each_other(self):
        # Rank 0 listens where all are told to; what it hears is where they say they are.
        self.mlbench("run", "meet", "3", *self.engine("h2:2,h1"), "--", sys.executable, "-c", MEETING, "{rank}", "{hosts}")
        folder = self.run_folder("meet", 3)
        said = (folder / "logs/rank-0.seg-1.out").read_text().splitlines()
        self.assertEqual(said, ["h2,h2,h1 h2 h2 gloo 0/3 0/2 0/2", "h2,h2,h1 h2 h2 gloo 1/3 1/2 0/1",
                                "h2,h2,h1 h2 h2 gloo 2/3 0/1 1/2"])

    def test_no_secret_is_shown(self):
        process = self.begin("secret")
        worker = self.pid_of("h2", "mlbench-worker")
        variables = pathlib.Path(f"/proc/{worker}/environ").read_bytes().split(b"\0")
        secret = next(value.partition(b"=")[2].decode() for value in variables if value.startswith(b"MLBENCH_SECRET="))
        self.assertGreater(len(secret), 16)
        for host in self.network.names:
            for words in self.network.programs(host).values():
                self.assertNotIn(secret, words)
        for log in (self.run_folder("secret") / "logs").iterdir():
            self.assertNotIn(secret, log.read_text(errors="replace"))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)
        self.assertEqual(self.record("secret")["state"], "stopped")

    # ---- what is lost

    def test_a_host_that_is_cut_off(self):
        for backend in ("gloo", "mpi"):
            with self.subTest(backend):
                name = f"cut-{backend}"
                process = self.begin(name, "--backend", backend)
                arrived = [spool.read_bytes() for spool in self.spools(name)]
                began = time.monotonic()
                self.network.cut("h3")
                record = self.expect_failed(process, name, began)
                self.expect_kept(name, arrived)
                self.assertEqual(record["failure"]["kind"], "host_lost")
                self.assertEqual(record["failure"]["host"], "h3")
                self.assertIn("rank 2 on h3", record["failure"]["message"])
                self.assertIsNone(record["exit_codes"][2])
                # The ranks end on h3, too, where nobody can tell them to.
                self.wait_for(lambda: not self.left(), f"something stays: {self.left()}", GONE_WITHIN_S)
                self.network.heal("h3")

    def test_a_host_that_comes_back_is_gone_on_with(self):
        process = self.begin("back", "--requeue=3", "--checkpoint-every", "20")
        checkpoints = self.run_folder("back") / "checkpoints"
        self.wait_for(lambda: list(checkpoints.glob("step-*/state.json")), "a checkpoint comes")
        self.network.cut("h3")
        self.wait_for(lambda: len(self.record("back")["segments"]) > 1, "the next segment begins")
        self.network.heal("h3")

        def goes_on():
            self.assertIsNone(process.poll(), self.record("back")["failure"])
            last = len(self.record("back")["segments"])
            spools = [self.run_folder("back") / "spool" / f"rank-{rank}.seg-{last}.steps" for rank in range(4)]
            return all(spool.exists() and spool.stat().st_size > 2000 for spool in spools)
        self.wait_for(goes_on, "all ranks train again", 120)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)
        record = self.record("back")
        self.assertEqual(record["state"], "stopped")
        self.assertIsNone(record["failure"])
        first, *others = record["segments"]
        self.assertEqual((first["failure"]["kind"], first["failure"]["host"]), ("host_lost", "h3"))
        # Where the host was not back in time, a start in vain stands between.
        self.assertEqual([segment["failure"] and segment["failure"]["kind"] for segment in others],
                         ["start_failed"] * (len(others) - 1) + [None])
        self.assertGreaterEqual(others[-1]["start_step"], 20)
        self.assertTrue(any("requeued from step" in note for note in record["notes"]), record["notes"])

    def test_a_cut_that_heals_is_none(self):
        process = self.begin("heals")
        self.network.cut("h3")
        time.sleep(4)
        self.network.heal("h3")
        size = self.spools("heals")[2].stat().st_size
        self.wait_for(lambda: self.spools("heals")[2].stat().st_size > size, "rank 2 goes on", 30)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)
        self.assertEqual(self.record("heals")["state"], "stopped")

    def test_a_killed_rank(self):
        record = self.fail_by("h3", "mlbench-worker", "rank")
        self.assertEqual((record["failure"]["kind"], record["failure"]["rank"], record["failure"]["host"]),
                         ("rank_died", 2, "h3"))
        self.assertIn("rank 2", record["failure"]["message"])
        self.assertEqual(record["exit_codes"][2], 137)

    def test_a_killed_guard(self):
        process = self.begin("guard")
        guard, began = self.pid_of_guard("h3"), time.monotonic()
        os.kill(guard, signal.SIGKILL)
        record = self.expect_failed(process, "guard", began)
        self.assertEqual((record["failure"]["kind"], record["failure"]["host"]), ("host_lost", "h3"))
        self.assertIn("rank 2 on h3", record["failure"]["message"])

    def test_a_killed_daemon(self):
        record = self.fail_by("h3", "orted", "daemon")
        self.assertIn("daemon on h3 (rank 2) is gone", record["failure"]["message"])

    def test_a_killed_mpirun(self):
        record = self.fail_by("h1", "mpirun", "launcher")
        self.assertIn("mpirun was killed by signal 9", record["failure"]["message"])
        self.assertIn("h1 (rank 0), h2 (rank 1), h3 (rank 2), h4 (rank 3)", record["failure"]["message"])

    def test_a_killed_supervisor(self):
        process = self.begin("supervisor")
        os.kill(self.pid_of("h1", "supervise"), signal.SIGKILL)
        process.wait(60)
        self.wait_for(lambda: not self.left(), f"something stays: {self.left()}", GONE_WITHIN_S)

    # ---- what does not start

    def test_a_host_that_is_none(self):
        self.mlbench("run", "none", "2", *SETTINGS, "--synthetic", "--max-steps", "2", *self.engine("h2,h9"),
                     code=RUN_FAILED)
        self.assertIn("h9", self.record("none", 2)["failure"]["message"])
        self.assertEqual(self.record("none", 2)["failure"]["kind"], "start_failed")

    def test_a_host_that_does_not_answer(self):
        self.network.cut("h3")
        self.mlbench("run", "deaf", "2", *SETTINGS, "--synthetic", "--max-steps", "2", *self.engine("h2,h3"),
                     code=RUN_FAILED)
        self.assertIn("h3", self.record("deaf", 2)["failure"]["message"])

    def in_a_folder_of_its_own(self):
        """The folder, which is h1's alone, and the words that run the mlbench in it."""
        programs = " ".join(str(mlbench_path().with_name(name)) for name in ("mlbench", "mlbench-guard", "mlbench-worker"))
        place, libraries = self.network.scratch / "bin", mlbench_path().with_name("libtorch")
        script = (f'[ -e {place} ] || {{ mkdir {place} && cp {programs} {place} && ln -s {libraries} {place}; }}; '
                  f'exec {place}/mlbench "$@"')
        return place, ["sh", "-c", script, "sh"]

    def on_h2(self, script):
        """What it says over ssh, which sees the host's own folder where sshd does."""
        words = ["ssh", "-F", self.network.ssh_config, "-o", "BatchMode=yes", "h2", script]
        return self.network.run("h1", words).stdout

    def test_a_host_without_the_program(self):
        # The folder is each host's own: what h1 copies there is on h1 alone.
        place, program = self.in_a_folder_of_its_own()
        words = [*SETTINGS, "--synthetic", "--max-steps", "2", *self.engine("h1,h2")]
        plan = self.mlbench("run", "plan", "2", *words, "--dry-run", program=program).stdout
        self.assertIn("where one lacks them, all have them in", plan)
        self.mlbench("run", "lacks", "2", *words, program=program)
        self.assertEqual(self.record("lacks", 2)["state"], "finished")
        (built,) = self.on_h2(f"ls -d {self.network.scratch}/mlbench-*/build-*/complete").split()
        began = self.on_h2(f"stat -c '%Y %i' {built}")
        self.mlbench("run", "again", "2", *words, program=program)
        self.assertEqual(self.on_h2(f"stat -c '%Y %i' {built}"), began, "copied twice")
        # Another build at the path of h1's is no better than none.
        programs = " ".join(str(mlbench_path().with_name(name)) for name in ("mlbench-guard", "mlbench-worker"))
        self.on_h2(f"mkdir {place} && cp {programs} {place} && printf x >>{place}/mlbench-guard")
        self.mlbench("run", "other", "2", *words, program=program)
        self.assertEqual(self.record("other", 2)["state"], "finished")

    def test_no_hosts(self):
        done = self.mlbench("run", "hosts", "2", *SETTINGS, "--synthetic", "--executor", "mpirun", "--local", code=INPUT)
        self.assertIn("-H h1:2,h2:2", done.stderr)


if __name__ == "__main__":
    main(netns.missing(sshd=True) or ("" if netns.find("mpirun") else "mpirun (package openmpi-bin)"))
