#!/usr/bin/env python3
"""Runs a command on the first of several hosts that are network namespaces of this machine (tests/engines/netns.py).

    on_hosts.py HOSTS [--link 1gbit] -- COMMAND...

In the words of the command, {hosts} stands for the names of the hosts with commas between them, {ssh_config} for a file by
which ssh reaches each of them, and {scratch} for a folder of which each host has its own. All hosts share the cores of this
machine. Root, sshd, Open MPI (tools/setup.sh engines). The exit code is that of the command.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "engines"))
import netns  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hosts", type=int)
    parser.add_argument("--link", help="the rate of each host's link, such as 100mbit (default: none)")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    if reason := netns.missing(sshd=True):
        sys.exit(f"on_hosts.py needs {reason}")
    with tempfile.TemporaryDirectory(prefix="mlh", dir="/tmp") as folder, \
            netns.Network(given.hosts, pathlib.Path(folder, "net"), sshd=True) as network:
        if given.link:
            network.shape_all(given.link)
        stands_for = {"{hosts}": ",".join(network.names), "{ssh_config}": str(network.ssh_config),
                      "{scratch}": str(network.scratch)}
        words = given.command
        for name, value in stands_for.items():
            words = [word.replace(name, value) for word in words]
        # Several ranks spin on each core, which no placement shows.
        environment = {**os.environ, "OMPI_MCA_mpi_yield_when_idle": "1"}
        return subprocess.run(network.enter("h1", words), check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
