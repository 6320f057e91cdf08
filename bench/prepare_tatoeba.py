#!/usr/bin/env python3
"""Time and memory of preparing 4.2 million pairs: Tatoeba's 169,813, 25 times one after the other.

    prepare_tatoeba.py PAIRS.tsv[.gz] --scratch FOLDER [--repeat N] [--vocabulary N] [--mlbench PROGRAM] [--output FILE]

PAIRS holds English, a TAB and German in each line. FOLDER must not exist: it gets the repeated file, and a home of its own
(2 GB); --keep leaves it there. Memory is that of mlbench and of the programs that it starts together: sampled 20 times a
second, and at least the high-water mark of the largest of them, which the kernel counts. Mapped files count where they are
in memory. Prints one JSON object with the limits (15 minutes, 1 GB). Exit code 0: both are met; 1: missed; 2: not measured.
"""
import argparse
import gzip
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import threading
import time

import ratio

HERE = pathlib.Path(__file__).resolve().parent
MOST_SECONDS, MOST_BYTES = 15 * 60, 10**9
PERIOD_S = 0.05
PAGE = os.sysconf("SC_PAGE_SIZE")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=pathlib.Path)
    parser.add_argument("--scratch", type=pathlib.Path, required=True, help="a new folder")
    parser.add_argument("--repeat", type=int, default=25)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--mlbench", type=pathlib.Path, default=HERE.parent / "build/release/bin/mlbench")
    parser.add_argument("--keep", action="store_true", help="leave the folder")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    if options.repeat < 1:
        parser.error("--repeat: expected 1 or more")
    return options


def fail(text):
    print(f"prepare_tatoeba.py: {text}", file=sys.stderr)
    sys.exit(2)


def repeat(source, target, times):
    """Lines written; one copy is in memory at a time."""
    data = (gzip.open if source.suffix == ".gz" else open)(source, "rb").read()
    if not data or data.count(b"\t") < data.count(b"\n"):
        fail(f"{source}: expected two sentences with a TAB between them in each line")
    if not data.endswith(b"\n"):
        data += b"\n"
    with open(target, "wb") as file:
        for _ in range(times):
            file.write(data)
    return times * data.count(b"\n")


def resident_bytes(root):
    """Of a process and all below it; one that ends meanwhile counts nothing."""
    total, open_ids = 0, [root]
    while open_ids:
        pid = open_ids.pop()
        try:
            total += int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                open_ids += (task / "children").read_text().split()
        except OSError:
            continue
    return total


def measured(command, environment):
    """(seconds, most bytes of all processes, most of one, standard output)"""
    begin = time.monotonic()
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    most, ended = 0, threading.Event()

    def watch():
        nonlocal most
        while not ended.wait(PERIOD_S):
            most = max(most, resident_bytes(child.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        output = child.communicate()[0]
    finally:
        ended.set()
        watcher.join()
        if child.poll() is None:
            child.kill()
            child.wait()
    seconds = time.monotonic() - begin
    if child.returncode != 0:
        fail(f"mlbench ended with exit code {child.returncode}")
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return seconds, max(most, largest), largest, output


def main():
    options = parse()
    if not options.mlbench.exists():
        fail(f"{options.mlbench} is not there: build it, or give --mlbench PROGRAM")
    try:
        options.scratch.mkdir(parents=True)
    except FileExistsError:
        fail(f"{options.scratch} is there already: give a new folder, nothing is overwritten")
    try:
        pairs = options.scratch / "pairs.tsv"
        lines = repeat(options.pairs, pairs, options.repeat)
        size = pairs.stat().st_size
        command = [options.mlbench, "data", "prepare", pairs, "--vocabulary", str(options.vocabulary), "--json"]
        environment = {**os.environ, "MLBENCH_HOME": str(options.scratch / "home")}
        seconds, most, largest, output = measured(list(map(str, command)), environment)
    finally:
        if not options.keep:
            shutil.rmtree(options.scratch)
    text = ratio.last_json(output)["text"]
    document = {"pairs": lines, "bytes": size, "seconds": seconds, "most_seconds": MOST_SECONDS, "peak_bytes": most,
                "most_bytes": MOST_BYTES, "largest_process_bytes": largest, "pairs_per_second": lines / seconds,
                "met": seconds < MOST_SECONDS and most < MOST_BYTES, "vocabulary": text["vocabulary"],
                "splits": text["splits"], "machine": ratio.machine(), "measured_at": ratio.now()}
    print(json.dumps(document, indent=1))
    if options.output:
        ratio.write(options.output, document)
    sys.exit(0 if document["met"] else 1)


if __name__ == "__main__":
    main()
