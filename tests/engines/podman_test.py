"""Commands in an image, in containers of the real podman (executor local), as root.

    podman_test.py [unittest arguments]      needs MLBENCH_BIN_DIR (or MLBENCH_TEST_MLBENCH), root, podman, busybox-static

Images, containers and settings are those of a folder of the test: what this machine has of podman stays as it is.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tarfile
import tempfile
import unittest

from engine_case import EngineCase, main, mlbench_path

IMAGE = "localhost/busybox:test"
BUSYBOX = pathlib.Path("/bin/busybox")
RUN_FAILED, STOPPED = 5, 130
# A guard whose supervisor is gone waits 10 s for it.
GONE_WITHIN_S = 30
STORAGE = """[storage]
driver = "vfs"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
"""
# crun refuses the older groups of a kernel, and limits may not be raised in every machine.
SETTINGS = """[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "{runtime}"
"""


def make_engine(folder):
    """The variables with which podman works in `folder`, with the image in it; the reason where it does not."""
    if os.geteuid() != 0:
        return None, "root"
    for program, package in (("podman", "podman"), (str(BUSYBOX), "busybox-static")):
        if shutil.which(program) is None:
            return None, f"{program} (package {package})"
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    with tarfile.open(folder / "image.tar", "w") as image:
        image.add(BUSYBOX, "bin/busybox")
        for name in ("sh", "sleep", "id"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            image.addfile(link)
    why = "crun or runc"
    for runtime in filter(shutil.which, ("crun", "runc")):
        (folder / "containers.conf").write_text(SETTINGS.format(runtime=runtime))
        environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
                       "CONTAINERS_CONF": str(folder / "containers.conf")}
        subprocess.run(["podman", "import", "--quiet", folder / "image.tar", IMAGE], env=environment, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        tried = subprocess.run(["podman", "run", "--rm", "--network", "host", IMAGE, "sh", "-c", "true"], env=environment,
                               text=True, capture_output=True, timeout=60)
        if tried.returncode == 0:
            return environment, ""
        why = f"containers of {runtime}: {tried.stderr.strip()}"
    return None, why


MPI_IMAGE = "localhost/openmpi:test"
MPI_PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int count, char** words) {
  MPI_Init(&count, &words);
  int rank, size, numbers = 1 << 20;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double *own = malloc(8 * numbers), *sum = malloc(8 * numbers);
  for (int i = 0; i < numbers; ++i) own[i] = rank + 1;
  for (int again = 0; again < 5; ++again) MPI_Allreduce(own, sum, numbers, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  printf("%d of %d: %g\n", rank, size, sum[numbers - 1]);
  MPI_Finalize();
  return count > 1 ? atoi(words[1]) : 0;
}
"""


def make_mpi_image(folder):
    """An image with a program that uses Open MPI, of the files that this machine has of that."""
    (folder / "sum.c").write_text(MPI_PROGRAM)
    subprocess.run(["mpicc", "-o", folder / "sum", folder / "sum.c"], check=True, timeout=60)
    said = subprocess.run(["mpicc", "--showme:libdirs"], check=True, text=True, capture_output=True).stdout
    folders = [pathlib.Path(found, name) for found in ["/usr/lib/x86_64-linux-gnu", *said.split()]
               for name in ("openmpi", "openmpi3", "pmix2", "pmix")]
    folders += map(pathlib.Path, ("/etc/openmpi", "/usr/share/openmpi", "/usr/share/pmix", "/usr/share/pmix2"))
    files = {str(file) for one in folders for file in one.rglob("*") if file.is_file()}
    programs = [str(folder / "sum"), *(file for file in files if ".so" in file)]
    said = subprocess.run(["ldd", *programs], text=True, capture_output=True, timeout=60).stdout
    files |= {word for word in said.split() if word.startswith("/") and not word.endswith(":")}
    with tarfile.open(folder / "mpi.tar", "w", dereference=True) as image:
        image.add(folder / "sum", "bin/sum")
        for file in sorted(files):
            image.add(file, file.lstrip("/"))
    subprocess.run(["podman", "import", "--quiet", folder / "mpi.tar", MPI_IMAGE], env=ENGINE, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class PodmanTest(EngineCase):
    def setUp(self):
        self.home = FOLDER / self._testMethodName
        self.environment = {**ENGINE, "MLBENCH_HOME": str(self.home), "MLBENCH_CORE_LOCK": str(FOLDER / "cores")}

    def tearDown(self):
        self.wait_for(lambda: not self.containers(), f"containers stay: {self.containers()}", GONE_WITHIN_S)

    # ---- helpers

    def podman(self, *words):
        return subprocess.run(["podman", *words], env=ENGINE, check=True, text=True, stdout=subprocess.PIPE,
                              timeout=60).stdout

    def containers(self):
        return self.podman("ps", "--all", "--format", "{{.Names}}").split()

    def words(self, script, image=IMAGE, name="own", ranks=2):
        return [mlbench_path(), "run", name, str(ranks), "--local", "--image", image, "--", "sh", "-c", script]

    def mlbench(self, *given, code=0, **options):
        done = subprocess.run(self.words(*given, **options), env=self.environment, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)

    def begin(self, *options):
        """A run that goes on and on, once all of its ranks do."""
        words = self.words("sleep 4711 & echo here; while sleep 1; do :; done")
        words[words.index("--"):words.index("--")] = options
        process = subprocess.Popen(words, env=self.environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait, 60)
        self.wait_for(lambda: [self.log(rank) for rank in (0, 1)] == ["here\n"] * 2, "both ranks speak")
        return process

    def kill_supervisor(self):
        said = subprocess.run(["pgrep", "--full", f"supervise.*{self.home}"], text=True, stdout=subprocess.PIPE)
        self.assertTrue(said.stdout.split(), "no supervisor")
        for pid in said.stdout.split():
            os.kill(int(pid), signal.SIGKILL)

    def nothing_is_left(self):
        left = ["pgrep", "--full", "^sleep 4711"]
        self.wait_for(lambda: subprocess.run(left, stdout=subprocess.DEVNULL).returncode == 1, "what ranks started ends",
                      GONE_WITHIN_S)

    def log(self, rank):
        file = self.home / f"runs/own-2/logs/rank-{rank}.seg-1.out"
        return file.read_text() if file.exists() else ""

    def record(self):
        return json.loads((self.home / "runs/own-2/run.json").read_text())

    # ---- what works

    def test_a_command(self):
        self.mlbench("echo {rank} $RANK of $WORLD_SIZE as $(id -u)")
        record = self.record()
        self.assertEqual((record["state"], record["exit_codes"]), ("finished", [0, 0]))
        self.assertEqual([self.log(rank) for rank in (0, 1)], ["0 0 of 2 as 0\n", "1 1 of 2 as 0\n"])
        self.assertEqual((record["allocation"]["engine"], record["allocation"]["image"]), ("podman", IMAGE))
        image = json.loads(self.podman("image", "inspect", IMAGE))[0]["Id"]
        self.assertEqual([image.startswith(one) for one in record["allocation"]["image_ids"]], [True])

    def test_a_command_that_fails(self):
        self.mlbench("exit 1{rank}", code=RUN_FAILED)
        record = self.record()
        self.assertEqual((record["state"], record["failure"]["kind"]), ("failed", "rank_error"))
        self.assertIn(record["failure"]["rank"], (0, 1))
        self.assertIn(10 + record["failure"]["rank"], record["exit_codes"])

    def test_a_stop(self):
        process = self.begin()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), STOPPED)
        self.assertEqual(self.record()["state"], "stopped")

    @unittest.skipUnless(shutil.which("mpicc"), "missing capability: mpicc (package libopenmpi-dev)")
    def test_ranks_of_mpi_find_each_other(self):
        make_mpi_image(FOLDER)
        words = [mlbench_path(), "run", "own", "2", "--local", "--image", MPI_IMAGE, "--backend", "mpi", "--", "/bin/sum"]
        for code, more in ((0, []), (RUN_FAILED, ["3"])):
            shutil.rmtree(self.home, ignore_errors=True)
            done = subprocess.run([*words, *more], env=self.environment, text=True, capture_output=True,
                                  stdin=subprocess.DEVNULL, timeout=120)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertEqual([self.log(rank) for rank in (0, 1)], ["0 of 2: 3\n", "1 of 2: 3\n"])
            self.assertFalse((self.home / "runs/own-2/openmpi").exists())

    # ---- what goes wrong

    def test_a_killed_container(self):
        process = self.begin()
        one = next(name for name in self.containers() if name.endswith("-1"))
        self.podman("kill", one)
        self.assertEqual(process.wait(60), RUN_FAILED)
        self.assertEqual((self.record()["failure"]["kind"], self.record()["failure"]["rank"]), ("rank_died", 1))
        self.nothing_is_left()

    def test_a_killed_supervisor(self):
        process = self.begin()
        self.kill_supervisor()
        process.wait(60)
        self.nothing_is_left()

    @unittest.skipUnless(shutil.which("mpirun"), "missing capability: mpirun (package openmpi-bin)")
    def test_what_is_killed_below_mpirun(self):
        process = self.begin("--backend", "mpi")
        self.podman("kill", next(name for name in self.containers() if name.endswith("-1")))
        self.assertEqual(process.wait(60), RUN_FAILED)
        self.assertEqual(self.record()["failure"]["rank"], 1)
        self.nothing_is_left()
        shutil.rmtree(self.home)
        process = self.begin("--backend", "mpi")
        self.kill_supervisor()
        process.wait(60)
        self.nothing_is_left()

    def test_an_image_that_is_none(self):
        self.mlbench("true", image="localhost/none:test", code=RUN_FAILED)
        failure = self.record()["failure"]
        self.assertEqual(failure["kind"], "start_failed")
        self.assertIn("localhost/none:test", failure["message"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="mlp", dir="/tmp") as made:
        FOLDER = pathlib.Path(made)
        ENGINE, lack = make_engine(FOLDER)
        main(lack)
