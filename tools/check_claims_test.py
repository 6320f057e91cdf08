"""Claims that say since when, or what shows them, and those that do not; comments without a subject."""

import unittest

from check_claims import claims, fragments


def found(text: str, path: str = "docs/a.md") -> list[int]:
    return [line for line, _ in claims(path, text)]


class CheckClaims(unittest.TestCase):
    def test_a_claim_alone_is_found_with_its_line(self):
        for claim in ("never run", "not yet built", "Not yet tested", "untested", "to be done", "for now", "not measured yet",
                      "not measured again", "could not be had", "tried on one GPU", "for want of GPUs", "TODO"):
            self.assertEqual(found(f"# A page\n\nSaid of it:\nthis is {claim}, as it is.\n"), [4], claim)

    def test_one_that_is_broken_over_two_lines(self):
        self.assertEqual(found("This was never\nrun.\n"), [1])

    def test_a_date_or_a_test_in_its_paragraph_is_enough(self):
        for evidence in ("2026-11-27", "comm_nccl_test", "the test `results`", "the set `nccl`", "./test.sh nccl",
                         "[results](../results/gpu.md)"):
            self.assertEqual(found(f"It was never run\nwith two GPUs ({evidence}).\n"), [], evidence)
            self.assertEqual(found(f"It was never run with two GPUs.\n\nSee {evidence}.\n"), [1], evidence)

    def test_rows_of_a_table_stand_alone(self):
        self.assertEqual(found("| a | 2026-11-27 |\n| b | never run |\n"), [2])

    def test_a_page_of_results_has_its_date_at_its_head(self):
        page = "# Ratios\n\nMeasured on 2026-11-27.\n\nNot measured yet: the rest.\n"
        self.assertEqual(found(page, "docs/results/a.md"), [])
        self.assertEqual(found(page), [5])

    def test_comments_of_sources_and_scripts(self):
        self.assertEqual(found("int a = 0;  // for now\nconst char* b = \"for now\";\n", "src/mlbench/base/a.cpp"), [1])
        self.assertEqual(found("// Never run,\n// but on 2026-11-27.\n", "src/mlbench/base/a.h"), [])
        self.assertEqual(found("a=1\n# for now\n", "tools/a.sh"), [2])

    def test_what_a_program_does_not_do_is_no_claim(self):
        for text in ("A run of this size can never run there.", "Those that do not run yet.", "A run that was never cut off.",
                     "It says what was not measured here and now."):
            self.assertEqual(found(f"{text}\n"), [], text)

    def test_a_comment_begins_with_its_subject(self):
        for words in ("Of each rank.", "As parse_json(), but", "As kv::get().", "The same.", "The same, but", "The same for rates."):
            for path, mark in (("src/a.h", "//"), ("bench/a.py", "#"), ("dashboard/src/a.ts", "//")):
                text = f"int a;\n{mark} {words}\nint b;\n"
                self.assertEqual([line for line, _ in fragments(path, text)], [2], (path, words))
        for words in ("The share of each rank.", "The same source is compiled twice.", "Offers a port.", "Offset; of each rank."):
            self.assertEqual(list(fragments("src/a.h", f"// {words}\n// Of two lines the first counts.\nint b;\n")), [], words)
        self.assertEqual(list(fragments("docs/a.md", "Of these one is right.\n")), [], "a page")


if __name__ == "__main__":
    unittest.main()
