#!/usr/bin/env python3
"""Writes expected.json beside itself: what sacreBLEU 2.6.0 makes of the sentences of this folder, which were written for
it. Run once, with  pip install sacrebleu==2.6.0 numpy  in an environment of its own:

    make.py [NEWSTEST2014_DE]

NEWSTEST2014_DE is newstest2014.de.gz (3,003 lines); the hashes of its tokens are kept from the last run without it.
"""
import gzip
import hashlib
import importlib.metadata
import itertools
import json
import os
import pathlib
import platform
import sys
import unicodedata

import regex
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.metrics.bleu import _get_tokenizer
from sacrebleu.significance import PairedTest, _bootstrap_resample

FOLDER = pathlib.Path(__file__).resolve().parent
TOKENIZERS = ["13a", "intl", "none"]

# What tokenisers and lower-casing trip over.
LINES = [
    "",
    " ",
    "Hello, world!",
    "It's 3.14, or 3,14; not 3 . 14.",
    "In 2019.",
    "2019.",
    ".5 and 5. and .5. and ..5.. 5,,5 5.,5",
    "a.b,c.d e...f ,g h, .i",
    "1-2 a-b -3 4- --5 6--7 8 - 9",
    "foo-\nbar and foo -\n bar\nbaz",
    "ends in a hyphen-\n",
    "&quot;x&quot; &amp;lt; &lt;b&gt; &amp;amp; &apos; &#39; & &quot",
    "<skipped>gone<skip<skipped>ped>",
    "{a}|b|~c~ [d]\\^_`e` #$%&'()*+/:;<=>?@",
    "don't 'quote' “curly” ‘single’ «guillemets» „tief“ ‚tief‘",
    "em—dash en–dash hyphen‐dash non‑breaking minus−sign",
    "12,80 € £85 $99 ¥1,000 ₿0.5 100 ¢",
    "5 % 5% 5‰ 20 °C 3±0.2 2×3 6÷2 x² y³ ½ ¾",
    "Ⅳ. Kapitel, ① Punkt; ٣.١٤ und ३,१४ 一.二",
    "東京は日本の首都です。「はい」、と言った！？",
    "中文，标点。（括号）《书名》……——",
    "한국어 문장입니다. 쉼표, 마침표.",
    "ไทย ภาษา๑๒๓.๔",
    "Русский текст — «кавычки», 1.234,5 руб.",
    "שלום, עולם! עברית־מקף ״גרשיים״",
    "مرحبا، بالعالم؟ ١٬٢٣٤٫٥",
    "Cafe\u0301 nai\u0308ve A\u030a. e\u0301! \u0301x",
    "emoji 😀! 👍🏽, 🇩🇪. ❤️? ✓ ★",
    "zero\u200bwidth\u200b, joiner\u200d. bom\ufeff! soft\u00adhyphen",
    "no\u00a0break, thin\u2009space. ideographic\u3000space! next\u0085line line\u2028sep\u2029par",
    "\u001cfile\u001dgroup\u001erecord\u001funit\u000bvertical\u000cform\ttab\rreturn",
    "trailing space \u00a0\u3000\t",
    "ΟΔΟΣ ΣΟΦΟΣ. Σ ΑΣ' ΑΣΑ Α.Σ Α\u0301Σ\u0301 ΑΣ\u00adΒ",
    "İstanbul IŞIK ĳ Ǆ ǅ ǆ ẞ ß ﬁ Å Ω K",
    "ÀÉÎÕÜ ÑÇ ŁÓDŹ ЁЖ ԱԲ ႠႡ ᲐᲑ Ꭰꭰ 𐐀𐐨 𞤀",
    "https://example.org/a-b_c?x=1&y=2#z user.name+tag@example.co.uk",
    "C++ C# .NET node.js v1.2.3-rc.4 x86_64 1e-9 #hashtag @name",
    "3.14.15 1,2,3 10:30 10/12/2020 (3)4[5] 7'8\" a&b",
    "$.50 ($1,234.50) -5,0 5,-0 €.€",
    "a\u00b7b 1\u00b72 l\u2019eau 1\u20192 _x_ 1_2 x\u00b0y 1\u00b02",
    "\u0000nul\u0007bell\u007fdel\u0080c1",
    "\ue000private\U000f0000use",
]


def read(name):
    return (FOLDER / name).read_text(encoding="utf-8").split("\n")[:-1]


def tokens(name, line):
    return " ".join(_get_tokenizer(name)()(line.rstrip()).split())


def characters():
    """One line per assigned code point: its classes, and itself in lower case."""
    digest, count = hashlib.sha256(), 0
    classes = [regex.compile(r"\p{P}"), regex.compile(r"\p{S}"), regex.compile(r"\p{N}")]
    for code in range(0x110000):
        c = chr(code)
        if unicodedata.category(c) in ("Cn", "Cs"):
            continue
        flags = "".join(str(int(bool(one.match(c)))) for one in classes) + str(int(c.isspace()))
        digest.update(f"{code:x} {flags} {c.lower()}\n".encode())
        count += 1
    return {"unicode": unicodedata.unidata_version, "code_points": count, "sha256": digest.hexdigest()}


def score_row(metric, options, name, references, made):
    row = {"metric": metric, **options, "system": name, "references": references, "score": made["score"].score,
           "name": made["score"].name, "signature": str(made["signature"])}
    if metric == "bleu":
        score = made["score"]
        row.update(precisions=score.precisions, brevity_penalty=score.bp, hypothesis_length=score.sys_len,
                   reference_length=score.ref_len, verbose=score._verbose)
    return row


