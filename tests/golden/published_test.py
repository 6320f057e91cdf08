#!/usr/bin/env python3
"""Our rules and DiLoCo beside those that others published: torch.optim.Muon of a complete PyTorch, schedulefree, torchft.

usage: published_test.py GOLDEN_TEST [--keep]

Tests of the program GOLDEN_TEST ask the Python that bench/setup_wheels.sh torchft prints. --keep writes what the optimizers
answer to published.json, with which the default set compares.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main(program, keep=None):
    made = subprocess.run([ROOT / "bench/setup_wheels.sh", "torchft"], capture_output=True, text=True)
    if made.returncode != 0:
        print(made.stdout + made.stderr)
        print("SKIPPED: missing capability: the packages of bench/torchft.txt")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        answers = pathlib.Path(folder) / "answers.json"
        environment = {**os.environ, "MLBENCH_TEST_PYTHON": made.stdout.strip(), "MLBENCH_TEST_PUBLISHED": str(answers),
                       "MLBENCH_TEST_SOURCE_DIR": str(ROOT)}
        done = subprocess.run([program, "--gtest_filter=PublishedOptimizers.*:PatternGolden.*"], env=environment)
        if keep == "--keep":
            (ROOT / "tests/golden/published.json").write_text(json.dumps(json.loads(answers.read_text())) + "\n")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main(*sys.argv[1:])
