"""The main job as the demo runs it, to the light goal on real images, with 1 and 2 workers. Minutes.

Needs MLBENCH_TEST_MLBENCH, and Debian's dataset-fashion-mnist or MLBENCH_DATA_DIR.
"""

import json
import os
import subprocess
import sys
import tempfile

GOAL = 85


def main() -> int:
    mlbench = os.environ["MLBENCH_TEST_MLBENCH"]
    with tempfile.TemporaryDirectory() as home:
        run = subprocess.run(
            [mlbench, "run", "long", "1", "2", "--task", "fashion-mnist", "--light", "--local", "--json", "--home", home],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=1500)
    if "fetch" in run.stderr and run.returncode == 2:
        print("missing capability: the images of fashion-mnist\n" + run.stderr)
        return 0
    if run.returncode != 0:
        print(run.stderr)
        return 1
    records = json.loads(run.stdout)
    for record in records:
        goal = record["goal"]
        print(record["name"], record["state"], goal, record["clocks"], record["weights_sha256"])
        assert record["state"] == "finished" and goal["reached"], record["failure"]
        assert goal["value"] >= GOAL and goal["value"] == record["evaluations"][-1]["metrics"]["Prec@1"]
        assert record["data"]["official"] and not record["data"]["synthetic"]
        assert record["limits"]["light"] and record["division"] == "closed"
        assert sum(record["steps_s"].values()) <= record["clocks"]["train_s"] * 1.000001
        assert record["exit_codes"] == [0] * record["workers"]
    assert [record["workers"] for record in records] == [1, 2]
    assert records[0]["weights_sha256"] != records[1]["weights_sha256"]
    return 0


if __name__ == "__main__":
    sys.exit(main())
