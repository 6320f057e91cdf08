#!/usr/bin/env python3
"""Is one program at least as fast as another? Paired measurement of two command lines that print JSON.

    ratio.py --ours 'CMD' --peer 'CMD A' --peer 'CMD B' [--limit 1.0] [--output FILE]

The best of the peer's variants is chosen once, from 3 runs of each, one after the other in turn: by the median. With
--choices FILE --configuration NAME the choice is kept there, and counts until the variants or the machine are others. A
variant that fails or takes longer than --timeout is left out, with the reason; one must remain. Then --pairs interleaved
pairs are run against that variant alone, with the verdict of pairs.py: met, missed or undecided.

With --turns both programs are started once, with the word --turns behind each command, say a line when they are warm, and
take a few steps in turn, for each line that they are given: of a pair neither starts anew, and they are neighbours in time.
What they print after their input ends is what ran, and tells whether it was right.

Each command's value is the number called --key in the last JSON value that it prints: at the top of an object (the peers),
or in the `throughput` of the only run of an array (`mlbench run ... --json`). Prints all that was measured as one JSON
object. Exit code 0: met, 1: missed, 3: undecided, 2: could not be measured.
"""
import argparse
import datetime
import json
import os
import pathlib
import shlex
import signal
import statistics
import subprocess
import sys
import threading

import pairs

EXIT_CODES = {"met": 0, "missed": 1, "undecided": 3}


class Failed(Exception):
    pass


def say(text):
    print(text, file=sys.stderr, flush=True)


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def exit_code_of(rows):
    """Of rows with verdicts: one that is missed counts before one that is undecided."""
    verdicts = {row["verdict"] for row in rows}
    return next((EXIT_CODES[kind] for kind in ("missed", "undecided") if kind in verdicts), EXIT_CODES["met"])


def machine():
    cpu = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), "unknown")
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30)}


# Each kind of x86 processor has what those before it have; the flag that shows it.
INSTRUCTION_SETS = {"other": "", "avx2": "avx2", "avx512": "avx512f", "amx": "amx_bf16"}


def instruction_set(cpuinfo=None):
    """The highest of INSTRUCTION_SETS that this machine has."""
    text = cpuinfo if cpuinfo is not None else pathlib.Path("/proc/cpuinfo").read_text()
    flags = next((line.split(":")[1].split() for line in text.splitlines() if line.startswith("flags")), [])
    return [name for name, flag in INSTRUCTION_SETS.items() if not flag or flag in flags][-1]


def parser_of(description, output):
    """The options of a script that keeps what it measures in the file `output` of docs/results, and prints it as a table."""
    root = pathlib.Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=root / "build/release/bin")
    parser.add_argument("--output", type=pathlib.Path, default=root / "docs/results" / output)
    parser.add_argument("--table", action="store_true", help="print what is kept, as Markdown")
    return parser


def table(heads, rows):
    """Markdown: `heads` is its first line, a row is the text between the outer bars."""
    return "\n".join([heads, "|---" * (heads.count("|") - 1) + "|", *(f"| {row} |" for row in rows)])


def with_interval(middle, ends, form=".2f"):
    return f"{middle:{form}} ({ends[0]:{form}} to {ends[1]:{form}})"


