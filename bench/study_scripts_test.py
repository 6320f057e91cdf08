#!/usr/bin/env python3
"""What the scripts about images, stores and the study of distributed training make of results, without a build:
tiny_imagenet_losses, tiny_imagenet_peer, ddl_trials, ddl_networks, emulation_check,
image_decoding, keras_beside, s3_source, socket_sizes, start_times."""
import argparse
import collections
import contextlib
import datetime
import http.client
import http.server
import io
import json
import pathlib
import sys
import tempfile
import threading
import unittest
from unittest import mock

import ddl_networks
import ddl_trials
import emulation_check
import image_decoding
import keras_beside
import ratio
import s3_source
import socket_sizes
import start_times
import tiny_imagenet_losses as losses
import tiny_imagenet_peer as peer
from start_times import rederive


class Peer(unittest.TestCase):
    def test_numbers_are_those_of_the_tests_of_base(self):
        self.assertEqual(peer.philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
                         [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1])
        self.assertEqual(peer.derive_key(42, 2, 0), 0xfacf83bdce98b461)
        self.assertEqual(peer.order(10, 42, 0), [4, 1, 6, 7, 0, 5, 3, 8, 9, 2])

    def test_crops_lie_within_the_padded_image(self):
        pad, key = peer.task()["data"]["pad"], peer.derive_key(42, peer.AUGMENT, 0)
        crops = [peer.crop(key, sample, pad) for sample in range(2000)]
        for offsets in zip(*((top, left) for top, left, _ in crops)):
            self.assertEqual(set(offsets), set(range(2 * pad + 1)))
        self.assertAlmostEqual(sum(mirrored for _, _, mirrored in crops) / len(crops), 0.5, delta=0.05)

    def test_ranks_take_the_parts_of_a_batch_that_ours_take(self):
        for ranks, parts in ((2, [[0, 1, 2, 3], [4, 5, 6]]), (3, [[0, 1, 2], [3, 4], [5, 6]])):
            self.assertEqual([list(peer.part_of(rank, ranks, range(7))) for rank in range(ranks)], parts)

    def test_rates_are_those_of_a_run_of_ours(self):
        """Its step records had these, of 600 steps."""
        for step, rate in enumerate((0.1, 0.09999931232202688, 0.09999724930702357, 0.09999381101173764)):
            self.assertAlmostEqual(peer.rate_of(step, 600, peer.task()), rate, places=12)

    def test_images_have_the_labels_of_their_folders_and_of_the_list(self):
        with tempfile.TemporaryDirectory() as made:
            folder = pathlib.Path(made)
            for name in ("n2", "n1"):
                (folder / f"train/{name}/images").mkdir(parents=True)
                (folder / f"train/{name}/images/{name}_0.JPEG").touch()
            (folder / "val").mkdir()
            (folder / "val/val_annotations.txt").write_text("val_7.JPEG\tn2\t0\t0\t1\t1\nval_1.JPEG\tn1\t0\t0\t1\t1\n")
            found = {split: [(path.name, label) for path, label in samples]
                     for split, samples in peer.samples_of(folder).items()}
        self.assertEqual(found, {"train": [("n1_0.JPEG", 0), ("n2_0.JPEG", 1)], "val": [("val_7.JPEG", 1), ("val_1.JPEG", 0)]})


class Losses(unittest.TestCase):
    def test_a_loss_may_be_twice_as_far_away_as_pytorch_from_itself(self):
        found = losses.verdict([1, 2.0005, 3.01], [1, 2, 3], [1, 2, 3.006], 1e-3)
        self.assertTrue(found["within"])
        self.assertEqual((found["first_steps_within_limit"], found["torch_first_steps_within_limit"]), (2, 2))
        self.assertFalse(found["all_within_limit"] or found["torch_all_within_limit"])
        self.assertFalse(losses.verdict([1, 2.0005, 3.01], [1, 2, 3], [1, 2, 3.004], 1e-3)["within"])
        self.assertTrue(losses.verdict([1, 2.0005, 3], [1, 2, 3], [1, 2, 3.004], 1e-3)["all_within_limit"])
        self.assertFalse(losses.verdict([1, 2.002, 3], [1, 2, 3], [1, 2, 3.006], 1e-3)["within"], "the difference came later")


