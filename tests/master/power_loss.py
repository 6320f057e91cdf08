"""The disk under a master loses power while clients post: what was acknowledged a second before is still there.

The home lies on an ext4 of its own in a file (a loop device), so that what has reached "the disk" is what that file
holds. The file is copied at one moment while points are posted; a master on a mounted copy then says what it has.
Needs root and loop devices.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import requests
from serving import serving

DISK_MB = 64
POST_S = 8.0
MOST_LOST_S = 1.0
NDJSON = {"Content-Type": "application/x-ndjson"}


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Mounted:
    def __init__(self, disk, folder):
        self.disk, self.folder = disk, folder

    def __enter__(self):
        os.mkdir(self.folder)
        made = subprocess.run(["mount", "-o", "loop", self.disk, self.folder], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            print("SKIPPED: missing capability: loop devices (" + made.stderr.strip() + ")")
            sys.exit(77)
        return self.folder

    def __exit__(self, *_):
        run("umount", "--lazy", self.folder)  # a supervisor may need a moment to end


class Client:
    def __init__(self, address):
        self.url = address["url"].rstrip("/") + "/api/v1"
        self.session = requests.Session()
        with open(address["token_file"], encoding="utf-8") as file:
            self.session.headers["Authorization"] = "Bearer " + file.read().strip()

    def post(self, path, **arguments):
        answer = self.session.post(self.url + path, timeout=60, **arguments)
        assert answer.status_code < 300, (answer.status_code, answer.text)
        return answer.json()

    def get(self, path):
        answer = self.session.get(self.url + path, timeout=60)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return answer.json()


def main():
    if os.geteuid() != 0:
        print("SKIPPED: missing capability: root, to mount a file system")
        sys.exit(77)
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        os.environ["MLBENCH_CORE_LOCK"] = os.path.join(folder, "cores")
        disk, copy = os.path.join(folder, "disk"), os.path.join(folder, "copy")
        with open(disk, "wb") as file:
            file.truncate(DISK_MB << 20)
        run("mkfs.ext4", "-q", disk)
        acknowledged = []
        with Mounted(disk, os.path.join(folder, "mounted")) as mounted:
            with serving(os.path.join(mounted, "home")) as address:
                master = Client(address)
                master.post("/runs", json={"name": "p", "workers": [1], "command": ["sleep", "60"], "work_dir": "/"})
                begin = time.monotonic()
                sequence = 0
                while time.monotonic() - begin < POST_S:
                    sequence += 1
                    line = {"rank": 0, "sequence": sequence, "step": sequence, "values": {"posted": sequence}}
                    master.post("/runs/p-1/points", data=json.dumps(line) + "\n", headers=NDJSON)
                    acknowledged.append(time.monotonic())
                    time.sleep(0.002)
                lost_power = time.monotonic()
                shutil.copyfile(disk, copy)
                master.post("/runs/p-1/stop", json={})
        with Mounted(copy, os.path.join(folder, "again")) as mounted, serving(os.path.join(mounted, "home")) as address:
            master = Client(address)
            names = master.get("/runs/p-1/series")["series"]
            kept = max((int(one["last"]["step"]) for one in names if one["metric"] == "posted"), default=0)
            count = sum(one["count"] for one in names if one["metric"] == "posted")
        lost = [lost_power - when for when in acknowledged[kept:]]
        print(
            f"{len(acknowledged)} points acknowledged in {POST_S:g} s, {kept} there after the loss of power; "
            f"the oldest lost one was {max(lost, default=0) * 1000:.0f} ms old"
        )
        assert kept > 0 and count == kept, (kept, count)
        assert max(lost, default=0) <= MOST_LOST_S


if __name__ == "__main__":
    main()
