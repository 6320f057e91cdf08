"""Executor kubernetes and the Helm chart against a Kubernetes of this machine (kube_cluster.py): two real nodes, images
that deploy/docker/build.sh makes of what was built.

    kubernetes_test.py [unittest arguments]     needs MLBENCH_BIN_DIR (or MLBENCH_TEST_MLBENCH), root, tools/setup.sh kube

MLBENCH_KUBE_IMAGE=FILE takes the worker's image from an archive (buildah push ... docker-archive:FILE) in place of making
it. Nothing here enforces a NetworkPolicy, makes volumes, or has GPUs.
"""

import base64
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error

import kube_cluster
import slurm_cluster
from engine_case import EngineCase, RunsCase, caller, main, mlbench_path

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/kubernetes"))
import rendered_chart  # noqa: E402

CHART = ROOT / "deploy/helm/mlbench"
WORKER, BUSYBOX = "localhost/mlbench-worker:test", kube_cluster.PAUSE_IMAGE
PATIENCE_S = 180
LOST_WITHIN_S = 60
# Jobs whose supervisor is gone are removed by Kubernetes, at the latest by their time to live.
REMOVED_WITHIN_S = 400
# Once its nodes are free. What the scheduler is not told of it finds within 300 s.
GOES_ON_WITHIN_S = 120
RUN_FAILED, INPUT = 5, 2
ENDED = ("finished", "failed", "stopped")
SETTINGS = ["--set", "batch_size=50", "--set", "goal.target=1000"]
TASK = ["--task", "fashion-mnist", "--synthetic", *SETTINGS, "--max-steps", "10", "--threads-per-worker", "1"]
DATASETS = pathlib.Path("/usr/share/datasets")
MASTER_USER = 10001
NAMESPACE = "runs"


def lacking():
    lack = kube_cluster.missing()
    if lack or "MLBENCH_KUBE_IMAGE" in os.environ:
        return lack
    absent = [name for name in ("buildah", "mmdebstrap", "unshare", "dpkg-shlibdeps", "dpkg-deb", "file")
              if not shutil.which(name)]
    return f"{', '.join(absent)} (tools/setup.sh kube)" if absent else None


def make_image(folder):
    """An archive of the worker's image."""
    if "MLBENCH_KUBE_IMAGE" in os.environ:
        return os.environ["MLBENCH_KUBE_IMAGE"]
    sys.path.insert(0, str(ROOT / "tests/packages"))
    import packages_test
    made = pathlib.Path(os.environ["MLBENCH_TEST_BINARY_DIR"], "packages")
    programs = pathlib.Path(os.environ["MLBENCH_TEST_BINARY_DIR"], "bin")
    newest = max((programs / name).stat().st_mtime for name in packages_test.PROGRAMS)
    found = [file for name in packages_test.PACKAGES for file in made.glob(f"{name}_*.deb")]
    if len(found) != len(packages_test.PACKAGES) or min(file.stat().st_mtime for file in found) < newest:
        made = None
    try:
        _, buildah = packages_test.make_images(folder, made or packages_test.make_packages(folder), "worker")
    except SystemExit as end:  # of which unittest makes nothing
        raise RuntimeError(f"no image: {end.code or 'a capability is missing (above)'}") from end
    archive = folder / "worker.tar"
    buildah("push", "--quiet", WORKER, f"docker-archive:{archive}:{WORKER}", seconds=600)
    shutil.rmtree(folder / "graph", ignore_errors=True)
    return archive


def setUpModule():
    global KUBE, FOLDER
    FOLDER = pathlib.Path(unittest.enterModuleContext(tempfile.TemporaryDirectory(prefix="mlk", dir="/tmp")))
    FOLDER.chmod(0o755)
    (FOLDER / "images").mkdir()
    archive = make_image(FOLDER / "images")
    KUBE = unittest.enterModuleContext(kube_cluster.KubeCluster(FOLDER / "kube"))
    KUBE.load(archive)
    for name in (NAMESPACE, "lab"):
        KUBE.kubectl("create", "namespace", name)


class ClusterTest(EngineCase):
    @staticmethod
    def objects_of_runs(namespace):
        """What runs have there: KIND/NAME."""
        found = KUBE.get("jobs,pods,services,secrets", "--namespace", namespace, "--selector", "mlbench/start")["items"]
        return [f"{one['kind']}/{one['metadata']['name']}" for one in found]

    @staticmethod
    def pods_of(namespace, run):
        """By rank."""
        found = KUBE.get("pods", "--namespace", namespace, "--selector", f"mlbench/run={run}")["items"]
        index = "batch.kubernetes.io/job-completion-index"
        return sorted(found, key=lambda pod: int(pod["metadata"]["labels"][index]))


