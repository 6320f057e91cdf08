"""Starts `mlbench serve` and lets the real client of MLflow record and look (mlflow_client.py)."""

import json
import os
import subprocess
import sys
import tempfile

from client_environment import python_with

FOLDER = os.path.dirname(os.path.abspath(__file__))


def main():
    python = python_with("mlflow", "mlflow-skinny==3.17.2")
    with tempfile.TemporaryDirectory() as folder:
        home = os.path.join(folder, "home")
        os.mkdir(home)
        environment = dict(os.environ, MLBENCH_HOME=home, MLBENCH_CORE_LOCK=os.path.join(folder, "cores"))
        serve = subprocess.Popen(
            [os.environ["MLBENCH_TEST_MLBENCH"], "serve", "--listen", "127.0.0.1:0", "--json"],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            said = ""
            while not said.endswith("}\n"):
                line = serve.stdout.readline()
                if not line:
                    sys.exit("the master does not start: " + said)
                said += line
            address = json.loads(said)
            client = [python, os.path.join(FOLDER, "mlflow_client.py"), address["url"], address["token_file"]]
            sys.exit(subprocess.run(client, env=environment, cwd=folder, timeout=300, check=False).returncode)
        finally:
            serve.terminate()
            serve.wait()


if __name__ == "__main__":
    main()
