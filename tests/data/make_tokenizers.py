"""Makes tokenizers.json: small tokenizers, with the pre-tokenizers of SmolLM2 and of Qwen 2.5, and one whose vocabulary
lacks bytes, as SmolLM2's own does; and the tokens that PyPI's `tokenizers` (made with 0.23.3) gives for 504 hard strings.

usage: make_tokenizers.py CHECKOUT
"""
import json, pathlib, random, sys
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

root = pathlib.Path(sys.argv[1])
rng = random.Random(7)
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

# Of Unicode 13 at most: newer characters have classes that not every library knows.
ATOMS = """a b e E th The the 's 'S 'T 't 'RE 'll 'Ll 'd 'ſ don't I'M we'Ve ' '' " 0 1 12 2024 3.14 1,000 ½ ² ٣ ४ Ⅷ ⑨ ß ſ K İ ı
é è e\u0301 a\u0308 o\u0302\u0323 ñ n\u0303 Å Å A\u030a Ω Ω ﬁ ﬀ ½ \u0301 \u0327\u0301 각 ᄀ\u1161 \u1100\u1161\u11a8 가\u11a8 あ ば は\u3099 日本語 中文 漢
й и\u0306 Привет Ελλάδα שלום ש\u05c1 مرحبا नमस्ते क\u093c ไทย 👍 👩‍👩‍👧 🏳️‍🌈 é́ … — – « » “ ” ¿ ! ?! ... .. -- _ __init__ == != // /* */ <|end <|endoftext|> <|im_start|> <|endoftext|><|im_start|>
{ } [ ] ( ) $ € ^ ` ~ @user #tag http://x.y/z?q=1 foo_bar fooBar x=1; \\n \\t\\ \u00ad \u200b \u200d \ufeff \u180e \u0378 \U0001d54f \x00 \x1c \x7f""".split(" ")
ATOMS = [a for line in ATOMS for a in line.split("\n") if a]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", " \t", "\u00a0", "\u2003", "\u3000", "\u2028", "\x0b", "\x0c", "\x85", ""]


def hard():
    text = ""
    for _ in range(rng.randint(1, 9)):
        text += rng.choice(ATOMS) + (rng.choice(SPACES) if rng.random() < 0.7 else "")
    return rng.choice(SPACES) + text if rng.random() < 0.3 else text


TEXTS = ["", " ", "\n", "'", "a" * 70, "  " * 20, "the " * 12, "1" * 25, "\r\n\r\n", " 'll", "'LL", "é" * 9] + [hard() for _ in range(488)]
CORPUS = (root / "apps/gpt/data/tinyshakespeare.txt").read_text()[:60000].split("\n") + [hard() for _ in range(3000)]
TEXTS += ["thée", "th\x00e", "é", "the é\x00 the"]  # merges go over bytes without a token


def smollm2():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return t


def qwen():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN), behavior="isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return t


out = {"texts": TEXTS}
for name, make in (("smollm2", smollm2), ("qwen", qwen), ("lacking", smollm2)):
    t = make()
    t.decoder = decoders.ByteLevel()
    # SmolLM2 has its special tokens first and in the vocabulary, Qwen behind it and beside.
    special = ["<|endoftext|>", "<|im_start|>"]
    lacking = name == "lacking"
    t.train_from_iterator(CORPUS[:1500] if lacking else CORPUS, trainers.BpeTrainer(
        vocab_size=200 if lacking else 700, initial_alphabet=[] if lacking else pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=special if name != "qwen" else [], show_progress=False))
    if name == "qwen":
        t.add_special_tokens([AddedToken(s, normalized=False) for s in special])
    file = json.loads(t.to_str())
    if name == "qwen":  # as files were written before tokenizers 0.20
        file["model"]["merges"] = [" ".join(m) for m in file["model"]["merges"]]
    # The tokens of all texts, one after the other, and where each text's end.
    tokens, ends = [], []
    for text in TEXTS:
        tokens += t.encode(text, add_special_tokens=False).ids
        ends.append(len(tokens))
    out[name] = {"tokenizer": file, "tokens": tokens, "ends": ends}
(root / "tests/data/tokenizers.json").write_text(json.dumps(out, separators=(",", ":"), ensure_ascii=True) + "\n")