class Trials(unittest.TestCase):
    def given(self, seed=1):
        return argparse.Namespace(trials=20, balanced=5, seed=seed)

    def test_the_seed_says_what_is_slowed(self):
        plan = ddl_trials.plan(self.given())
        self.assertEqual(plan, ddl_trials.plan(self.given()))
        self.assertNotEqual(plan, ddl_trials.plan(self.given(2)))
        self.assertEqual(collections.Counter(stage for _, stage in plan), {**dict.fromkeys(ddl_trials.STAGES, 5), None: 5})

    def test_one_stage_is_slowed_and_the_others_are_alike(self):
        for seed, slowed in ddl_trials.plan(self.given()):
            times, factor = ddl_trials.times_of(seed, slowed, 0.05)
            others = [seconds for stage, seconds in times.items() if stage != slowed]
            self.assertLess(max(others) / min(others), 1.2)
            balanced, _ = ddl_trials.times_of(seed, None, 0.05)
            self.assertAlmostEqual(times[slowed] / balanced[slowed] if slowed else 1, factor)
            if slowed in ddl_trials.INPUTS:
                self.assertTrue(2.2 <= times[slowed] / (times["compute"] + times["exchange"]) <= 3)
            elif slowed:
                self.assertTrue(1.8 <= factor <= 4)
                self.assertGreater(times[slowed] / max(others), 1.6)

    def test_pixels_follow_from_the_time_of_decoding(self):
        lab = argparse.Namespace(decode_s=0.05, decode_s_per_area=0.04)
        area = ddl_trials.Lab.area_for(lab, 3)
        self.assertAlmostEqual(lab.decode_s + (area - 1) * lab.decode_s_per_area, 3 * lab.decode_s)

    def trial(self, slowed, named, kind="named"):
        return {"slowed": slowed, "named": named, "right": named == slowed and (slowed is not None or kind == "balanced")}

    def test_one_of_twenty_may_be_wrong_and_no_balanced_one(self):
        right, wrong = self.trial("read", "read"), self.trial("read", "decode")
        nobody, somebody = self.trial(None, None, "balanced"), self.trial(None, "read")
        for trials, met in (([right] * 19 + [wrong, nobody], True), ([right] * 18 + [wrong] * 2 + [nobody], False),
                            ([right] * 20 + [nobody, somebody], False)):
            self.assertEqual(ddl_trials.summary_of(trials)["met"], met)

    def test_the_store_lists_and_sends_ranges(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ddl_trials.Answers)
        server.objects = {"data/a": (b"0123456789", "e"), "other/b": (b"", "f")}
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        client = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        self.addCleanup(client.close)
        client.request("GET", "/trials?list-type=2&prefix=data/")
        listed = client.getresponse().read().decode()
        self.assertIn("<Key>data/a</Key><Size>10</Size>", listed)
        self.assertNotIn("other", listed)
        client.request("GET", "/trials/data/a", headers={"Range": "bytes=2-4"})
        answer = client.getresponse()
        self.assertEqual((answer.status, answer.headers["Content-Range"], answer.read()), (206, "bytes 2-4/10", b"234"))


class Networks(unittest.TestCase):
    def test_an_exchange_hides_behind_the_backward_pass(self):
        step = ddl_networks.expected_step_s
        self.assertAlmostEqual(step(0.3, 0.1, 5, False), 0.4)
        self.assertAlmostEqual(step(0.3, 0.1, 5, True), 0.32)  # the last of five buckets is left
        self.assertAlmostEqual(step(0.3, 1.0, 5, True), 0.1 + 0.04 + 1.0)  # from the first bucket on without a pause
        self.assertEqual(step(0.3, 0, 5, True), 0.3)

    def test_what_is_neither_computed_nor_exchanged_stays(self):
        self.assertAlmostEqual(ddl_networks.expected_efficiency(0.3, 0.4, 0.4, 1, False), 0.4 / 0.8)
        self.assertEqual(ddl_networks.expected_efficiency(0.3, 0.4, 0, 1, True), 1)


