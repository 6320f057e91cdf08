"""Follows docs/existing-script.md word by word, in a home of its own: its blocks of files are written, its blocks of
commands run in one shell, and its blocks of text are what the commands before them say, whatever the fractions are."""

import os
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PAGE = os.path.join(ROOT, "docs", "existing-script.md")

try:
    import torch  # noqa: F401
    from markdown_it import MarkdownIt
except ImportError as missing:
    print("SKIPPED: missing capability: %s" % missing)
    sys.exit(77)
sys.path.insert(0, os.path.join(ROOT, "tests", "first_use"))
from follow import Session, clone  # noqa: E402

if not os.path.exists("/usr/share/datasets/fashion-mnist"):
    print("SKIPPED: missing capability: dataset-fashion-mnist")
    sys.exit(77)


def blocks():
    """(words behind the fence, content) of each block of the page."""
    with open(PAGE, encoding="utf-8") as page:
        tokens = MarkdownIt().parse(page.read())
    return [(token.info.split(), token.content) for token in tokens if token.type == "fence"]


def pattern(line):
    """What a line of the page stands for: its words; a number with a fraction is any number."""
    words = (re.sub(r"\d+\\\.\d+", r"[0-9.]+", re.escape(word)) for word in line.split())
    return re.compile(r"\s+".join(words))


class Tutorial(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = folder.name
        programs = pathlib.Path(os.environ["MLBENCH_TEST_MLBENCH"]).parent
        own = os.path.join(self.home, "bin")
        os.mkdir(own)
        os.symlink(sys.executable, os.path.join(own, "python3"))
        kept = ("PATH", "LANG", "MLBENCH_DATA_DIR")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        environment.update(
            HOME=self.home,
            PWD=str(clone(pathlib.Path(self.home), pathlib.Path(ROOT), programs)),
            MLBENCH_CORE_LOCK=os.path.join(self.home, "cores"),
            PYTHONDONTWRITEBYTECODE="1",
        )
        environment["PATH"] = own + os.pathsep + environment["PATH"]
        self.session = Session(pathlib.Path(self.home), environment)
        self.addCleanup(self.session.end)

    def shell(self, commands):
        """Runs a block where the block before left off. Returns what was said."""
        code, said = self.session.run(commands, timeout_s=1200)
        self.assertEqual(code, 0, "%s\n%s" % (commands, said))
        return said

    def test_the_page_as_it_stands(self):
        said, counts = "", {}
        for info, content in blocks():
            kind = info[0] if info else ""
            counts[kind] = counts.get(kind, 0) + 1
            if kind == "python":
                with open(os.path.join(self.home, "tutorial", info[1]), "w", encoding="utf-8") as file:
                    file.write(content)
            elif kind == "sh":
                said = self.shell(content)
            elif kind == "text":
                for line in content.splitlines():
                    self.assertRegex(said, pattern(line))
            else:
                self.fail("a block of the kind %r" % kind)
        self.assertEqual((counts["python"], counts["text"] >= 3, counts["sh"] >= 5), (2, True, True), counts)
        self.assertTrue(os.path.getsize(os.path.join(self.home, "tutorial", "tracked-2.zip")) > 0)
        record = os.path.join(self.home, ".local", "share", "mlbench", "runs", "tracked-2", "run.json")
        self.assertTrue(os.path.exists(record))


if __name__ == "__main__":
    unittest.main()
