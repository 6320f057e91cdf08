"""Files and functions at the limits of check_sizes.py and one line beyond them."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).with_name("check_sizes.py")
FILE_RULE = "501 lines; a file has at most 500, or the comment '// long: REASON'"
FUNCTION_RULE = "81 lines; a function has at most 80, or the comment '// long: REASON'"


def run_check(name: str, text: str) -> tuple[int, list[str]]:
    with tempfile.TemporaryDirectory() as root:
        path = pathlib.Path(root, "src/mlbench", name)
        path.parent.mkdir(parents=True)
        path.write_text(text)
        done = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, [line.removeprefix("src/mlbench/") for line in done.stdout.splitlines()]


def function(lines: int, head: str = "void f() {", indent: str = "") -> str:
    """Of so many lines, some of them empty, with a block of its own in it."""
    body = ["  if (a) {", "    b();", "  }", ""] * lines
    return "".join(indent + line + "\n" if line else "\n" for line in [head, *body[: lines - 2], "}"])


class CheckSizes(unittest.TestCase):
    def expect_none(self, text: str, name: str = "a.cpp"):
        self.assertEqual(run_check(name, text), (0, ["0 violations"]))

    def expect_one(self, text: str, line: int, rule: str):
        self.assertEqual(run_check("a.cpp", text), (1, [f"a.cpp:{line}: {rule}", "1 violations"]))

    def test_limits_are_kept(self):
        self.expect_none(function(80) * 6 + "int x = 0;\n" * 20)

    def test_a_long_file(self):
        self.expect_one("int x = 0;\n" * 501, 1, FILE_RULE)

    def test_a_long_function(self):
        self.expect_one("namespace a {\n\n" + function(81) + "\n}  // namespace a\n", 3, FUNCTION_RULE)

    def test_a_function_begins_with_its_whole_declaration(self):
        text = "int before(int a,\n           int b);\n" + "template <typename T>\n" + function(80, "auto f() -> T {")
        self.expect_one(text, 3, FUNCTION_RULE)

    def test_a_long_member_of_a_class(self):
        self.expect_one("class A {\n public:\n" + function(81, indent="  ") + "};\n", 3, FUNCTION_RULE)

    def test_a_class_and_a_table_may_be_long(self):
        self.expect_none("class A {\n" + "  int x;\n" * 90 + "};\n")
        self.expect_none("const int kTable[] = {\n" + "    1,\n" * 90 + "};\n")

    def test_functions_are_not_added_up(self):
        self.expect_none("void a() { b(); }\n" * 50 + function(40) + function(45))

    def test_tests_may_be_long(self):
        self.expect_none("int x = 0;\n" * 501, "a_test.cpp")
        self.expect_none(function(81), "test_records.h")

    def test_a_reason_excuses(self):
        self.expect_none("// What is here.\n// long: one table\n" + "int x = 0;\n" * 501)
        self.expect_none("// Does it.\n// long: one formula\n" + function(81))
        self.expect_none(function(81, "void f() {  // long: one formula"))

    def test_no_reason_does_not(self):
        self.expect_one("// long:\n" + function(81), 2, FUNCTION_RULE)
        self.expect_one("// long: of something else\n\n" + function(81), 3, FUNCTION_RULE)


if __name__ == "__main__":
    unittest.main()
