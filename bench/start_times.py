#!/usr/bin/env python3
"""How long does `mlbench` take to start, and how large is it? Several builds in turn, of which the first is the one that others
are compared with: `--version`, `status` of 1,000 runs, and the bytes of the program.

    start_times.py NAME=FOLDER... [--rounds 21] [--output docs/results/start-times.json]
    start_times.py --table [--output FILE]            what is kept, as Markdown

The runs are copies of one that the first build trains, each with a name of its own: alone, or with three repeats each, which
`status` shows as one row. In a round each build runs once, and who begins moves on. Times are wall clock and processor time
of the process; a ratio is a build's time over the first build's in the same round. `status` is to take no longer: *met* where
the interval of its median ratio ends at 1 or below. `--version` is to take less than 30 ms of the wall clock. Symbols are
counted to their module by their names, or to the library whose template they are of.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

import pairs
import ratio

RUNS, REPEATS, MOST_START_S = 1000, 4, 0.030
CASES = {"--version": ["--version"], "status, 1,000 runs": ["status", "--home", "ALONE"],
         "status, 250 runs and 3 repeats of each": ["status", "--home", "REPEATED"]}


def make_homes(folder, binaries):
    """{word of CASES: home}."""
    home = folder / "made"
    command = [binaries / "mlbench", "run", "made", "1", "--task", "mnist", "--synthetic", "--framework", "null",
               "--threads-per-worker", "1", "--max-steps", "20", "--local", "--no-wait", "--home", home]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    homes = {"ALONE": [f"made{number}-1" for number in range(RUNS)],
             "REPEATED": [f"made{number // REPEATS}-1" + (f".{number % REPEATS + 1}" if number % REPEATS else "")
                          for number in range(RUNS)]}
    for word, names in homes.items():
        for number, name in enumerate(names):
            run = folder / word / "runs" / name
            run.mkdir(parents=True)
            for file in ("spec.json", "run.json"):
                document = json.loads((home / "runs/made-1" / file).read_text())
                (run / file).write_text(json.dumps({**document, "name": name, "id": number + 1}, indent=2))
    return {word: folder / word for word in homes}


def seconds(command):
    """(wall clock, processor time) of the process."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"exit code {process.returncode}: {command}")
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime


def verdict(low, high, most):
    return "met" if high <= most else "missed" if low > most else "undecided"


def figures(base, values):
    ratios = [value / first for value, first in zip(values, base, strict=True)]
    return {"median_s": statistics.median(values), "ratio": statistics.median(ratios), "interval_95": pairs.interval(ratios),
            "values_s": values}


def measure(words, builds, rounds):
    """{build: {"wall", "processor": figures}}."""
    names = list(builds)
    for name in names:
        seconds([builds[name] / "mlbench", *words])  # warm
    taken = {name: [] for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            taken[name].append(seconds([builds[name] / "mlbench", *words]))
    clocks = {name: dict(zip(("wall", "processor"), zip(*values))) for name, values in taken.items()}
    first = clocks[names[0]]
    return {name: {clock: figures(first[clock], values) for clock, values in of_build.items()}
            for name, of_build in clocks.items()}


def sizes(program):
    """Bytes of the stripped file, and those of its symbols by whose they are."""
    with tempfile.NamedTemporaryFile() as stripped:
        subprocess.run(["strip", "-o", stripped.name, program], check=True)
        size = os.path.getsize(stripped.name)
    owners = collections.Counter()
    symbols = subprocess.run(["nm", "-C", "-S", "--size-sort", program], check=True, capture_output=True, text=True).stdout
    for line in symbols.splitlines():
        _, length, kind, symbol = line.split(None, 3)
        ours = re.search(r"mlbench::(?:\(anonymous namespace\)::)?([a-z]\w*)::", symbol)
        other = re.search(r"\b(nlohmann|CLI|httplib|spdlog|fmt|std)::", symbol)
        if kind in "bB":  # takes no room in the file
            continue
        owner = ours[1] if ours else "base" if "mlbench::" in symbol else other[1] if other else "other"
        owners[owner] += int(length, 16)
    return {"stripped_bytes": size, "symbol_bytes": dict(owners.most_common())}


def version_of(folder):
    said = subprocess.run([folder / "mlbench", "--version", "--json"], check=True, stdout=subprocess.PIPE).stdout
    return {key: json.loads(said)[key] for key in ("git_describe", "compiler", "build_type")}


def verdict_of(case, row):
    if case == "--version":
        return verdict(*pairs.interval(row["wall"]["values_s"]), MOST_START_S)
    return verdict(*row["processor"]["interval_95"], 1)


def table_of(document):
    lines = ["| what | build | wall clock, ms | processor time, ms | over the first build's | |", "|---|---|---|---|---|---|"]
    for case, builds in document["cases"].items():
        for name, row in builds.items():
            (low, high), first = row["processor"]["interval_95"], name == next(iter(builds))
            wall, processor = (row[clock]["median_s"] * 1e3 for clock in ("wall", "processor"))
            over = "" if first else f"{row['processor']['ratio']:.2f} ({low:.2f} to {high:.2f})"
            lines.append(f"| `{case}` | {name} | {wall:.0f} | {processor:.0f} | {over} | {'' if first else verdict_of(case, row)} |")
    return "\n".join(lines)


def size_table_of(document):
    builds = document["builds"]
    first, *others = builds.values()
    owners = sorted(first["symbol_bytes"] | others[-1]["symbol_bytes"],
                    key=lambda owner: first["symbol_bytes"].get(owner, 0) - others[-1]["symbol_bytes"].get(owner, 0))
    lines = ["| bytes | " + " | ".join(builds) + " |", "|---" * (len(builds) + 1) + "|",
             "| stripped program | " + " | ".join(f"{one['stripped_bytes']:,}" for one in builds.values()) + " |"]
    for owner in owners[:10]:
        lines.append(f"| {owner} | " + " | ".join(f"{one['symbol_bytes'].get(owner, 0):,}" for one in builds.values()) + " |")
    return "\n".join(lines)


def build_of(text):
    name, separator, folder = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"'{text}': expected NAME=FOLDER, such as before=build/release/bin")
    return name, pathlib.Path(folder).resolve()


def main():
    parser = ratio.parser_of(__doc__, "start-times.json")
    parser.add_argument("builds", metavar="NAME=FOLDER", nargs="*", type=build_of)
    parser.add_argument("--rounds", type=int, default=21)
    given = parser.parse_args()
    if not given.table:
        builds = dict(given.builds)
        if len(builds) < 2:
            parser.error("expected two builds or more, such as before=FOLDER after=build/release/bin")
        document = {"date": ratio.now(), "machine": ratio.machine(), "load_before": os.getloadavg()[0], "rounds": given.rounds,
                    "builds": {name: version_of(folder) | sizes(folder / "mlbench") for name, folder in builds.items()}}
        with tempfile.TemporaryDirectory(prefix="mlstart") as folder:
            homes = make_homes(pathlib.Path(folder), next(iter(builds.values())))
            document["cases"] = {case: measure([homes.get(word, word) for word in words], builds, given.rounds)
                                 for case, words in CASES.items()}
        document["load_after"] = os.getloadavg()[0]
        ratio.write(given.output, document)
    document = json.loads(given.output.read_text())
    print(table_of(document), size_table_of(document), sep="\n\n")


if __name__ == "__main__":
    main()
