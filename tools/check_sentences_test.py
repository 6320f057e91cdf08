"""Sentences that are too long, and those that are not."""

import io
import json
import pathlib
import tempfile
import unittest
from contextlib import redirect_stdout
from unittest import mock

import check_sentences
from check_sentences import blocks_of_help, blocks_of_markdown, sentences, too_long, words

FITS = " ".join(["word"] * 25)
LONG = FITS + " more"


def lines_of(page: str) -> list[int]:
    return [line for line, text in blocks_of_markdown(page) for _ in too_long(text)]


def said(*arguments: str) -> tuple[int, str]:
    with mock.patch("sys.argv", ["check_sentences.py", *arguments]), redirect_stdout(io.StringIO()) as out:
        return check_sentences.main(), out.getvalue()


class CheckSentences(unittest.TestCase):
    def test_26_words_are_too_many(self):
        self.assertEqual(list(too_long(FITS + ".")), [])
        self.assertEqual([number for number, _ in too_long(LONG + ".")], [26])

    def test_where_sentences_end(self):
        for text, number in (("One. Two.", 2), ("One.", 1), ("Is it? mlbench knows. gnuplot, too.", 3), ("Done (it was). So!", 2),
                             ("See e.g. Figure 3, i.e. that.", 1), ("On MNIST. It has.", 2), ("By T. T counts.", 2),
                             ("It takes 1.5 s of run.json.", 1), ("One: two; three", 1), ("“One.” Two.", 2)):
            self.assertEqual(len(list(sentences(text))), number, text)

    def test_signs_are_no_words(self):
        self.assertEqual(words("a - b = 2 | ‖w‖ >= 89 %"), 5)

    def test_paragraphs_items_cells_and_headings_are_found_with_their_line(self):
        self.assertEqual(lines_of(f"# A page\n\n{LONG}.\n"), [3])
        self.assertEqual(lines_of(f"- short\n- {LONG}\n"), [2])
        self.assertEqual(lines_of(f"| a | b |\n|---|---|\n| c | {LONG} |\n"), [3])
        self.assertEqual(lines_of(f"## {LONG}\n"), [1])
        self.assertEqual(lines_of(f"> - [{LONG}](a.md)\n"), [1])

    def test_a_sentence_goes_on_over_lines_and_stops_at_a_block(self):
        self.assertEqual(lines_of(LONG.replace(" ", "\n")), [1])
        self.assertEqual(lines_of(f"{FITS}:\n\n- {FITS}\n- {FITS}\n"), [])

    def test_code_is_one_word_and_blocks_of_code_are_none(self):
        self.assertEqual(lines_of(f"Say `{LONG}` and\n\n```\n{LONG}\n```\n\n    {LONG}\n"), [])
        self.assertEqual(lines_of(f"{FITS} `run.json`.\n"), [1])
        self.assertEqual(lines_of(f"{FITS}. `run.json` is one.\n"), [])

    def test_of_a_help_what_stands_right_of_options(self):
        text = f"Do it\nUsage: a [OPTIONS]\n\nOptions:\n  -a,--all X      {LONG}\n  -b              {FITS}\n\n{LONG}\n"
        self.assertEqual([line for line, block in blocks_of_help(text) for _ in too_long(block)], [5, 8])

    def test_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            self.assertEqual(said(folder), (1, "0 sentences over 25 words in 0 pieces of text\nnothing was read\n"))
            (root / "docs" / "results").mkdir(parents=True)
            (root / "README.md").write_text("# A page\n")
            (root / "docs" / "results" / "a.md").write_text(f"{LONG}\n")
            self.assertEqual(said(folder), (0, "0 sentences over 25 words in 1 pieces of text\n"))

            (root / "docs" / "a.md").write_text(f"{LONG}\n")
            self.assertEqual(said(folder)[0], 1)
            self.assertIn("docs/a.md:1: 26 words: word word", said(folder)[1])

            texts = root / "texts"
            texts.write_text(json.dumps({"file": "a.tsx", "line": 7, "text": LONG}) + "\n")
            self.assertIn("a.tsx:7: 26 words", said(folder, "--only-texts", "--texts", str(texts))[1])

    def test_the_help_of_a_program_and_of_its_verbs(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program")
            program.write_text("#!/bin/sh\n"
                               "case $1$2 in\n"
                               "--help) printf 'Subcommands:\\n  run, go      runs\\n  data    data\\n\\nMore:\\n  none   no verb\\n' ;;\n"
                               "data--help) printf 'Subcommands:\\n  fetch   fetches\\n' ;;\n"
                               f"datafetch) echo '{LONG}' ;;\n"
                               "esac\n")
            program.chmod(0o755)
            self.assertEqual([command for command, _ in check_sentences.help_of(str(program))],
                             ["mlbench --help", "mlbench data --help", "mlbench data fetch --help", "mlbench run --help"])
            self.assertIn("mlbench data fetch --help:1: 26 words", said(folder, "--help-of", str(program))[1])


if __name__ == "__main__":
    unittest.main()
