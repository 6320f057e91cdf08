"""What is kept of a run is re-derived, small and names no machine; what must not be quoted is refused."""

import copy
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from rederive_test import EVENTS, RECORD, STEPS, spool_of

KEEP = pathlib.Path(__file__).with_name("keep_result.py")


class KeepResult(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_dir, self.dest = pathlib.Path(folder.name, "runs", "r-2"), pathlib.Path(folder.name, "results", "kept")
        (self.run_dir / "spool").mkdir(parents=True)
        self.record = copy.deepcopy(RECORD)
        self.record |= {"state": "finished", "environment": {"git_describe": "0123456789ab"}}
        self.record["hosts"][0] |= {"name": "crunch17", "addresses": ["10.1.2.3"]}
        self.record["placement"] = [{"rank": rank, "host": "crunch17", "local_rank": rank} for rank in (0, 1)]
        self.record["energy"] = {"joules": 5.0, "to_goal_joules": None,
                                 "hosts": [{"host": "crunch17", "meter": "RAPL: package-0", "joules": 5.0}]}
        for rank in (0, 1):
            (self.run_dir / f"spool/rank-{rank}.seg-1.steps").write_bytes(spool_of(STEPS[rank]))
            (self.run_dir / f"spool/rank-{rank}.seg-1.events").write_text("\n".join(map(json.dumps, EVENTS[rank])))

    def keep(self):
        (self.run_dir / "run.json").write_text(json.dumps(self.record))
        done = subprocess.run([sys.executable, KEEP, self.run_dir, self.dest], capture_output=True, text=True,
                              timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def expect_refusal(self, text):
        code, output = self.keep()
        self.assertEqual(code, 1, output)
        self.assertIn(text, output)
        self.assertFalse(self.dest.exists())

    def test_a_finished_run(self):
        code, output = self.keep()
        self.assertEqual(code, 0, output)
        kept = sorted(path.relative_to(self.dest).as_posix() for path in self.dest.rglob("*") if path.is_file())
        spools = [f"spool/rank-{rank}.seg-1.{ending}.xz" for rank in (0, 1) for ending in ("events", "steps")]
        self.assertEqual(kept, ["run.json", *spools])
        text = (self.dest / "run.json").read_text()
        self.assertNotIn("crunch17", text)
        self.assertNotIn("10.1.2.3", text)
        self.assertEqual(json.loads(text)["throughput"], RECORD["throughput"])

    def test_a_build_with_uncommitted_changes(self):
        self.record["environment"]["git_describe"] += "-dirty"
        self.expect_refusal("its build is 0123456789ab-dirty")

    def test_a_run_that_failed(self):
        self.record["state"] = "failed"
        self.expect_refusal("the run is failed")

    def test_a_record_that_does_not_follow(self):
        self.record["clocks"]["train_s"] = 1.4
        self.expect_refusal("does not follow from the spools")

    def test_a_name_of_the_machine_elsewhere(self):
        self.record["notes"] = ["crunch17 was busy"]
        self.expect_refusal("run.json holds 'crunch17'")

    def test_a_destination_that_exists(self):
        self.dest.mkdir(parents=True)
        code, output = self.keep()
        self.assertEqual((code, "exists already" in output), (1, True), output)


if __name__ == "__main__":
    unittest.main()
