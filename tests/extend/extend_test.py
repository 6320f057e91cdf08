"""Whether the patches beside this file, one addition each, apply to the tree, and edit no more than is promised.

    extend_test.py [unittest arguments]     needs git

Tests in *_test.cpp are not counted. Where a patch no longer applies: apply it by hand to a copy of the tree, and write
it anew with `git diff -U1`.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KUBERNETES = "src/mlbench/exec/kubernetes"

# The most lines of each existing file that an addition edits, and the folder of its new files.
PROMISED = {
    "executor_option": (
        {
            f"{KUBERNETES}/options.h": 3,  # the row, and the member that holds the value
            f"{KUBERNETES}/kubernetes.cpp": 1,  # reads it
            f"{KUBERNETES}/manifest.cpp": 1,  # uses it
            "api/openapi.json": 4,
            "api/run.schema.json": 1,
        },
        None,
    ),
    "figure": ({"src/mlbench/report/run_figures.cpp": 1, "api/openapi.json": 4}, None),
    "record_field": (
        {"src/mlbench/record/record.h": 1, "src/mlbench/record/record_fields.h": 1, "api/run.schema.json": 1},
        None,
    ),
    "executor": ({"src/mlbench/catalog/options/executors.cpp": 2}, "src/mlbench/exec/toy/"),
}
# Where the entry of a schema is afterwards.
ENTRIES = {
    "executor_option": [
        ("api/openapi.json", ["components", "schemas", "RunRequest", "properties", "toy_class"]),
        ("api/run.schema.json", ["properties", "engine", "oneOf", 1, "properties", "toy_class"]),
    ],
    "figure": [("api/openapi.json", ["components", "schemas", "RunSummary", "properties", "toy_hosts"])],
    "record_field": [("api/run.schema.json", ["properties", "environment", "properties", "toy_libc"])],
}


def git_apply(name, *options, folder=ROOT):
    # Within another repository, git would leave out the files of this tree.
    environment = dict(os.environ, GIT_CEILING_DIRECTORIES=str(folder.parent))
    command = ["git", "apply", *options, str(HERE / f"{name}.patch")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=60, check=False)


def edited_lines(name):
    """The lines that a patch adds and removes, by file."""
    done = git_apply(name, "--numstat")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return {path: int(added) + int(removed) for added, removed, path in rows}


class Extend(unittest.TestCase):
    def test_each_patch_has_its_promise(self):
        self.assertEqual({path.stem for path in HERE.glob("*.patch")}, set(PROMISED))

    def test_patches_apply(self):
        for name in PROMISED:
            with self.subTest(name):
                done = git_apply(name, "--check")
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_no_more_is_edited_than_is_promised(self):
        for name, (edited, folder) in PROMISED.items():
            for path, lines in edited_lines(name).items():
                with self.subTest(name, path=path):
                    if (ROOT / path).exists():
                        if path.endswith("_test.cpp"):
                            continue
                        self.assertLessEqual(lines, edited.get(path, 0))
                    else:
                        self.assertTrue(folder and path.startswith(folder), "a new file in another folder")

    def test_each_brings_its_test(self):
        for name in PROMISED:
            with self.subTest(name):
                self.assertTrue([path for path in edited_lines(name) if path.endswith("_test.cpp")])

    def test_schemas_have_the_entries(self):
        for name, entries in ENTRIES.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                copy = pathlib.Path(folder)
                for path in edited_lines(name):
                    (copy / path).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / path, copy / path)
                self.assertEqual(git_apply(name, folder=copy).stderr, "")
                for path, keys in entries:
                    entry = json.loads((copy / path).read_text())
                    for key in keys:
                        entry = entry[key]
                    self.assertIn("type", entry)


if __name__ == "__main__":
    if shutil.which("git") is None:
        print("missing capability: git, which applies the patches")
        sys.exit(77)
    unittest.main()
