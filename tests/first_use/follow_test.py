"""Pages that are true, and pages that are not."""

import io
import os
import pathlib
import tempfile
import time
import unittest
from contextlib import redirect_stdout

from follow import Session, blocks, first_unseen, follow


def page(*fences: tuple[str, str]) -> str:
    return "# A page\n\n" + "\n".join(f"Some words.\n\n```{kind}\n{text}\n```\n" for kind, text in fences)


def runs(process: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class FollowTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.session = Session(self.folder, {**os.environ, "PWD": folder.name})
        self.addCleanup(self.session.end)

    def follow(self, *fences: tuple[str, str]) -> tuple[int, str]:
        path = self.folder / "page.md"
        path.write_text(page(*fences))
        with redirect_stdout(io.StringIO()) as out:
            return follow(path, self.session, show=False), out.getvalue()

    def test_only_marked_blocks_count(self):
        self.assertEqual(blocks(page(("", "false"), ("sh", "a"), ("text", "b\n\nc"), ("json", "{}"), ("sh", "d"))),
                         [(11, "a\n", ["b", "c"]), (31, "d\n", [])])
        with self.assertRaises(ValueError):
            blocks(page(("text", "a")))

    def test_a_page_that_is_true(self):
        self.assertEqual(self.follow(("sh", "echo one; echo two >&2; echo three"), ("text", "one\nthree")),
                         (0, "page.md: 1 blocks run, 2 lines seen\n"))

    def test_a_line_that_is_not_seen(self):
        code, out = self.follow(("sh", "echo one"), ("text", "two"))
        self.assertEqual(code, 1)
        self.assertIn("page.md:5: one does not see, or not in this order:\n  two\nbut:\none", out)
        self.assertEqual(self.follow(("sh", "echo one; echo two"), ("text", "two\none"))[0], 1)

    def test_each_command_has_to_end_with_0(self):
        for commands in ("false", "false\necho one", "nothing-of-this-name"):
            code, out = self.follow(("sh", commands), ("text", "one"))
            self.assertEqual(code, 1, commands)
            self.assertIn("page.md:5: the commands end with", out)
        self.assertEqual(self.follow(("sh", "false || echo ended with $?"), ("text", "ended with 1"))[0], 0)

    def test_a_page_on_which_nothing_is_seen(self):
        self.assertEqual(self.follow(("sh", "echo one"))[0], 1)

    def test_variables_and_the_folder_stay(self):
        code, out = self.follow(("sh", "two='a  b'\nmkdir deep\ncd deep"), ("sh", 'echo "$two in ${PWD##*/}"'),
                                ("text", "a  b in deep"))
        self.assertEqual(code, 0, out)

    def test_what_is_left_in_the_background_ends(self):
        self.assertEqual(self.follow(("sh", "sleep 1000 &\nleft=$!\necho started"), ("text", "started"))[0], 0)
        left = int(self.session.environment["left"])
        self.assertTrue(runs(left))
        self.session.end()
        until = time.monotonic() + 60
        while runs(left):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)

    def test_numbers_may_differ_and_words_may_not(self):
        seen = "run-1  finished: 1,234 samples/s in 0.58 s [1.5e-05, 2]  1 x 1 thread"
        for line, same in ((seen, True), (seen.replace("0.58", "12"), True), (seen.replace("1 thread", "8 threads"), True),
                           (seen.replace("  ", "     "), True), ("run-1  finished: ... in 0.58 s ...", True),
                           (seen.replace("finished", "failed"), False), (seen.replace("0.58 s", "- s"), False),
                           ("run-1  finished: 1,234 samples/s", False), (seen.replace("[", "("), False)):
            self.assertEqual(first_unseen([line], seen) is None, same, line)


if __name__ == "__main__":
    unittest.main()