class Emulation(unittest.TestCase):
    def test_utilisation_and_step_are_those_of_passes(self):
        seconds = dict.fromkeys(emulation_check.rederive.KINDS, 7.0) | {"batch_load": 6.0, "fwd_pass": 1.0, "comp_loss": 0.5,
                                                                         "backprop": 2.5}
        self.assertEqual(emulation_check.utilisation_of({"steps_s": seconds}), 0.4)
        kinds = [round(1e6 * seconds[kind]) for kind in emulation_check.rederive.KINDS]
        steps = [emulation_check.rederive.Step(0, count, 0, 0, 0, 0, [ns * slow for ns in kinds], [], [])
                 for count, slow in ((1, 9), (2, 2), (1, 1))]
        self.assertAlmostEqual(emulation_check.median_compute_s(steps), 4e-3)  # the first step is slow, the next two are one record

    def test_both_agree_within_two_points(self):
        for differences, kind in (([0.01, -0.01, 0.015, 0, 0.005, -0.015, 0.01], "met"), ([0.03] * 7, "missed"),
                                  ([-0.03] * 7, "missed"), ([0.03, -0.01, 0.03, 0, 0.03, -0.015, 0.03], "undecided")):
            self.assertEqual(emulation_check.verdict(differences)[0], kind, differences)

    def test_a_row_has_the_medians_of_its_pairs(self):
        measured = [{"step_s": 0.02, "emulated_step_s": 0.02, "real": 0.5, "emulated": 0.5 + one, "difference": one}
                    for one in (0.001, 0.012, 0.004)]
        table = emulation_check.table_of({"rows": [emulation_check.row_of("large", measured)]})
        self.assertIn("| large | 20.0 | 50.0% | 50.4% | +0.4 (+0.1 to +1.2) | met |", table)


class Decoding(unittest.TestCase):
    def test_two_threads_stand_beside_one_and_the_best_library_beside_one_core(self):
        given = argparse.Namespace(bin=pathlib.Path("bin"), images="a b.tar", decoders=["pillow", "opencv"], pairs=21,
                                   python="python3")
        library, threads = (ratio.parse(words) for _, words in image_decoding.rows_of(given))
        self.assertEqual([peer.split()[-1] for peer in library.peer], given.decoders)
        for options, command in [(library, library.ours), (threads, threads.ours), *((library, peer) for peer in library.peer)]:
            self.assertIn("a b.tar", ratio.Side("key", options).words(command))
            self.assertNotIn("a b.tar", command, "a path of this machine would be kept")
        self.assertEqual((library.limit, library.key, library.pairs), (0.97, "median_samples_per_cpu_s", 21))
        self.assertEqual((threads.limit, threads.key, threads.pairs), (1.9, "median_samples_per_s", 21))
        self.assertEqual((threads.ours.split()[-2:], threads.peer[0].split()[-2:]), (["--threads", "2"], ["--threads", "1"]))

    def test_the_table_says_what_was_met(self):
        row = {"what": "two threads beside one", "ours_median": 850.2, "peer_median": 431.1, "ratio": 1.97, "interval_95": [1.93, 1.99],
               "limit": 1.9, "verdict": "met"}
        self.assertIn("| two threads beside one | 850 | 431 | 1.97 (1.93 to 1.99) | 1.9 | met |", image_decoding.table_of({"rows": [row]}))


class Source(unittest.TestCase):
    def test_an_address_has_the_signature_of_the_published_example(self):
        with mock.patch.multiple(s3_source.s3_test, USER="AKIAIOSFODNN7EXAMPLE", SECRET="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"):
            address = s3_source.signed("https://examplebucket.s3.amazonaws.com", "/test.txt", datetime.datetime(2013, 5, 24))
        self.assertTrue(address.endswith("&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"), address)

    def test_kinds_of_objects(self):
        self.assertEqual(s3_source.kind_of("64x4M"), (64, 4 << 20))
        for wrong in ("64", "x4M", "64x4", "64x4G", "64xM"):
            with self.assertRaises(argparse.ArgumentTypeError):
                s3_source.kind_of(wrong)


