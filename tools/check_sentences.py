"""Lists the sentences over 25 words of what users read: README.md, CONTRIBUTING.md, python/README.md, the pages of docs/
and, where they are given, the help of a program and texts of the dashboard. Left out is docs/results: records of what was
measured, in the words of their day.

usage: check_sentences.py [ROOT] [--help-of MLBENCH] [--texts FILE]

--help-of MLBENCH   also the help of that program and of each of its verbs; without it no help is looked at
--texts FILE        also the texts of FILE, a JSON object {"file", "line", "text"} a line (dashboard/test/texts.mjs); - is
                    standard input
--only-texts        with --texts: leave out the pages

Markdown is read by markdown-it. A paragraph, a heading, an item of a list and a cell of a table each stand alone. ICU
finds the ends of sentences. A word is what stands between blanks and holds a letter or a digit. A piece of code is one
word, whatever it holds; blocks of code and the targets of links are no prose.

Only the length is checked. Whether a sentence has a verb is not: no package of Debian 12 can tell without a model of
the language that has to be fetched.

Prints FILE:LINE: N words: SENTENCE for each violation; exits 1 if there is one.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

MOST_WORDS = 25
PAGES = ("README.md", "CONTRIBUTING.md", "python/README.md", "docs/**/*.md")
RECORDS = "docs/results/"

try:
    import icu
    from markdown_it import MarkdownIt
except ImportError as error:
    print(f"missing capability: {error.name} (tools/setup.sh test)")
    sys.exit(77)

MARKDOWN = MarkdownIt("commonmark").enable("table")
SENTENCES = icu.BreakIterator.createSentenceInstance(icu.Locale("en"))
# ICU's own list (en@ss=standard) is no help: it takes the end of "MNIST." for "St.".
ABBREVIATION = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|cf|vs|Fig|No|pp?)\.\s*$")
CODE = "Code"  # stands for a piece of code: one word, which may begin a sentence


def sentences(text: str):
    """Those of a text. One may begin with a lower-case name (mlbench), which ICU alone takes for the middle of one."""
    # ICU counts in units of UTF-16, as its string does.
    whole = icu.UnicodeString(re.sub(r"(?<=[.!?]) +[a-z]", lambda found: found[0].upper(), text))
    SENTENCES.setText(whole)
    first = 0
    for last in SENTENCES:
        sentence = str(whole[first:last])
        if last == len(whole) or not ABBREVIATION.search(sentence):
            yield sentence.strip()
            first = last


def words(sentence: str) -> int:
    return sum(any(letter.isalnum() for letter in word) for word in sentence.split())


def too_long(text: str):
    """Sentences with too many words, as (words, sentence)."""
    for sentence in sentences(text):
        if (number := words(sentence)) > MOST_WORDS:
            yield number, sentence


def prose_of(inline) -> str:
    """The words of a paragraph, heading or cell."""
    parts = []
    for token in inline.children:
        if token.type == "code_inline":
            parts.append(CODE)
        elif token.type == "softbreak":
            parts.append(" ")
        elif token.type == "hardbreak":
            parts.append(". ")
        elif token.type in ("text", "image"):
            parts.append(token.content)
    return "".join(parts)


def blocks_of_markdown(text: str):
    """(line, text) of each block of prose; a cell of a table has the line of its row."""
    line = 1
    for token in MARKDOWN.parse(text):
        if token.map:
            line = token.map[0] + 1
        if token.type == "inline":
            yield line, prose_of(token)


def blocks_of_help(text: str):
    """(line, text) of a help: what stands right of names and options, or else the line."""
    for number, line in enumerate(text.splitlines(), 1):
        yield number, re.split(r"\S {2,}", line.strip(), maxsplit=1)[-1]


def help_of(program: str):
    """(verb, help) of the program and of each verb; verbs of verbs, too."""
    pending = [[]]
    while pending:
        verbs = pending.pop()
        text = subprocess.run([program, *verbs, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
        yield " ".join(["mlbench", *verbs, "--help"]), text
        below = re.search(r"^Subcommands:\n((?:  .*\n)+)", text, re.MULTILINE)
        for name in re.findall(r"^  ([a-z][a-z-]*)", below[1] if below else "", re.MULTILINE):
            pending.append([*verbs, name])


def pages(root: pathlib.Path):
    """(name, text) of each."""
    for path in sorted({path for pattern in PAGES for path in root.glob(pattern)}):
        name = path.relative_to(root).as_posix()
        if not name.startswith(RECORDS):
            yield name, path.read_text()


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--help-of")
    parser.add_argument("--texts", type=argparse.FileType())
    parser.add_argument("--only-texts", action="store_true")
    given = parser.parse_args()

    found = []  # file, line, text
    if not given.only_texts:
        for name, page in pages(given.root):
            found += [(name, line, text) for line, text in blocks_of_markdown(page)]
    if given.help_of:
        for command, text in help_of(given.help_of):
            found += [(command, line, text) for line, text in blocks_of_help(text)]
    if given.texts:
        with given.texts as rows:
            found += [(row["file"], row["line"], row["text"]) for row in map(json.loads, rows)]

    violations = 0
    for name, line, text in found:
        for number, sentence in too_long(text):
            print(f"{name}:{line}: {number} words: {sentence}")
            violations += 1
    print(f"{violations} sentences over {MOST_WORDS} words in {len(found)} pieces of text")
    if not found:
        print("nothing was read")
    return 1 if violations or not found else 0


if __name__ == "__main__":
    sys.exit(main())
