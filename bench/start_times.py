#!/usr/bin/env python3
"""How long does `mlbench` take to start, and how large is it? Several builds in turn, of which the first is the one that others
are compared with: `--version`, `status` of 1,000 runs, and the bytes of the program.

    start_times.py NAME=FOLDER... [--rounds 21] [--output docs/results/start-times.json]
    start_times.py --first-step NAME=FOLDER [--data-dir DIR] [--rounds 21]     until 1a trains, by framework
    start_times.py --table [--output FILE]            what is kept, as Markdown

The runs are copies of one that the first build trains, each with a name of its own: alone, or with three repeats each, which
`status` shows as one row. In a round each build runs once, and who begins moves on. Times are wall clock and processor time
of the process; a ratio is a build's time over the first build's in the same round. `status` is to take no longer: *met* where
the interval of its median ratio ends at 1 or below. `--version` is to take less than 30 ms of the wall clock. Symbols are
counted to their module by their names, or to the library whose template they are of.

--first-step: from the start of `mlbench run` to the beginning and the end of rank 0's first step of 1a, one rank on two
threads, data prepared before. The end counts: *met* where the interval of its median ends at the limit or below. Frameworks
take turns; each process is new, files may lie in the memory of the system. With --data-dir CIFAR-10 itself, else made data.
What the file holds of other measurements stays.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

import pairs
import ratio

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import rederive  # noqa: E402

RUNS, REPEATS, MOST_START_S = 1000, 4, 0.030
CASES = {"--version": ["--version"], "status, 1,000 runs": ["status", "--home", "ALONE"],
         "status, 250 runs and 3 repeats of each": ["status", "--home", "REPEATED"]}

FIRST_STEP_S = {"native": 1.0, "torch": 1.0, "tensorflow": 3.0}  # at most
AIM_S = {"native": 0.5, "torch": 0.5}


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


def first_step_of(run, started):
    """{"begin_s", "end_s"} of the first step of rank 0 since `started`, a Unix time, and the largest rank's bytes of memory."""
    start_us, steps = rederive.read_steps(run / "spool" / "rank-0.seg-1.steps")
    end_s = start_us / 1e6 + steps[0].end_ns / 1e9 - started
    record = json.loads((run / "run.json").read_text())
    return {"begin_s": end_s - sum(steps[0].kinds) / 1e9, "end_s": end_s, "peak_rss": record["throughput"]["peak_rss"]}


def first_step(mlbench, home, name, framework, ranks=1, threads=2, steps=1, data=("--synthetic",)):
    """The same of a run of 1a that is started now."""
    command = [mlbench, "run", name, ranks, "--task", "1a", "--framework", framework, "--threads-per-worker", threads,
               "--max-steps", steps, "--local", "--no-wait", "--home", home, *data]
    started = time.time()
    done = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"exit code {done.returncode}: {shlex.join(map(str, command))}\n{done.stderr[-1000:]}")
    return first_step_of(home / "runs" / f"{name}-{ranks}", started)


def measure_first_steps(mlbench, home, rounds, data):
    """{framework: [what first_step() gives]}."""
    names, taken = list(FIRST_STEP_S), collections.defaultdict(list)
    for name in names:
        first_step(mlbench, home, f"warm-{name}", name, data=data)  # prepares the data
    for turn in range(rounds):
        for place in range(len(names)):
            name = names[(turn + place) % len(names)]
            taken[name].append(first_step(mlbench, home, f"{name}-{turn}", name, data=data))
            ratio.say(f"round {turn + 1:3d}  {name:12}{taken[name][-1]['end_s']:6.2f} s")
    return {name: taken[name] for name in names}


def first_step_table_of(document):
    rows = []
    for name, runs in document["runs"].items():
        begin, end = (statistics.median(run[key] for run in runs) for key in ("begin_s", "end_s"))
        low, high = pairs.interval([run["end_s"] for run in runs])
        most = f"{FIRST_STEP_S[name]:g}" + (f" ({AIM_S[name]:g})" if name in AIM_S else "")
        rows.append(f"{name} | {begin:.2f} | {end:.2f} | {low:.2f} to {high:.2f} | {most} | "
                    f"{pairs.at_most(low, high, FIRST_STEP_S[name])}")
    return ratio.table("| framework | to its first step, s | to its end, s | 95 % interval | at most (aim) | |", rows)


