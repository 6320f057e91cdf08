"""Runs train_mnist.py as a custom run where Horovod is; what stands around it is tested without."""

import http.client
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
CLIENT = os.path.join(FOLDER, "..", "..", "python")
sys.path[:0] = [FOLDER, os.path.join(FOLDER, "..", "pytorch")]

import rendezvous  # noqa: E402
from train_dist_test import make_data  # noqa: E402

MLBENCH = os.environ.get("MLBENCH_TEST_MLBENCH")
HOROVOD = importlib.util.find_spec("horovod") is not None and importlib.util.find_spec("torch") is not None


def ask(port, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


class Rendezvous(unittest.TestCase):
    def test_values_come_and_stay(self):
        server = rendezvous.serve("127.0.0.1", 0)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        port = server.server_address[1]
        self.assertEqual(ask(port, "GET", "/global_/0")[0], 404)
        value = bytes(range(256))
        self.assertEqual(ask(port, "PUT", "/global_/0", value)[0], 200)
        self.assertEqual(ask(port, "GET", "/global_/0"), (200, value))
        self.assertEqual(ask(port, "GET", "/local_/0")[0], 404)
        self.assertEqual(ask(port, "DELETE", "/global_/0")[0], 200)
        self.assertEqual(ask(port, "GET", "/global_/0"), (200, value))
        self.assertEqual(ask(port, "PUT", "/big", headers={"Content-Length": str(rendezvous.MOST_BYTES + 1)})[0], 400)

    def test_rank_0_of_our_runs_on_gloo_serves(self):
        ours = {
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_RANK": "0",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": "0",
            "MLBENCH_RUN_DIR": "/",
        }
        for other in ({"HOROVOD_CONTROLLER": "mpi"}, {"HOROVOD_RANK": "1"}):
            self.assertIsNone(rendezvous.serve_if_first({**ours, **other}))
        self.assertIsNone(rendezvous.serve_if_first({k: v for k, v in ours.items() if k != "MLBENCH_RUN_DIR"}))
        server = rendezvous.serve_if_first(ours)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.assertEqual(ask(server.server_address[1], "GET", "/x")[0], 404)


@unittest.skipIf(MLBENCH is None, "missing capability: mlbench")
class AsARun(unittest.TestCase):
    def run_of(self, folder, *words):
        environment = dict(
            os.environ, MLBENCH_HOME=os.path.join(folder, "home"), MLBENCH_CORE_LOCK=os.path.join(folder, "cores")
        )
        made = subprocess.run(
            [MLBENCH, "run", "hvd", "2", "--local", "--json", "--env", "PYTHONPATH=" + CLIENT, "--", sys.executable]
            + list(words),
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        self.assertEqual(made.returncode, 0, made.stderr)
        return json.loads(made.stdout)[0]

    def test_ranks_find_each_other_by_the_variables(self):
        # What Horovod's Gloo does in hvd.init(), less Gloo.
        script = """
import os, sys, time, urllib.error, urllib.request
sys.path.insert(0, sys.argv[1])
import rendezvous
e = os.environ
server = rendezvous.serve_if_first(e)
rank, size = int(e["HOROVOD_RANK"]), int(e["HOROVOD_SIZE"])
url = "http://%s:%s/global_/" % (e["HOROVOD_GLOO_RENDEZVOUS_ADDR"], e["HOROVOD_GLOO_RENDEZVOUS_PORT"])
def ask(method, key, body=None):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            request = urllib.request.Request(url + key, data=body, method=method)
            return urllib.request.urlopen(request, timeout=10).read()
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    sys.exit("no answer")
ask("PUT", "here-%d" % rank, b"rank %d" % rank)
for other in range(size):
    assert ask("GET", "here-%d" % other) == b"rank %d" % other
ask("PUT", "seen-%d" % rank, b"x")
if server is not None:
    for other in range(size):
        ask("GET", "seen-%d" % other)
"""
        with tempfile.TemporaryDirectory() as folder:
            record = self.run_of(folder, "-c", script, FOLDER)
            self.assertEqual((record["state"], record["exit_codes"]), ("finished", [0, 0]))

    @unittest.skipUnless(HOROVOD, "missing capability: horovod with PyTorch (pip install horovod)")
    def test_two_ranks_train(self):
        with tempfile.TemporaryDirectory() as folder:
            make_data(folder, "train", 1280)
            make_data(folder, "t10k", 256)
            script = os.path.join(FOLDER, "train_mnist.py")
            words = [script, "{run_id}", "{rank}", "--data", folder, "--epochs", "20", "--target", "60", "--lr", "1e-3"]
            record = self.run_of(folder, *words)
            self.assertTrue(record["goal"]["reached"])
            self.assertGreater(record["steps_s"]["agg"], 0)


if __name__ == "__main__":
    unittest.main()
