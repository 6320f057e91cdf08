"""Objects of a real store: OpenStack Swift with its S3 front end, which verifies signatures, on one node, as root.

    s3_test.py [unittest arguments]      needs MLBENCH_TEST_MLBENCH, root, swift-proxy and its servers, memcached

The store lies in a folder of the test and listens at free ports of 127.0.0.1.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

MLBENCH = os.environ.get("MLBENCH_TEST_MLBENCH", "build/release/bin/mlbench")
USER, SECRET = "test:tester", "testing"
WRONG_INPUT = 2
STARTS_WITHIN_S = 90
SERVERS = ("account", "container", "object")
COMMON = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
user = root
swift_dir = {folder}/etc
devices = {folder}/devices
mount_check = false
disable_fallocate = true
"""
SERVER = """[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""
FILTERS = ("catch_errors", "gatekeeper", "healthcheck", "cache", "listing_formats", "bulk", "s3api", "tempauth", "slo", "dlo",
           "versioned_writes")
SETTINGS = {"cache": "memcache_servers = 127.0.0.1:{memcached}", "s3api": "location = us-east-1\ns3_acl = false",
            "tempauth": "user_test_tester = testing .admin", "versioned_writes": "allow_versioned_writes = true"}
NAMES = {"cache": "memcache"}


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Swift:
    """A store of one node, one disk (a folder) and one copy of everything."""

    def __init__(self, folder):
        self.folder, self.running = folder, {}
        self.port, self.memcached, *ports = free_ports(2 + len(SERVERS))
        self.endpoint = f"http://127.0.0.1:{self.port}"
        etc = folder / "etc"
        (folder / "devices" / "d1").mkdir(parents=True)
        etc.mkdir()
        (etc / "swift.conf").write_text("[swift-hash]\nswift_hash_path_prefix = a\nswift_hash_path_suffix = b\n"
                                        "[storage-policy:0]\nname = gold\ndefault = yes\n")
        for kind, port in zip(SERVERS, ports):
            ring = str(etc / f"{kind}.builder")
            for words in (["create", "4", "1", "1"], ["add", f"r1z1-127.0.0.1:{port}/d1", "1"], ["rebalance"]):
                subprocess.run(["swift-ring-builder", ring, *words], check=True, stdout=subprocess.DEVNULL)
            (etc / f"{kind}.conf").write_text(COMMON.format(port=port, folder=folder) + SERVER.format(kind=kind))
        proxy = COMMON.format(port=self.port, folder=folder) + "[pipeline:main]\npipeline = " + " ".join(FILTERS) + " proxy-server\n"
        proxy += "[app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\n"
        for name in FILTERS:
            settings = SETTINGS.get(name, "").format(memcached=self.memcached)
            proxy += f"[filter:{name}]\nuse = egg:swift#{NAMES.get(name, name)}\n{settings}\n"
        (etc / "proxy.conf").write_text(proxy)
        self.start("memcached", ["memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", str(self.memcached), "-m", "32"])
        for kind in (*SERVERS, "proxy"):
            self.start_server(kind)
        self.storage, self.token = self.log_in()

    def start(self, name, command):
        log = (self.folder / f"{name}.log").open("a")
        self.running[name] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        log.close()

    def start_server(self, kind):
        self.start(kind, [f"swift-{kind}-server", str(self.folder / "etc" / f"{kind}.conf"), "-v"])

    def kill(self, name):
        process = self.running.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self):
        for name in list(self.running):
            self.kill(name)

    def log_in(self):
        """The address of the account in Swift's own interface, and the token for it."""
        headers = self.send(urllib.request.Request(f"{self.endpoint}/auth/v1.0", headers={"X-Auth-User": USER, "X-Auth-Key": SECRET}))
        return headers["X-Storage-Url"], headers["X-Auth-Token"]

    def put(self, path, content=b""):
        url = f"{self.storage}/{urllib.parse.quote(path)}"
        self.send(urllib.request.Request(url, data=content, method="PUT", headers={"X-Auth-Token": self.token}))

    @staticmethod
    def send(request):
        """The headers of the answer. Sends again while the servers start."""
        end = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return answer.headers
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.3)


