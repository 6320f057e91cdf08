"""`mlbench serve` as a context: with serving(home) as address, its URL and the file with its token.

`options` are more of its options; `environment` is that of the master, by default this process's; `program` is mlbench, by
default that of the build.
"""

import contextlib
import json
import os
import subprocess
import sys


@contextlib.contextmanager
def serving(home, *options, environment=None, program=None):
    process = subprocess.Popen(
        [program or os.environ["MLBENCH_TEST_MLBENCH"], "serve", "--home", home, "--listen", "127.0.0.1:0", "--json", *options],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        said = ""
        while not said.endswith("}\n"):
            line = process.stdout.readline()
            if not line:
                sys.exit("the master does not start: " + said)
            said += line
        yield json.loads(said)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