class RunsTest(ClusterTest, RunsCase):
    """From the command line, by a kubeconfig."""

    def setUp(self):
        self.home = FOLDER / self._testMethodName
        self.mark = f"{self._testMethodName}-{os.getpid()}"
        self.environment = {**KUBE.environment, "MLBENCH_HOME": str(self.home), "MLBENCH_TEST_MARK": self.mark,
                            "MLBENCH_CORE_LOCK": str(FOLDER / "cores"), "MLBENCH_WORKER_IMAGE": WORKER}

    def tearDown(self):
        for folder in (self.home / "runs").glob("[!.]*"):  # of a test that failed
            if self.record(folder.name)["state"] not in (*ENDED, "absent"):
                self.mlbench("stop", folder.name)
        self.wait_for(lambda: not self.objects_of_runs(NAMESPACE), "nothing of runs is left in the cluster", 120,
                      lambda: self.objects_of_runs(NAMESPACE))
        self.wait_for(lambda: not self.processes(), "no process is left here", 60, self.processes)

    # ---- helpers

    def run_on_kubernetes(self, name, workers, *words, code=0):
        return self.mlbench("run", name, str(workers), "--executor", "kubernetes", "--namespace", NAMESPACE, "--local", *words,
                            code=code)

    def command(self, name, workers, script, *options, code=0):
        """A shell's, in an image of the user's own."""
        return self.run_on_kubernetes(name, workers, "--image", BUSYBOX, *options, "--", "sh", "-c", script, code=code)

    def log(self, name, rank):
        return (self.run_folder(name) / f"logs/rank-{rank}.seg-1.out").read_text()

    def told(self, name):
        with contextlib.suppress(OSError):
            supervisor = (self.run_folder(name) / "logs/supervisor.log").read_text()[-2000:]
            return f"{self.record(name)['notes']} {self.record(name).get('failure')} {supervisor}"
        return self.record(name)

    def wait_for_state(self, name, *states, patience_s=PATIENCE_S):
        self.wait_for(lambda: self.record(name)["state"] in states, f"{name} is {' or '.join(states)}", patience_s,
                      lambda: self.told(name))
        return self.record(name)

    def wait_for_ranks(self, name, count):
        """Until so many ranks have said "ready" in their logs, and their places are in the record."""
        def ready():
            logs = self.run_folder(name).glob("logs/rank-*.seg-1.out")
            return sum("ready" in log.read_text() for log in logs) == count and self.record(name).get("placement")
        self.wait_for(ready, f"{count} ranks of {name} run", PATIENCE_S, lambda: self.told(name))

    def assert_named(self, record, kind, rank):
        failure = record["failure"]
        self.assertEqual((failure["kind"], failure["rank"], failure["host"]), (kind, rank, record["placement"][rank]["host"]), failure)

    def sleepers(self, name, workers, *options):
        """A run of ranks that would run for ten minutes, at work."""
        self.command(name, workers, "echo ready; sleep 600", "--detach", *options)
        self.wait_for_ranks(f"{name}-{workers}", workers)
        return f"{name}-{workers}"

    # ---- runs that succeed

    def test_gloo_over_two_nodes_has_the_weights_of_a_local_run(self):
        self.run_on_kubernetes("nodes", 4, "--ranks-per-host", "2", *TASK, "--backend", "gloo")
        record = self.record("nodes-4")
        self.assertEqual(record["state"], "finished", record["failure"])
        self.assertEqual((record["executor"], record["exit_codes"]), ("kubernetes", [0, 0, 0, 0]))
        self.assertEqual(sorted(place["host"] for place in record["placement"]), ["n1", "n1", "n2", "n2"])
        allocation = record["allocation"]
        self.assertEqual((allocation["engine"], allocation["namespace"], allocation["nodes"], allocation["image"]),
                         ("kubernetes", NAMESPACE, ["n1", "n2"], WORKER))
        self.assertTrue(allocation["server"].startswith(kube_cluster.VERSION), allocation["server"])
        self.mlbench("run", "here", "4", *TASK, "--backend", "gloo", "--local")
        self.assertEqual(self.record("here-4")["weights_sha256"], record["weights_sha256"])

    def test_mpi_over_two_nodes_has_the_weights_of_a_local_run(self):
        self.run_on_kubernetes("mpi", 4, "--ranks-per-host", "2", *TASK, "--backend", "mpi")
        record = self.record("mpi-4")
        self.assertEqual(record["state"], "finished", record["failure"])
        self.assertEqual(record["exit_codes"], [0, 0, 0, 0])
        self.assertEqual(sorted(place["host"] for place in record["placement"]), ["n1", "n1", "n2", "n2"])
        self.mlbench("run", "here", "4", *TASK, "--backend", "mpi", "--local")
        self.assertEqual(self.record("here-4")["weights_sha256"], record["weights_sha256"])

    def test_the_network_of_the_nodes(self):
        """In place of the cluster's: the ranks' addresses are those of their nodes, and train the same."""
        name = self.sleepers("nets", 2, "--ranks-per-host", "1", "--host-network")
        for pod in self.pods_of(NAMESPACE, name):
            self.assertEqual(pod["status"]["podIP"], pod["status"]["hostIP"])
        self.mlbench("stop", name)
        self.wait_for_state(name, "stopped")
        for backend in ("gloo", "mpi"):
            weights = []
            for network in ([], ["--host-network"]):
                run = f"{backend}-{len(network)}"
                self.run_on_kubernetes(run, 2, "--ranks-per-host", "1", *TASK, "--backend", backend, *network)
                record = self.record(f"{run}-2")
                self.assertEqual(record["state"], "finished", record["failure"])
                weights.append(record["weights_sha256"])
            self.assertEqual(weights[0], weights[1])

    @unittest.skipUnless((DATASETS / "fashion-mnist").exists(), "missing capability: the package dataset-fashion-mnist")
    def test_data_of_a_volume(self):
        self.run_on_kubernetes("data", 2, "--data-volume", str(DATASETS), "--task", "fashion-mnist", *SETTINGS, "--max-steps", "10",
                               "--threads-per-worker", "1", "--ranks-per-host", "1")
        record = self.record("data-2")
        self.assertEqual(record["state"], "finished", record["failure"])
        self.assertEqual(sorted(place["host"] for place in record["placement"]), ["n1", "n2"])
        self.mlbench("run", "here", "2", "--task", "fashion-mnist", *SETTINGS, "--max-steps", "10", "--threads-per-worker", "1",
                     "--local")
        self.assertEqual(self.record("here-2")["weights_sha256"], record["weights_sha256"])

    def test_an_image_of_the_users_own(self):
        self.command("own", 2, "test ! -e /usr/lib/mlbench && echo $RANK of $WORLD_SIZE, {rank} of {hosts}, as $(id -u)")
        record = self.record("own-2")
        self.assertEqual(record["state"], "finished", record["failure"])
        job = record["allocation"]["job"]
        for rank in range(2):
            self.assertEqual(self.log("own-2", rank), f"{rank} of 2, {rank} of {job}-0.{job},{job}-1.{job}, as 10001\n")

    def test_ranks_find_each_other_by_name(self):
        # Rank 0 is heard at its name from another node.
        script = ("if [ $RANK = 0 ]; then timeout 60 nc -l -p 29000 >/tmp/said; grep -qx hello /tmp/said; else "
                  "for i in $(seq 60); do echo hello | nc -w 5 $MASTER_ADDR 29000 && exit 0; sleep 0.5; done; exit 1; fi")
        self.command("names", 2, script, "--ranks-per-host", "1")
        record = self.record("names-2")
        self.assertEqual((record["state"], record["exit_codes"]), ("finished", [0, 0]), record["failure"])

    def test_a_silent_server_loses_no_run(self):
        self.command("quiet", 2, "echo ready; sleep 20", "--detach")
        self.wait_for_ranks("quiet-2", 2)
        server = int((KUBE.folder / "pids/apiserver").read_text())
        os.kill(server, signal.SIGSTOP)
        try:
            time.sleep(12)
            self.assertEqual(self.record("quiet-2")["state"], "running")
        finally:
            os.kill(server, signal.SIGCONT)
        self.assertEqual(self.wait_for_state("quiet-2", *ENDED)["state"], "finished")

    def test_no_secret_is_shown(self):
        self.environment["TEST_TOKEN"] = "open-sesame"
        self.command("hush", 1, "test $TEST_TOKEN = open-''sesame && echo ready && sleep 600", "--detach", "--env", "TEST_TOKEN")
        self.wait_for_ranks("hush-1", 1)
        found = KUBE.get("jobs,pods,services,secrets", "--namespace", NAMESPACE, "--selector", "mlbench/start")["items"]
        hidden = [base64.b64decode(value).decode() for one in found if one["kind"] == "Secret" for name, value in one["data"].items()
                  if "SECRET" in name or "TOKEN" in name]
        self.assertIn("open-sesame", hidden)
        self.assertGreater(len(hidden), 1, "a guard has a secret of its own")
        shown = json.dumps([one for one in found if one["kind"] != "Secret"])
        for secret in hidden:
            self.assertNotIn(secret, shown)
        self.mlbench("stop", "hush-1")
        self.wait_for_state("hush-1", "stopped")

    # ---- what is refused

    def test_a_task_without_an_image(self):
        del self.environment["MLBENCH_WORKER_IMAGE"]
        said = self.run_on_kubernetes("no", 2, *TASK, code=INPUT)
        self.assertIn("--image", said)

    def test_an_image_that_is_not_there(self):
        self.run_on_kubernetes("no", 2, "--image", "mlbench.test/nosuch:1", "--", "true", code=RUN_FAILED)
        self.assertRegex(self.record("no-2")["failure"]["message"], "ErrImagePull|ImagePullBackOff")

    def test_a_namespace_that_is_not_there(self):
        said = self.mlbench("run", "no", "2", "--executor", "kubernetes", "--namespace", "nosuch", "--local", "--image", BUSYBOX,
                            "--", "true", code=RUN_FAILED)
        self.assertIn("nosuch", said + json.dumps(self.record("no-2")["failure"]))

    # ---- runs that fail

    def test_a_rank_that_fails_is_named_with_all_codes(self):
        self.command("codes", 4, "[ $RANK = 2 ] && exit 7; sleep 600", code=RUN_FAILED)
        record = self.record("codes-4")
        self.assertEqual((record["state"], record["failure"]["rank"]), ("failed", 2), record["failure"])
        self.assertEqual(record["failure"]["host"], record["placement"][2]["host"])
        self.assertEqual(record["exit_codes"][2], 7)

    def under_mpi(self, name, script):
        self.run_on_kubernetes(name, 2, "--image", WORKER, "--backend", "mpi", "--ranks-per-host", "1", "--", "sh", "-c", script,
                               code=RUN_FAILED)
        return self.record(f"{name}-2")

    def test_a_rank_that_fails_under_mpi(self):
        record = self.under_mpi("abort", "[ $OMPI_COMM_WORLD_RANK = 1 ] && exit 7; sleep 600")
        self.assertEqual((record["failure"]["rank"], record["exit_codes"][1]), (1, 7), record["failure"])

    def test_a_daemon_of_open_mpi_that_is_killed(self):
        kill = "for p in /proc/[0-9]*; do [ \"$(cat $p/comm)\" = orted ] && kill -9 ${p#/proc/}; done"
        record = self.under_mpi("daemon", f"sleep 2; [ $RANK = 1 ] && {kill}; sleep 600")
        self.assertRegex(record["failure"]["message"], "beside rank 1 on n[12]: Open MPI's daemon was killed by signal 9")

    def test_an_image_without_open_mpi(self):
        self.command("bare", 2, "true", "--backend", "mpi", code=RUN_FAILED)
        self.assertRegex(self.record("bare-2")["failure"]["message"], "rank 0 on n[12]: cannot start 'mpirun'")

    def test_out_of_memory(self):
        self.command("hungry", 2, "[ $RANK = 1 ] && exec dd if=/dev/zero of=/dev/null bs=300M count=1; sleep 600", "--memory", "64Mi",
                     code=RUN_FAILED)
        record = self.record("hungry-2")
        self.assertEqual((record["failure"]["kind"], record["failure"]["rank"]), ("rank_died", 1), record["failure"])
        self.assertRegex(record["failure"]["message"], "out of memory|OOMKilled")

    def test_a_pod_that_is_deleted_is_not_replaced(self):
        name = self.sleepers("cut", 2)
        pods = self.pods_of(NAMESPACE, name)
        KUBE.kubectl("delete", "pod", pods[1]["metadata"]["name"], "--namespace", NAMESPACE, "--wait=false")
        record = self.wait_for_state(name, *ENDED)
        self.assertEqual(record["state"], "failed")
        self.assertRegex(record["failure"]["message"], "deleted|disrupted")
        self.assert_named(record, "rank_died", 1)
        for rank in range(2):
            self.assertEqual(self.log(name, rank).count("ready"), 1, "ranks began twice")

    def test_an_eviction_is_said(self):
        name = self.sleepers("evicted", 2)
        pod = self.pods_of(NAMESPACE, name)[0]["metadata"]["name"]
        KUBE.kubectl("create", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction", "--filename", "-", text=json.dumps(
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}))
        record = self.wait_for_state(name, *ENDED)
        self.assertEqual(record["state"], "failed")
        self.assertRegex(record["failure"]["message"], "EvictionByEvictionAPI|evicted")
        self.assert_named(record, "rank_died", 0)

    def test_a_rank_of_a_task_that_fails_is_named_though_its_job_deletes_the_others(self):
        """The supervisor waits a moment for the cause; in that, Kubernetes sees the pod's end."""
        self.run_on_kubernetes("task", 3, *TASK[:-4], "--max-steps", "100000", "--threads-per-worker", "1", "--backend", "gloo",
                               "--detach")
        self.wait_for_state("task-3", "running")
        steps = self.run_folder("task-3") / "spool/rank-1.seg-1.steps"
        self.wait_for(lambda: steps.exists() and steps.stat().st_size > 0, "it works", PATIENCE_S, lambda: self.told("task-3"))
        pod = self.pods_of(NAMESPACE, "task-3")[1]["metadata"]["name"]
        KUBE.kubectl("exec", pod, "--namespace", NAMESPACE, "--", "sh", "-c",
                     "for p in /proc/[0-9]*; do grep -q '^mlbench-worker' $p/comm && kill -9 ${p#/proc/}; done; true")
        record = self.wait_for_state("task-3", *ENDED)
        self.assertEqual(record["state"], "failed")
        self.assert_named(record, "rank_died", 1)
        self.assertIn("SIGKILL", record["failure"]["message"])

    def test_a_job_that_is_deleted(self):
        name = self.sleepers("gone", 2)
        [job] = KUBE.get("jobs", "--namespace", NAMESPACE)["items"]
        KUBE.kubectl("delete", "job", job["metadata"]["name"], "--namespace", NAMESPACE, "--wait=false")
        record = self.wait_for_state(name, *ENDED)
        self.assertEqual(record["state"], "failed")
        self.assertRegex(record["failure"]["message"], "deleted|deletes")

    def test_a_node_that_is_cut_off(self):
        name = self.sleepers("lost", 4, "--ranks-per-host", "2")
        ranks = [place["rank"] for place in self.record(name)["placement"] if place["host"] == "n2"]
        self.assertEqual(len(ranks), 2)
        begin = time.monotonic()
        KUBE.cut("n2")
        try:
            record = self.wait_for_state(name, *ENDED, patience_s=LOST_WITHIN_S)
            self.assertLess(time.monotonic() - begin, LOST_WITHIN_S)
            self.assertEqual((record["state"], record["failure"]["kind"]), ("failed", "host_lost"), record["failure"])
            self.assertEqual(record["failure"]["host"], "n2")
            self.assertIn(record["failure"]["rank"], ranks)
            # On the node that is there nothing stays; of the other Kubernetes keeps the pods until it is back.
            self.wait_for(lambda: all(pod["spec"]["nodeName"] == "n2" for pod in self.pods_of(NAMESPACE, name)),
                          "the pods of n1 are gone", 60)
        finally:
            KUBE.heal("n2")

    def test_pods_without_their_supervisor_end(self):
        name = self.sleepers("alone", 2)
        for pid, (program, _, _) in self.processes().items():
            if program.startswith("mlbench"):
                os.kill(pid, signal.SIGKILL)
        self.wait_for(lambda: all(pod["status"]["phase"] in ("Failed", "Succeeded") for pod in self.pods_of(NAMESPACE, name)),
                      "the pods end by themselves", 60)
        [job] = KUBE.get("jobs", "--namespace", NAMESPACE)["items"]
        self.assertGreater(job["spec"]["ttlSecondsAfterFinished"], 0, "Kubernetes is to remove it")
        # Whoever finds the run lost does not leave it to that.
        self.assertIn("supervisor", self.mlbench("status", name))
        failure = self.record(name)["failure"]
        self.assertEqual(failure["kind"], "supervisor_lost")
        self.assertIn(f"its job {job['metadata']['name']} of kubernetes was withdrawn", failure["message"])
        self.wait_for(lambda: not KUBE.get("jobs", "--namespace", NAMESPACE)["items"], "the job is gone", 60)

    def test_what_kubernetes_warns_of_is_noted(self):
        self.command("mount", 1, "true", "--detach", "--data-volume", "/no/such/folder")
        self.wait_for(lambda: any("FailedMount" in note for note in self.record("mount-1")["notes"]), "the run says why it does not start",
                      PATIENCE_S, lambda: self.told("mount-1"))
        self.assertEqual(len([note for note in self.record("mount-1")["notes"] if "FailedMount" in note]), 1)
        self.mlbench("stop", "mount-1")
        self.wait_for_state("mount-1", "stopped")

    # ---- the queue, and stops

    def test_a_stop_while_it_waits_for_a_node(self):
        self.command("waits", 2, "true", "--detach", "--memory", "900Gi")
        self.wait_for(lambda: any("Insufficient memory" in note for note in self.record("waits-2")["notes"]),
                      "the run says what it waits for", PATIENCE_S, lambda: self.told("waits-2"))
        self.wait_for_state("waits-2", "queued")  # the event may be seen before the pods' condition
        self.mlbench("stop", "waits-2")
        self.assertIsNone(self.wait_for_state("waits-2", "stopped")["placement"])

    def test_no_other_run_comes_to_its_nodes(self):
        first = self.sleepers("first", 2, "--ranks-per-host", "1")
        self.command("second", 2, "echo ready", "--detach", "--ranks-per-host", "1")
        self.wait_for(lambda: any("anti-affinity" in note for note in self.record("second-2")["notes"]),
                      "the second says what it waits for", PATIENCE_S, lambda: self.told("second-2"))
        # A run that would share a node does not come to one of a run that does not share.
        self.command("third", 1, "echo ready", "--detach", "--share-host")
        self.wait_for(lambda: any("anti-affinity" in note for note in self.record("third-1")["notes"]),
                      "the third says what it waits for", PATIENCE_S, lambda: self.told("third-1"))
        self.mlbench("stop", first)
        for name in ("second-2", "third-1"):
            self.assertEqual(self.wait_for_state(name, *ENDED, patience_s=GOES_ON_WITHIN_S)["state"], "finished")

    def test_runs_that_share_their_nodes(self):
        names = [self.sleepers(name, 2, "--ranks-per-host", "1", "--share-host") for name in ("one", "two")]
        for name in names:
            record = self.record(name)
            self.assertEqual((record["state"], record["shared_host"]), ("running", True))
            self.assertEqual(sorted(place["host"] for place in record["placement"]), ["n1", "n2"])
            self.mlbench("stop", name)

    def test_a_stop_while_it_waits_for_admission(self):
        # Nobody admits: there is no Kueue here.
        self.command("kueue", 2, "true", "--detach", "--queue", "team")
        self.wait_for(lambda: any("Kueue" in note for note in self.record("kueue-2")["notes"]), "the run says what it waits for",
                      PATIENCE_S, lambda: self.told("kueue-2"))
        [job] = KUBE.get("jobs", "--namespace", NAMESPACE)["items"]
        self.assertEqual(job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "team")
        self.assertTrue(job["spec"]["suspend"])
        self.mlbench("stop", "kueue-2")
        self.wait_for_state("kueue-2", "stopped")

    def test_admission_starts_it(self):
        self.command("let", 2, "echo ready", "--detach", "--queue", "team")
        self.wait_for(lambda: any("Kueue" in note for note in self.record("let-2")["notes"]), "the run waits", PATIENCE_S,
                      lambda: self.told("let-2"))
        [job] = KUBE.get("jobs", "--namespace", NAMESPACE)["items"]
        KUBE.kubectl("patch", "job", job["metadata"]["name"], "--namespace", NAMESPACE, "--patch", '{"spec": {"suspend": false}}')
        self.assertEqual(self.wait_for_state("let-2", *ENDED)["state"], "finished")

    def test_a_stop_of_what_runs(self):
        name = self.sleepers("ends", 2)
        self.mlbench("stop", name)
        self.assertEqual(self.wait_for_state(name, *ENDED)["state"], "stopped")

    # ---- manifests

    def test_the_server_takes_what_is_printed(self):
        said = subprocess.run([mlbench_path(), "run", "by-others", "2", "--executor", "kubernetes", "--namespace", NAMESPACE, "--image",
                               WORKER, "--local", "--emit", "job", *TASK], env=self.environment, capture_output=True, text=True,
                              timeout=PATIENCE_S, cwd="/tmp")
        self.assertEqual(said.returncode, 0, said.stderr)
        objects = json.loads(said.stdout)
        objects = objects if isinstance(objects, list) else objects["items"]
        names = [f"{one['kind'].lower()}/{one['metadata']['name']}" for one in objects]
        KUBE.apply(*objects)
        try:
            [job] = [name for name in names if name.startswith("job/")]
            KUBE.kubectl("wait", "--for=condition=complete", job, "--namespace", NAMESPACE, "--timeout=120s", timeout=130)
        finally:
            KUBE.kubectl("delete", *names, "--namespace", NAMESPACE)


