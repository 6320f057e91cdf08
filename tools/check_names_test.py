"""A small tree whose pages and comments name what is there, and each kind of name that is not."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).with_name("check_names.py")
TREE = {
    "test.sh": "--all) sets=(default speed) ;;\ncmake --preset dev\n",
    "tools/names.toml": '[names]\n"run.json" = "of a run"\n\n[options]\n"--user" = "of pip"\n',
    "docs/a.md": "",
    "src/mlbench/base/input.h": "",
    "src/mlbench/base/README.md": "",
    "src/mlbench/cli/verbs/run.cpp": 'add_verb(app, program, "run", "Run it"); add("--max-steps");\n',
    "src/mlbench/comm/gloo/gloo.cpp": "",
    "src/mlbench/comm/gloo/gloo_test.cpp": "TEST(Ring, Sends) {}\n",
    "src/mlbench/comm/CMakeLists.txt": "mlbench_test(comm_test LABELS long TIMEOUT 9)\n",
}


def run_check(files: dict[str, str]) -> tuple[int, list[str]]:
    with tempfile.TemporaryDirectory() as root:
        for name, text in {**TREE, **files}.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout.splitlines()


class CheckNames(unittest.TestCase):
    def expect_none(self, text: str, path: str = "README.md"):
        self.assertEqual(run_check({path: text}), (0, ["0 violations"]))

    def expect_one(self, text: str, rule: str, path: str = "README.md"):
        self.assertEqual(run_check({path: text}), (1, [f"{path}:1: {rule}", "1 violations"]))

    def test_a_page_of_what_is_there(self):
        self.expect_none(
            "`base/input.h`, `verbs/*.cpp`, `gloo/`, `comm/gloo`, `gloo{,_test}.cpp`, `./test.sh speed`\n"
            "[a](docs/a.md#b)\n"
            "test `comm_test`, set `long`, `gloo_test`, `Ring.Sends`, `Ring.*`, `and/or`, `2.5`\n"
            "`mlbench run x --max-steps 3`\n"
            "`HOME/runs`, `tasks/NAME.toml`, `comm/<name>/`, `run.json`, `pip --user`\n"
            "```\nmlbench run x\nno/such/file.h\n```\n"
        )

    def test_comments_of_what_is_there(self):
        text = 'x();  // base/input.h, comm/gloo; http://a.org/b.h\nx("// no/such.h");\n'
        self.expect_none(text, "src/mlbench/base/a.cpp")

    def test_a_file(self):
        self.expect_one("See `base/output.h`.", "names base/output.h, which is not in the tree")
        self.expect_one("`input.{h,cpp}`", "names input.cpp, which is not in the tree")
        self.expect_one("`in*_test.cpp`", "names in*_test.cpp, which is not in the tree")

    def test_a_folder(self):
        self.expect_one("`wrap/`", "names wrap/, which is not in the tree")
        self.expect_one("`comm/mpi`", "names comm/mpi, which is not in the tree")

    def test_a_file_in_a_comment(self):
        rule = "names spec/input.h, which is not in the tree"
        self.expect_one("int x;  // as spec/input.h says\n", rule, "src/mlbench/base/a.h")

    def test_a_link(self):
        self.expect_one("[b](docs/b.md)", "links to docs/b.md, which is not there")

    def test_a_test_and_a_set(self):
        self.expect_one("the test `net`", "names the test net, which does not exist")
        self.expect_one("the set `slow`", "names the set slow, which does not exist")
        self.expect_one("`net_test`", "names the test net_test, which does not exist")
        self.expect_one("`Tree.*`", "names the test Tree.*, which does not exist")
        self.expect_one("`Ring.Receives`", "names the test Ring.Receives, which does not exist")

    def test_an_option(self):
        rule = "names the option --least-steps, which no program has"
        self.expect_one("`mlbench run --least-steps`", rule)
        self.expect_one("// --least-steps is none\n", rule, "src/mlbench/base/a.h")

    def test_an_option_in_a_sentence(self):
        rule = "names the option --least-steps, which no program has"
        self.expect_one('throw UserError("give fewer, or --least-steps");\n', rule, "src/mlbench/base/a.h")
        code, _ = run_check({"src/mlbench/base/a.h": 'add("--least-steps", "see \\"--least-steps\\" there");\n'})
        self.assertEqual(code, 0)

    def test_an_option_in_an_example(self):
        code, lines = run_check({"README.md": "```\nmlbench run --faster\n```\n"})
        self.assertEqual((code, lines[0]), (1, "README.md:2: names the option --faster, which no program has"))

    def test_a_verb(self):
        self.expect_one("`mlbench walk`", "names the verb walk, which mlbench does not have")


if __name__ == "__main__":
    unittest.main()
