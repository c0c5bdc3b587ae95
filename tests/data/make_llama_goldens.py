"""Writes tests/data/llama_goldens.json: the loss of small Llama and Qwen 2.5 models, of weights and tokens from the
formula of tests/parity/case.h.

usage: make_llama_goldens.py FILE                          (needs Python alone)
       make_llama_goldens.py --transformers CASE FOLDER      prints the loss of a saved folder, too

It follows modeling_llama.py of Hugging Face's transformers in float64 and knows nothing of this project: rotary
positions turn halves of a head, keys and values are shared by groups of heads.
"""
import json
import math
import sys

BASE = dict(vocab=40, width=24, heads=3, kv=1, hidden=40, layers=2, eps=1e-5, base=10000.0, tied=True, bias=False)
CASES = {
    'llama': dict(BASE),
    'llama 3': dict(BASE, tied=False, factor=8.0, low=1.0, high=4.0, original=16),
    'qwen2': dict(BASE, width=32, heads=4, kv=2, eps=1e-6, base=1e6, tied=False, bias=True),
}
CONTEXT, BATCH = 12, 2
MASK = 2**64 - 1


def bits(name, i):
    """splitmix64 from the FNV-1a hash of the name."""
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = (h ^ c) * 0x100000001B3 & MASK
    z = h + (i + 1) * 0x9E3779B97F4A7C15 & MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def weight(name, count):
    """Multiples of 1/128 that bf16, fp16 and fp32 hold exactly."""
    one = 1.0 if 'norm' in name else 0.0
    return [one + (bits(name, i) % 49 - 24) / 128 for i in range(count)]


def matrix(name, rows, columns):
    w = weight(name, rows * columns)
    return [w[r * columns:(r + 1) * columns] for r in range(rows)]


def product(w, x, b=None):
    return [sum(p * q for p, q in zip(row, x)) + (b[o] if b else 0.0) for o, row in enumerate(w)]


def norm(name, x, eps):
    g, r = weight(name, len(x)), 1 / math.sqrt(sum(v * v for v in x) / len(x) + eps)
    return [v * r * k for v, k in zip(x, g)]


def frequencies(a, size):
    f = [a['base']**(-2 * e / size) for e in range(size // 2)]
    if 'factor' not in a:
        return f
    scaled = []
    for v in f:
        length = 2 * math.pi / v
        smooth = (a['original'] / length - a['low']) / (a['high'] - a['low'])
        if length < a['original'] / a['high']:
            scaled.append(v)
        elif length > a['original'] / a['low']:
            scaled.append(v / a['factor'])
        else:
            scaled.append((1 - smooth) * v / a['factor'] + smooth * v)
    return scaled


def turned(x, t, f):
    half = len(x) // 2
    c, s = [math.cos(t * v) for v in f], [math.sin(t * v) for v in f]
    return ([x[e] * c[e] - x[e + half] * s[e] for e in range(half)] +
            [x[e + half] * c[e] + x[e] * s[e] for e in range(half)])


def attention(a, path, xs):
    size, f = a['width'] // a['heads'], frequencies(a, a['width'] // a['heads'])
    q, k, v = [], [], []
    for name, heads, out in (('q_proj', a['heads'], q), ('k_proj', a['kv'], k), ('v_proj', a['kv'], v)):
        w = matrix(f'{path}.{name}.weight', heads * size, a['width'])
        b = weight(f'{path}.{name}.bias', heads * size) if a['bias'] else None
        for t, x in enumerate(xs):
            y = product(w, x, b)
            parts = [y[h * size:(h + 1) * size] for h in range(heads)]
            out.append(parts if name == 'v_proj' else [turned(p, t, f) for p in parts])
    o = matrix(f'{path}.o_proj.weight', a['width'], a['width'])
    ys = []
    for t in range(len(xs)):
        y = []
        for h in range(a['heads']):
            of = h // (a['heads'] // a['kv'])
            scores = [sum(p * r for p, r in zip(q[t][h], k[u][of])) / math.sqrt(size) for u in range(t + 1)]
            top = max(scores)
            e = [math.exp(s - top) for s in scores]
            y += [sum(e[u] * v[u][of][i] for u in range(t + 1)) / sum(e) for i in range(size)]
        ys.append(product(o, y))
    return ys


def plus(a, b):
    return [[p + q for p, q in zip(x, y)] for x, y in zip(a, b)]


def logits(a, tokens):
    table = matrix('model.embed_tokens.weight', a['vocab'], a['width'])
    xs = [table[t] for t in tokens]
    for i in range(a['layers']):
        path = f'model.layers.{i}'
        xs = plus(xs, attention(a, path + '.self_attn', [norm(path + '.input_layernorm.weight', x, a['eps']) for x in xs]))
        gate, up = (matrix(f'{path}.mlp.{n}_proj.weight', a['hidden'], a['width']) for n in ('gate', 'up'))
        down = matrix(f'{path}.mlp.down_proj.weight', a['width'], a['hidden'])
        hs = [norm(path + '.post_attention_layernorm.weight', x, a['eps']) for x in xs]
        acts = [[g / (1 + math.exp(-g)) * u for g, u in zip(product(gate, h), product(up, h))] for h in hs]
        xs = plus(xs, [product(down, h) for h in acts])
    head = table if a['tied'] else matrix('lm_head.weight', a['vocab'], a['width'])
    return [product(head, norm('model.norm.weight', x, a['eps'])) for x in xs]


def batch(a):
    n = BATCH * CONTEXT
    stream = [bits('tokens', i) % a['vocab'] for i in range(n + 1)]
    return [(stream[b:b + CONTEXT], stream[b + 1:b + CONTEXT + 1]) for b in range(0, n, CONTEXT)]


def loss(a):
    total = 0.0
    for tokens, targets in batch(a):
        for y, target in zip(logits(a, tokens), targets):
            top = max(y)
            total += top + math.log(sum(math.exp(v - top) for v in y)) - y[target]
    return total / (BATCH * CONTEXT)


def transformers_loss(folder, a):
    import torch
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float64)
    total = 0.0
    for tokens, targets in batch(a):
        y = model(torch.tensor([tokens])).logits[0]
        total += torch.nn.functional.cross_entropy(y, torch.tensor(targets), reduction='sum').item()
    return total / (BATCH * CONTEXT)


if len(sys.argv) == 4 and sys.argv[1] == '--transformers':  # --transformers CASE FOLDER
    print(transformers_loss(sys.argv[3], CASES[sys.argv[2]]), loss(CASES[sys.argv[2]]))
else:
    goldens = {name: dict(a, context=CONTEXT, batch=BATCH, loss=loss(a)) for name, a in CASES.items()}
    open(sys.argv[1], 'w').write(json.dumps(goldens, indent=1) + '\n')
