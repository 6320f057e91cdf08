"""Checks the messages of commits, and that their history is a line.

usage: check_commits.py [ROOT]

A subject is "scope: imperative verb ...", of at most 72 characters and without a full stop; below it an empty line. A
commit that changes more than 200 lines has a body that says why. No commit is a merge. Prints COMMIT: RULE for each that
breaks one; exits 1 if there is one. Says how many of the commits shrink the tree, which is to be one in five.

The commits are those from the first that has this file on; where there is no history of them, there is nothing to check.
"""

import pathlib
import re
import subprocess
import sys

MOST_SUBJECT = 72
MOST_LINES_WITHOUT_BODY = 200
SUBJECT = re.compile(r"(?P<scope>[\w./*-]+(, [\w./*-]+)*): (?P<verb>[a-z]+(-[a-z]+)*)( |$)")
NO_VERBS = set("a an the what where who which whoever its it this that these no nothing each every all how when".split())
# What ends like another form of a verb, and is none.
IMPERATIVES = re.compile(r"(pass|press|process|address|express|discuss|focus|embed|need|feed|speed|shed|seed|bring|ring)$")
OTHER_FORM = re.compile(r"(s|ed|ing)$")


def complaints(subject: str, body: str, lines: int, parents: int) -> list[str]:
    """Which rules a message breaks; `lines`: those that its commit adds and removes."""
    found = []
    match = SUBJECT.match(subject)
    if match is None:
        found.append("the subject is not 'scope: imperative verb ...'")
    else:
        verb = match["verb"]
        if verb in NO_VERBS or (OTHER_FORM.search(verb) and not IMPERATIVES.search(verb)):
            found.append(f"'{verb}' is no imperative verb")
    if len(subject) > MOST_SUBJECT:
        found.append(f"the subject has {len(subject)} characters: more than {MOST_SUBJECT}")
    if subject.endswith("."):
        found.append("the subject ends with a full stop")
    if body and not body.startswith("\n"):
        found.append("there is no empty line below the subject")
    if lines > MOST_LINES_WITHOUT_BODY and not body.strip():
        found.append(f"it changes {lines} lines, and has no body that says why")
    if parents > 1:
        found.append("it is a merge: the history is a line")
    return found


def git(root: pathlib.Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True).stdout


def commits(root: pathlib.Path) -> list[str]:
    """Those from the first that has this file on, the oldest first; none without a history."""
    try:
        first = git(root, "log", "--diff-filter=A", "--format=%H", "--", "tools/check_commits.py").split()
        return git(root, "rev-list", "--reverse", f"{first[-1]}..HEAD").split() + first[-1:] if first else []
    except (subprocess.CalledProcessError, FileNotFoundError):
        return []


def main(root: pathlib.Path) -> int:
    broken = shrinking = 0
    checked = commits(root)
    for commit in checked:
        parents, _, message = git(root, "show", "--no-patch", "--format=%P%x00%B", commit).partition("\0")
        added = removed = 0
        for line in git(root, "show", "--numstat", "--format=", commit).splitlines():
            more, less, _ = line.split("\t", 2)
            added, removed = added + int(more.replace("-", "0")), removed + int(less.replace("-", "0"))
        shrinking += removed > added
        subject, _, body = message.rstrip("\n").partition("\n")
        for complaint in complaints(subject, body, added + removed, len(parents.split())):
            print(f"{commit[:12]} {subject}: {complaint}")
            broken += 1
    print(f"{len(checked)} commits, of which {shrinking} shrink the tree")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)))
