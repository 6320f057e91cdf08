"""What the tests of engines share: the program that they start, a master, and waiting for what they bring about."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest
import urllib.request

import slurm_cluster

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "master"))
from serving import serving  # noqa: E402


def mlbench_path():
    if "MLBENCH_BIN_DIR" in os.environ:
        return pathlib.Path(os.environ["MLBENCH_BIN_DIR"], "mlbench").resolve()
    return pathlib.Path(os.environ["MLBENCH_TEST_MLBENCH"]).resolve()


def caller(url, token):
    """What asks the master at `url`: call(method, path, body) gives its answer."""
    def call(method, path, body=None):
        question = urllib.request.Request(
            f"{url}/api/v1{path}", method=method, data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
        with urllib.request.urlopen(question, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    return call


@contextlib.contextmanager
def asked_master(environment):
    """`mlbench serve`, as what asks it: caller()."""
    with serving(environment["MLBENCH_HOME"], environment=environment, program=mlbench_path()) as address:
        yield caller(address["url"].rstrip("/"), pathlib.Path(address["token_file"]).read_text().strip())


def main(lack):
    """Runs the tests of the script, unless it lacks something."""
    if lack:
        print("missing capability:", lack)
        sys.exit(77)
    unittest.main(verbosity=2)


class EngineCase(unittest.TestCase):
    def wait_for(self, condition, what, patience_s=180, told=lambda: ""):
        """What `condition` returns once that is true. What `told` returns stands beside a failure."""
        deadline = time.monotonic() + patience_s
        while not (result := condition()):
            if time.monotonic() > deadline:
                self.fail(f"not within {patience_s} s: {what} {told()}")
            time.sleep(0.1)
        return result


class RunsCase(EngineCase):
    """Runs below the folder `home`, started in `environment`, whose processes here have `mark` as MLBENCH_TEST_MARK."""

    def processes(self):
        return {pid: slurm_cluster.status_of(pid) for pid in slurm_cluster.pids()
                if slurm_cluster.environment_of(pid).get("MLBENCH_TEST_MARK") == self.mark and slurm_cluster.alive(pid)}

    def mlbench(self, *words, code=0):
        done = subprocess.run([mlbench_path(), *words], env=self.environment, capture_output=True, text=True,
                              timeout=180, cwd="/tmp")
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def run_folder(self, name):
        return self.home / "runs" / name

    def record(self, name):
        try:
            return json.loads((self.run_folder(name) / "run.json").read_text())
        except FileNotFoundError:
            return {"state": "absent", "notes": []}