class ObjectStore(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="mlbench-s3-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.swift = Swift(cls.folder)
        cls.addClassCleanup(cls.swift.stop)
        cls.shard = os.urandom(12_000_000)
        cls.odd = ["a b+c%d~e", "a&b=c?d#e", "x/(1)'*!$@:,;[]", "ä€/😀", "a..b/..c"]
        for container in ("shards", "images", "many"):
            cls.swift.put(container)
        cls.swift.put("shards/train/0.tar", cls.shard)
        cls.swift.put("shards/train/1.tar", cls.shard[::-1])
        for key in cls.odd:
            cls.swift.put(f"images/p q&r/{key}", f"content of {key}".encode())

    def command(self, place, *words):
        return [MLBENCH, "bench", "storage", place, "--s3-endpoint", self.swift.endpoint, *words]

    def environment(self, **more):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return {**clean, "AWS_ACCESS_KEY_ID": USER, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_CONFIG_FILE": "/nonexistent", **more}

    def bench(self, place, *words, **more):
        done = subprocess.run(self.command(place, "--json", *words), env=self.environment(**more), text=True,
                              capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refusal(self, place, **more):
        done = subprocess.run(self.command(place), env=self.environment(**more), text=True, capture_output=True, timeout=300)
        self.assertEqual(done.returncode, WRONG_INPUT, done.stderr)
        return done.stderr

    def test_whole_objects_of_odd_keys_have_the_bytes_of_their_md5(self):
        for more in ({}, {"AWS_SESSION_TOKEN": "FwoGZXIvYXdzEB/+a=="}):
            result = self.bench("s3://images/p q&r", "--range", "object", **more)
            self.assertEqual(result["reads"], len(self.odd))
            self.assertTrue(result["complete"])
            self.assertEqual(result["bytes"], sum(len(f"content of {key}".encode()) for key in self.odd))
            self.assertEqual(result["counters"]["checked_bytes"], result["bytes"])

    def test_ranges_on_several_connections(self):
        result = self.bench("s3://shards/train", "--range", "100K", "--threads", "6", "--connections", "3", "--seconds", "200")
        self.assertTrue(result["complete"])
        self.assertEqual(result["bytes"], 2 * len(self.shard))
        self.assertEqual(result["counters"]["bytes"], result["bytes"])
        self.assertEqual(result["counters"]["copied_bytes"], result["bytes"])
        self.assertEqual(result["counters"]["checked_bytes"], 0)

    def test_a_list_of_several_pages(self):
        for number in range(1001):
            self.swift.put(f"many/{number:04}", b"x")
        result = self.bench("s3://many", "--seconds", "0.1")
        self.assertEqual(result["objects"], 1001)

    def test_a_second_read_comes_from_the_cache(self):
        words = ("--cache", str(self.folder / "cache"), "--range", "1M", "--seconds", "200")
        cold = self.bench("s3://shards/train", *words)
        self.assertEqual(cold["counters"]["cache_misses"], 4)
        warm = self.bench("s3://shards/train", *words)
        self.assertEqual(warm["counters"]["cache_misses"], 0)
        self.assertEqual(warm["counters"]["requests"], 1)  # the list
        self.assertEqual(warm["bytes"], cold["bytes"])

    def test_shards_of_images_are_found_as_data_sets(self):
        for name in ("imagenet1k-train-0000.tar", "imagenet1k-validation-00.tar"):
            self.swift.put(f"shards/data/imagenet-tar/{name}", b"a shard")
        self.swift.put("shards/data/imagenet-tfrecord/train-00000-of-00001", b"a shard")
        place = "s3://shards/data"
        command = [MLBENCH, "data", "list", "--json", "--home", str(self.folder / "home"), "--data-dir", place]
        done = subprocess.run(command, env=self.environment(AWS_ENDPOINT_URL_S3=self.swift.endpoint), text=True,
                              capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {row["name"]: row for row in json.loads(done.stdout)}
        self.assertEqual(rows["imagenet-tar"]["folder"], f"{place}/imagenet-tar")
        self.assertEqual(rows["imagenet-tar"]["origin"], "object store")
        self.assertFalse(rows["imagenet-tfrecord"]["found"])
        self.assertIn(f"{place}/imagenet-tfrecord (object store): no ", rows["imagenet-tfrecord"]["misfits"])
        wrong = subprocess.run(command, env=self.environment(AWS_ENDPOINT_URL_S3=self.swift.endpoint, AWS_SECRET_ACCESS_KEY="hunter2"),
                               text=True, capture_output=True, timeout=300)
        self.assertEqual(wrong.returncode, WRONG_INPUT, wrong.stderr)
        self.assertIn("403 SignatureDoesNotMatch", wrong.stderr)
        self.assertNotIn("hunter2", wrong.stderr + wrong.stdout)

    def test_reads_go_on_after_the_store_was_killed(self):
        process = subprocess.Popen(self.command("s3://shards/train", "--json", "--range", "20K", "--seconds", "200"),
                                   env=self.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1.5)
        self.swift.kill("proxy")
        time.sleep(1)
        self.assertIsNone(process.poll(), "it ended before the store was killed")
        self.swift.start_server("proxy")
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, err)
        result = json.loads(out)
        self.assertTrue(result["complete"])
        self.assertEqual(result["bytes"], 2 * len(self.shard))
        self.assertGreater(result["counters"]["retries"], 0)

    def test_refusals_say_what_to_check(self):
        wrong = self.refusal("s3://shards", AWS_SECRET_ACCESS_KEY="hunter2")
        self.assertIn("403 SignatureDoesNotMatch", wrong)
        self.assertIn("check the secret key", wrong)
        self.assertNotIn("hunter2", wrong)
        self.assertIn("404 NoSuchBucket", self.refusal("s3://none-of-ours"))
        self.assertIn("the store refuses (403 ", self.refusal("s3://shards", AWS_ACCESS_KEY_ID="test:nobody"))


def missing():
    if os.geteuid() != 0:
        return "root"
    for program in ("memcached", "swift-ring-builder", "swift-proxy-server", *(f"swift-{kind}-server" for kind in SERVERS)):
        if shutil.which(program) is None:
            return f"{program} (tools/setup.sh engines)"
    return ""


if __name__ == "__main__":
    if lack := missing():
        print(f"s3_test.py: skipped, missing capability: {lack}")
        sys.exit(77)
    unittest.main(verbosity=2)
