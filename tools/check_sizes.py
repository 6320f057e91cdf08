"""Checks the sizes of what stands in src: no file over 500 lines, no function over 80 (tests are exempt).

usage: check_sizes.py [ROOT]

A reason excuses one of them: the comment "// long: REASON", in the comment block at the head of the file, or in the one
before the function or on its first line. Prints FILE:LINE: RULE for each that has none; exits 1 if there is one.

A function is what begins at column 0, or as a member of a class at column 2, and ends with "}" in the same column: that
is how clang-format leaves them (tools/format.sh). Lambdas and classes inside functions count with these.
"""

import itertools
import pathlib
import re
import sys

MOST_LINES_OF_FILE = 500
MOST_LINES_OF_FUNCTION = 80
TEST = re.compile(r"(_test|/test_\w+)\.(h|inc|cpp)$")
REASON = re.compile(r"//\s*long: \S")
NAMESPACE = re.compile(r"((inline )?namespace\b|extern \"C\")[^;]*\{$|\}")
CLASS = re.compile(r"(template\b.*> )?(class|struct|union|enum)\b")


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def functions(lines: list[str], first: int = 0, last: int | None = None, indent: int = 0):
    """Functions whose lines begin at this indent, as (first, last) line numbers from 0."""
    begin = None  # of a declaration
    opened = False  # its body has begun
    for number in range(first, len(lines) if last is None else last):
        text = lines[number].split("//")[0].strip()
        here = indent_of(lines[number]) == indent
        if opened:
            if not here or not text.startswith("}"):
                continue
            if text == "}":
                yield begin, number
            elif indent == 0 and any(CLASS.match(line) for line in lines[begin : begin + 2]):
                yield from functions(lines, begin + 1, number, 2)
            begin, opened = None, False
        elif not text or text.startswith("#") or (here and NAMESPACE.match(text)):
            begin = None
        elif begin is not None or here:
            begin = number if begin is None else begin
            opened = text.endswith("{")
            if text.endswith((";", "}", ":")):
                begin = None


def excused(lines: list[str], first: int) -> bool:
    """Whether the function that begins there has a reason on that line, or in the comment before it."""
    if REASON.search(lines[first]):
        return True
    while first > 0 and lines[first - 1].lstrip().startswith("//"):
        first -= 1
        if REASON.search(lines[first]):
            return True
    return False


def check_file(text: str):
    lines = text.splitlines()
    head = itertools.takewhile(lambda line: line.startswith("//"), lines)
    if len(lines) > MOST_LINES_OF_FILE and not any(map(REASON.search, head)):
        yield 1, f"{len(lines)} lines; a file has at most {MOST_LINES_OF_FILE}, or the comment '// long: REASON'"
    for first, last in functions(lines):
        length = last - first + 1
        if length > MOST_LINES_OF_FUNCTION and not excused(lines, first):
            rule = f"{length} lines; a function has at most {MOST_LINES_OF_FUNCTION}, or the comment '// long: REASON'"
            yield first + 1, rule


def main() -> int:
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    violations = []
    for file in sorted((root / "src").rglob("*")):
        path = file.relative_to(root).as_posix()
        if file.suffix in (".h", ".inc", ".cpp") and not TEST.search(path):
            violations += [f"{path}:{line}: {rule}" for line, rule in check_file(file.read_text())]
    for violation in violations:
        print(violation)
    print(f"{len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
