"""ratio.py with programs that print what they are told, so that nothing is timed."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import pairs
import ratio

# fake.sh NAME: prints the next of the values in NAME.values (the last one for ever), and notes that it ran.
FAKE = """#!/bin/sh
cd "$(dirname "$0")"
echo "$1" >>calls
value=$(head -n 1 "$1.values")
if [ "$(wc -l <"$1.values")" -gt 1 ]; then sed -i 1d "$1.values"; fi
[ "$value" = fail ] && exit 9
printf 'a line\\n{"program": "%s", "rate": %s.0}\\n' "$1" "$value"
"""


class Ratios(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.fake = self.folder / "fake.sh"
        self.fake.write_text(FAKE)
        self.fake.chmod(0o755)

    def command(self, name, *values):
        if values:
            (self.folder / f"{name}.values").write_text("".join(f"{value}\n" for value in values))
        return f"{self.fake} {name}"

    def calls(self):
        """Since the last time."""
        file = self.folder / "calls"
        names = file.read_text().split() if file.exists() else []
        file.unlink(missing_ok=True)
        return names

    def run_ratio(self, *arguments):
        """(exit code, what it printed as JSON)"""
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            code = ratio.main(["--key", "rate", *arguments])
        self.said = err.getvalue()
        return code, json.loads(out.getvalue() or "null")

    def test_the_best_variant_is_that_of_the_best_median_of_three(self):
        self.command("ours", 20)
        self.command("a", 30, 9, 9, 9)
        self.command("b", 10)
        code, result = self.run_ratio("--ours", self.command("ours"), "--peer", self.command("a"),
                                      "--peer", self.command("b"), "--pairs", "1")
        self.assertEqual(self.calls(), ["a", "b"] * 3 + ["ours", "b"])
        self.assertEqual(code, 0)
        self.assertEqual(result["peer"]["command"], self.command("b"))
        self.assertEqual(result["variants"], {self.command("a"): [30, 9, 9], self.command("b"): [10, 10, 10]})

    def test_one_variant_is_no_choice(self):
        self.command("ours", 20)
        self.command("a", 10)
        code, result = self.run_ratio("--ours", self.command("ours"), "--peer", self.command("a"), "--pairs", "1")
        self.assertEqual((code, result["variants"], self.calls()), (0, {}, ["ours", "a"]))

    def test_pairs_are_as_many_as_said_and_take_turns(self):
        self.command("ours", 1)
        self.command("a", 10)
        code, result = self.run_ratio("--ours", self.command("ours"), "--peer", self.command("a"), "--pairs", "3")
        self.assertEqual(self.calls(), ["ours", "a", "a", "ours", "ours", "a"])
        self.assertEqual((code, result["verdict"], result["pairs"]), (1, "missed", 3))

    def test_verdicts(self):
        self.command("a", 10)
        for values, verdict, expected in (((20,), "met", 0), ((9,), "missed", 1), ((9, 12, 9, 12), "undecided", 3)):
            self.command("ours", *values)
            code, result = self.run_ratio("--ours", self.command("ours"), "--peer", self.command("a"), "--pairs", "4")
            self.assertEqual((result["verdict"], code), (verdict, expected))

    def test_failures_are_repeated_and_counted(self):
        self.command("ours", 20)
        self.command("a", "fail", 10, "fail", 10)
        code, result = self.run_ratio("--ours", self.command("ours"), "--peer", self.command("a"), "--pairs", "2")
        self.assertEqual((code, result["peer"]["failures"], result["peer"]["values"]), (0, 2, [10, 10]))

    def test_what_cannot_be_measured_is_no_verdict(self):
        self.command("ours", 20)
        self.command("a", "fail")
        self.command("b", 0)
        for name, reason in (("a", "failed 3 times"), ("b", "no positive number 'rate'")):
            code, result = self.run_ratio("--ours", self.command("ours"), "--peer", self.command(name))
            self.assertEqual((code, result), (2, None))
            self.assertIn(reason, self.said)

    def test_a_program_that_hangs_is_ended(self):
        code, _ = self.run_ratio("--ours", "sleep 1000", "--peer", "sleep 1000", "--timeout", "0.1")
        self.assertEqual(code, 2)
        self.assertIn("took longer than 0.1 s", self.said)


class Pairs(unittest.TestCase):
    def test_the_interval_holds_the_median_and_is_always_the_same(self):
        ratios = [1 + i / 100 for i in range(21)]
        low, high = pairs.interval(ratios)
        self.assertTrue(1.02 < low < 1.10 < high < 1.18)
        self.assertEqual((low, high), pairs.interval(ratios))

    def test_verdicts(self):
        self.assertEqual([pairs.verdict(low, high, 1.0) for low, high in ((1, 2), (0.9, 1), (0.8, 0.99))],
                         ["met", "undecided", "missed"])


if __name__ == "__main__":
    unittest.main()
