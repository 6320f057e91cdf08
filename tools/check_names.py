"""Checks that what READMEs, docs/ and comments name is there: files, folders, tests and sets of tests, options.

usage: check_names.py [ROOT]

Looked at are Markdown files (links, and what stands in backticks; options in examples, too) and the comments of C++
sources; of their sentences, errors and help, the options: an option is there when a text without a blank names it, as
where it is made or given to a program. A name is that of a file or folder when it has an ending of one or a slash behind it, or begins with a folder
of the tree ("comm/gloo"); it must be the end of a path in the tree. Words in capitals stand for something (RUN/spool,
NAME.toml). What a program makes, or belongs to others, is in tools/names.toml, each with the reason.

Prints FILE:LINE: RULE for each violation; exits 1 if there is one.
"""

import fnmatch
import os
import pathlib
import re
import sys
import tomllib

SOURCES = (".h", ".cpp", ".inc")
NOT_OURS = re.compile(r"\.|build(-|$)|node_modules$|__pycache__$")  # folders
IN_BACKTICKS = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)]*)?\)")
ENDING = r"(h|cpp|inc|py|md|toml|sh|cmake|ts|js|css|html|json|jsonl|proto|sqlite|txt|zip|\*)"
FILE = re.compile(rf"(\.?[\w*-][\w.*-]*/)*\.?[\w*-][\w.*-]*\.{ENDING}")
FOLDER = re.compile(r"(\.?[\w*-][\w.*-]*/)+")
PART = re.compile(r"[\w*-]+(/[\w.*-]+)+")  # of a folder of the tree, without an ending
STANDS_FOR = re.compile(r"(?<![A-Za-z])[A-Z][A-Z0-9]*(?![A-Za-z0-9])|<|\.\.\.")
TEST = re.compile(r"\b(tests?|set|label) `([a-z][a-z0-9_]*)`")
VERB = re.compile(r"(?:^|[\s/]bin/|\$ )mlbench ([a-z][a-z-]+)")
MAKES_VERB = re.compile(r'(?:add_verb\(|add_subcommand\(|front\(\) ==)[\w*, ]*"([a-z-]+)"')
MAKES_CASE = re.compile(r"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)")
CASE = re.compile(r"([A-Z]\w+)\.(\*|[A-Z]\w+)")  # GoogleTest's
TEST_NAME = re.compile(r"\w+_test")
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')  # in C++
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]")


def braces(word: str) -> list[str]:
    """a.{h,cpp} -> a.h, a.cpp"""
    found = re.search(r"\{([^{}]+)\}", word)
    if not found:
        return [word]
    return [name for part in found[1].split(",") for name in braces(word[: found.start()] + part + word[found.end() :])]


def comment_of(line: str) -> str:
    for found in re.finditer("//+", line):
        if line[: found.start()].count('"') % 2 == 0 and not line[: found.start()].endswith(":"):
            return line[found.end() :]
    return ""


def texts_of(line: str) -> list[str]:
    return TEXT.findall(line[: len(line) - len(comment_of(line))])