class SocketSizes(unittest.TestCase):
    def test_messages_come_back_in_each_size(self):
        times = socket_sizes.sockets(3)
        self.assertEqual(list(times), socket_sizes.SIZES_KIB)
        self.assertTrue(all(0 < of_size["p50"] <= of_size["max"] for of_size in times.values()))

    def test_a_row_has_the_ratio_of_the_pairs_and_the_longest_time(self):
        def of(p50, longest):
            return {kib: {"p50": p50, "max": longest} for kib in socket_sizes.SIZES_KIB}

        rows = list(socket_sizes.rows_of([{"sockets": of(10, 11), "broadcast": of(20, 21), "all_reduce": of(30, 40000)},
                                          {"sockets": of(20, 22), "broadcast": of(40, 41), "all_reduce": of(60, 61)}]))
        self.assertEqual([(row["operation"], row["kib"]) for row in rows[:2]], [("broadcast", 16), ("broadcast", 32)])
        self.assertEqual((rows[0]["us"], rows[0]["sockets_us"], rows[0]["ratio"], rows[0]["interval_95"]), (30, 15, 2, (2, 2)))
        self.assertEqual((rows[-1]["ratio"], rows[-1]["longest_us"], rows[-1]["sockets_longest_us"]), (3, 40000, 22))
        self.assertIn("| all_reduce | 128 | 45.0 | 15.0 | 3.00 (3.00 to 3.00) | 40,000 | 22 |",
                      socket_sizes.table_of({"rows": rows}))


class StartTimes(unittest.TestCase):
    def test_a_build_is_held_against_the_first_of_its_round(self):
        times = {"old": iter([(9, 9), (2, 1), (4, 2)]), "new": iter([(9, 9), (3, 3), (8, 4)])}  # the first of each warms
        with mock.patch.object(start_times, "seconds", lambda command: next(times[command[0].parent.name])):
            rows = start_times.measure(["status"], {name: pathlib.Path(name) for name in times}, 2)
        self.assertEqual(rows["new"]["wall"]["values_s"], (3, 8))
        self.assertEqual((rows["new"]["processor"]["median_s"], rows["new"]["processor"]["ratio"]), (3.5, 2.5))
        self.assertEqual(rows["old"]["processor"]["ratio"], 1)
        self.assertIn("| 2.50 (2.00 to 3.00) | missed |", start_times.table_of({"cases": {"status": rows}}).splitlines()[-1])

    def test_status_is_to_be_no_slower_and_a_start_below_its_limit(self):
        for low, high, said in ((0.8, 1, "met"), (0.9, 1.1, "undecided"), (1.1, 1.2, "missed")):
            row = {"processor": {"interval_95": (low, high)}, "wall": {"values_s": [start_times.MOST_START_S * low] * 3}}
            self.assertEqual(start_times.verdict_of("status", row), said)
            self.assertEqual(start_times.verdict_of("--version", row), "met" if low <= 1 else "missed")

    def test_a_build_that_fails_is_no_time(self):
        self.assertGreater(start_times.seconds(["true"])[0], 0)
        with self.assertRaisesRegex(SystemExit, "exit code 1"):
            start_times.seconds(["false"])

    def test_sizes_are_counted_to_their_modules(self):
        builds = {"old": {"stripped_bytes": 7000, "symbol_bytes": {"report": 10}},
                  "new": {"stripped_bytes": 9000, "symbol_bytes": {"report": 11, "image": 5}}}
        self.assertEqual(start_times.size_table_of({"builds": builds}).splitlines()[2:],
                         ["| stripped program | 7,000 | 9,000 |", "| image | 0 | 5 |", "| report | 10 | 11 |"])

    def test_a_first_step_is_counted_from_the_start_of_the_command(self):
        step = rederive.Step(0, 1, 128, 2.3, 0.1, 700_000_000, [100_000_000, 0, 50_000_000] + [0] * 6, [0], [0])
        later = step._replace(first=1, end_ns=900_000_000)
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(
                rederive, "read_steps", lambda path: (1_000_500_000, [step, later]) if path.name == "rank-0.seg-1.steps" else None):
            run = pathlib.Path(folder)
            (run / "run.json").write_text('{"throughput": {"peak_rss": 5000000}}')
            found = start_times.first_step_of(run, 1000.0)
        self.assertEqual((round(found["begin_s"], 9), round(found["end_s"], 9), found["peak_rss"]), (1.05, 1.2, 5000000))

    def test_frameworks_take_turns_and_the_first_run_of_each_prepares(self):
        names = []

        def first_step(mlbench, home, name, framework, data):
            names.append(name)
            return {"begin_s": 0.8, "end_s": 2.0 if framework == "torch" else 0.9, "peak_rss": 250_000_000, "data": data}

        with mock.patch.object(start_times, "first_step", first_step):
            runs = start_times.measure_first_steps("mlbench", "home", 2, ["--synthetic"])
        self.assertEqual(names, ["warm-native", "warm-torch", "warm-tensorflow", "native-0", "torch-0", "tensorflow-0", "torch-1",
                                 "tensorflow-1", "native-1"])
        self.assertEqual([len(of_one) for of_one in runs.values()], [2, 2, 2])
        self.assertEqual(start_times.first_step_table_of({"runs": runs}).splitlines()[2:], [
            "| native | 0.80 | 0.90 | 0.90 to 0.90 | 1 (0.5) | met |",
            "| torch | 0.80 | 2.00 | 2.00 to 2.00 | 1 (0.5) | missed |",
            "| tensorflow | 0.80 | 0.90 | 0.90 to 0.90 | 3 | met |"])

    def test_a_run_that_fails_has_no_first_step(self):
        with tempfile.TemporaryDirectory() as home, self.assertRaisesRegex(SystemExit, "exit code 1: false run now 1 --task 1a"):
            start_times.first_step("false", pathlib.Path(home), "now", "native")

    def test_what_a_file_holds_of_other_measurements_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "times.json"
            output.write_text('{"rounds": 3, "cases": {}, "builds": {"a": {"stripped_bytes": 1, "symbol_bytes": {}},'
                              ' "b": {"stripped_bytes": 2, "symbol_bytes": {}}}}')
            words = ["start_times.py", "--first-step", f"now={folder}", "--output", str(output)]
            with (mock.patch.object(start_times, "version_of", lambda build: {"git_describe": build.name}),
                  mock.patch.object(start_times, "measure_first_steps", lambda *_: {}), mock.patch.object(sys, "argv", words),
                  contextlib.redirect_stdout(io.StringIO()) as said):
                start_times.main()
            document = json.loads(output.read_text())
        kept = document["first_step"]
        self.assertEqual((document["rounds"], kept["data"], kept["build"]["name"]), (3, "made", "now"))
        self.assertIn("| framework | to its first step, s |", said.getvalue())


