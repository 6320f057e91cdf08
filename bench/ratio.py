#!/usr/bin/env python3
"""Is one program at least as fast as another? Paired measurement of two command lines that print JSON.

    ratio.py --ours 'CMD' --peer 'CMD A' --peer 'CMD B' [--limit 1.0]

The best of the peer's variants is chosen from 3 runs of each, one after the other in turn: by the median. Then --pairs
interleaved pairs are run against that variant alone, with the verdict of pairs.py: met, missed or undecided.

Each command's value is the number called --key in the last JSON value that it prints: at the top of an object (the peers),
or in the `throughput` of the only run of an array (`mlbench run ... --json`). Prints all that was measured as one JSON
object. Exit code 0: met, 1: missed, 3: undecided, 2: could not be measured.
"""
import argparse
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys

import pairs

EXIT_CODES = {"met": 0, "missed": 1, "undecided": 3}


class Failed(Exception):
    pass


def say(text):
    print(text, file=sys.stderr, flush=True)


def last_json(text):
    """The last JSON object or array in `text` that begins at the start of a line."""
    starts = [i for i, c in enumerate(text) if c in "[{" and (i == 0 or text[i - 1] == "\n")]
    for start in reversed(starts):
        try:
            document = json.JSONDecoder().raw_decode(text[start:])[0]
        except json.JSONDecodeError:
            continue
        if isinstance(document, list):
            if len(document) != 1:
                raise Failed(f"{len(document)} runs in the output; expected one")
            return document[0]
        return document
    raise Failed("no JSON in the output: " + text[-500:])


def value_of(document, key):
    place = document if key in document else document.get("throughput", {})
    if not isinstance(place.get(key), (int, float)) or place[key] <= 0:
        raise Failed(f"no positive number '{key}' in {json.dumps(document)[:500]}")
    return float(place[key])


class Side:
    """One of two programs: measures, and counts how often a run of it failed."""

    def __init__(self, key, options):
        self.key, self.timeout, self.failures = key, options.timeout, 0

    def output(self, command):
        process = subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            return *process.communicate(timeout=self.timeout), process.returncode
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise Failed(f"took longer than {self.timeout} s: {command}") from None
            raise

    def measure(self, command, attempts=3):
        """The value; a command that fails is repeated, which is counted, and gives up the measurement the third time."""
        for attempt in range(1, attempts + 1):
            out, err, code = self.output(command)
            if code == 0:
                return value_of(last_json(out), self.key)
            self.failures += 1
            say(f"exit code {code} (attempt {attempt} of {attempts}): {command}\n{err[-1000:]}")
        raise Failed(f"failed {attempts} times: {command}")


def best(measured):
    return max(measured, key=lambda command: statistics.median(measured[command]))


def choose(side, options):
    """{variant: values}"""
    if len(options.peer) == 1:
        return {}
    measured = {command: [] for command in options.peer}
    for _ in range(options.choose):
        for command, values in measured.items():
            values.append(side.measure(command))
            say(f"variant {values[-1]:12.2f}  {command}")
    return measured


def compare(options):
    ours, peer = Side(options.key, options), Side(options.peer_key or options.key, options)
    measured = choose(peer, options)
    command = best(measured) if measured else options.peer[0]
    values = pairs.measure(lambda: ours.measure(options.ours), lambda: peer.measure(command), options.pairs, say)
    ratios = [a / b for a, b in zip(*values)]
    low, high = pairs.interval(ratios)
    return {
        "key": ours.key, "peer_key": peer.key, "limit": options.limit, "verdict": pairs.verdict(low, high, options.limit),
        "ratio": statistics.median(ratios), "interval_95": [low, high], "pairs": options.pairs,
        "ours": {"command": options.ours, "failures": ours.failures, "values": values[0]},
        "peer": {"command": command, "failures": peer.failures, "values": values[1]}, "variants": measured}


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True, metavar="CMD", help="one command line, split as a shell would; no shell")
    parser.add_argument("--peer", required=True, metavar="CMD", action="append", help="repeat it for each variant")
    parser.add_argument("--key", default="median_samples_per_s", help="higher is better (default: %(default)s)")
    parser.add_argument("--peer-key", help="the same number in the peers' output (default: --key)")
    parser.add_argument("--limit", type=float, default=1.0)
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--choose", type=int, default=3, metavar="N", help="runs of each variant of the peer")
    parser.add_argument("--timeout", type=float, default=600, help="seconds per command")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    try:
        result = compare(options)
    except Failed as failure:
        say(f"ratio.py: {failure}")
        return 2
    print(json.dumps(result, indent=1))
    return EXIT_CODES[result["verdict"]]


if __name__ == "__main__":
    sys.exit(main())