def write(path, document):
    """As a whole or not at all."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(document, indent=1) + "\n")
    partial.rename(path)


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


def settings_of(document):
    """What ran: version and effective settings of a run's record, all but the measured numbers of other programs' output."""
    if "environment" in document:
        environment = document["environment"]
        kept = ("task", "task_hash", "framework", "backend", "workers", "threads_per_worker", "effective")
        return {"program": f"mlbench {environment['version']}", "commit": environment["git_describe"],
                "build_type": environment["build_type"], **{name: document[name] for name in kept}}
    return {name: value for name, value in document.items() if not isinstance(value, float)}


class Side:
    """One of two programs: measures, and remembers what it was and how often a run of it failed."""

    def __init__(self, key, options):
        self.key, self.values, self.timeout = key, options.word, options.timeout
        self.settings, self.failures = None, 0

    def words(self, command):
        return [self.values.get(word, word) for word in shlex.split(command)]

    def output(self, command):
        process = subprocess.Popen(self.words(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
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
                document = last_json(out)
                self.settings = settings_of(document)
                return value_of(document, self.key)
            self.failures += 1
            say(f"exit code {code} (attempt {attempt} of {attempts}): {command}\n{err[-1000:]}")
        raise Failed(f"failed {attempts} times: {command}")


class Turns:
    """A program that stays and measures when it is told to. For `with`: it ends, and must end well, at the end."""

    def __init__(self, side, command):
        self.side, self.command = side, command
        self.process = subprocess.Popen(side.words(command) + ["--turns"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, start_new_session=True)
        # What it says beside is for the error alone.
        self.errors = []
        self.late = False
        self.reader = threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def __enter__(self):
        try:
            self.answer()
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def expire(self):
        self.late = True
        self.kill()

    def answer(self):
        alarm = threading.Timer(self.side.timeout, self.expire)
        alarm.start()
        try:
            line = self.process.stdout.readline()
        finally:
            alarm.cancel()
        if not line:
            self.process.wait()
            self.reader.join(1)
            how = f"took longer than {self.side.timeout:g} s" if self.late else f"exit code {self.process.returncode}"
            raise Failed(f"{how}: {self.command}\n{''.join(self.errors)[-1000:]}")
        return json.loads(line)

    def turn(self):
        """What it says of one more turn."""
        self.process.stdin.write("turn\n")
        self.process.stdin.flush()
        return self.answer()

    def measure(self):
        return value_of(self.turn(), self.side.key)

    def __exit__(self, kind, *_):
        if kind is not None:
            self.kill()
            return
        self.process.stdin.close()
        self.side.settings = settings_of(self.answer())
        if self.process.wait() != 0:
            raise Failed(f"exit code {self.process.returncode}: {self.command}\n{''.join(self.errors)[-1000:]}")


def best(measured):
    return max(measured, key=lambda command: statistics.median(measured[command]))


def variants_of(choice):
    return set(choice["measured"]) | set(choice.get("left_out", {}))


def measure_in_turn(side, options):
    """Yields (variant, value or Failed): each variant --choose times, none again after it failed."""
    failed = set()
    for _ in range(options.choose):
        for command in options.peer:
            if command in failed:
                continue
            try:
                yield command, side.measure(command)
            except Failed as failure:
                failed.add(command)
                yield command, failure


def measure_staying(side, options):
    """The same of programs that stay."""
    for command in options.peer:
        try:
            with Turns(side, command) as program:
                values = [program.measure() for _ in range(options.choose)]
        except Failed as failure:
            yield command, failure
            continue
        yield from ((command, value) for value in values)


def choose(side, options):
    """{"date", "machine", "measured": {variant: values}, "left_out": {variant: reason}}: measured now, or kept from before."""
    if len(options.peer) == 1:
        return None
    path = pathlib.Path(options.choices) if options.choices else None
    choices = json.loads(path.read_text()) if path and path.exists() else {}
    kept = choices.get(options.configuration)
    if kept and not options.choose_again:
        if kept["machine"] == machine() and variants_of(kept) == set(options.peer):
            say(f"variant of {kept['date']}: {best(kept['measured'])}")
            return kept
        say("the kept choice is of other variants or of another machine")
    measured, left_out = {command: [] for command in options.peer}, {}
    for command, value in (measure_staying if options.turns else measure_in_turn)(side, options):
        if isinstance(value, Failed):
            say(f"variant    left out  {command}\n{value}")
            left_out[command] = str(value)
            del measured[command]
        else:
            measured[command].append(value)
            say(f"variant {value:12.2f}  {command}")
    if not measured:
        raise Failed("no variant of the peer could be measured:\n" + "\n".join(left_out.values()))
    choice = {"date": now(), "machine": machine(), "measured": measured, "left_out": left_out}
    if path:
        write(path, choices | {options.configuration: choice})
    return choice


def figures(ours, peer, limit, lower_end=None):
    """What follows from the values of the pairs. With a `lower_end` below the limit the verdict is met, too, where the median
    reaches the limit and the interval begins no lower than that."""
    ratios = [a / b for a, b in zip(ours, peer, strict=True)]
    low, high = pairs.interval(ratios)
    median, verdict = statistics.median(ratios), pairs.verdict(low, high, limit)
    if lower_end is not None and median >= limit and low >= lower_end:
        verdict = "met"
    return {"ours_median": statistics.median(ours), "peer_median": statistics.median(peer), "ratio": median,
            "interval_95": [low, high], "verdict": verdict}


def compare(options):
    ours, peer = Side(options.key, options), Side(options.peer_key or options.key, options)
    load = os.getloadavg()[0]
    choice = choose(peer, options)
    command = best(choice["measured"]) if choice else options.peer[0]
    begin = now()
    if options.turns:
        with Turns(ours, options.ours) as one, Turns(peer, command) as other:
            values = pairs.measure(one.measure, other.measure, options.pairs, say)
    else:
        values = pairs.measure(lambda: ours.measure(options.ours), lambda: peer.measure(command), options.pairs, say)
    return {
        "begin": begin, "end": now(), "machine": machine(), "instruction_set": instruction_set(), "load_before": load,
        "key": ours.key, "peer_key": peer.key, "limit": options.limit, "lower_end": options.lower_end,
        "pairs": options.pairs, "turns": options.turns, **figures(*values, options.limit, options.lower_end),
        "ours": {"command": options.ours, "settings": ours.settings, "failures": ours.failures, "values": values[0]},
        "peer": {"command": command, "settings": peer.settings, "failures": peer.failures, "values": values[1]},
        "choice": choice}


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True, metavar="CMD", help="one command line, split as a shell would; no shell")
    parser.add_argument("--peer", required=True, metavar="CMD", action="append", help="repeat it for each variant")
    parser.add_argument("--key", default="median_samples_per_s", help="higher is better (default: %(default)s)")
    parser.add_argument("--peer-key", help="the same number in the peers' output (default: --key)")
    parser.add_argument("--limit", type=float, default=1.0)
    parser.add_argument("--lower-end", type=float, metavar="RATIO",
                        help="met, too, where the median reaches the limit and its interval begins at RATIO or above")
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--turns", action="store_true", help="start both once, and let them take turns")
    parser.add_argument("--choose", type=int, default=3, metavar="N", help="runs of each variant of the peer")
    parser.add_argument("--choices", metavar="FILE", help="where choices are kept, as JSON")
    parser.add_argument("--configuration", metavar="NAME", help="what the choice is for, e.g. '1a float32 1x2'")
    parser.add_argument("--choose-again", action="store_true", help="whatever is kept")
    parser.add_argument("--word", metavar="NAME=VALUE", action="append", default=[], type=lambda text: text.split("=", 1),
                        help="VALUE is run where a command says NAME, which is what is kept (repeatable)")
    parser.add_argument("--python", metavar="PATH", help="the same as --word PYTHON=PATH")
    parser.add_argument("--output", metavar="FILE", help="where to write the JSON, too")
    parser.add_argument("--timeout", type=float, default=600,
                        help="seconds of a command, of a start or turn with --turns (default: %(default)s)")
    options = parser.parse_args(arguments)
    if (options.choices is None) != (options.configuration is None):
        parser.error("--choices and --configuration go together")
    if any(len(word) != 2 for word in options.word):
        parser.error("--word: expected NAME=VALUE")
    options.word = dict(options.word) | ({"PYTHON": options.python} if options.python else {})
    return options


def main(arguments=None):
    options = parse(arguments)
    try:
        result = compare(options)
    except Failed as failure:
        say(f"ratio.py: {failure}")
        return 2
    if options.output:
        write(options.output, result)
    print(json.dumps(result, indent=1))
    return EXIT_CODES[result["verdict"]]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what runs is ended, too
    sys.exit(main())
