"""What is typed comes out as it went in, or is refused, through real engines: Open MPI here and over ssh, podman, Slurm.

    language_test.py [unittest arguments]       needs MLBENCH_BIN_DIR (or MLBENCH_TEST_MLBENCH), root, the engines

Words, values and the path of the home have what the engines take for their own. The same against models of all engines:
src/mlbench/exec/language_test.cpp.
"""

import os
import pathlib
import random
import subprocess
import tempfile
import unittest

import netns
import podman_test
import slurm_cluster
from engine_case import main, mlbench_path

REFUSED, FAILED = 2, 5
# What some launcher, shell or file pattern acts upon.
TAKEN = [":", "--mca", "-mca", "a", "--am", "x", "--tune", "-x", "\\:", "\\\\:", "\\", "$(touch HERE)", "`touch HERE`",
         "$$", "$(HOME)", "${HOME}", "%j", "%%", "a b", "", "a,b:c", "'", '"', "#", ";", "*", "~", "!x", "=ls", "-", "--",
         "a\nb", "\t", "{x}", "&&", "ü", "@file"]
# A variable of the ranks, and nothing to the engine.
OWN = {"VALUE": "$(HOME) $$ %j a,b:c=d;e \"'\\ \n x", "SBATCH_PARTITION": "nowhere", "SLURM_CLUSTERS": "nowhere",
       "OMPI_MCA_plm": "$(touch HERE)", "OMPI_MCA_btl": "nothing", "HOME": "/nowhere", "DOCKER_HOST": "tcp://nowhere:1",
       "CONTAINERS_STORAGE_CONF": "/nowhere", "MLBENCH_GIVEN_X": "y"}
SAYS = 'for word; do printf "%s\\0" "$word"; done; ' + "".join(f'printf "%s\\0" "${name}"; ' for name in OWN)


class LanguageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="mll", dir="/tmp")))

    def words(self, seed):
        chosen = random.Random(seed)
        return [chosen.choice(TAKEN) for _ in range(12)]

    def check(self, options, home, environment=None, words=None, enter=lambda command: command):
        home = self.folder / self._testMethodName / home
        environment = {**(environment or os.environ), "MLBENCH_HOME": str(home), "MLBENCH_CORE_LOCK": str(self.folder / "cores")}
        for seed in range(2 if words is None else 1):
            typed = TAKEN + self.words(seed) if words is None else words
            name = f"r{seed}"
            given = [part for key, value in OWN.items() for part in ("--env", f"{key}={value}")]
            command = enter([str(mlbench_path()), "run", name, "1", "--local", *options, *given, "--", "sh", "-c", SAYS, "sh"])
            done = subprocess.run([*command, *typed], env=environment, cwd=self.folder, capture_output=True,
                                  stdin=subprocess.DEVNULL, timeout=180)
            if words is not None:
                return done
            self.assertEqual(done.returncode, 0, (done.stdout + done.stderr).decode(errors="replace"))
            said = (home / f"runs/{name}-1/logs/rank-0.seg-1.out").read_bytes().split(b"\0")[:-1]
            self.assertEqual([word.decode() for word in said], typed + list(OWN.values()))
        self.assertEqual(list(self.folder.rglob("HERE")), [], "a shell ran a word")

    def check_refusal_of_home(self, done):
        self.assertEqual(done.returncode, FAILED, done)
        self.assertIn(b"use another folder", done.stdout)

    def test_mpirun_of_this_host(self):
        self.check(["--backend", "mpi"], "home %j a,b:c")

    def test_mpirun_over_ssh(self):
        lack = netns.missing(sshd=True)
        if lack:
            self.skipTest(f"missing capability: {lack}")
        with netns.Network(2, self.folder / "net", sshd=True) as network:
            options = ["--executor", "mpirun", "--hosts", "h2", "--ssh-config", network.ssh_config, "--scratch",
                       str(network.scratch)]
            self.check(options, "home %j a,b:c", enter=lambda command: network.enter("h1", command))

    def test_podman(self):
        folder = self.folder / "engine"
        folder.mkdir()
        environment, lack = podman_test.make_engine(folder)
        if lack:
            self.skipTest(f"missing capability: {lack}")
        image = ["--image", podman_test.IMAGE]
        self.check(image, "home %j a,b", environment)
        self.assertEqual(self.check(image, "home", environment, [b"\xff"]).returncode, REFUSED)
        self.check_refusal_of_home(self.check(image, "home:x", environment, ["a"]))

    def test_slurm(self):
        lack = slurm_cluster.missing()
        if lack:
            self.skipTest(f"missing capability: {lack}")
        with slurm_cluster.SlurmCluster(self.folder / "slurm", nodes=1) as slurm:
            for home in ("home %j a,b", "home \\ %j"):
                self.check(["--executor", "slurm"], home, slurm.environment)
            self.check_refusal_of_home(self.check(["--executor", "slurm"], "home\nx", slurm.environment, ["a"]))


if __name__ == "__main__":
    main("" if os.geteuid() == 0 else "root")