def make(metric, lowercase, tokenize="13a", smooth="exp", value=None, effective_order=False):
    if metric == "bleu":
        return BLEU(lowercase=lowercase, tokenize=tokenize, smooth_method=smooth, smooth_value=value,
                    effective_order=effective_order)
    return CHRF(lowercase=lowercase, word_order=2 if metric == "chrf++" else 0)


def scores():
    rows = []
    systems = {"system.txt": read("system.txt"), "other.txt": read("other.txt")}
    # No n-gram of three or four tokens is right: smoothing decides.
    systems["few"] = ["Das Haus ist alt.", "", "Ein Zug kam."]
    all_references = [read("reference.txt"), read("second_reference.txt")]
    few = [["Das alte Haus ist schön.", "Nichts", "Der Zug kam heute."]]
    smoothings = [("exp", None), ("floor", None), ("floor", 0.05), ("add-k", None), ("add-k", 0.5), ("none", None)]
    for name, system in systems.items():
        sets = [few] if name == "few" else [all_references[:1], all_references]
        for references, lowercase in itertools.product(sets, [False, True]):
            bleus = [(t, "exp", None) for t in TOKENIZERS] + [("13a", s, v) for s, v in smoothings[1:]]
            for tokenize, smooth, value in bleus:
                metric = make("bleu", lowercase, tokenize, smooth, value)
                made = {"score": metric.corpus_score(system, references), "signature": metric.get_signature()}
                options = {"lowercase": lowercase, "tokenize": tokenize,
                           "smooth": smooth if value is None else f"{smooth}={value}"}
                rows.append(score_row("bleu", options, name, len(references), made))
            for chrf in ["chrf", "chrf++"]:
                metric = make(chrf, lowercase)
                made = {"score": metric.corpus_score(system, references), "signature": metric.get_signature()}
                rows.append(score_row(chrf, {"lowercase": lowercase}, name, len(references), made))
    return {"few": {"system": systems["few"], "reference": few[0]}, "rows": rows}


def sentences():
    """Of system.txt against both references, line by line."""
    references = list(zip(read("reference.txt"), read("second_reference.txt")))
    made = {"bleu": make("bleu", False, effective_order=True), "chrf": make("chrf", False),
            "chrf++": make("chrf++", False)}
    made["bleu, floor"] = make("bleu", False, smooth="floor", effective_order=True)
    made["bleu, add-k"] = make("bleu", False, smooth="add-k", effective_order=True)
    return {name: [metric.sentence_score(line, refs).score for line, refs in zip(read("system.txt"), references)]
            for name, metric in made.items()}


def paired():
    """Two systems that differ by chance alone, each with every other line of system.txt and the rest of other.txt. With
    numpy's draws, so equal to ours only within their chance: hence many of them."""
    resamples = 20000
    os.environ["SACREBLEU_SEED"] = "12345"
    lines = list(zip(read("system.txt"), read("other.txt")))
    systems = [[pair[(i + which) % 2] for i, pair in enumerate(lines)] for which in (0, 1)]
    references = [read("reference.txt")]
    rows = {}
    for name in ["bleu", "chrf"]:
        metric = make(name, False)
        _, results = PairedTest([("even", systems[0]), ("odd", systems[1])], {name: metric}, references, "bs",
                                resamples)()
        even, odd = next(results[key] for key in results if key != "System")
        # Both have the same seed, so the same draws.
        draws = [_bootstrap_resample(metric._extract_corpus_statistics(one, references), metric, resamples)[1]
                 for one in systems]
        differences = sorted(b.score - a.score for a, b in zip(*draws))
        rows[name] = {"difference": odd.score - even.score, "low": differences[resamples // 40],
                      "high": differences[resamples - resamples // 40 - 1], "p_value": odd.p_value}
    return {"resamples": resamples, "rows": rows}


def newstest(path):
    lines = gzip.open(path, "rt", encoding="utf-8", newline="\n").read().split("\n")[:-1]
    hashes = {}
    for name, lowercase in itertools.product(TOKENIZERS, [False, True]):
        text = "".join(tokens(name, line.lower() if lowercase else line) + "\n" for line in lines)
        hashes[name + (" lc" if lowercase else "")] = hashlib.sha256(text.encode()).hexdigest()
    # A system worth comparing: each line without its fifth word.
    system = [" ".join(line.split()[:4] + line.split()[5:]) for line in lines]
    score = {name: make(name, False).corpus_score(system, [lines]).score for name in ["bleu", "chrf", "chrf++"]}
    return {"lines": len(lines), "tokens_sha256": hashes, "without_fifth_words": score}


def main():
    target = FOLDER / "expected.json"
    kept = json.loads(target.read_text()).get("newstest2014_de") if target.exists() else None
    expected = {
        "made_with": {"sacrebleu": sacrebleu.__version__, "regex": importlib.metadata.version("regex"),
                      "python": platform.python_version()},
        "characters": characters(),
        "lines": [{"line": line, "lower": line.lower(), **{name: tokens(name, line) for name in TOKENIZERS}}
                  for line in LINES],
        "scores": scores(),
        "sentences": sentences(),
        "paired": paired(),
        "newstest2014_de": newstest(sys.argv[1]) if len(sys.argv) > 1 else kept,
    }
    target.write_text(json.dumps(expected, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
