"""A small tree that breaks each rule of check_layers.py once, and one that breaks none."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).with_name("check_layers.py")


def run_check(files: dict[str, str]) -> tuple[int, list[str]]:
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root, "src/mlbench", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run(
            [sys.executable, CHECK, root], capture_output=True, text=True, timeout=60, check=False
        )
    return done.returncode, [line.removeprefix("src/mlbench/") for line in done.stdout.splitlines()]


class CheckLayers(unittest.TestCase):
    def expect_violation(self, path: str, text: str, line: int, rule: str):
        readme = path.split("/")[0] + "/README.md"
        code, lines = run_check({readme: "", path: text})
        self.assertEqual((code, lines), (1, [f"{path}:{line}: {rule}", "1 violations"]))

    def test_a_clean_tree_passes(self):
        code, lines = run_check(
            {
                "base/README.md": "",
                "base/errors.h": "#pragma once\n#include <string>\n",
                "catalog/worker/README.md": "",
                "catalog/worker/catalog.cpp": '#include "mlbench/comm/gloo/gloo.h"\n',
                "comm/README.md": "",
                "comm/gloo/gloo.cpp": '#include <gloo/types.h>\n#include "mlbench/comm/gloo/gloo.h"\n#ifdef X\n#endif\n',
                "comm/wrap/README.md": "",
                "comm/wrap/timeline/timeline.cpp": '#include "mlbench/track/recorder.h"\n',
                "optim/README.md": "",
                "optim/sgd.cpp": "#include <ATen/ATen.h>\n",
                "base/input.cpp": "Json::parse(text);\n",
                "base/json_test.cpp": "Json::parse(text);\n",
                "optim/sgd_test.cpp": '#include "mlbench/comm/gloo/gloo.h"\n',
            }
        )
        self.assertEqual((code, lines), (0, ["0 violations"]))

    def test_outside_bytes_have_one_way_in(self):
        self.expect_violation(
            "schedule/a.cpp",
            "\nconst Json json = Json::parse(text, nullptr, false);\n",
            2,
            "calls Json::parse(...), which only base/input.cpp may; use parse_json of base/input.h",
        )

    def test_own_variables_are_spelled_once(self):
        self.expect_violation(
            "schedule/a.cpp",
            '// "MLBENCH_HOME"\nset(OUT "-DMLBENCH_WORKER=ON");\nreturn getenv("MLBENCH_HOME");\n',
            3,
            "spells what base/own_variables.h, spec/run_options.cpp alone may; use base/own_variables.h",
        )

    def test_a_module_that_is_not_allowed(self):
        self.expect_violation(
            "schedule/a.cpp", '\n#include "mlbench/net/kv/kv.h"\n', 2, "schedule includes net; it may include base, spec"
        )

    def test_the_planes_do_not_meet(self):
        code, lines = run_check({"supervise/README.md": "", "supervise/a.h": '#pragma once\n#include "mlbench/comm/a.h"\n'})
        self.assertEqual(code, 1)
        self.assertIn("supervise includes comm", lines[0])

    def test_wrappers_alone_may_record(self):
        self.expect_violation(
            "comm/a.cpp", '#include "mlbench/track/recorder.h"', 1, "comm includes track; it may include base, net"
        )

    def test_a_back_end_named_outside_the_catalog(self):
        self.expect_violation(
            "comm/a.cpp",
            '#include "mlbench/comm/gloo/gloo.h"',
            1,
            "includes the back end comm/gloo, which only catalog/ may name",
        )

    def test_a_back_end_named_by_another(self):
        self.expect_violation(
            "comm/mpi/a.cpp",
            '#include "mlbench/comm/gloo/gloo.h"',
            1,
            "includes the back end comm/gloo, which only catalog/ may name",
        )

    def test_an_outside_header_in_the_wrong_folder(self):
        self.expect_violation(
            "optim/a.cpp", "#include <torch/torch.h>", 1, "includes <torch/torch.h>, which belongs to framework/torch"
        )

    def test_an_unknown_folder(self):
        self.expect_violation("magic/a.cpp", "", 1, "belongs to no module of layers.toml")

    def test_an_include_of_an_unknown_folder(self):
        self.expect_violation(
            "base/a.cpp", '#include "mlbench/magic/a.h"', 1, "includes magic/a.h, which belongs to no module of layers.toml"
        )

    def test_an_include_that_is_not_from_the_root(self):
        self.expect_violation(
            "base/a.cpp", '#include "a.h"', 1, '"a.h" is to be named from the root, as "mlbench/<module>/<file>"'
        )

    def test_a_header_without_a_guard(self):
        self.expect_violation("base/a.h", "", 1, "header without #pragma once")

    def test_using_namespace_in_a_header(self):
        self.expect_violation("base/a.h", "#pragma once\nusing namespace std;", 2, "using namespace in a header")

    def test_a_conditional_outside_a_back_end(self):
        self.expect_violation(
            "base/a.cpp", "#ifdef X\n#endif", 1, "#if outside a back-end folder; let CMake choose the source file"
        )

    def test_a_folder_without_a_readme(self):
        code, lines = run_check({"base/a.cpp": ""})
        self.assertEqual((code, lines), (1, ["base/README.md:1: is missing", "1 violations"]))


if __name__ == "__main__":
    unittest.main()
