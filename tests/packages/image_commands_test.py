"""What deploy/docker/build.sh would run."""

import os
import pathlib
import shlex
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy/docker/build.sh"


def build(*arguments, path=None):
    environment = dict(os.environ) | ({"PATH": path} if path is not None else {})
    return subprocess.run(
        ["/bin/bash", SCRIPT, *arguments], capture_output=True, text=True, env=environment, timeout=60
    )


def commands(*arguments, path=None):
    done = build("--dry-run", *arguments, path=path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert all(line.startswith("build.sh: ") for line in lines), lines
    return [shlex.split(line.removeprefix("build.sh: ")) for line in lines]


class ImageCommands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def packages(self, *names, version="0.1.0~git20251123180537.c65c7c66c7b2"):
        folder = self.folder / "the packages"
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / f"{name}_{version}_amd64.deb").touch()
        return str(folder)

    def test_of_packages(self):
        folder = self.packages("mlbench", "mlbench-worker", "mlbench-libtorch")
        version = "0.1.0~git20251123180537.c65c7c66c7b2"
        self.assertEqual(
            commands("--engine", "buildah", "--packages", folder, "--base", "localhost/base:1", "worker"),
            [
                ["buildah", "build", "--file", f"{ROOT}/deploy/docker/Dockerfile", "--target", "worker"]
                + ["--build-arg", "BASE=localhost/base:1", "--build-arg", f"VERSION={version}"]
                + ["--build-arg", "REVISION=c65c7c66c7b2", "--format", "docker"]
                + ["--build-context", f"packages={folder}"]
                + ["--tag", "localhost/mlbench-worker:0.1.0-git20251123180537.c65c7c66c7b2"]
                + ["--tag", "localhost/mlbench-worker:latest", str(ROOT)]
            ],
        )

    def test_of_sources(self):
        [master, worker] = commands("--engine", "docker", "--repository", "localhost:5000/ours", "--tag", "mine")
        self.assertEqual(master[:2], ["docker", "build"])
        self.assertNotIn("--format", master)
        self.assertEqual(
            master[-5:],
            ["--tag", "localhost:5000/ours-master:mine", "--tag", "localhost:5000/ours-master:latest", str(ROOT)],
        )
        self.assertIn("BASE=debian:12", master)
        self.assertNotIn("CUDA=ON", worker)
        self.assertEqual(sum(word.startswith("MLBENCH_GIT_DESCRIBE=") for word in worker), 1)
        self.assertEqual(sum(word.startswith("SOURCE_DATE_EPOCH=") for word in worker), 1)

    def test_pytorch(self):
        [worker, pytorch] = commands("--engine", "podman", "worker", "worker-pytorch")
        self.assertEqual([word.replace("worker-pytorch", "worker") for word in pytorch], worker)
        stage = (ROOT / "deploy/docker/Dockerfile").read_text().split(" AS worker-pytorch\n")[1].split("\nFROM ")[0]
        copied = [line.split()[1:] for line in stage.splitlines() if line.startswith("COPY ")]
        self.assertEqual([pathlib.PurePath(to).name for _, to in copied], ["mlbench", "mlbench_core"])
        for source, to in copied:
            self.assertTrue((ROOT / source / "__init__.py").is_file(), source)
            self.assertEqual(pathlib.PurePath(to).parent.as_posix(), "/usr/lib/python3/dist-packages")
        self.assertTrue(stage.splitlines()[-3].startswith("USER 10001:10001"), stage)

    def test_cuda(self):
        [command] = commands("--engine", "podman", "worker-cuda")
        self.assertIn("CUDA=ON", command)
        self.assertIn("worker-cuda", command)

    def test_a_release(self):
        folder = self.packages("mlbench", version="0.1.0")
        [command] = commands("--engine", "podman", "--packages", folder, "master")
        self.assertIn("REVISION=v0.1.0", command)
        self.assertIn("localhost/mlbench-master:0.1.0", command)

    def test_the_first_engine_that_is_there(self):
        for name in ("docker", "buildah"):
            (self.folder / name).write_text("#!/bin/sh\n")
            (self.folder / name).chmod(0o755)
        [command] = commands("master", path=f"{self.folder}:{self.tools()}")
        self.assertEqual(command[0], "buildah")
        refused = build("master", path=self.tools())
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertIn("install one", refused.stderr)

    def tools(self):
        """A folder of what the script itself starts."""
        folder = self.folder / "tools"
        folder.mkdir(exist_ok=True)
        for name in ("dirname", "git", "date"):
            if not (folder / name).exists():
                (folder / name).symlink_to(f"/usr/bin/{name}")
        return str(folder)

    def test_refusals(self):
        folder = self.packages("mlbench")
        for arguments, said in (
            (["--engine", "kaniko"], "expected docker, podman or buildah"),
            (["--base"], "--base wants a value"),
            (["slave"], 'unknown argument "slave"'),
            (["--engine", "docker", "--packages", "/nowhere"], "there is no folder /nowhere"),
            (["--engine", "docker", "--packages", folder, "worker"], "holds 0 packages of mlbench-worker"),
        ):
            done = build("--dry-run", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(said, done.stderr)
        folder = self.packages("mlbench", version="0.0.9")
        self.assertIn(
            "holds 2 packages of mlbench,", build("--engine", "docker", "--packages", folder, "master").stderr
        )


if __name__ == "__main__":
    unittest.main()
