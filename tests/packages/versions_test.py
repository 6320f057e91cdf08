"""The version stands in CMakeLists.txt; what cannot read it there says the same.

usage: versions_test.py VERSION
"""

import json
import pathlib
import re
import sys
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = sys.argv.pop(1)


class Versions(unittest.TestCase):
    def test_python_client(self):
        project = tomllib.loads((ROOT / "python/pyproject.toml").read_text())["project"]
        self.assertEqual(project["version"], VERSION)
        compat = tomllib.loads((ROOT / "python/core/pyproject.toml").read_text())["project"]
        self.assertEqual(compat["version"], VERSION)
        self.assertIn(f"{project['name']}=={VERSION}", compat["dependencies"])

    def test_dashboard(self):
        self.assertEqual(json.loads((ROOT / "dashboard/package.json").read_text())["version"], VERSION)

    def test_chart(self):
        text = (ROOT / "deploy/helm/mlbench/Chart.yaml").read_text()
        self.assertEqual(re.findall(r"^(?:version|appVersion): (.+)$", text, re.MULTILINE), [VERSION, VERSION])

    def test_change_log_has_it_or_what_becomes_it(self):
        headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
        self.assertRegex(headings[0], rf"^\[(Unreleased|{re.escape(VERSION)})\]")
        releases = [heading for heading in headings if "Unreleased" not in heading]
        for heading in releases:
            self.assertRegex(heading, r"^\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}$")
        if releases:
            self.assertLessEqual(*[tuple(map(int, v.split("."))) for v in (releases[0][1:].split("]")[0], VERSION)])


if __name__ == "__main__":
    unittest.main()
