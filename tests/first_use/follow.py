"""Follows a page of docs/ as a new user does: word by word, in a fresh home.

usage: follow.py PAGE [--print]

A block of code marked `sh` is run by bash; each of its commands has to end with 0. A block marked `text` behind it is
what the page says one sees: each of its lines has to be among the lines that the commands wrote, in that order. Numbers
may be others, since times and threads are those of a machine; "..." stands for anything. Blocks keep variables and
the folder of those before. A page begins in a clone of the repository that is built: here a folder with links to the
sources and to the programs under test. --print shows what the commands write.

Needs MLBENCH_TEST_SOURCE_DIR and MLBENCH_TEST_MLBENCH. Prints PAGE:LINE for what differs; exits 1 then.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

CORES = 2  # with fewer, runs with two workers have the label oversubscribed
PROGRAMS = ("bash", "curl", "gnuplot", "mpirun", "python3")
TIMEOUT_S = 300  # of a block
NUMBER = r"(?:[\d.,]*\d(?:e[+-]?\d+)?)"


def missing(what: str):
    print(f"missing capability: {what}")
    sys.exit(77)


try:
    from markdown_it import MarkdownIt
except ImportError as error:
    missing(f"{error.name} (tools/setup.sh test)")


def blocks(page: str):
    """(line, commands, lines that one sees) of each block to run."""
    found = []
    for token in MarkdownIt("commonmark").enable("table").parse(page):
        if token.type == "fence" and token.info == "sh":
            found.append((token.map[0] + 1, token.content, []))
        elif token.type == "fence" and token.info == "text":
            if not found:
                raise ValueError(f"line {token.map[0] + 1}: text that no command writes")
            found[-1][2].extend(line for line in token.content.splitlines() if line.strip())
    return found


def pattern_of(line: str) -> re.Pattern:
    """What matches a line whatever its numbers are."""
    parts = []
    for part in re.findall(rf"{NUMBER}|\.\.\.|\s+|[^\d\s.,]+|.", line.strip()):
        if re.fullmatch(NUMBER, part):
            parts.append(NUMBER)
        elif part in ("thread", "threads"):
            parts.append("threads?")
        else:
            parts.append(".*" if part == "..." else r"\s+" if part.isspace() else re.escape(part))
    return re.compile("".join(parts))


def first_unseen(expected: list[str], written: str) -> str | None:
    lines = iter(written.splitlines())
    for line in expected:
        pattern = pattern_of(line)
        if not any(pattern.fullmatch(one.strip()) for one in lines):
            return line
    return None


class Session:
    """What a terminal keeps from one block to the next."""

    def __init__(self, folder: pathlib.Path, environment: dict):
        self.state = folder / "environment"
        self.folder = folder
        self.environment = environment
        self.groups = []  # of processes, one for each block

    def run(self, commands: str, timeout_s: int = TIMEOUT_S) -> tuple[int, str]:
        # All variables are exported, so that env says them to the next block.
        script = f"set -ae\n{commands}\nenv -0 >{self.state}\n"
        # A program in the background goes on writing to the file of its block.
        written = self.folder / f"output-{len(self.groups)}"
        with open(written, "wb") as output:
            bash = subprocess.Popen(["bash", "-c", script], cwd=self.environment["PWD"], env=self.environment, stdout=output,
                                    stderr=output, stdin=subprocess.DEVNULL, process_group=0)
            self.groups.append(bash.pid)
            code = bash.wait(timeout_s)
        if code == 0:
            pairs = self.state.read_bytes().decode().split("\0")
            self.environment = dict(pair.split("=", 1) for pair in pairs if pair)
        return code, written.read_text(errors="replace")

    def end(self):
        """Ends what blocks left in the background."""
        for group in self.groups:
            try:
                os.killpg(group, signal.SIGTERM)
            except ProcessLookupError:
                pass


def follow(page: pathlib.Path, session: Session, show: bool) -> int:
    seen = 0
    todo = blocks(page.read_text())
    for line, commands, expected in todo:
        code, written = session.run(commands)
        if show:
            print(f"--- {page.name}:{line}\n{commands}---\n{written}", flush=True)
        if code != 0:
            print(f"{page}:{line}: the commands end with {code}:\n{commands}\n{written}")
            return 1
        if (unseen := first_unseen(expected, written)) is not None:
            print(f"{page}:{line}: one does not see, or not in this order:\n  {unseen}\nbut:\n{written}")
            return 1
        seen += len(expected)
    print(f"{page.name}: {len(todo)} blocks run, {seen} lines seen")
    return 0 if seen else 1


def clone(folder: pathlib.Path, source: pathlib.Path, programs: pathlib.Path) -> pathlib.Path:
    """A clone that is built, as a page names its parts."""
    made = folder / "mlbench"
    (made / "build" / "release").mkdir(parents=True)
    (made / "build" / "release" / "bin").symlink_to(programs)
    for name in ("docs", "examples", "python", "tasks", "tools"):
        (made / name).symlink_to(source / name)
    return made


def main() -> int:
    page, show = pathlib.Path(sys.argv[1]).resolve(), "--print" in sys.argv[2:]
    for program in PROGRAMS:
        if not shutil.which(program):
            missing(f"{program} (tools/setup.sh run test)")
    if len(os.sched_getaffinity(0)) < CORES:
        missing(f"{CORES} cores")
    source = pathlib.Path(os.environ["MLBENCH_TEST_SOURCE_DIR"])
    programs = pathlib.Path(os.environ["MLBENCH_TEST_MLBENCH"]).resolve().parent
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        user = folder / "user"
        user.mkdir()
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("MLBENCH_", "XDG_"))}
        environment |= {"HOME": str(user), "TMPDIR": str(folder), "PWD": str(clone(folder, source, programs)),
                        "MLBENCH_CORE_LOCK": str(folder / "cores"), "LC_ALL": "C.UTF-8"}
        session = Session(folder, environment)
        try:
            status = follow(page, session, show)
        except subprocess.TimeoutExpired as error:
            print(f"{page}: a block ran for more than {error.timeout} s: {error.cmd}")
            status = 1
        finally:
            session.end()
    if status != 0:
        print(f"repeat: MLBENCH_TEST_SOURCE_DIR={source} MLBENCH_TEST_MLBENCH={programs}/mlbench "
              f"{sys.executable} {pathlib.Path(__file__).resolve()} {page}")
    return status


if __name__ == "__main__":
    sys.exit(main())
