"""Checks that pages and comments which say how far something is (never run, not yet, untested, for now ...) say since when, or
which test shows it: such claims go stale, and nobody can tell. Checks also that a comment does not begin with a fragment, whose
subject stands in another comment: "Of each rank.", "As parse(), but ...", "The same, with ...".

usage: check_claims.py [ROOT]

A claim has a date (2026-11-28), the name of a test or set of tests, or a link to docs/results in its paragraph, its row of a
table or its comment. On a page of docs/results the date at its head is that of all claims.

Prints FILE:LINE: RULE for each violation; exits 1 if there is one.
"""

import os
import pathlib
import re
import sys

from check_names import NOT_OURS, SOURCES, comment_of

SCRIPTS = (".py", ".sh", ".cmake", ".toml", ".txt", ".yaml", ".yml", ".ts", ".tsx")
DONE = r"(?:run|tried|tested|measured|built|checked|done|implemented|supported|verified)"
CLAIM = re.compile(
    rf"(?<!can )\bnever (?:been )?(?:run|tried|tested|measured)\b(?! off)|\bnot yet (?:been )?{DONE}\b|"
    rf"(?<!do )\bnot (?:been )?(?:{DONE} (?:again )?yet|tried|tested|measured again)\b|\bnot measured\b(?=[:.,]? ?$|[:.])|"
    r"\bis (?:known|measured|tested) yet\b|\b(?:untested|unmeasured)\b|\bto be done\b|\bfor now\b|\bfor want of \w*(?:GPU|machine)|"
    r"\bcould not be (?:had|tried|tested|measured)\b|\btried on (?:one|a|two)\b|\bTODO\b|\bFIXME\b",
    re.IGNORECASE)
FRAGMENT = re.compile(r"\s*(?:Of\b|As [\w:]+\(|The same(?:[.,:]| (?:as|but|for|in|of|on|to|with|without)\b))")
EVIDENCE = re.compile(
    r"\b20\d\d-\d\d-\d\d\b|\b\w+_test\b|\b(?:tests?|sets?|label) `\w+`|\btest\.sh \w+|\]\([^)]*results/|docs/results/\w")


def paragraphs(text: str):
    """(first line, text) of what stands together on a page; rows of tables stand alone."""
    lines, first = [], 1
    for number, line in enumerate([*text.splitlines(), ""], 1):
        alone = line.lstrip().startswith("|")
        if lines and (not line.strip() or alone):
            yield first, "\n".join(lines)
            lines = []
        if alone:
            yield number, line
        elif line.strip():
            first = first if lines else number
            lines.append(line)


def comments(text: str, script: bool):
    """(first line, text) of comments on lines that follow each other."""
    lines, first = [], 1
    for number, line in enumerate([*text.splitlines(), ""], 1):
        comment = line.lstrip()[1:] if script and line.lstrip().startswith("#") else comment_of(line)
        if comment.strip():
            first = first if lines else number
            lines.append(comment)
        elif lines:
            yield first, "\n".join(lines)
            lines = []


def claims(path: str, text: str):
    """Violations of one file as (line, rule)."""
    page = path.endswith(".md")
    blocks = list(paragraphs(text) if page else comments(text, path.endswith(SCRIPTS)))
    if page and path.startswith("docs/results/") and any(EVIDENCE.search(block) for _, block in blocks[:3]):
        return
    for first, block in blocks:
        if EVIDENCE.search(block):
            continue
        for found in CLAIM.finditer(re.sub(r"\s", " ", block)):
            line = first + block[: found.start()].count("\n")
            yield line, f"says '{found[0].strip()}' with neither a date nor the name of a test"


def fragments(path: str, text: str):
    """Comments of one file that begin without a subject as (line, rule)."""
    for first, block in () if path.endswith(".md") else comments(text, path.endswith(SCRIPTS)):
        if found := FRAGMENT.match(block):
            yield first, f"begins with '{found[0].strip()}': a comment is a sentence with a subject, and stands alone"


def main() -> int:
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    violations = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not NOT_OURS.match(name) and name not in ("third_party", "dist"))
        for name in sorted(files):
            path = pathlib.Path(folder, name)
            below = path.relative_to(root).as_posix()
            if not name.endswith((".md", *SOURCES, *SCRIPTS)) or name.startswith("check_claims"):
                continue
            text = path.read_text(errors="replace")
            for line, rule in sorted([*claims(below, text), *fragments(below, text)]):
                print(f"{below}:{line}: {rule}")
                violations += 1
    print(f"{violations} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
