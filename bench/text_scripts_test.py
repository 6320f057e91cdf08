#!/usr/bin/env python3
"""What the scripts about text make of results, without a build: ctranslate2_peer, prepare_tatoeba, wikitext2_small,
multi30k_small."""
import argparse
import array
import dataclasses
import gzip
import io
import contextlib
import os
import pathlib
import struct
import sys
import tempfile
import unittest
from unittest import mock

import ctranslate2_peer
import multi30k_small
import prepare_tatoeba
import text_seeds
import wikitext2_small


def quiet(function, *arguments):
    """(exit code, what it said)"""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            return 0, function(*arguments)
        except SystemExit as error:
            return error.code, said.getvalue()


class InFolder(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)


class CTranslate2(InFolder):
    def write_tokens(self, sentences, version=1):
        tokens = array.array("i", [i for sentence in sentences for i in sentence])
        offsets, total = array.array("q", [0]), 0
        for sentence in sentences:
            total += len(sentence)
            offsets.append(total)
        head = b"mlbench tokens\0\0" + struct.pack("<5q", version, len(sentences), total, 99, 3)
        data = tokens.tobytes()
        file = self.folder / "test.source.tokens"
        file.write_bytes(head.ljust(128, b"\0") + data + b"\0" * (-len(data) % 64) + offsets.tobytes())
        (self.folder / "test.source.tokens.checked-x").write_text("")  # a mark beside it is no token file

    def options(self, sentences=None):
        return argparse.Namespace(cache=self.folder, split="test", sentences=sentences, task="4b")

    def test_sources_are_those_of_the_token_file(self):
        sentences = [[4, 5, 6], [], [7] * 40]
        self.write_tokens(sentences)
        self.assertEqual(ctranslate2_peer.read_sources(self.options()), sentences)
        self.assertEqual(ctranslate2_peer.read_sources(self.options(2)), sentences[:2])
        self.write_tokens(sentences, version=2)
        code, said = quiet(ctranslate2_peer.read_sources, self.options())
        self.assertEqual(code, 2)
        self.assertIn("version 2", said)

    def test_words_begin_as_the_vocabulary_says(self):
        for kind, tokens, ids, words in (("pieces", ["<pad>", "▁a", "b", "▁c"], [1, 2, 3, 2, 99], 2),
                                         ("marked", ["<pad>", "a@@", "b", "c"], [1, 2, 3], 2)):
            (self.folder / "vocabulary.txt").write_text(f'{{"kind": "{kind}"}}\n' + "\n".join(tokens) + "\n", encoding="utf-8")
            count, unit = ctranslate2_peer.word_counter(self.options())
            self.assertEqual((count(ids), unit), (words, "words"), kind)
        (self.folder / "vocabulary.txt").write_text('{"kind": "words"}\na\n')
        count, unit = ctranslate2_peer.word_counter(self.options())
        self.assertEqual((count([5, 6]), unit), (2, "tokens"))

    def test_other_tokens_of_the_same_score_are_ties(self):
        line = lambda tokens, score: {"tokens": tokens, "score": score}
        ours = [line([4], -1.0), line([4, 5], -2.0), line([6], -3.0), line([7], None)]
        theirs = [line([4], -1.5), line([5, 4], -2.00001), line([7], -3.1), line([8], -1.0)]
        found = ctranslate2_peer.compared(ours, theirs)
        self.assertEqual((found["sentences"], found["tied"], found["different"]), (4, 1, 2))
        self.assertEqual([row[0] for row in found["first_different"]], [2, 3])

    def test_models_that_ctranslate2_lacks_are_refused(self):
        options = self.options()
        self.assertEqual(ctranslate2_peer.task_of(options)["name"], "4b")
        options.task = "4a"
        code, said = quiet(ctranslate2_peer.task_of, options)
        self.assertEqual(code, 2)
        self.assertIn("gnmt", said)


class Tatoeba(InFolder):
    def test_pairs_are_repeated(self):
        source, target = self.folder / "pairs.tsv.gz", self.folder / "all.tsv"
        source.write_bytes(gzip.compress(b"a\tb\nc\td"))
        self.assertEqual(prepare_tatoeba.repeat(source, target, 3), 6)
        self.assertEqual(target.read_bytes(), b"a\tb\nc\td\n" * 3)
        source.write_bytes(gzip.compress(b"a\nb\n"))
        self.assertEqual(quiet(prepare_tatoeba.repeat, source, target, 1)[0], 2)

    def test_memory_is_that_of_the_process_and_what_it_starts(self):
        child = "import time; x = bytearray(60 << 20); time.sleep(0.5)"
        parent = f"import subprocess, sys; x = bytearray(40 << 20); subprocess.run([sys.executable, '-c', '{child}'])"
        seconds, most, largest, _ = prepare_tatoeba.measured([sys.executable, "-c", parent], dict(os.environ))
        self.assertGreater(seconds, 0.5)
        self.assertGreater(largest, 60 << 20)
        self.assertGreater(most, 100 << 20)

    def test_nothing_is_overwritten(self):
        with mock.patch.object(sys, "argv", ["x", "pairs.tsv", "--scratch", str(self.folder), "--mlbench", sys.executable]):
            code, said = quiet(prepare_tatoeba.main)
        self.assertEqual(code, 2)
        self.assertIn("nothing is overwritten", said)
        self.assertTrue(self.folder.exists())


