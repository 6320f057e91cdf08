#!/usr/bin/env python3
"""Writes expected.json beside itself: what sacremoses 0.2.0 makes of the lines below, which were written for it, and of
newstest2014. Run once, with  pip install sacremoses==0.2.0  in an environment of its own:

    make.py [NEWSTEST_FOLDER]

NEWSTEST_FOLDER holds newstest2014.{en,de}.gz (3,003 lines each); what the last run made of them is kept without it.
"""
import gzip
import hashlib
import importlib.metadata
import json
import pathlib
import sys

from sacremoses import MosesDetokenizer, MosesTokenizer

TARGET = pathlib.Path(__file__).resolve().parent / "expected.json"
LANGUAGES = ["en", "de"]

# What tokenisers and detokenisers trip over.
LINES = [
    "",
    " ",
    "Hello, world!",
    "Mr. Smith, Dr. med. Müller and Prof. K. Jones came at 5 p.m. on Jan. 3.",
    "See No. 5, no. 7, No. Art. 3 and Art. IV; pp. 3-7, p. 3.",
    "Das ist z.B. so, d.h. usw. am 3. Oktober um 7.45 Uhr. Nr. 5, 12. Ende.",
    "It's the Jones' house, isn't it? They'll've said 'no'.",
    "He said 'no.'",
    "Er sagte: 'nein.'",
    "rock 'n' roll, the '90s, 1990's, O'Neill's d'accord 5'7\"",
    "\"Quoted\" and ``quoted'' and `so' too, \"odd",
    "„Tief“ und “hoch” und »spitz« und ‚einfach‘ – ja — nein",
    "wait... what?.. .. . .... a..b ...",
    "1,000,000 a,b,c 5,a a,5 5, ,5 ,, 1,,2 x,",
    "$5, 5$ €3.50 £1 (5 %) [a] {b} <c> a/b a|b a&b @-@ 50% ¿Qué? ¡Sí!",
    "well-known e-mail-like -5 --- a--b x- -y state-of-the-art",
    "http://example.org/a-b_c?x=1&y=2#z user.name@example.co.uk #tag @name",
    "&amp; &lt;b&gt; &quot;x&quot; &#91;1&#93; &apos; &#124; &bar;",
    "no\u00a0break, thin\u2009space. ideographic\u3000space! tab\there next\u0085line line\u2028sep\u2029par",
    "\u001cfile\u001dgroup\u0001one\u0007bell\u007fdel\u0080c1",
    "Cafe\u0301 nai\u0308ve A\u030a. e\u0301! \u0301x soft\u00adhyphen zero\u200bwidth",
    "emoji 😀! 👍🏽, 🇩🇪. ❤️? ✓ ★ ½ ² Ⅳ. ① ٣.١٤",
    "Русский текст — «кавычки», 1.234,5 руб. т.е. слово. Слово.",
    "हिन्दी में क़ानून, १४. ও বাংলা।",
    "שלום, עולם! עברית־מקף مرحبا، بالعالم؟",
    "a. b. C. d. x.y. X.Y. .5 5. 5.5. A.B.C. u.s.w. Ende.",
    "i.e. this, e.g. that, etc. And so vs. him. v. Me",
    "_ELLIPSIS_ is a word",
]

# Where ours differs: (line, our tokens, the reason). sacremoses' table of letters is of an older Unicode and holds no Han,
# no Hangul and nothing beyond the first 65,536 code points; here Unicode 15 decides.
DIFFERENCES = [
    ("東京は日本の首都です。", "東京は日本の首都です 。", "Han characters are letters"),
    ("한국어 문장입니다.", "한국어 문장입니다 .", "Hangul syllables are letters"),
    ("Das 𐐀𐐨 und ꭰ.", "Das 𐐀𐐨 und ꭰ .", "letters of later versions and beyond the first 65,536 code points"),
    ("DOTMULTI is a word", "DOTMULTI is a word", "its own mark for several dots, which a text may hold"),
]


def hashed(lines):
    return hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()


def newstest(folder):
    made = {}
    for language in LANGUAGES:
        text = gzip.open(folder / f"newstest2014.{language}.gz", "rt", encoding="utf-8", newline="\n").read()
        lines = text.split("\n")[:-1]
        tokens = [" ".join(MosesTokenizer(language).tokenize(line)) for line in lines]
        plain = [" ".join(MosesTokenizer(language).tokenize(line, escape=False)) for line in lines]
        back = [MosesDetokenizer(language).detokenize(line.split(" ")) for line in tokens]
        made[language] = {"lines": len(lines), "tokens_sha256": hashed(tokens), "unescaped_sha256": hashed(plain),
                          "detokenized_sha256": hashed(back)}
    return made


def row(language, line):
    tokenizer = MosesTokenizer(language)
    tokens = tokenizer.tokenize(line)
    return {"language": language, "line": line, "tokens": " ".join(tokens),
            "unescaped": " ".join(tokenizer.tokenize(line, escape=False)),
            "hyphens": " ".join(tokenizer.tokenize(line, aggressive_dash_splits=True)),
            "detokenized": MosesDetokenizer(language).detokenize(tokens)}


def main():
    kept = json.loads(TARGET.read_text()).get("newstest2014") if TARGET.exists() else None
    expected = {
        "made_with": {"sacremoses": importlib.metadata.version("sacremoses")},
        "lines": [row(language, line) for language in LANGUAGES for line in LINES],
        "differences": [{"ours": ours, "reason": reason, **row("de", line)} for line, ours, reason in DIFFERENCES],
        "newstest2014": newstest(pathlib.Path(sys.argv[1])) if len(sys.argv) > 1 else kept,
    }
    TARGET.write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
