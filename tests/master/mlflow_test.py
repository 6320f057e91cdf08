"""Starts `mlbench serve` and lets the real client of MLflow record and look (mlflow_client.py).

The client comes from MLBENCH_TEST_MLFLOW_PYTHON (a Python that has it), or is installed into an environment below the
build folder at the first run.
"""

import json
import os
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
VERSION = "mlflow-skinny==3.17.2"


def python_with_client():
    given = os.environ.get("MLBENCH_TEST_MLFLOW_PYTHON")
    if given:
        return given
    folder = os.path.join(os.environ["MLBENCH_TEST_BINARY_DIR"], "mlflow-client")
    python = os.path.join(folder, "bin", "python")
    done = os.path.join(folder, VERSION)
    if not os.path.exists(done):
        for command in (
            [sys.executable, "-m", "venv", "--clear", folder],
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", VERSION],
        ):
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode != 0:
                print(made.stdout + made.stderr)
                print("SKIPPED: missing capability: mlflow-skinny")
                sys.exit(77)
        with open(done, "w", encoding="utf-8"):
            pass
    return python


def main():
    python = python_with_client()
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