class Seeds(InFolder):
    def setUp(self):
        super().setUp()
        self.study = text_seeds.Study("made", pathlib.Path("4b-made.toml"), "multi30k", self.folder / "results", 2)

    def find(self, seed):
        name, folder = text_seeds.find_run(self.study, self.folder, seed)
        # plan/plan.cpp: the folder of a run is its name and the number of its workers.
        self.assertEqual(folder, self.folder / "runs" / f"{name}-2")
        return name

    def test_a_run_that_was_cut_off_is_begun_again_by_another_name(self):
        first = self.find(7)
        record = self.folder / f"runs/{first}-2/run.json"
        for state in (None, "stopped"):
            record.parent.mkdir(parents=True, exist_ok=True)
            if state:
                text_seeds.ratio.write(record, {"state": state})
            self.assertNotEqual(self.find(7), first)
        text_seeds.ratio.write(record, {"state": "finished"})
        self.assertEqual(self.find(7), first)

    def test_no_attempt_has_the_folder_of_another(self):
        names = set()
        for study in (self.study, dataclasses.replace(self.study, epochs=24)):
            for seed in (4, 42, 422):
                for _ in range(12):
                    _, folder = text_seeds.find_run(study, self.folder, seed)
                    self.assertNotIn(folder, names)
                    names.add(folder)
                    folder.mkdir(parents=True)

    def test_what_was_trained_is_kept(self):
        """The program's run is found where it writes it: one that was asked for and did not come about is an error."""
        def run(command, **_):
            if "run" in command:
                self.command = command
                folder = self.folder / "home/runs" / f"{command[2]}-{command[3]}"
                text_seeds.ratio.write(folder / "run.json", {"state": "finished"})
            else:
                self.kept = [pathlib.Path(word) for word in command[-2:]]
            return mock.Mock(returncode=0)

        options = argparse.Namespace(home=self.folder / "home", mlbench="mlbench", data_dir=None, no_wait=True)
        for study, results, gpu in ((self.study, "results", False), (self.study.on_gpu(), "results-gpu", True)):
            with mock.patch.object(text_seeds.subprocess, "run", run), contextlib.redirect_stderr(io.StringIO()):
                text_seeds.train_ours(study, options, 7)
            self.assertTrue((self.kept[0] / "run.json").exists(), self.kept)
            self.assertEqual(self.kept[1], self.folder / results / "ours-7")
            for word in ("--no-wait", "--to-the-end"):
                self.assertIn(word, self.command)
            self.assertEqual("--gpu" in self.command, gpu)


class WikiText2(InFolder):
    def setUp(self):
        super().setUp()
        self.study = dataclasses.replace(wikitext2_small.STUDY, results=self.folder)

    def keep(self, side, seed, last):
        values = [400.0, 300.0, 250.0, last]
        if side == "peer":
            document = {"epochs": [{"epoch": e, "steps": 10 * e, "train_s": e, "train_loss": 5.0, "perplexity": value}
                                   for e, value in enumerate(values, 1)]}
        else:
            document = {"seed": seed, "task": "3a-small", "workers": 2,
                        "epochs": [{"epoch": e, "train_loss": 5.0} for e in range(1, 5)],
                        "evaluations": [{"split": "test", "epoch": float(e), "step": 10 * e, "train_s": e,
                                         "metrics": {"Perplexity": value}} for e, value in enumerate(values, 1)]}
        text_seeds.ratio.write(self.study.kept(side, seed), document)

    def test_medians_decide(self):
        for seed, ours, peer in ((1, 210, 200), (2, 205, 500), (3, 900, 190)):
            self.keep("ours", seed, ours)
            self.keep("peer", seed, peer)
        rows, summary = wikitext2_small.summarise(self.study, [1, 2, 3])
        self.assertEqual(len(rows), 24)
        self.assertEqual(summary["median_perplexity"]["ours"], [400, 300, 250, 210])
        self.assertAlmostEqual(summary["ratio"], 1.05)
        self.assertFalse(summary["met"])
        self.keep("ours", 1, 206)
        rows, summary = wikitext2_small.summarise(self.study, [1, 2, 3])
        self.assertTrue(summary["met"])
        text_seeds.write_results(self.study, wikitext2_small.COLUMNS, rows, summary)
        self.assertEqual(len((self.folder / "curve.csv").read_text().splitlines()), 25)
        self.assertTrue((self.folder / "summary.json").exists())

    def test_what_is_missing_gives_no_verdict(self):
        self.keep("ours", 1, 200)
        rows, summary = wikitext2_small.summarise(self.study, [1])
        self.assertEqual(len(rows), 4)
        self.assertIsNone(summary)
        self.assertEqual([text_seeds.exit_code(given) for given in ([summary], [{"met": True}], [{"met": True}, {"met": False}])],
                         [3, 0, 1])


