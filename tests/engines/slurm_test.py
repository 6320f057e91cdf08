"""Executor slurm against slurmctld and four slurmd of this machine, from the command line and over REST.

    slurm_test.py [unittest arguments]          needs MLBENCH_BIN_DIR (or MLBENCH_TEST_MLBENCH), root, Slurm

Ranks are at work for real; data are synthetic, so that nothing has to be fetched.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import mpirun_test
import slurm_cluster
from engine_case import RunsCase, asked_master, main, mlbench_path

PATIENCE_S = 180
SETTINGS = ["--set", "batch_size=50", "--set", "goal.target=1000"]
TASK = ["--task", "fashion-mnist", "--synthetic", *SETTINGS, "--max-steps", "10", "--threads-per-worker", "1"]
SLURM = ["--executor", "slurm", "--ranks-per-host", "1", "--slurm-option", "time=10"]
NODES = ["n1", "n2", "n3", "n4"]
RUN_FAILED = 5
ENDED = ("finished", "failed", "stopped")


class SlurmTest(RunsCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        # Unix sockets of Slurm lie below it: a short path.
        cls.folder = pathlib.Path(cls.stack.enter_context(tempfile.TemporaryDirectory(prefix="mls", dir="/tmp")))
        cls.addClassCleanup(cls.stack.close)
        cls.slurm = cls.stack.enter_context(slurm_cluster.SlurmCluster(cls.folder / "slurm"))

    def setUp(self):
        self.home = self.folder / self._testMethodName
        # It travels with the job: whatever a run started is found by it.
        self.mark = f"{self._testMethodName}-{os.getpid()}"
        self.environment = {**self.slurm.environment, "MLBENCH_HOME": str(self.home), "MLBENCH_TEST_MARK": self.mark,
                            "MLBENCH_CORE_LOCK": str(self.folder / "cores")}

    def tearDown(self):
        self.wait_for(lambda: not self.slurm.jobs(), "Slurm has no job left", 90)
        self.wait_for(lambda: not self.processes(), "no process is left", 60)

    # ---- helpers

    def wait_for(self, condition, what, patience_s=PATIENCE_S):
        super().wait_for(condition, what, patience_s, lambda: f"processes {self.processes()}, jobs {self.slurm.jobs()}")

    def wait_for_state(self, name, *states):
        self.wait_for(lambda: self.record(name)["state"] in states, f"{name} is {' or '.join(states)}")
        return self.record(name)

    def wait_for_ranks(self, name, count=4):
        """Until so many ranks have said "ready" in their logs."""
        def ready():
            logs = self.run_folder(name).glob("logs/rank-*.seg-1.out")
            return sum("ready" in log.read_text() for log in logs) == count
        self.wait_for(ready, f"{count} ranks of {name} run")

    def job_of(self, name):
        self.wait_for(self.slurm.jobs, f"{name} has a job")
        (number,) = self.slurm.jobs()
        return number

    # ---- runs that succeed

    def over_four_nodes(self, backend):
        self.mlbench("run", "nodes", "4", *SLURM, *TASK, "--backend", backend, "--local")
        record = self.record("nodes-4")
        self.assertEqual(record["state"], "finished", record["failure"])
        self.assertEqual(record["executor"], "slurm")
        self.assertEqual(record["exit_codes"], [0, 0, 0, 0])
        self.assertEqual([place["host"] for place in record["placement"]], NODES)
        self.assertEqual([place["local_rank"] for place in record["placement"]], [0, 0, 0, 0])
        self.assertEqual([host["name"] for host in record["hosts"]], NODES)
        allocation = record["allocation"]
        self.assertEqual((allocation["engine"], allocation["partition"], allocation["nodes"], allocation["node_count"]),
                         ("slurm", "test", "n[1-4]", 4))
        self.assertEqual(allocation["cpus"], 8)  # all of each node's: no other job is there
        self.assertEqual(self.slurm.job(allocation["job"])["JobState"], "COMPLETED")
        self.assertRegex(record["weights_sha256"], "^[0-9a-f]{64}$")
        return record

    def test_gloo_over_four_nodes_has_the_weights_of_a_local_run(self):
        record = self.over_four_nodes("gloo")
        self.mlbench("run", "here", "4", *TASK, "--backend", "gloo", "--local")
        self.assertEqual(self.record("here-4")["weights_sha256"], record["weights_sha256"])

    def test_mpi_by_pmix_over_four_nodes(self):
        self.over_four_nodes("mpi")

    def test_two_ranks_on_each_host(self):
        self.mlbench("run", "pairs", "4", "--executor", "slurm", "--ranks-per-host", "2", "--local", "--", "sh", "-c",
                     "echo $RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE {rank}; echo wrong on $RANK >&2")
        record = self.record("pairs-4")
        self.assertEqual(record["state"], "finished", record["failure"])
        self.assertEqual([(place["host"], place["local_rank"]) for place in record["placement"]],
                         [("n1", 0), ("n1", 1), ("n2", 0), ("n2", 1)])
        for rank in range(4):
            log = self.run_folder("pairs-4") / f"logs/rank-{rank}.seg-1.out"
            self.assertEqual(log.read_text(), f"{rank} {rank % 2}/2 {rank}\n")
            self.assertEqual(log.with_suffix(".err").read_text(), f"wrong on {rank}\n")

    def test_ranks_of_a_command_find_each_other(self):
        self.mlbench("run", "meet", "3", "--executor", "slurm", "--ranks-per-host", "2", "--local", "--", sys.executable, "-c",
                     mpirun_test.MEETING, "{rank}", "{hosts}")
        said = (self.run_folder("meet-3") / "logs/rank-0.seg-1.out").read_text().splitlines()
        # The nodes are all this machine.
        at = "127.0.0.1,127.0.0.1,127.0.0.1 127.0.0.1 127.0.0.1 gloo"
        self.assertEqual(said, [f"{at} 0/3 0/2 0/2", f"{at} 1/3 1/2 0/1", f"{at} 2/3 0/1 1/2"])

    def test_no_secret_is_shown(self):
        self.environment["TEST_TOKEN"] = "open-sesame"
        self.mlbench("run", "quiet", "1", *SLURM, "--local", "--detach", "--env", "TEST_TOKEN", "--", "sh", "-c",
                     "test $TEST_TOKEN = open-sesame && echo ready && sleep 600")
        self.wait_for_ranks("quiet-1", 1)
        job = self.job_of("quiet-1")
        shown = self.slurm.run(["scontrol", "show", "job", "-dd", job])
        script = (self.run_folder("quiet-1") / "logs/slurm.seg-1.sbatch").read_text()
        secrets = {environment.get(name) for environment in map(slurm_cluster.environment_of, self.processes())
                   for name in ("MLBENCH_SECRET", "MLBENCH_GUARD_SECRET")}
        self.assertGreater(len(secrets), 1, "a guard has one")
        lines = [pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace") for pid in self.processes()]
        for secret in {"open-sesame", *filter(None, secrets)}:
            for text in [shown, script, *lines]:
                self.assertNotIn(secret, text.replace("test $TEST_TOKEN = open-sesame", ""))
        self.mlbench("stop", "quiet-1")
        self.wait_for_state("quiet-1", "stopped")

    # ---- runs that fail

    def test_a_rank_that_fails_is_named_with_all_codes(self):
        self.mlbench("run", "codes", "4", *SLURM, "--local", "--", "sh", "-c", "[ $RANK = 2 ] && exit 7; sleep 600",
                     code=RUN_FAILED)
        record = self.record("codes-4")
        self.assertEqual((record["state"], record["failure"]["rank"], record["failure"]["host"]), ("failed", 2, "n3"))
        self.assertEqual(record["exit_codes"][2], 7)

    def test_a_rank_that_is_killed_is_named(self):
        self.mlbench("run", "killed", "4", *SLURM, "--local", "--", "sh", "-c", "[ $RANK = 1 ] && kill -9 $$; sleep 600",
                     code=RUN_FAILED)
        failure = self.record("killed-4")["failure"]
        self.assertEqual((failure["kind"], failure["rank"], failure["host"]), ("rank_died", 1, "n2"))

    def test_what_sbatch_refuses(self):
        said = self.mlbench("run", "refused", "4", *SLURM, "--slurm-option", "partition=nosuch", "--local", *TASK,
                            code=RUN_FAILED)
        self.assertIn("nvalid partition", said + json.dumps(self.record("refused-4")))

    def test_a_lost_node(self):
        self.mlbench("run", "lost", "4", *SLURM, "--local", "--detach", "--", "sh", "-c", "echo ready; sleep 600")
        self.wait_for_ranks("lost-4")
        begin = time.monotonic()
        self.slurm.kill_node("n3")
        try:
            record = self.wait_for_state("lost-4", *ENDED)
            self.assertLess(time.monotonic() - begin, 90)
            self.assertEqual((record["state"], record["failure"]["kind"]), ("failed", "host_lost"), record["failure"])
            self.assertEqual((record["failure"]["rank"], record["failure"]["host"]), (2, "n3"))
        finally:
            self.slurm.start_node("n3")
            self.wait_for(lambda: self.slurm.node_state("n3") == "IDLE", "n3 is back")

    def test_a_lost_node_is_gone_on_without(self):
        self.mlbench("run", "on", "3", *SLURM, "--local", "--detach", "--task", "fashion-mnist", "--synthetic", *SETTINGS,
                     "--set", "epochs=10000", "--max-steps", "1000000", "--threads-per-worker", "1",
                     "--checkpoint-every", "20", "--requeue=1")
        checkpoints = self.run_folder("on-3") / "checkpoints"
        self.wait_for(lambda: list(checkpoints.glob("step-*/state.json")), "a checkpoint comes")
        node = self.record("on-3")["placement"][2]["host"]
        self.slurm.kill_node(node)
        spool = self.run_folder("on-3") / "spool" / "rank-2.seg-2.steps"
        try:
            self.wait_for(lambda: spool.exists() and spool.stat().st_size > 2000, "rank 2 trains again")
            self.mlbench("stop", "on-3")
            record = self.wait_for_state("on-3", *ENDED)
        finally:
            self.slurm.start_node(node)
            self.wait_for(lambda: self.slurm.node_state(node) == "IDLE", f"{node} is back")
        self.assertEqual(record["state"], "stopped", record["failure"])
        first, second = record["segments"]
        self.assertIsNotNone(first["failure"])
        self.assertIsNone(second["failure"])
        self.assertGreaterEqual(second["start_step"], 20)
        self.assertNotIn(node, [place["host"] for place in record["placement"]])

    def test_a_requeue_is_seen(self):
        self.mlbench("run", "again", "4", *SLURM, "--slurm-option", "requeue", "--local", "--detach", "--", "sh", "-c",
                     "echo ready; sleep 600")
        self.wait_for_ranks("again-4")
        self.slurm.scontrol("requeue", self.job_of("again-4"))
        record = self.wait_for_state("again-4", *ENDED)
        self.assertEqual(record["state"], "failed")
        self.assertIn("Slurm", record["failure"]["message"])
        log = (self.run_folder("again-4") / "logs/rank-0.seg-1.out").read_text()
        self.assertEqual(log.count("ready"), 1, "ranks began twice")

    def test_a_cancel_from_outside_is_said(self):
        self.mlbench("run", "cut", "2", *SLURM, "--local", "--detach", "--", "sh", "-c",
                     "trap '' TERM; echo ready; while :; do sleep 1; done")
        self.wait_for_ranks("cut-2", 2)
        self.slurm.run(["scancel", self.job_of("cut-2")])
        record = self.wait_for_state("cut-2", *ENDED)
        self.assertEqual(record["state"], "failed")
        self.assertIn("Slurm ended it", record["failure"]["message"])

    # ---- the queue

    def queued(self, name, *words):
        self.mlbench("run", name, "4", *SLURM, "--slurm-option", "begin=now+1hour", "--local", "--detach", *words)
        self.wait_for(lambda: any("PENDING (BeginTime)" in note for note in self.record(f"{name}-4")["notes"]),
                      "the run says what it waits for")

    def test_a_stop_in_the_queue(self):
        self.queued("waits", *TASK)
        self.assertEqual(self.record("waits-4")["state"], "queued")
        number = self.job_of("waits-4")
        self.mlbench("stop", "waits-4")
        record = self.wait_for_state("waits-4", "stopped")
        self.assertIsNone(record["placement"])
        self.assertEqual(self.slurm.job(number)["JobState"], "CANCELLED")

    def test_who_finds_a_lost_run_withdraws_its_job(self):
        self.queued("orphan", "--", "sh", "-c", "touch started; sleep 600")
        number = self.job_of("orphan-4")
        for pid, (name, _, _) in self.processes().items():
            if name.startswith("mlbench"):
                os.kill(pid, signal.SIGKILL)
        self.assertEqual(self.slurm.job(number)["JobState"], "PENDING")
        self.mlbench("status", "orphan-4")
        self.assertEqual(self.slurm.job(number)["JobState"], "CANCELLED")
        failure = self.record("orphan-4")["failure"]
        self.assertEqual(failure["kind"], "supervisor_lost")
        self.assertIn(f"its job {number} of slurm was withdrawn", failure["message"])

    def test_runs_share_a_node_only_if_they_say_so(self):
        long = ["--slurm-option", "time=10", "--slurm-option", "nodelist=n1", "--local", "--detach", "--", "sh", "-c",
                "echo ready; sleep 600"]
        self.mlbench("run", "alone", "1", "--executor", "slurm", *long)
        self.wait_for_ranks("alone-1", 1)
        self.mlbench("run", "waits", "1", "--executor", "slurm", "--share-host", *long)
        self.wait_for(lambda: any("PENDING (Resources)" in note or "PENDING (Priority)" in note
                                  for note in self.record("waits-1")["notes"]), "waits-1 waits for the node")
        self.mlbench("stop", "alone-1")
        self.wait_for_ranks("waits-1", 1)
        self.mlbench("run", "beside", "1", "--executor", "slurm", "--share-host", *long)
        self.wait_for_ranks("beside-1", 1)
        for name in ("waits-1", "beside-1"):
            self.assertTrue(self.record(name)["shared_host"])
            self.mlbench("stop", name)
            self.wait_for_state(name, "stopped")

    def test_a_job_without_its_supervisor_ends(self):
        self.queued("alone", "--", "sh", "-c", "touch started; sleep 600")
        number = self.job_of("alone-4")
        for pid, (name, _, _) in self.processes().items():
            if name.startswith("mlbench"):
                os.kill(pid, signal.SIGKILL)
        self.slurm.scontrol("update", f"JobId={number}", "StartTime=now")
        self.wait_for(lambda: not self.slurm.jobs(), "the job ended by itself", 120)
        self.assertEqual(self.slurm.job(number)["JobState"], "FAILED")

    def test_a_stop_of_what_runs(self):
        self.mlbench("run", "ends", "4", *SLURM, "--local", "--detach", "--", "sh", "-c",
                     "setsid sleep 700 & echo ready; sleep 600")
        self.wait_for_ranks("ends-4")
        self.mlbench("stop", "ends-4")
        self.assertEqual(self.wait_for_state("ends-4", *ENDED)["state"], "stopped")

    # ---- the master

    def test_over_rest(self):
        with asked_master(self.environment) as call:
            request = {"name": "rest", "workers": [4], "executor": "slurm", "ranks_per_host": "1", "slurm": ["time=10"],
                       "task": "fashion-mnist", "synthetic": True, "set": ["batch_size=50", "goal.target=1000"],
                       "max_steps": "10", "threads_per_worker": "1"}
            call("POST", "/runs", request)
            self.assertEqual(self.wait_for_state("rest-4", *ENDED)["state"], "finished", self.record("rest-4")["failure"])
            waits = {**request, "name": "later", "slurm": ["time=10", "begin=now+1hour"]}
            call("POST", "/runs", waits)
            self.wait_for(lambda: any("PENDING" in note for note in self.record("later-4")["notes"]), "later-4 waits")
            self.mlbench("stop", "later-4")
            self.assertEqual(self.wait_for_state("later-4", *ENDED)["state"], "stopped")


class GpuTest(unittest.TestCase):
    """Two nodes with two GPUs each, which no program could use."""

    @classmethod
    def setUpClass(cls):
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        cls.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mls", dir="/tmp")))
        cls.slurm = stack.enter_context(slurm_cluster.SlurmCluster(cls.folder / "slurm", nodes=2, gpus=2))

    def mlbench(self, ranks, *options, code=0):
        home = self.folder / self._testMethodName
        words = [mlbench_path(), "run", "g", str(ranks), "--executor", "slurm", "--gpu", *options, "--local", "--", "sh", "-c",
                 "echo $CUDA_VISIBLE_DEVICES"]
        done = subprocess.run(words, env={**self.slurm.environment, "MLBENCH_HOME": str(home)}, capture_output=True,
                              text=True, timeout=PATIENCE_S, cwd="/")
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        run = home / f"runs/g-{ranks}"
        return json.loads((run / "run.json").read_text()), [
            log.read_text().strip() for log in sorted(run.glob("logs/rank-*.seg-1.out"))]

    def test_each_rank_has_one(self):
        record, seen = self.mlbench(4)
        self.assertEqual(seen, ["0", "1", "0", "1"])
        self.assertEqual(record["requested"]["device"], "cuda")

    def test_where_the_job_has_some_each_rank_gets_one(self):
        record, seen = self.mlbench(4, "--ranks-per-host", "2", "--slurm-option", "gres=gpu:2")
        self.assertEqual(seen, ["0", "1", "0", "1"])
        self.assertEqual([place["gpu"] for place in record["placement"]], [0, 1, 0, 1])

    def test_the_user_says_what_ranks_see(self):
        _, seen = self.mlbench(2, "--env", "CUDA_VISIBLE_DEVICES=0,1")
        self.assertEqual(seen, ["0,1", "0,1"])

    def test_more_than_there_are_is_refused_by_slurm(self):
        record, _ = self.mlbench(3, "--ranks-per-host", "3", code=RUN_FAILED)
        self.assertIn("Slurm refuses the job", record["failure"]["message"])

    def test_the_nodes_say_how_many_they_have(self):
        with asked_master({**self.slurm.environment, "MLBENCH_HOME": str(self.folder / "home")}) as call:
            rows = {row["name"]: row["gpus"] for row in call("GET", "/catalog")["executors"]}
        self.assertEqual(rows["slurm"], 4)


if __name__ == "__main__":
    main(slurm_cluster.missing())
