"""For compression.py, algorithms.py and seeds.py: the cells of a table. Each is made once, by a program that takes minutes, and
kept in a JSON file as soon as it is there; a call that was cut off is given again, and goes on. Where only steps or metrics
of a cell are compared, any machine may make it."""
import dataclasses
import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Callable

import ratio

ROOT = pathlib.Path(__file__).resolve().parents[1]


@dataclasses.dataclass
class Cell:
    name: str
    words: list[str]  # of the command, as --dry-run shows it
    about_s: float  # that it takes
    measure: Callable[[], dict]  # what is kept of it
    timed_with: str = ""  # Cells with the same word here are compared by their times: one machine makes them all.


def parser_of(description, output):
    parser = ratio.parser_of(description, output)
    parser.add_argument("--home", type=pathlib.Path, help="home of mlbench for the runs; kept between calls")
    parser.add_argument("--data-dir", default=os.environ.get("MLBENCH_DATA_DIR"), help="where the data lie")
    parser.add_argument("--only", default="", metavar="REGEX", help="cells whose name it finds, e.g. '^1a[.]half[.]2'")
    parser.add_argument("--no-wait", action="store_true", help="others use the machine: start at once")
    parser.add_argument("--dry-run", action="store_true", help="print what is missing, and about how long it takes")
    return parser


def checked(parser):
    """The options that were given."""
    given = parser.parse_args()
    if not given.table and not given.dry_run and given.home is None:
        parser.error("--home is missing: give a folder for the runs, the same one at each call")
    given.home, given.bin = (given.home or pathlib.Path("HOME")).resolve(), given.bin.resolve()
    return given


def read(path):
    """What is kept: {"cells": {name: {"words", "date", "machine", "timed_with", ...}}}."""
    return json.loads(path.read_text()) if path.exists() else {"cells": {}}


def is_finished(folder):
    record = folder / "run.json"
    return record.exists() and json.loads(record.read_text())["state"] == "finished"


def find_run(home, name, workers):
    """(name, folder) of the first run that is finished or not begun yet: one that was cut off stays as it is."""
    for attempt in itertools.count(1):
        tried = f"{name}-try{attempt}"
        folder = home / "runs" / f"{tried}-{workers}"
        if not folder.exists() or is_finished(folder):
            return tried, folder


def record_of(given, name, workers, words):
    """The record of the run of that name, which is trained where the home has none that finished."""
    run, folder = find_run(given.home, name.replace(".", "_"), workers)
    if not folder.exists():
        command = [given.bin / "mlbench", "run", run, workers, *words, "--threads-per-worker", 1, "--local",
                   *(["--no-wait"] if given.no_wait else []),
                   *(["--data-dir", pathlib.Path(given.data_dir).resolve()] if given.data_dir else [])]
        done = subprocess.run(list(map(str, command)), env={**os.environ, "MLBENCH_HOME": str(given.home)}, cwd=ROOT,
                              stdout=subprocess.DEVNULL, check=False)
        if done.returncode != 0:  # a run that misses its goal has 0, too
            raise SystemExit(f"{name}: exit code {done.returncode}: {shlex.join(map(str, command))}")
    return json.loads((folder / "run.json").read_text())


def keep(run, folder):
    """Record and spools of a run, in a folder that is not there yet."""
    command = [sys.executable, ROOT / "tools/keep_result.py", run, folder]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
        raise SystemExit(f"run {run.name} is not kept")


def run_cell(given, name, workers, words, about_s, figures, timed_with=""):
    """A cell of what `figures` takes from the record of a run."""
    return Cell(name, ["mlbench", "run", "NAME", str(workers), *words], about_s,
                lambda: figures(record_of(given, name, workers, words)), timed_with)


def make(cells, given):
    """Makes those that are missing, and returns what is kept; with --dry-run says what that would be."""
    document, left_s = read(given.output), 0
    for cell in cells:
        kept = document["cells"].get(cell.name)
        if kept and kept["words"] != cell.words:
            raise SystemExit(f"{given.output}: '{cell.name}' is of '{shlex.join(kept['words'])}', not of "
                             f"'{shlex.join(cell.words)}': give the options of before, or another --output")
        if kept or not re.search(given.only, cell.name):
            continue
        if given.dry_run:
            left_s += cell.about_s
            print(f"{cell.name:32}{cell.about_s / 60:6.1f} min  {shlex.join(cell.words)}")
            continue
        here = {"machine": ratio.machine(), "timed_with": cell.timed_with}
        if cell.timed_with and any(other["timed_with"] == cell.timed_with and other["machine"] != here["machine"]
                                   for other in document["cells"].values()):
            raise SystemExit(f"{given.output}: what is timed with '{cell.name}' is of another machine, and times of two do not "
                             "compare: give another --output")
        ratio.say(f"== {cell.name}, about {cell.about_s / 60:.1f} min")
        document["cells"][cell.name] = {"words": cell.words, "date": ratio.now(), **here, **cell.measure()}
        ratio.write(given.output, document)
    if given.dry_run:
        print(f"# about {left_s / 60:.0f} min in all")
    return document
