#!/usr/bin/env python3
"""A tiny Transformer, trained on made pairs, decodes beside CTranslate2: the same translations but for ties, and at least
half of its words per second. Three epochs and ten passes over 1,000 sentences: some five minutes of two cores."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parent
TASK = BENCH / "tasks/4b-multi30k.toml"
PROGRAMS = pathlib.Path(os.environ["MLBENCH_TEST_BINARY_DIR"]) / "bin"
PAIRS = 5


def skip(reason):
    print(f"SKIPPED: missing capability: {reason}")
    sys.exit(77)


def only(paths):
    found = list(paths)
    assert len(found) == 1, found
    return found[0]


def train(home):
    environment = {**os.environ, "MLBENCH_HOME": str(home)}
    # The last checkpoint of a run stays.
    subprocess.run([os.environ["MLBENCH_TEST_MLBENCH"], "run", "made", "1", "--task", TASK, "--synthetic", "--max-epochs", "3",
                    "--threads-per-worker", "2", "--local"], env=environment, check=True, timeout=1800)
    record = json.loads((home / "runs/made-1/run.json").read_text())
    assert record["state"] == "finished", record["state"]
    assert record["data"]["synthetic"] is True, record["data"]
    return max((home / "runs/made-1/checkpoints").glob("step-*/model.safetensors")), only(
        (home / "cache").glob("multi30k-synthetic-text-*[!k]"))


def main():
    made = subprocess.run([BENCH / "setup_wheels.sh", "ctranslate2"], capture_output=True, text=True)
    if made.returncode != 0:
        print(made.stdout + made.stderr)
        skip("the packages of bench/ctranslate2.txt")
    with tempfile.TemporaryDirectory(prefix="mlbench-ctranslate2-test-") as folder:
        model, cache = train(pathlib.Path(folder))
        done = subprocess.run([sys.executable, "-B", BENCH / "ctranslate2_peer.py", model, "--task", TASK, "--cache", cache,
                               "--bin", PROGRAMS, "--pairs", str(PAIRS)], stdout=subprocess.PIPE, text=True, timeout=3600)
    print(done.stdout)
    assert done.returncode in (0, 1, 3), done.returncode
    document = json.loads(done.stdout)
    translations = document["translations"]
    assert translations["sentences"] == 1000, translations
    assert translations["different"] == 0, translations
    assert translations["tied"] <= 50, translations
    assert document["counted"] >= 5000, document["counted"]  # sentences of some length
    assert document["ratio"]["verdict"] != "missed", document["ratio"]


if __name__ == "__main__":
    main()
