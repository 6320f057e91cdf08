"""What the tests of engines share: the program that they start, and waiting for what it brings about."""

import os
import pathlib
import time
import unittest


def mlbench_path():
    if "MLBENCH_BIN_DIR" in os.environ:
        return pathlib.Path(os.environ["MLBENCH_BIN_DIR"], "mlbench").resolve()
    return pathlib.Path(os.environ["MLBENCH_TEST_MLBENCH"]).resolve()


class EngineCase(unittest.TestCase):
    def wait_for(self, condition, what, patience_s=180, told=lambda: ""):
        """What `condition` returns once that is true. What `told` returns stands beside a failure."""
        deadline = time.monotonic() + patience_s
        while not (result := condition()):
            if time.monotonic() > deadline:
                self.fail(f"not within {patience_s} s: {what} {told()}")
            time.sleep(0.1)
        return result
