#!/usr/bin/env python3
"""Task 0a, the time of an all-reduce over its size, for each back end and number of ranks, into docs/results/collectives/:
BACKEND-K.json, BACKEND-K.csv, the figures, and the table of docs/results/collectives.md.

    collectives_0a.py [--backends mpi,gloo,shm] [--ranks 2,4,8] [--dry-run]     measures; wants an idle machine
    collectives_0a.py --cap 2s ...                                              stops a size after that time: open
    collectives_0a.py --figures                                                 draws what is kept again
    collectives_0a.py --page                                                    writes the page's table again
    collectives_0a.py --check                                                   does the table follow from what is kept?

What is kept of other back ends and ranks stays. A run that fails leaves no files, and the exit code says so.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = pathlib.Path("docs/results/collectives")
PAGE = pathlib.Path("docs/results/collectives.md")
BEGIN, END = "<!-- table of bench/collectives_0a.py -->", "<!-- end of table -->"
BACKENDS, RANKS = ["mpi", "gloo", "shm"], [2, 4, 8]
TYPES = ["float32", "float16"]
SIZES = 80
# The page quotes those of the 80 sizes that are nearest to so many elements.
QUOTED = [1, 1_000, 16_000, 1_000_000, 100_000_000]
IDLE = 0.5  # load average of a minute that an idle machine stays below


def command(mlbench, backend, ranks, file, cap=None):
    capped = ["--max-time-per-size", cap] if cap else []
    return [mlbench, "bench", "collectives", "all_reduce", "--counts", "0a", "--datatype", ",".join(TYPES), "--iters", "100",
            "--form", "in_place", "--ranks", str(ranks), "--backend", backend, "--name", f"0a-{backend}", "--local",
            "--comm-timeout", "10m", "--csv", "--output-file", str(file), *capped]


def measure(mlbench, backend, ranks, folder, cap):
    """Whether it was measured to its end, with all results right."""
    file = folder / f"{backend}-{ranks}.json"
    words = command(mlbench, backend, ranks, file, cap)
    print(shlex.join(words), file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as home:
        csv = subprocess.run(words, stdout=subprocess.PIPE, text=True, env={**os.environ, "MLBENCH_HOME": home})
    if csv.returncode == 0:
        document = json.loads(file.read_text())
        document["args"] = []  # what is kept names no machine and no folder
        for device in document["devices"]:
            device["hostname"] = "host"
        file.write_text(json.dumps(document, indent=2) + "\n")
        file.with_suffix(".csv").write_text(csv.stdout)
        return True
    file.unlink(missing_ok=True)
    return False


def draw(mlbench, folder):
    files = [str(file) for file in sorted(folder.glob("*-*.json"))]
    subprocess.run([mlbench, "charts", *files, "--output", str(folder), "--format", "svg,csv"], check=True)


def kept(folder):
    """{(backend, ranks): the document}, in the order of the table."""
    found = {}
    for file in folder.glob("*-*.json"):
        backend, ranks = file.stem.rsplit("-", 1)
        found[backend, int(ranks)] = json.loads(file.read_text())
    order = {backend: place for place, backend in enumerate(BACKENDS)}
    return dict(sorted(found.items(), key=lambda item: (order.get(item[0][0], len(order)), item[0])))


def rows_of(document, dtype):
    return [row for row in document["results"] if row["dtype"] == dtype and row["operation"] == "all_reduce"]


def microseconds(value):
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def quoted_counts(rows):
    counts = [row["count"] for row in rows]
    return [min(counts, key=lambda count: abs(count - wanted)) for wanted in QUOTED]


def labels(document, rows):
    if document["oversubscribed"]:
        yield "oversubscribed"
    counts = [row["in_place"]["iterations"]["count"] for row in rows]
    capped = [count for count in counts if count < document["config"]["spec"]["iterations"]]
    if document["config"]["spec"]["most_seconds_per_size"] > 0:
        yield f"open: {len(capped)} sizes capped, {min(counts)} iterations or more"


def table(documents):
    if not documents:
        return ["No run is kept yet."]
    some = rows_of(next(iter(documents.values())), TYPES[0])
    heads = [f"{count:,}" for count in quoted_counts(some)]
    lines = [f"| back end | ranks | type | {' | '.join(heads)} | bus, GB/s | sizes | wrong | |",
             "|---|---|---|" + "---|" * (len(heads) + 4)]
    for (backend, ranks), document in documents.items():
        for dtype in TYPES:
            rows = rows_of(document, dtype)
            if not rows:
                continue
            # The smallest sizes are several times the same: the last one counts.
            forms = {row["count"]: row["in_place"] for row in rows}
            times = [microseconds(forms[count]["iterations"]["p50"]) for count in quoted_counts(rows)]
            best = max(row["in_place"]["bus_bw"] for row in rows)
            wrong = sum(row["in_place"]["nwrong"] for row in rows)
            cells = [document.get("comm_stack") or backend, str(ranks), dtype, *times, f"{best:.2f}", str(len(rows)),
                     str(wrong), ", ".join(labels(document, rows))]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def with_table(page, lines):
    block = "\n".join([BEGIN, "", *lines, "", END])
    return re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: block, page, flags=re.DOTALL)


def complaints(documents, page):
    """What is wrong with what is kept, and with the page."""
    for (backend, ranks), document in documents.items():
        name = f"{backend}-{ranks}.json"
        if (document["backend"], document["workers"]) != (backend, ranks):
            yield f"{name} is of {document['backend']} and {document['workers']} ranks"
        if document["errors"]:
            yield f"{name} ended early: {document['errors']}"
        spec = document["config"]["spec"]
        if spec["iterations"] != 100 or len(spec["counts"]) != SIZES:
            yield f"{name} is not of task 0a"
        for dtype in TYPES:
            rows = rows_of(document, dtype)
            if [row["count"] for row in rows] != spec["counts"]:
                yield f"{name} has {len(rows)} sizes of {dtype} instead of the {SIZES} that were asked for"
            wrong = [row["count"] for row in rows if row["in_place"]["nwrong"] != 0]
            if wrong:
                yield f"{name} has wrong or unchecked results of {dtype} at {wrong}"
    if BEGIN not in page or END not in page:
        yield f"{PAGE} lacks the lines '{BEGIN}' and '{END}'"
    elif with_table(page, table(documents)) != page:
        yield f"{PAGE}: its table is not that of {RESULTS}: bench/collectives_0a.py --page"


def check():
    documents, page = kept(ROOT / RESULTS), ROOT / PAGE
    found = list(complaints(documents, page.read_text() if page.exists() else ""))
    print("\n".join([*found, f"{len(documents)} runs, {len(found)} complaints"]))
    return 1 if found else 0


def listed(text):
    return [word for word in text.split(",") if word]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", type=listed, default=BACKENDS, metavar="NAME[,NAME]")
    parser.add_argument("--ranks", type=listed, default=RANKS, metavar="K[,K]")
    parser.add_argument("--mlbench", default=str(ROOT / "build/release/bin/mlbench"), metavar="PROGRAM")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / RESULTS, metavar="DIR",
                        help=f"another folder than {RESULTS}; the page is then left alone")
    parser.add_argument("--cap", metavar="TIME", help="stop measuring a size after this time, which opens the task")
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    parser.add_argument("--busy", action="store_true", help="measure although others use the machine")
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        return check()
    failed = []
    if not options.page and not options.figures:
        pairs = [(backend, int(ranks)) for backend in options.backends for ranks in options.ranks]
        if options.dry_run:
            for backend, ranks in pairs:
                print(shlex.join(command(options.mlbench, backend, ranks, options.output / f"{backend}-{ranks}.json",
                                         options.cap)))
            return 0
        if os.getloadavg()[0] > IDLE and not options.busy:
            sys.exit(f"collectives_0a.py: others use this machine (load {os.getloadavg()[0]:.2f}): --busy measures "
                     "nevertheless")
        options.output.mkdir(parents=True, exist_ok=True)
        failed = [f"{backend}-{ranks}" for backend, ranks in pairs
                  if not measure(options.mlbench, backend, ranks, options.output, options.cap)]
    documents = kept(options.output)
    if documents and not options.page:
        draw(options.mlbench, options.output)
    if options.output == ROOT / RESULTS:
        page = ROOT / PAGE
        page.write_text(with_table(page.read_text(), table(documents)))
    print("\n".join(table(documents)))
    return f"collectives_0a.py: not measured: {', '.join(failed)}" if failed else 0


if __name__ == "__main__":
    sys.exit(main())