class Beside(unittest.TestCase):
    """keras_peer.py --beside, without TensorFlow."""
    OPTIONS = argparse.Namespace(beside=pathlib.Path("bin"), rounds=2, ranks=2, threads=1, inter_op=1, batch=128, steps=10,
                                 warm_up=5, fused_norm=False, jit_compile=True)

    def test_both_begin_anew_in_each_round_with_the_same_numbers(self):
        asked = []

        def first_step(*words):
            asked.append(words)
            return {"begin_s": 1.0, "end_s": 2.0 + len(asked), "peak_rss": 500}

        def run(command, **_):
            asked.append(command[2:])
            return argparse.Namespace(stdout='{"first_step_s": 4.5, "peak_rss": 400, "ranks": 2}\n')

        with mock.patch.object(start_times, "first_step", first_step), mock.patch.object(keras_beside.subprocess, "run", run):
            rounds = keras_beside.measure_both(self.OPTIONS, "home")
        self.assertEqual(asked[0], (pathlib.Path("bin/mlbench"), "home", "beside0", "tensorflow", 2, 1, 15,
                                    ("--synthetic", "--fixed-batch")))
        self.assertEqual(" ".join(asked[1]),
                         "--ranks 2 --threads 1 --inter-op 1 --batch 128 --steps 10 --warm-up 5 --jit-compile")
        self.assertEqual(len(asked), 6)
        theirs = {"first_step_s": 4.5, "peak_rss": 400}
        self.assertEqual(rounds, [({"first_step_s": 5.0, "peak_rss": 500}, theirs),
                                  ({"first_step_s": 7.0, "peak_rss": 500}, theirs)])

    def test_start_and_memory_have_their_limits(self):
        for ours_s, ours_bytes, verdicts in ((2.9, 110, ["met", "met"]), (3.1, 130, ["missed", "missed"])):
            found = keras_beside.summary([({"first_step_s": ours_s, "peak_rss": ours_bytes},
                                         {"first_step_s": 4.0, "peak_rss": 100})] * 5)
            self.assertEqual([found[name]["verdict"] for name in ("start", "memory")], verdicts)
            self.assertEqual((found["start"]["seconds"], found["start"]["peer"], found["start"]["at_most"]), (ours_s, 4.0, 3.0))
            self.assertEqual((found["memory"]["ratio"], found["memory"]["ours"]), (ours_bytes / 100, ours_bytes))


if __name__ == "__main__":
    unittest.main(verbosity=2)