class Tree:
    def __init__(self, root: pathlib.Path, outside: dict):
        self.root = root
        self.paths = []
        for folder, folders, files in os.walk(root):
            folders[:] = [name for name in folders if not NOT_OURS.match(name)]
            below = pathlib.Path(folder).relative_to(root).as_posix()
            self.paths += ["/" + name if below == "." else f"/{below}/{name}" for name in folders + files]
        self.ends = {path[at:] for path in self.paths for at in range(len(path)) if path[at] == "/"}
        self.stems = {re.sub(r"\.\w+$", "", path.split("/")[-1]) for path in self.paths}
        self.outside = list(outside.get("names", {}))
        self.tests, self.sets, self.cases = set(), set(), set()
        self.verbs, self.options = set(), set(outside.get("options", {}))
        for path in self.paths:
            self.learn(path)
        self.folders = {path.split("/")[-2] for path in self.paths if path.count("/") > 1} & {
            path.split("/")[-1] for path in self.paths if re.fullmatch(r"(/src/mlbench)?/[\w-]+", path)
        }

    def learn(self, path: str):
        """Tests, sets and options that a source makes."""
        file = self.root / path[1:]
        if path.endswith((*SOURCES, ".py", ".sh", ".txt", ".cmake")) and file.is_file():
            text = file.read_text(errors="replace")
            self.stems |= set(re.findall(r"^function\((\w+)", text, re.MULTILINE))
            if path.endswith("CMakeLists.txt"):
                self.tests |= set(re.findall(r"(?:mlbench_(?:script_)?test\(|add_test\(NAME\s+)([\w/${}]+)", text))
                for labels in re.findall(r"LABELS ((?:[a-z]\w* ?)+)", text):
                    self.sets |= set(re.findall(r"\b[a-z]\w+", labels))
            if path == "/test.sh":
                self.sets |= set(re.findall(r"\w+", "".join(re.findall(r"all\) sets=\(([\w ]+)\)", text))))
            if path.endswith(SOURCES):
                for suite, name in MAKES_CASE.findall(text):
                    self.cases |= {(suite, name), (suite, "*")}
                if path.startswith("/src/mlbench/cli/"):
                    self.verbs |= set(MAKES_VERB.findall(text))
                text = "\n".join(one for line in text.splitlines() for one in texts_of(line) if " " not in one)
            if not re.search(r"_test\.\w+$", path):
                self.options |= set(OPTION.findall(text))

    def is_test(self, name: str) -> bool:
        patterns = [re.sub(r"\$\{\w+\}", "*", test.replace("/", "_")) for test in self.tests]
        return name in self.sets or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)

    def has(self, name: str) -> bool:
        end = "/" + name.rstrip("/")
        if "*" in end:
            return any(fnmatch.fnmatch(path, end) for path in self.ends)
        return end in self.ends

    def violation(self, word: str) -> str | None:
        """Of a word that may be a name."""
        if STANDS_FOR.search(word):
            return None
        word = re.sub(r"^[(\"'\[]+|[)\"'\],;:.!?]+$", "", word).removeprefix("./")
        if (case := CASE.fullmatch(word)) and not self.has(word):
            return None if case.groups() in self.cases else f"names the test {word}, which does not exist"
        for name in braces(word):
            is_part = PART.fullmatch(name) and name.split("/")[0] in self.folders
            if not (FILE.fullmatch(name) or FOLDER.fullmatch(name) or is_part) or self.has(name):
                continue
            if is_part and any(self.has(name + end) for end in (".h", ".cpp", ".toml", ".md")):
                continue
            if not any(fnmatch.fnmatch(name, pattern) for pattern in self.outside):
                return f"names {name}, which is not in the tree"
        return None

    def check_words(self, text: str):
        for word in text.split():
            if rule := self.violation(word):
                yield rule
        if TEST_NAME.fullmatch(text) and text not in self.stems and not self.is_test(text):
            yield f"names the test {text}, which does not exist"

    def check_options(self, text: str):
        for option in OPTION.findall(text):
            if option not in self.options:
                yield f"names the option {option}, which no program has"

    def check_verbs(self, text: str):
        for verb in VERB.findall(text):
            if verb not in self.verbs:
                yield f"names the verb {verb}, which mlbench does not have"

    def check_tests(self, text: str):
        for what, name in TEST.findall(text):
            if not self.is_test(name) and name not in self.stems:
                yield f"names the {what.rstrip('s')} {name}, which does not exist"

    def check_markdown(self, path: str, text: str):
        """Violations of one file as (line, rule)."""
        example = False
        for number, line in enumerate(text.splitlines(), 1):
            example ^= line.lstrip().startswith("```")
            for rule in self.check_options(line):
                yield number, rule
            if example:
                yield from ((number, rule) for rule in self.check_verbs(line))
                continue
            for link, _ in LINK.findall(line):
                if not (self.root / path).parent.joinpath(link).exists():
                    yield number, f"links to {link}, which is not there"
            for rule in self.check_tests(line):
                yield number, rule
            for span in IN_BACKTICKS.findall(line):
                for rule in [*self.check_words(span), *self.check_verbs(span)]:
                    yield number, rule

    def check_source(self, path: str, text: str):
        is_test = re.search(r"_test\.\w+$", path)
        for number, line in enumerate(text.splitlines(), 1):
            comment = comment_of(line)
            words = self.check_words(comment.replace("`", " "))
            sentences = " ".join(one for one in texts_of(line) if " " in one and not is_test)
            for rule in [*words, *self.check_tests(comment), *self.check_options(comment + " " + sentences)]:
                yield number, rule

    def check(self):
        for path in sorted(path[1:] for path in self.paths):
            if path.startswith("third_party/"):
                continue
            found = []
            if path.endswith(".md"):
                found = self.check_markdown(path, (self.root / path).read_text())
            elif path.endswith(SOURCES):
                found = self.check_source(path, (self.root / path).read_text())
            for line, rule in found:
                yield f"{path}:{line}: {rule}"


def main() -> int:
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    outside = root / "tools" / "names.toml"
    violations = list(Tree(root, tomllib.loads(outside.read_text()) if outside.is_file() else {}).check())
    for violation in violations:
        print(violation)
    print(f"{len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