def verdict_of(case, row):
    if case == "--version":
        return pairs.at_most(*pairs.interval(row["wall"]["values_s"]), MOST_START_S)
    return pairs.at_most(*row["processor"]["interval_95"], 1)


def table_of(document):
    rows = []
    for case, builds in document["cases"].items():
        for name, row in builds.items():
            first, used = name == next(iter(builds)), row["processor"]
            over = "" if first else ratio.with_interval(used["ratio"], used["interval_95"])
            rows.append(f"`{case}` | {name} | {row['wall']['median_s'] * 1e3:.0f} | {used['median_s'] * 1e3:.0f} | {over} | "
                        f"{'' if first else verdict_of(case, row)}")
    return ratio.table("| what | build | wall clock, ms | processor time, ms | over the first build's | |", rows)


def size_table_of(document):
    builds = document["builds"]
    first, *others = builds.values()
    owners = sorted(first["symbol_bytes"] | others[-1]["symbol_bytes"],
                    key=lambda owner: first["symbol_bytes"].get(owner, 0) - others[-1]["symbol_bytes"].get(owner, 0))
    of_owners = {owner: [one["symbol_bytes"].get(owner, 0) for one in builds.values()] for owner in owners[:10]}
    rows = {"stripped program": [one["stripped_bytes"] for one in builds.values()], **of_owners}
    return ratio.table(f"| bytes | {' | '.join(builds)} |",
                       (" | ".join([name, *(f"{size:,}" for size in of_builds)]) for name, of_builds in rows.items()))


def build_of(text):
    name, separator, folder = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"'{text}': expected NAME=FOLDER, such as before=build/release/bin")
    return name, pathlib.Path(folder).resolve()


def conditions(given):
    return {"date": ratio.now(), "machine": ratio.machine(), "load_before": os.getloadavg()[0], "rounds": given.rounds}


def compare_builds(given, builds):
    document = conditions(given) | {"builds": {name: version_of(folder) | sizes(folder / "mlbench")
                                               for name, folder in builds.items()}}
    with tempfile.TemporaryDirectory(prefix="mlstart") as folder:
        homes = make_homes(pathlib.Path(folder), next(iter(builds.values())))
        document["cases"] = {case: measure([homes.get(word, word) for word in words], builds, given.rounds)
                             for case, words in CASES.items()}
    return document | {"load_after": os.getloadavg()[0]}


def compare_frameworks(given, name, build):
    document = conditions(given) | {"build": {"name": name} | version_of(build)}
    data = ["--data-dir", given.data_dir.resolve()] if given.data_dir else ["--synthetic"]
    document["data"] = "cifar-10" if given.data_dir else "made"
    with tempfile.TemporaryDirectory(prefix="mlstart") as home:
        document["runs"] = measure_first_steps(build / "mlbench", pathlib.Path(home), given.rounds, data)
    return document | {"load_after": os.getloadavg()[0]}


def main():
    parser = ratio.parser_of(__doc__, "start-times.json")
    parser.add_argument("builds", metavar="NAME=FOLDER", nargs="*", type=build_of)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--first-step", action="store_true", help="of one build: until each framework trains 1a")
    parser.add_argument("--data-dir", type=pathlib.Path, help="where CIFAR-10 lies (default: made data)")
    given = parser.parse_args()
    builds, document = dict(given.builds), json.loads(given.output.read_text()) if given.output.exists() or given.table else {}
    if given.table:
        pass
    elif given.first_step:
        if len(builds) != 1:
            parser.error("--first-step: expected one build, such as now=build/release/bin")
        document |= {"first_step": compare_frameworks(given, *next(iter(builds.items())))}
        ratio.write(given.output, document)
    else:
        if len(builds) < 2:
            parser.error("expected two builds or more, such as before=FOLDER after=build/release/bin")
        document |= compare_builds(given, builds)
        ratio.write(given.output, document)
    tables = [table_of(document), size_table_of(document)] if "cases" in document else []
    print(*tables, *([first_step_table_of(document["first_step"])] if "first_step" in document else []), sep="\n\n")


if __name__ == "__main__":
    main()
