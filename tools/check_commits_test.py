"""Tests of check_commits.py: each rule is broken once, in words and in a history."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import check_commits


def complaints(subject, body="", lines=10, parents=1):
    return " ".join(check_commits.complaints(subject, body, lines, parents))


class Messages(unittest.TestCase):
    def test_good_ones(self):
        for subject in (
            "spec: read optional fields",
            "framework/torch, optim: call what is compiled",
            "record: pass the words on",
            "docs: re-derive the table",
            "exec: embed the key",
        ):
            self.assertEqual(complaints(subject), "", subject)
        self.assertEqual(complaints("spec: read more", "\nBecause it is needed.", 500), "")

    def test_each_rule(self):
        self.assertIn("scope: imperative", complaints("fix things"))
        self.assertIn("scope: imperative", complaints("spec: Read fields"))
        for subject in ("spec: the fields", "spec: reads fields", "spec: reading fields", "spec: added fields"):
            self.assertIn("no imperative verb", complaints(subject), subject)
        self.assertIn("73 characters", complaints("spec: read " + "x" * 62))
        self.assertIn("full stop", complaints("spec: read fields."))
        self.assertIn("no empty line", complaints("spec: read fields", "why"))
        self.assertIn("has no body", complaints("spec: read fields", "", 201))
        self.assertIn("merge", complaints("spec: read fields", "", 1, 2))


class Histories(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)

    def git(self, *arguments):
        name = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(self.root), *name, *arguments], check=True, capture_output=True)

    def commit(self, message, file, text):
        path = self.root / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-m", message)

    def run_check(self):
        program = pathlib.Path(check_commits.__file__)
        return subprocess.run([sys.executable, program, self.root], capture_output=True, text=True)

    def test_a_folder_without_history(self):
        done = self.run_check()
        self.assertEqual((done.returncode, done.stdout), (0, "0 commits, of which 0 shrink the tree\n"))

    def test_only_commits_since_the_check_count(self):
        self.git("init", "-b", "main")
        self.commit("whatever", "old", "1\n2\n3\n")
        self.commit("tools: check commits", "tools/check_commits.py", "pass\n")
        self.commit("old: drop a line", "old", "1\n2\n")
        done = self.run_check()
        self.assertEqual((done.returncode, done.stdout), (0, "2 commits, of which 1 shrink the tree\n"))
        self.commit("oops", "old", "2\n")
        done = self.run_check()
        self.assertEqual(done.returncode, 1)
        self.assertIn("oops: the subject is not 'scope: imperative verb ...'", done.stdout)


if __name__ == "__main__":
    unittest.main()
