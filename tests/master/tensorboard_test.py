"""Trains for some steps, exports for TensorBoard and lets the real package read it (tensorboard_client.py)."""

import os
import subprocess
import sys
import tempfile

from client_environment import python_with

FOLDER = os.path.dirname(os.path.abspath(__file__))


def main():
    python = python_with("tensorboard", "tensorboard==2.20.0")
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(
            os.environ, MLBENCH_HOME=os.path.join(folder, "home"), MLBENCH_CORE_LOCK=os.path.join(folder, "cores")
        )
        mlbench = os.environ["MLBENCH_TEST_MLBENCH"]
        for arguments in (
            ["run", "tb", "2", "--task", "fashion-mnist", "--framework", "null", "--synthetic", "--max-steps", "200"],
            ["download", "tb-2", "--tensorboard", "-o", os.path.join(folder, "logs")],
            ["download", "tb-2", "-o", os.path.join(folder, "tb-2.zip")],
        ):
            subprocess.run([mlbench, *arguments], env=environment, timeout=300, check=True)
        client = [python, os.path.join(FOLDER, "tensorboard_client.py"), folder]
        sys.exit(subprocess.run(client, env=environment, timeout=300, check=False).returncode)


if __name__ == "__main__":
    main()
