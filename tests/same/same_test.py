"""same.py with programs that answer what they were told, so that nothing trains."""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest

import same

# A build that knows --convolution where HELP names it. A run's weights are the convolutions that it was told of.
FAKE = """#!{python}
import json, os, sys
words = sys.argv[1:]
if "--help" in words:
    print("{help}")
elif words[0] == "run":
    order = os.environ.get("MLBENCH_CONVOLUTION", "auto") if "native" in words else "auto"
    order = words[words.index("--convolution") + 1] if "--convolution" in words else order
    print(json.dumps([{{"weights_sha256": order}}]))
"""


class SameTest(unittest.TestCase):
    def compare(self, *helps):
        """What compare_bits() prints and answers for builds with these helps."""
        with tempfile.TemporaryDirectory() as folder:
            scratch = pathlib.Path(folder)
            (scratch / "cache").mkdir()
            builds = []
            for name, words in zip(("ours", "other"), helps):
                (scratch / name).write_text(FAKE.format(python=sys.executable, help=words))
                (scratch / name).chmod(0o755)
                builds.append(same.Build(scratch / name, scratch))
            options = type("Options", (), {"only": "^1a 1 .* float32 gloo", "steps": 5})
            with contextlib.redirect_stdout(io.StringIO()) as shown:
                same.agree_on_convolutions(builds)
                agreed = same.compare_bits(*builds, options)
            return shown.getvalue().replace(folder, "").splitlines(), agreed

    def test_builds_that_both_choose_or_both_cannot_are_left_to_themselves(self):
        for words in ("--task --convolution", "--task"):
            lines, agreed = self.compare(words, words)
            self.assertTrue(agreed)
            self.assertEqual(lines[:-1], ["same  1a 1 torch float32 gloo  auto", "same  1a 1 native float32 gloo  auto"])

    def test_a_build_that_alone_chooses_computes_direct_convolutions(self):
        for number, helps in enumerate((("--convolution", "--task"), ("--task", "--convolution"))):
            lines, agreed = self.compare(*helps)
            self.assertTrue(agreed, lines)
            self.assertIn(f"/{('ours', 'other')[number]} runs framework native with --convolution direct", lines[0])
            self.assertEqual(lines[2], "same  1a 1 native float32 gloo  direct")


if __name__ == "__main__":
    os.environ.pop("MLBENCH_CONVOLUTION", None)
    unittest.main()
