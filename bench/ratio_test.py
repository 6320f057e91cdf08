"""ratio.py and all_ratios.py with programs that print what they are told, so that nothing is timed."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest
from unittest import mock

import all_ratios
import pairs
import ratio

# fake.sh NAME: prints the next of the values in NAME.values (the last one for ever), and notes that it ran.
FAKE = """#!/bin/sh
cd "$(dirname "$0")"
echo "$1" >>calls
value=$(head -n 1 "$1.values")
if [ "$(wc -l <"$1.values")" -gt 1 ]; then sed -i 1d "$1.values"; fi
[ "$value" = fail ] && exit 9
printf 'a line\\n{"program": "%s", "rate": %s.0}\\n' "$1" "$value"
"""


# staying.sh NAME --turns: the same as a program that stays; its last value is what it says at the end.
STAYING = """#!/bin/sh
cd "$(dirname "$0")"
[ "$2" = --turns ] || exit 8
echo "$1" >>calls
echo '{"warm": true}'
while read -r turn; do
  value=$(head -n 1 "$1.values")
  sed -i 1d "$1.values"
  [ "$value" = fail ] && { echo "it broke" >&2; exit 9; }
  printf '{"rate": %s.0}\\n' "$value"
done
printf '{"program": "%s", "rate": 1.0}\\n' "$1"
exit "$(cat "$1.exit" 2>/dev/null || echo 0)"
"""


class Ratios(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.fake = self.folder / "fake.sh"
        self.fake.write_text(FAKE)
        self.fake.chmod(0o755)
        self.choices = self.folder / "choices.json"

    def command(self, name, *values):
        if values:
            (self.folder / f"{name}.values").write_text("".join(f"{value}\n" for value in values))
        return f"{self.fake} {name}"

    def calls(self):
        """Since the last time."""
        file = self.folder / "calls"
        names = file.read_text().split() if file.exists() else []
        file.unlink(missing_ok=True)
        return names

    def run_ratio(self, *arguments):
        """(exit code, what it printed as JSON)"""
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            code = ratio.main(["--key", "rate", *arguments])
        self.said = err.getvalue()
        return code, json.loads(out.getvalue() or "null")

    def compare(self, *more, variants=("a", "b"), configuration="1a float32 1x2", count=1):
        peers = [word for name in variants for word in ("--peer", self.command(name))]
        kept = ["--choices", str(self.choices), "--configuration", configuration]
        return self.run_ratio("--ours", self.command("ours"), *peers, "--pairs", str(count), *kept, *more)

    def test_the_best_variant_is_that_of_the_best_median_of_three(self):
        self.command("ours", 20)
        self.command("a", 30, 9, 9, 9)
        self.command("b", 10)
        code, result = self.compare()
        self.assertEqual(self.calls(), ["a", "b"] * 3 + ["ours", "b"])
        self.assertEqual(code, 0)
        self.assertEqual(result["peer"]["command"], self.command("b"))
        self.assertEqual(result["choice"]["measured"], {self.command("a"): [30, 9, 9], self.command("b"): [10, 10, 10]})
        self.assertEqual(result["choice"]["left_out"], {})

    def test_a_variant_that_fails_is_left_out(self):
        for name, *values in (("ours", 20), ("a", 99, "fail"), ("b", 10)):
            self.command(name, *values)
        code, result = self.compare()
        self.assertEqual(self.calls(), ["a", "b", "a", "a", "a", "b", "b", "ours", "b"], "three attempts, and never again")
        self.assertEqual((code, result["peer"]["command"]), (0, self.command("b")))
        self.assertEqual(result["choice"]["measured"], {self.command("b"): [10, 10, 10]})
        self.assertEqual(list(result["choice"]["left_out"]), [self.command("a")])
        self.assertIn("failed 3 times", result["choice"]["left_out"][self.command("a")])
        self.assertEqual(self.compare()[1]["choice"], result["choice"])
        self.assertEqual(self.calls(), ["ours", "b"], "it is part of the choice that is kept")

    def test_one_variant_must_remain(self):
        for name, value in (("ours", 20), ("a", "fail"), ("b", "fail")):
            self.command(name, value)
        self.assertEqual(self.compare(), (2, None))
        self.assertIn("no variant of the peer", self.said)
        self.assertFalse(self.choices.exists())

    def test_a_variant_that_takes_too_long_is_left_out(self):
        for turns, peer, slow in (([], self.command("a", 10), "sleep 1000"),
                                  (["--turns"], self.staying("b", *[10] * 4), f"sh -c 'sleep 1000' {self.folder}")):
            ours = self.staying("ours", 20) if turns else self.command("ours", 20)
            code, result = self.run_ratio(*turns, "--ours", ours, "--peer", slow, "--peer", peer, "--pairs", "1",
                                          "--timeout", "1")
            self.assertEqual((code, result["peer"]["command"]), (0, peer), self.said)
            self.assertIn("took longer than 1", result["choice"]["left_out"][slow])

    def test_a_choice_is_kept_for_its_configuration(self):
        for name, value in (("ours", 20), ("a", 9), ("b", 10)):
            self.command(name, value)
        first = self.compare()[1]["choice"]
        self.calls()
        self.command("a", 99)
        _, result = self.compare()
        self.assertEqual(self.calls(), ["ours", "b"])
        self.assertEqual(result["choice"], first)
        self.compare(configuration="1a float32 2x1")
        self.assertEqual(self.calls(), ["a", "b"] * 3 + ["ours", "a"])
        self.assertEqual(set(json.loads(self.choices.read_text())), {"1a float32 1x2", "1a float32 2x1"})

    def test_what_makes_it_choose_again(self):
        for name, value in (("ours", 20), ("a", 9), ("b", 10), ("c", 11)):
            self.command(name, value)
        self.compare()
        self.calls()
        self.compare("--choose-again")
        self.assertEqual(self.calls(), ["a", "b"] * 3 + ["ours", "b"])
        self.compare(variants=("a", "b", "c"))
        self.assertEqual(self.calls(), ["a", "b", "c"] * 3 + ["ours", "c"])
        kept = json.loads(self.choices.read_text())
        kept["1a float32 1x2"]["machine"]["cpu"] = "another"
        self.choices.write_text(json.dumps(kept))
        self.compare(variants=("a", "b", "c"))
        self.assertEqual(len(self.calls()), 3 * 3 + 2)

    def test_one_variant_is_no_choice(self):
        self.command("ours", 20)
        self.command("a", 10)
        code, result = self.run_ratio("--ours", self.command("ours"), "--peer", self.command("a"), "--pairs", "1")
        self.assertEqual((code, result["choice"], self.calls()), (0, None, ["ours", "a"]))

    def test_pairs_are_as_many_as_said_and_take_turns(self):
        self.command("ours", 1)
        self.command("a", 10)
        code, result = self.run_ratio("--ours", self.command("ours"), "--peer", self.command("a"), "--pairs", "3")
        self.assertEqual(self.calls(), ["ours", "a", "a", "ours", "ours", "a"])
        self.assertEqual((code, result["verdict"], result["pairs"]), (1, "missed", 3))

    def staying(self, name, *values, code=0):
        script = self.folder / "staying.sh"
        script.write_text(STAYING)
        script.chmod(0o755)
        self.command(name, *values)
        (self.folder / f"{name}.exit").write_text(f"{code}\n")
        return f"{script} {name}"

    def test_programs_that_stay_take_turns(self):
        ours, slow, fast = (self.staying(*given) for given in (("ours", 20, 22, 24), ("a", 5, 5, 5), ("b", 9, 9, 9, 10, 11, 8)))
        code, result = self.run_ratio("--turns", "--ours", ours, "--peer", slow, "--peer", fast, "--pairs", "3",
                                      "--limit", "1.5")
        self.assertEqual(code, 0, self.said)
        self.assertEqual(self.calls(), ["a", "b", "ours", "b"], "each is started once for the choice, and once for the pairs")
        self.assertEqual((result["turns"], result["ours"]["values"], result["peer"]["values"]), (True, [20, 22, 24], [10, 11, 8]))
        self.assertEqual(result["choice"]["measured"], {slow: [5, 5, 5], fast: [9, 9, 9]})
        self.assertEqual(result["peer"]["settings"], {"program": "b"})

    def test_one_that_stays_and_fails_is_an_error(self):
        for ours, said in ((self.staying("ours", 20, "fail"), "it broke"), (self.staying("end", 20, 20, code=1), "exit code 1")):
            code, result = self.run_ratio("--turns", "--ours", ours, "--peer", self.staying("a", 10, 10), "--pairs", "2")
            self.assertEqual((code, result), (2, None))
            self.assertIn(said, self.said)

    def test_verdicts(self):
        self.command("a", 10)
        for values, verdict, expected in (((20,), "met", 0), ((9,), "missed", 1), ((9, 12, 9, 12), "undecided", 3)):
            self.command("ours", *values)
            code, result = self.run_ratio("--ours", self.command("ours"), "--peer", self.command("a"), "--pairs", "4")
            self.assertEqual((result["verdict"], code), (verdict, expected))

    def test_a_lower_end_of_its_own(self):
        self.command("a", 100)
        for values, verdict in (([100] * 3 + [98], "met"), ([100] * 3 + [96], "undecided"), ([99], "missed")):
            self.command("ours", *values)
            _, result = self.run_ratio("--ours", self.command("ours"), "--peer", self.command("a"), "--pairs", "4",
                                       "--lower-end", "0.97")
            self.assertEqual((result["verdict"], result["limit"], result["lower_end"]), (verdict, 1.0, 0.97), values)

    def test_all_that_was_measured_is_in_the_file(self):
        self.command("ours", 20, 22, 24)
        self.command("a", 10, 11, 8)
        output = self.folder / "results" / "one.json"
        # The word PYTHON stands for a program whose path is nobody's business.
        code, result = self.run_ratio("--ours", self.command("ours"), "--peer", "PYTHON a", "--python", str(self.fake),
                                      "--pairs", "3", "--limit", "1.5", "--output", str(output))
        self.assertEqual(code, 0)
        self.assertEqual(result, json.loads(output.read_text()))
        self.assertEqual(result["ours"]["values"], [20, 22, 24])
        self.assertEqual(result["peer"], {"command": "PYTHON a", "settings": {"program": "a"}, "failures": 0,
                                          "values": [10, 11, 8]})
        self.assertEqual((result["ratio"], result["interval_95"], result["limit"]), (2, [2, 3], 1.5))
        self.assertEqual((result["machine"], result["instruction_set"]), (ratio.machine(), ratio.instruction_set()))
        self.assertRegex(result["begin"] + result["end"], r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ){2}$")

    def test_what_a_record_says_of_a_run(self):
        environment = {"version": "0.1.0", "git_describe": "abc", "build_type": "Release", "compiler": "GNU"}
        record = {"environment": environment, "task": "1a", "task_hash": "12", "framework": "native", "backend": "gloo",
                  "workers": 2, "threads_per_worker": 1, "effective": {"pinned": True}, "clocks": {"train_s": 3.0},
                  "throughput": {"rate": 7}}
        text = "progress\n" + json.dumps([record], indent=2)
        self.assertEqual(ratio.value_of(ratio.last_json(text), "rate"), 7)
        self.assertEqual(ratio.settings_of(record), {
            "program": "mlbench 0.1.0", "commit": "abc", "build_type": "Release", "task": "1a", "task_hash": "12",
            "framework": "native", "backend": "gloo", "workers": 2, "threads_per_worker": 1, "effective": {"pinned": True}})

    def test_failures_are_repeated_and_counted(self):
        self.command("ours", 20)
        self.command("a", "fail", 10, "fail", 10)
        code, result = self.run_ratio("--ours", self.command("ours"), "--peer", self.command("a"), "--pairs", "2")
        self.assertEqual((code, result["peer"]["failures"], result["peer"]["values"]), (0, 2, [10, 10]))

    def test_what_cannot_be_measured_is_no_verdict(self):
        self.command("ours", 20)
        self.command("a", "fail")
        self.command("b", 0)
        for name, reason in (("a", "failed 3 times"), ("b", "no positive number 'rate'")):
            code, result = self.run_ratio("--ours", self.command("ours"), "--peer", self.command(name))
            self.assertEqual((code, result), (2, None))
            self.assertIn(reason, self.said)

    def test_a_program_that_hangs_is_ended(self):
        code, _ = self.run_ratio("--ours", "sleep 1000", "--peer", "sleep 1000", "--timeout", "0.1")
        self.assertEqual(code, 2)
        self.assertIn("took longer than 0.1 s", self.said)


class InstructionSet(unittest.TestCase):
    def test_the_highest_counts(self):
        for flags, name in (("fpu sse2 avx", "other"), ("sse2 avx2 fma", "avx2"), ("avx2 avx512f avx512_bf16", "avx512"),
                            ("avx2 avx512f amx_tile amx_bf16", "amx")):
            self.assertEqual(ratio.instruction_set(f"processor\t: 0\nvmx flags\t: amx_bf16\nflags\t\t: {flags}\n"), name)
        self.assertEqual(ratio.instruction_set("Features\t: asimd\n"), "other")


class Pairs(unittest.TestCase):
    def test_the_interval_holds_the_median_and_is_always_the_same(self):
        ratios = [1 + i / 100 for i in range(21)]
        low, high = pairs.interval(ratios)
        self.assertTrue(1.02 < low < 1.10 < high < 1.18)
        self.assertEqual((low, high), pairs.interval(ratios))

    def test_verdicts(self):
        self.assertEqual([pairs.verdict(low, high, 1.0) for low, high in ((1, 2), (0.9, 1), (0.8, 0.99))],
                         ["met", "undecided", "missed"])


class AllRatios(unittest.TestCase):
    def test_names_and_configurations(self):
        names = [one.name for one in all_ratios.RATIOS]
        self.assertEqual(len(names), len(set(names)))
        peers = {}
        for one in all_ratios.RATIOS:
            if len(one.peers) > 1:
                self.assertEqual(peers.setdefault(one.configuration, one.peers), one.peers, one.configuration)
                self.assertEqual(len(set(one.peers)), len(one.peers))

    def test_a_command_is_understood_by_ratio(self):
        for one in all_ratios.RATIOS:
            options = ratio.parse(one.command("PYTHON", choose_again=True, kind="avx2")[1:])
            self.assertEqual((options.ours, options.peer, options.pairs), (one.ours, one.peers, 21))
            self.assertEqual((options.limit, options.lower_end), (one.limit_on("avx2"), one.lower_end))
            self.assertEqual(options.output, f"docs/results/ratios/{one.name}-avx2.json")
            self.assertEqual(options.configuration, one.configuration if len(one.peers) > 1 else None)

    def test_limits_are_those_of_the_kind_of_processor(self):
        for name, avx2, avx512, amx in (
                ("1a-float32-1x2-native", 1.45, 1.45, 1.45), ("1a-float32-2x1-native", 1.45, 1.45, 1.45),
                ("1a-float32-1x2-native-2018", 1.5, 1.5, 1.5), ("mnist-float32-1x2-native", 1.5, 1.5, 1.5),
                ("1a-float32-1x1-native", 1.3, 1.3, 1.3), ("awd-lstm-float32-1x2-native", 1.2, 1.4, 1.4),
                ("gnmt-float32-1x2-native", 1.5, 1.6, 1.6),
                ("transformer-float32-1x2-native", 1.4, 1.4, 1.4), ("1a-bf16-1x2-native", 1.3, 1.3, 3.0),
                ("gnmt-bf16-1x2-native", 1.6, 1.6, 2.0), ("resnet50-224-float32-1x2-native", 1.3, 1.3, 1.3),
                ("vgg16-224-bf16-1x2-native", 1.1, 1.1, 1.1), ("1a-float32-2x1-tensorflow", 0.98, 0.98, 0.98)):
            one = all_ratios.BY_NAME[name]
            self.assertEqual([one.limit_on(kind) for kind in ("avx2", "avx512", "amx")], [avx2, avx512, amx], name)
            self.assertIsNone(one.lower_end, name)
        for name in ("1a-float32-1x2-torch", "resnet50-224-float32-1x2-torch", "vgg16-64-bf16-1x2-torch"):
            self.assertEqual((all_ratios.BY_NAME[name].limit_on("other"), all_ratios.BY_NAME[name].lower_end), (1.0, 0.97))

    def test_a_peer_of_imagenet_may_be_compiled(self):
        for name, one in all_ratios.BY_NAME.items():
            if name.startswith(("resnet50", "vgg16")):
                self.assertEqual(sum("--compile" in peer for peer in one.peers), len(one.peers) / 2, name)

    def test_kinds_of_processors_have_files_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(all_ratios, "ROOT", pathlib.Path(folder)):
            results = pathlib.Path(folder) / all_ratios.RESULTS
            results.mkdir(parents=True)
            for name, begin in (("awd-lstm-float32-1x2-onednn", "2026-11-27"), ("awd-lstm-float32-1x2-native-amx", "2026-12-01"),
                                ("1a-float32-1x2-torch", "2026-11-23"), ("1a-float32-1x2-torch-avx2", "2026-12-02"),
                                ("1a-float32-1x2-torch-avx512", "2026-12-03")):
                (results / f"{name}.json").write_text(json.dumps({"begin": begin}))
            text, image = "awd-lstm-float32-1x2-native", "1a-float32-1x2-torch"
            kept = all_ratios.kept([all_ratios.BY_NAME[text], all_ratios.BY_NAME[image]])
            self.assertEqual({key: result["begin"][-2:] for key, result in kept.items()},
                             {(text, "avx2"): "27", (text, "amx"): "01", (image, "avx2"): "02", (image, "avx512"): "03"})

    def test_variants_are_chosen_by_the_first_that_needs_them(self):
        chosen = [one for one in all_ratios.RATIOS if one.configuration == "1a float32 1x2"]
        self.assertEqual([one.name for one in chosen], ["1a-float32-1x2-torch", "1a-float32-1x2-native"])
        plan = all_ratios.plan(chosen, {"bench/setup_peer.sh": "PYTHON"}, choose_again=True, kind="avx2")
        self.assertEqual(["--choose-again" in command for _, command, _ in plan], [True, False])

    def test_each_peer_has_the_python_of_its_own(self):
        chosen = [one for one in all_ratios.RATIOS if one.name in ("1a-float32-1x2-torch", "1a-float32-1x2-tensorflow")]
        pythons = {"bench/setup_peer.sh": "of-torch", "bench/setup_wheels.sh keras": "of-keras"}
        for (one, command, _), (python, peer) in zip(all_ratios.plan(chosen, pythons, choose_again=False, kind="avx2"),
                                                     (("of-torch", "torch_peer.py"), ("of-keras", "keras_peer.py")), strict=True):
            self.assertEqual(ratio.parse(command[1:]).python, python)
            self.assertTrue(all(f"PYTHON bench/{peer} " in words for words in one.peers), one.peers)

    def test_what_a_variant_is_called(self):
        for command, name in (("PYTHON bench/keras_peer.py --task 1a --fused-norm --jit-compile --inter-op 2",
                               "Keras --fused-norm --jit-compile --inter-op 2"),
                              ("PYTHON bench/torch_peer.py --layout nchw --fused --compile", "PyTorch nchw --fused --compile"),
                              ("bench/fresh_run.sh 1 --task 1a", "fixed batch")):
            self.assertEqual(all_ratios.variant_of({"peer": {"command": command}}), name)

    KEY = "1a-float32-1x2-torch", "avx2"

    def result(self, **changes):
        ours, peer = [20.0] * 20 + [22.0], [10.0] * 21
        command = "PYTHON bench/torch_peer.py --task 1a --layout nhwc --fused"
        return {"limit": 1.0, **ratio.figures(ours, peer, 1.0), "ours": {"values": ours, "settings": {"commit": "abc"}},
                "peer": {"values": peer, "command": command}, "choice": {"measured": {command: [10, 10, 10]}}} | changes

    def complaints(self, result, page):
        return list(all_ratios.complaints({self.KEY: result}, page))

    def test_a_page_shows_what_follows_from_the_pairs(self):
        row = "| 1a | float32 | 1 x 2 | torch | avx2 | 20 | 10, PyTorch nhwc --fused | 2.00 | 2.00 to 2.00 | 1, lower end 0.97 | met |"
        self.assertEqual(all_ratios.table({self.KEY: self.result()})[2:], [row])
        self.assertEqual(self.complaints(self.result(), f"# Ratios\n\n{row}\n"), [])
        self.assertEqual(len(self.complaints(self.result(), "# Ratios\n")), 1)
        other = row.replace("2.00 |", "2.10 |", 1)
        self.assertEqual(len(self.complaints(self.result(), f"{row}\n{other}\n")), 1)

    def test_the_verdict_of_a_page_is_by_the_limit_of_now(self):
        of_old = self.result(limit=2.0)
        of_old["verdict"] = "met"
        judged = all_ratios.table({("2a-float32-1x2-native", "avx2"): of_old})[2]
        self.assertRegex(judged, r"\| 6 \| missed \|$")

    def test_a_limit_in_bfloat16_counts_where_the_peer_gains_by_it(self):
        float32, bf16 = ((f"resnet50-64-{precision}-1x2-native", "amx") for precision in ("float32", "bf16"))
        for values, verdict in ((None, "undecided"), ([9.0] * 21, "met"), ([10.0] * 21, "no limit")):
            others = {float32: self.result(peer={**self.result()["peer"], "values": values})} if values else {}
            row = all_ratios.table({**others, bf16: self.result()})[-1]
            self.assertRegex(row, rf"\| bf16 .* \| 1.3 \| {verdict} \|$")

    def test_what_does_not_follow_is_found(self):
        row = all_ratios.table({self.KEY: self.result()})[2]
        dirty = {"values": self.result()["ours"]["values"], "settings": {"commit": "abc-dirty"}}
        best = {self.result()["peer"]["command"]: [10, 10, 10]}
        another, few, silent = ({"measured": best | {"other": [11, 11, 11]}}, {"measured": best | {"other": [9, 9]}},
                                {"measured": best, "left_out": {"other": ""}})
        for changes in ({"ratio": 2.1}, {"verdict": "undecided"}, {"ours": dirty},
                        {"instruction_set": "amx"}, *({"choice": choice} for choice in (another, few, silent))):
            self.assertEqual(len(self.complaints(self.result(**changes), row)), 1, changes)
        told = {"measured": best, "left_out": {"other": "took longer than 900 s"}}
        self.assertEqual(self.complaints(self.result(choice=told), row), [])
        self.assertEqual(self.complaints(self.result(instruction_set="avx2", lower_end=0.97), row), [])
        few = self.result(ours={"values": [20.0], "settings": {}}, peer={**self.result()["peer"], "values": [10.0]})
        self.assertEqual(self.complaints(few, row), ["1a-float32-1x2-torch: 1 pairs instead of 21"])


if __name__ == "__main__":
    unittest.main()
