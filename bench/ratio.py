#!/usr/bin/env python3
"""Is one program at least as fast as another? Paired measurement of two command lines that print JSON.

    ratio.py --ours 'CMD' --peer 'CMD A' --peer 'CMD B' [--limit 1.0]

The peer's best variant is chosen from 3 runs of each, then --pairs interleaved pairs are run against it alone, with the
verdict of pairs.py: met, missed or undecided. Each command's value is the number called --key in the last JSON value that
it prints: at the top of an object (the peers), or in the `throughput` of the only run of an array (`mlbench run ...
--json`). Prints one JSON object; exit code 0: met, 1: missed, 3: undecided.
"""
import argparse
import json
import shlex
import statistics
import subprocess
import sys

import pairs


def last_json(text):
    """The last JSON object or array in `text` that begins at the start of a line."""
    starts = [i for i, c in enumerate(text) if c in "[{" and (i == 0 or text[i - 1] == "\n")]
    for start in reversed(starts):
        try:
            return json.JSONDecoder().raw_decode(text[start:])[0]
        except json.JSONDecodeError:
            continue
    raise ValueError("no JSON in the output: " + text[-500:])


def value_of(document, key):
    if isinstance(document, list):
        if len(document) != 1:
            raise ValueError(f"{len(document)} runs in the output; expected one")
        document = document[0]
    place = document if key in document else document.get("throughput", {})
    if not isinstance(place.get(key), (int, float)) or place[key] <= 0:
        raise ValueError(f"no positive number '{key}' in {json.dumps(document)[:500]}")
    return float(place[key])


def run(command, key, timeout, attempts=3):
    """The value; a command that fails is repeated, said so, and gives up the measurement the third time."""
    for attempt in range(1, attempts + 1):
        done = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=timeout)
        if done.returncode == 0:
            try:
                return value_of(last_json(done.stdout), key)
            except ValueError as error:
                sys.exit(f"ratio.py: {error}\n  command: {command}")
        print(f"exit code {done.returncode} (attempt {attempt} of {attempts}): {command}\n{done.stderr[-1000:]}",
              file=sys.stderr, flush=True)
    sys.exit(f"ratio.py: failed {attempts} times: {command}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True, metavar="CMD", help="one command line, split as a shell would; no shell")
    parser.add_argument("--peer", required=True, metavar="CMD", action="append", help="repeat it for each variant")
    parser.add_argument("--key", default="median_samples_per_s", help="higher is better (default: %(default)s)")
    parser.add_argument("--peer-key", help="the same number in the peers' output (default: --key)")
    parser.add_argument("--limit", type=float, default=1.0)
    parser.add_argument("--choose", type=int, default=3, metavar="N", help="runs of each variant of the peer")
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--timeout", type=float, default=600, help="seconds per command")
    options = parser.parse_args()
    peer_key = options.peer_key or options.key

    def say(text):
        print(text, file=sys.stderr, flush=True)

    variants = {}
    for command in options.peer:
        if len(options.peer) == 1:
            variants[command] = None
            break
        variants[command] = statistics.median(run(command, peer_key, options.timeout) for _ in range(options.choose))
        say(f"variant {variants[command]:12.2f}  {command}")
    peer = max(variants, key=lambda command: variants[command] or 0)

    ours, theirs = pairs.measure(lambda: run(options.ours, options.key, options.timeout),
                                 lambda: run(peer, peer_key, options.timeout), options.pairs, say)
    ratios = [a / b for a, b in zip(ours, theirs)]
    low, high = pairs.interval(ratios)
    verdict = pairs.verdict(low, high, options.limit)
    print(json.dumps({
        "key": options.key, "peer_key": peer_key, "limit": options.limit, "verdict": verdict,
        "ratio": statistics.median(ratios), "interval_95": [low, high], "pairs": len(ratios),
        "ours_median": statistics.median(ours), "peer_median": statistics.median(theirs), "ours": options.ours,
        "peer": peer, "variants": variants, "ratios": ratios}, indent=2))
    sys.exit({"met": 0, "missed": 1, "undecided": 3}[verdict])


if __name__ == "__main__":
    main()
