"""Lists the tests that the last ctest run of a build folder skipped, with their reasons.

usage: list_skips.py BUILD_FOLDER

A test may be skipped for one reason, a capability that the machine lacks: its text has to
begin with "missing capability: ". Exits 1 for any other.
"""

import pathlib
import re
import sys

# GoogleTest: "FILE:LINE: Skipped", the message, an empty line, "[  SKIPPED ] Suite.Name (0 ms)".
SKIP = re.compile(r": Skipped\n(?P<reason>.*?)\n+\[  SKIPPED \] (?P<test>\S+) \(", re.DOTALL)
CAPABILITY = "missing capability: "


def main(build: str) -> int:
    log = pathlib.Path(build, "Testing/Temporary/LastTest.log")
    skips = [(m["test"], " ".join(m["reason"].split())) for m in SKIP.finditer(log.read_text(errors="replace"))]
    print(f"\n{len(skips)} tests were skipped" + (":" if skips else ""))
    for test, reason in skips:
        print(f"  {test}: {reason}")
    forbidden = [test for test, reason in skips if not reason.startswith(CAPABILITY)]
    if forbidden:
        print(f'not for a "{CAPABILITY}...": {", ".join(forbidden)}')
    return 1 if forbidden else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