class ChartTest(ClusterTest):
    """Two releases in one namespace: `a`, whose store is a volume, and `b`."""

    @classmethod
    def setUpClass(cls):
        # Nobody makes volumes here: one that is there.
        store = FOLDER / "store"
        store.mkdir()
        os.chown(store, MASTER_USER, MASTER_USER)
        size = {"storage": "1Gi"}
        KUBE.apply(
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a-store"},
             "spec": {"capacity": size, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": str(store)}, "storageClassName": ""}})
        cls.install("a", "--set", "store.storageClass=-,store.size=1Gi,limits.workers=3")
        cls.install("b", "--set", "store.enabled=false")

    @classmethod
    def tearDownClass(cls):
        for release in ("a", "b"):
            with contextlib.suppress(RuntimeError):
                cls.helm("uninstall", release, "--namespace", "lab", "--wait")

    @classmethod
    def helm(cls, *words, timeout=240):
        return KUBE.run([KUBE.bin / "helm", *words], timeout=timeout)

    @classmethod
    def install(cls, release, *options, verb="install"):
        repository, tag = WORKER.rsplit(":", 1)
        images = ",".join(f"{who}.image.repository={repository},{who}.image.tag={tag},{who}.image.pullPolicy=Never"
                          for who in ("master", "worker"))
        try:
            return cls.helm(verb, release, CHART, "--namespace", "lab", "--wait", "--timeout", "3m", "--set", images, "--set",
                            "resources.requests.cpu=0", *options)
        except RuntimeError as error:
            pods = KUBE.kubectl("describe", "pods", "--namespace", "lab")
            raise RuntimeError(f"{error}\n{pods}") from error

    def token(self, release):
        return base64.b64decode(KUBE.get("secret", f"{release}-token", "--namespace", "lab")["data"]["token"]).decode()

    @contextlib.contextmanager
    def master(self, release):
        """call(method, path, body) asks it, through kubectl port-forward."""
        forward = subprocess.Popen([KUBE.bin / "kubectl", "port-forward", "--namespace", "lab", f"service/{release}-master", ":80"],
                                   env=KUBE.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            line = forward.stdout.readline()
            found = re.search(r"127\.0\.0\.1:(\d+) ->", line)
            self.assertTrue(found, line + (forward.stdout.read() if forward.poll() is not None else ""))
            yield caller(f"http://127.0.0.1:{found[1]}", self.token(release))
        finally:
            forward.terminate()
            forward.wait(timeout=30)
            forward.stdout.close()

    def ended(self, call, name):
        self.wait_for(lambda: call("GET", f"/runs/{name}")["state"] in ENDED, f"{name} ended", PATIENCE_S,
                      lambda: call("GET", f"/runs/{name}"))
        return call("GET", f"/runs/{name}")

    @staticmethod
    def command(name, workers, script, **others):
        return {"name": name, "workers": [workers], "executor": "kubernetes", "image": BUSYBOX, "command": ["sh", "-c", script],
                "work_dir": "/tmp", **others}

    def pod_of(self, release):
        [pod] = KUBE.get("pods", "--namespace", "lab", "--selector",
                         f"app.kubernetes.io/instance={release},app.kubernetes.io/component=master")["items"]
        return pod["metadata"]["name"]

    # ---- the chart

    def test_lint(self):
        self.assertIn("0 chart(s) failed", self.helm("lint", "--strict", CHART))

    def test_the_golden_rendering(self):
        for variant in rendered_chart.VARIANTS:
            self.assertEqual(rendered_chart.render(variant, str(KUBE.bin / "helm")), rendered_chart.golden(variant)["objects"],
                             f"{variant}: python3 tests/kubernetes/rendered_chart.py writes the golden ones anew")

    def test_values_that_are_refused(self):
        for values, word in (("limits.workers=0", "workers"), ("limits.workers=many", "workers"), ("weave.enabled=true", "weave"),
                             ("master.service.type=ExternalName", "type"), ("limits.cpu=500m", "cpu"),
                             ("datasets.existingClaim=one,datasets.hostPath=/two", "datasets"), ("store.size=big", "size")):
            with self.assertRaisesRegex(RuntimeError, rf"(?s)values don't meet.*{word}", msg=values):
                self.helm("template", "x", CHART, "--set", values)
        with self.assertRaisesRegex(RuntimeError, "wants TLS"):
            self.helm("template", "x", CHART, "--set", "master.service.type=LoadBalancer")

    def test_notes_say_what_to_type_and_no_token(self):
        notes = self.helm("get", "notes", "a", "--namespace", "lab")
        self.assertIn("kubectl --namespace lab port-forward service/a-master", notes)
        self.assertNotIn(self.token("a"), notes)

    def test_the_master_is_nobody_on_a_read_only_disk(self):
        def inside(*words):
            return KUBE.kubectl("exec", "--namespace", "lab", self.pod_of("a"), "--container", "master", "--", *words)
        self.assertEqual(inside("id", "-u").strip(), str(MASTER_USER))
        self.assertEqual(inside("stat", "-c", "%a", "/run/mlbench/token").strip(), "600")
        with self.assertRaisesRegex(RuntimeError, "Read-only file system"):
            inside("touch", "/home/mlbench/new")

    # ---- runs of a master

    def test_a_task_that_names_nothing_of_the_cluster(self):
        with self.master("a") as call:
            call("POST", "/runs", {"name": "plain", "workers": [2], "task": "fashion-mnist", "synthetic": True, "max_steps": "10",
                                   "set": ["batch_size=50", "goal.target=1000"], "threads_per_worker": "1"})
            record = self.ended(call, "plain-2")
            self.assertEqual(record["state"], "finished", record["failure"])
            self.assertEqual((record["executor"], record["allocation"]["image"]), ("kubernetes", WORKER))

    def test_more_than_the_limit_is_refused(self):
        with self.master("a") as call:
            with self.assertRaises(urllib.error.HTTPError) as refused:
                call("POST", "/runs", self.command("wide", 4, "true"))
            self.assertEqual(refused.exception.code, 400)
            self.assertIn("3", json.loads(refused.exception.read())["message"])

    def test_two_releases_side_by_side(self):
        with self.master("a") as first, self.master("b") as second:
            script = "echo rank $RANK; sleep 10"
            for call in (first, second):
                call("POST", "/runs", self.command("same", 1, script))
            for release in ("a", "b"):
                labels = f"app.kubernetes.io/instance={release},app.kubernetes.io/component=rank,mlbench/run=same-1"
                pods = self.wait_for(lambda: KUBE.get("pods", "--namespace", "lab", "--selector", labels)["items"],
                                     f"{release} has a rank")
                self.assertEqual(len(pods), 1)
            nodes = {self.wait_for(lambda: [one["spec"].get("nodeName") for one in KUBE.get(
                "pods", "--namespace", "lab", "--selector", f"app.kubernetes.io/instance={release},mlbench/run=same-1")["items"]
                if one["spec"].get("nodeName")], "it has a node")[0] for release in ("a", "b")}
            self.assertEqual(len(nodes), 2, "no measurement shares a node with another release's")
            records = [self.ended(call, "same-1") for call in (first, second)]
            self.assertEqual([one["state"] for one in records], ["finished", "finished"])
            self.assertNotEqual(records[0]["allocation"]["job"], records[1]["allocation"]["job"])
        self.wait_for(lambda: not self.objects_of_runs("lab"), "nothing of the runs is left", 60)

    def test_a_stop_over_rest(self):
        with self.master("b") as call:
            call("POST", "/runs", self.command("halt", 2, "sleep 600"))
            self.wait_for(lambda: call("GET", "/runs/halt-2")["state"] == "running", "it runs", PATIENCE_S,
                          lambda: call("GET", "/runs/halt-2"))
            call("POST", "/runs/halt-2/stop", {})
            self.assertEqual(self.ended(call, "halt-2")["state"], "stopped")
        self.wait_for(lambda: not self.objects_of_runs("lab"), "nothing of the run is left", 60)

    def sleepers_of(self, release, name, workers):
        """A run at work, whose job belongs to the master's pod, of which this is the name."""
        with self.master(release) as call:
            call("POST", "/runs", self.command(name, workers, "sleep 600"))
            self.wait_for(lambda: call("GET", f"/runs/{name}-{workers}")["state"] == "running", "it runs", PATIENCE_S,
                          lambda: call("GET", f"/runs/{name}-{workers}"))
        pod = self.pod_of(release)
        [job] = KUBE.get("jobs", "--namespace", "lab", "--selector", f"mlbench/run={name}-{workers}")["items"]
        self.assertEqual([(owner["kind"], owner["name"]) for owner in job["metadata"]["ownerReferences"]], [("Pod", pod)])
        return pod

    def wait_for_another(self, release, before):
        def there():
            found = KUBE.get("pods", "--namespace", "lab", "--selector",
                             f"app.kubernetes.io/instance={release},app.kubernetes.io/component=master")["items"]
            ready = [one["metadata"]["name"] for one in found
                     if all(each["ready"] for each in one["status"].get("containerStatuses", [{"ready": False}]))]
            return len(found) == 1 and ready and ready != [before]
        self.wait_for(there, f"{release} has another master", PATIENCE_S)

    def test_a_restart_of_the_master(self):
        """Supervisors live in the master's pod, and end with it: it stops their runs first; what was done stays."""
        with self.master("a") as call:
            call("POST", "/runs", self.command("done", 1, "echo ready"))
            self.assertEqual(self.ended(call, "done-1")["state"], "finished")
        before = self.sleepers_of("a", "ends", 2)
        KUBE.kubectl("delete", "pod", before, "--namespace", "lab", timeout=120)
        self.wait_for(lambda: not self.objects_of_runs("lab"), "nothing of the run is left", 60, lambda: self.objects_of_runs("lab"))
        self.wait_for_another("a", before)
        with self.master("a") as call:
            self.assertEqual(call("GET", "/runs/ends-2")["state"], "stopped")
            self.assertEqual(call("GET", "/runs/done-1")["state"], "finished")
            # The new one goes on where the old one was.
            call("POST", "/runs", self.command("next", 1, "true"))
            self.assertEqual(self.ended(call, "next-1")["state"], "finished")

    def test_a_master_that_crashes(self):
        """Within its container: another process takes its place, and finds the run, whose supervisor never ended."""
        pod = self.sleepers_of("a", "stays", 2)

        def masters():
            """The process that serves, whose parent keeps it: by their command lines they are the same."""
            found = {}
            for pid in slurm_cluster.pids():
                with contextlib.suppress(OSError):
                    if (slurm_cluster.environment_of(pid).get("MLBENCH_POD_NAME") == pod
                            and pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"mlbench\0serve\0")):
                        found[pid] = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            return [pid for pid, parent in found.items() if parent in found]

        [before] = masters()
        os.kill(before, signal.SIGKILL)
        self.wait_for(lambda: masters() not in ([], [before]), "another process serves")
        self.assertEqual(self.pod_of("a"), pod)
        [status] = KUBE.get("pod", pod, "--namespace", "lab")["status"]["containerStatuses"]
        self.assertEqual(status["restartCount"], 0)
        with self.master("a") as call:
            self.assertEqual(call("GET", "/runs/stays-2")["state"], "running")
            call("POST", "/runs/stays-2/stop", {})
            self.assertEqual(self.ended(call, "stays-2")["state"], "stopped")

    def test_a_master_that_is_lost(self):
        """No time to end in order: its runs are lost, and said to be, and Kubernetes removes their jobs with its pod."""
        before = self.sleepers_of("a", "lost", 2)
        stopped = 0
        for pid in slurm_cluster.pids():  # a pod gets two seconds to end, whoever deletes it
            words = pathlib.Path(f"/proc/{pid}/cmdline")
            with contextlib.suppress(OSError):
                if slurm_cluster.environment_of(pid).get("MLBENCH_POD_NAME") == before and b"\0supervise\0" in words.read_bytes():
                    os.kill(pid, signal.SIGSTOP)
                    stopped += 1
        self.assertEqual(stopped, 1)
        KUBE.kubectl("delete", "pod", before, "--namespace", "lab", "--grace-period=0", "--force", timeout=120)
        self.wait_for(lambda: not self.objects_of_runs("lab"), "Kubernetes removed what the lost run had", 120,
                      lambda: self.objects_of_runs("lab"))
        self.wait_for_another("a", before)
        with self.master("a") as call:
            record = self.ended(call, "lost-2")
            self.assertEqual((record["state"], record["failure"]["kind"]), ("failed", "supervisor_lost"))

    def test_a_command_finds_its_master(self):
        with self.master("b") as call:
            call("POST", "/runs", self.command("finds", 1, "wget -q -O - $MLBENCH_URL/api/v1/health"))
            record = self.ended(call, "finds-1")
            self.assertEqual(record["state"], "finished", record["failure"])

    # ---- rights

    def test_the_service_account_can_do_what_it_needs_and_no_more(self):
        config = FOLDER / "a-master.conf"
        KUBE.write_config(config, KUBE.kubectl("create", "token", "a-master", "--namespace", "lab").strip(), "lab")

        def asked(*words, text=None):
            return KUBE.kubectl("--kubeconfig", config, *words, text=text)

        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "lab"}}
        status = json.loads(asked("create", "--raw", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", "--filename", "-",
                                  text=json.dumps(review)))["status"]
        rights = {(group, resource, verb) for rule in status["resourceRules"] for group in rule["apiGroups"]
                  for resource in rule["resources"] for verb in rule["verbs"]
                  if not group.startswith(("authorization.", "authentication."))}
        self.assertEqual(rights, rendered_chart.RIGHTS)
        self.assertIn("a-master", asked("get", "pods"))
        for refused in (["get", "secrets"], ["get", "secret", "a-token"], ["get", "nodes"], ["get", "configmaps"],
                        ["get", "pods", "--namespace", NAMESPACE], ["get", "secrets", "--namespace", "kube-system"],
                        ["create", "token", "a-master"], ["exec", self.pod_of("b"), "--", "true"],
                        ["delete", "service", "b-master"], ["delete", "pod", self.pod_of("b")],
                        ["create", "namespace", "more"], ["create", "job", "x", "--image", "x", "--namespace", NAMESPACE]):
            with self.assertRaisesRegex(RuntimeError, "orbidden", msg=refused):
                asked(*refused)

    def test_pods_of_runs_have_no_account(self):
        with self.master("b") as call:
            call("POST", "/runs", self.command("bare", 1, "test ! -e /var/run/secrets/kubernetes.io && id -u && ! touch /x"))
            self.assertEqual(self.ended(call, "bare-1")["state"], "finished")

    # ---- upgrade and end

    def test_an_upgrade_keeps_token_and_runs(self):
        with self.master("a") as call:
            call("POST", "/runs", self.command("kept", 1, "true"))
            self.ended(call, "kept-1")
        token, before = self.token("a"), self.pod_of("a")
        self.install("a", "--set", "store.storageClass=-,store.size=1Gi,limits.workers=3,master.allowHosts={bench.example}", verb="upgrade")
        self.assertEqual(self.token("a"), token)
        self.assertNotEqual(self.pod_of("a"), before)
        with self.master("a") as call:
            self.assertEqual(call("GET", "/runs/kept-1")["state"], "finished")
        with self.assertRaisesRegex(RuntimeError, "values don't meet"):
            self.install("a", "--set", "limits.workers=0", verb="upgrade")
        self.assertEqual(self.token("a"), token)

    def test_an_uninstall_leaves_nothing_but_the_store(self):
        self.install("c", "--set", "store.enabled=false")
        with self.master("c") as call:
            call("POST", "/runs", self.command("still", 1, "sleep 600"))
            self.wait_for(lambda: call("GET", "/runs/still-1")["state"] == "running", "it runs")
        self.helm("uninstall", "c", "--namespace", "lab", "--wait")
        kinds = "deployments,replicasets,services,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,pvc,jobs,pods"

        def left():
            found = KUBE.get(kinds, "--namespace", "lab", "--selector", "app.kubernetes.io/instance=c")["items"]
            return [f"{one['kind']}/{one['metadata']['name']}" for one in found]

        self.wait_for(lambda: not left(), "nothing of the release is left", REMOVED_WITHIN_S, left)
        claims = KUBE.get("pvc", "--namespace", "lab")["items"]
        self.assertEqual([one["metadata"]["name"] for one in claims], ["a-store"])
        self.assertEqual(claims[0]["metadata"]["annotations"]["helm.sh/resource-policy"], "keep")


if __name__ == "__main__":
    main(lacking())
