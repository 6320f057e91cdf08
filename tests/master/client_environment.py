"""A Python that has a client from the package registry, installed below the build folder at the first run."""

import os
import subprocess
import sys


def python_with(name, version):
    """The interpreter; MLBENCH_TEST_<NAME>_PYTHON names one that has the package already."""
    given = os.environ.get(f"MLBENCH_TEST_{name.upper()}_PYTHON")
    if given:
        return given
    folder = os.path.join(os.environ["MLBENCH_TEST_BINARY_DIR"], f"{name}-client")
    python = os.path.join(folder, "bin", "python")
    done = os.path.join(folder, version)
    if not os.path.exists(done):
        for command in (
            [sys.executable, "-m", "venv", "--clear", folder],
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", version],
        ):
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode != 0:
                print(made.stdout + made.stderr)
                print(f"SKIPPED: missing capability: {version}")
                sys.exit(77)
        with open(done, "w", encoding="utf-8"):
            pass
    return python