class Multi30k(InFolder):
    def setUp(self):
        super().setUp()
        self.study = multi30k_small.study_of("4b", self.folder, 2)

    def keep(self, side, seed, bleu, epochs=2):
        if side == "peer":
            document = {"epochs": [{"epoch": e, "steps": 10 * e, "train_s": e, "train_loss": 5.0, "perplexity": 9.0}
                                   for e in range(1, epochs + 1)], "evaluation": {"metrics": {"BLEU": bleu}}}
        else:
            document = {"seed": seed, "task": "4b-multi30k", "workers": 2,
                        "epochs": [{"epoch": e, "train_loss": 5.0} for e in range(1, epochs + 1)],
                        "evaluations": [{"split": "test", "epoch": float(e), "step": 10 * e, "train_s": e,
                                         "metrics": {"BLEU": bleu - epochs + e, "Perplexity": 8.0}}
                                        for e in range(1, epochs + 1)]}
        text_seeds.ratio.write(self.study.kept(side, seed), document)

    def test_task_files_are_there_and_name_what_runs_say(self):
        for task in multi30k_small.EPOCHS:
            study = multi30k_small.study_of(task)
            self.assertIn(f'name = "{study.task.stem}"', study.task.read_text())
            self.assertEqual(study.results.name, study.task.stem)

    def test_medians_decide(self):
        for seed, ours, peer in ((1, 30.0, 31.5), (2, 31.0, 31.5), (3, 10.0, 40.0)):
            self.keep("ours", seed, ours)
            self.keep("peer", seed, peer)
        rows, summary = multi30k_small.summarise(self.study, [1, 2, 3])
        self.assertEqual(len(rows), 12)
        self.assertEqual(summary["median_bleu"], {"ours": 30.0, "peer": 31.5})
        self.assertEqual((summary["behind"], summary["met"]), (1.5, False))
        self.keep("ours", 1, 30.5)
        _, summary = multi30k_small.summarise(self.study, [1, 2, 3])
        self.assertEqual((summary["behind"], summary["met"]), (1.0, True))

    def test_another_number_of_epochs_does_not_count(self):
        for side in text_seeds.SIDES:
            self.keep(side, 1, 30.0, epochs=1)
            code, said = quiet(multi30k_small.rows_of, self.study, side, 1)
            self.assertEqual(code, 2)
            self.assertIn("1 epochs instead of 2", said)

    def test_a_peer_that_was_trained_is_not_trained_again(self):
        """The second call, after the evaluation failed in the first."""
        trained, codes = [], [1, 0]

        def train_peer(_, options, seed, model):
            trained.append(seed)
            self.assertTrue(model.parent.is_dir())
            return {"epochs": [{"epoch": 1}, {"epoch": 2}], "machine": "where it was trained"}

        def mlbench(_, *words, **more):
            self.assertEqual(words[0], "evaluate")
            self.assertEqual(words[words.index("--threads-per-worker") + 1], 3)
            answer = {"task": "t", "task_hash": "h", "data": {}, "split": "test", "samples": 1, "metrics": {"BLEU": 7},
                      "weights_sha256": "w", "path": "/of/this/machine"}
            return mock.Mock(returncode=codes.pop(0), stdout=text_seeds.json.dumps(answer))

        options = argparse.Namespace(home=self.folder, peer_threads=3, no_wait=True)
        with mock.patch.object(text_seeds, "train_peer", train_peer), mock.patch.object(text_seeds, "mlbench", mlbench):
            self.assertEqual(quiet(multi30k_small.train, self.study, "peer", options, 5)[0], 2)
            self.assertFalse(self.study.kept("peer", 5).exists())
            self.assertEqual(quiet(multi30k_small.train, self.study, "peer", options, 5)[0], 0)
        self.assertEqual(trained, [5])
        kept = text_seeds.json.loads(self.study.kept("peer", 5).read_text())
        self.assertEqual((kept["evaluation"]["metrics"], kept["machine"]), ({"BLEU": 7}, "where it was trained"))
        self.assertNotIn("path", kept["evaluation"])


if __name__ == "__main__":
    unittest.main()
