"""Starts `mlbench serve` and lets the real client of MLflow record and look (mlflow_client.py)."""

import os
import subprocess
import sys
import tempfile

from client_environment import python_with
from serving import serving

FOLDER = os.path.dirname(os.path.abspath(__file__))


def main():
    python = python_with("mlflow", "mlflow-skinny==3.17.2")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MLBENCH_CORE_LOCK"] = os.path.join(folder, "cores")
        with serving(os.path.join(folder, "home")) as address:
            client = [python, os.path.join(FOLDER, "mlflow_client.py"), address["url"], address["token_file"]]
            sys.exit(subprocess.run(client, cwd=folder, timeout=300, check=False).returncode)


if __name__ == "__main__":
    main()
