"""Writes tests/parity/goldens.json: what PyTorch makes of the cases of test_parity.cpp, in float64.

usage: make_goldens.py [FILE]     (needs torch and numpy; the tests need neither)

Weights and tokens come from a formula that both sides compute, so that only results are kept: the loss of each
step, of every tensor the gradient of the first step and the final values at some places, and the largest update.
"""
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)

ODD = dict(layers=2, heads=5, width=85, context=37, batch=2, vocab=503)
EVEN = dict(layers=2, heads=2, width=64, context=32, batch=3, vocab=211)
CASES = {
    'even': dict(EVEN),
    'odd': dict(ODD),
    'odd, clipped': dict(ODD, clip=1.0),
    'even, accumulated': dict(EVEN, accumulate=3),
    'even, clipped and accumulated': dict(EVEN, clip=1.0, accumulate=3),
}
HYPER = dict(steps=10, lr=1e-3, decay=0.1, beta1=0.9, beta2=0.95, clip=0.0, accumulate=1)
SAMPLES = 8


def bits(name, count):
    """splitmix64 from the FNV-1a hash of the name."""
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = (h ^ c) * 0x100000001B3 % 2**64
    with np.errstate(over='ignore'):
        z = np.uint64(h) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def weight(name, shape):
    u = (bits(name, int(np.prod(shape))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    one = 1.0 if name.split('.')[-2].startswith('ln_') and name.endswith('weight') else 0.0
    return torch.from_numpy((one + 0.2 * (u - 0.5)).astype(np.float32).astype(np.float64).reshape(shape))


def weights(a):
    C, W = a['width'], {}

    def add(name, *shape):
        W[name] = weight(name, shape)

    add('wte.weight', a['vocab'], C), add('wpe.weight', a['context'], C)
    for i in range(a['layers']):
        for norm in ('ln_1', 'ln_2'):
            add(f'h.{i}.{norm}.weight', C), add(f'h.{i}.{norm}.bias', C)
        for linear, n, m in (('attn.c_attn', C, 3 * C), ('attn.c_proj', C, C), ('mlp.c_fc', C, 4 * C),
                             ('mlp.c_proj', 4 * C, C)):
            add(f'h.{i}.{linear}.weight', n, m), add(f'h.{i}.{linear}.bias', m)
    add('ln_f.weight', C), add('ln_f.bias', C)
    return W


def loss(P, a, x, y):
    B, T, C, H = a['batch'], a['context'], a['width'], a['heads']

    def linear(z, name):
        return z @ P[name + '.weight'] + P[name + '.bias']

    def norm(z, name):
        return F.layer_norm(z, (C,), P[name + '.weight'], P[name + '.bias'], eps=1e-5)

    z = P['wte.weight'][x] + P['wpe.weight'][:T]
    for i in range(a['layers']):
        h = f'h.{i}.'
        q, k, v = (t.view(B, T, H, C // H).transpose(1, 2)
                   for t in linear(norm(z, h + 'ln_1'), h + 'attn.c_attn').split(C, 2))
        z = z + linear(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, C),
                       h + 'attn.c_proj')
        z = z + linear(F.gelu(linear(norm(z, h + 'ln_2'), h + 'mlp.c_fc'), approximate='tanh'), h + 'mlp.c_proj')
    return F.cross_entropy((norm(z, 'ln_f') @ P['wte.weight'].T).view(-1, a['vocab']), y.view(-1))


def run(case):
    a = dict(HYPER, **case)
    B, T, V = a['batch'], a['context'], a['vocab']
    W = weights(a)
    P = {k: v.clone().requires_grad_() for k, v in W.items()}
    groups = [dict(params=[v for v in P.values() if (v.dim() > 1) == matrix], weight_decay=a['decay'] * matrix)
              for matrix in (True, False)]
    opt = torch.optim.AdamW(groups, lr=a['lr'], betas=(a['beta1'], a['beta2']), eps=1e-8)
    n = a['steps'] * a['accumulate'] * B * T + 1
    tokens = torch.from_numpy((bits('tokens', n) % np.uint64(V)).astype(np.int64))
    losses, first, at = [], {}, 0
    for _ in range(a['steps']):
        opt.zero_grad()
        total = 0.0
        for _ in range(a['accumulate']):
            t = tokens[at:at + B * T + 1]
            at += B * T
            l = loss(P, a, t[:-1].view(B, T), t[1:].view(B, T))
            (l / a['accumulate']).backward()
            total += l.item() / a['accumulate']
        first = first or {k: v.grad.clone() for k, v in P.items()}
        if a['clip']:
            torch.nn.utils.clip_grad_norm_(list(P.values()), a['clip'])
        opt.step()
        losses.append(total)
    tensors = {}
    for k, v in P.items():
        flat, g = v.detach().flatten(), first[k].flatten()
        # Where the gradient is large, and anywhere.
        places = sorted({*g.abs().topk(SAMPLES // 2).indices.tolist(),
                         *(int(i) for i in bits('place ' + k, SAMPLES // 2) % np.uint64(len(flat)))})
        tensors[k] = dict(at=places, gradient=[g[i].item() for i in places], final=[flat[i].item() for i in places],
                          gradient_norm=g.norm().item(), gradient_max=g.abs().max().item())
    return dict(args=a, losses=losses, tensors=tensors,
                largest_update=max((v.detach() - W[k]).abs().max().item() for k, v in P.items()))


def batch_norm():
    """The model of tests/programs/modes.cpp with batch norm: three steps of SGD on the same twelve rows."""
    columns, width, classes, rows = 13, 17, 3, 12

    def values(name, *shape):
        u = (bits(name, int(np.prod(shape))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return torch.from_numpy((0.2 * (u - 0.5)).astype(np.float32).astype(np.float64).reshape(shape))

    net = torch.nn.Sequential(torch.nn.Linear(columns, width), torch.nn.BatchNorm1d(width, momentum=0.3),
                              torch.nn.ReLU(), torch.nn.Linear(width, classes))
    names = {'first.weight': net[0].weight, 'first.bias': net[0].bias, 'norm.weight': net[1].weight,
             'norm.bias': net[1].bias, 'last.weight': net[3].weight, 'last.bias': net[3].bias}
    with torch.no_grad():
        for name, p in names.items():
            # Ours has inputs outermost.
            v = values(name, *reversed(p.shape)).T if p.dim() == 2 else values(name, *p.shape)
            p.copy_(5 * v + (name == 'norm.weight'))
    x = 10 * values('features', rows, columns)
    y = torch.from_numpy((bits('targets', rows) % np.uint64(classes)).astype(np.int64))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    losses = []
    for _ in range(3):
        opt.zero_grad()
        l = F.cross_entropy(net(x), y)
        l.backward()
        opt.step()
        losses.append(l.item())
    net.eval()
    tensors = {name: (p.detach().T if p.dim() == 2 else p.detach()).flatten().tolist() for name, p in names.items()}
    tensors |= {'norm.running_mean': net[1].running_mean.tolist(), 'norm.running_var': net[1].running_var.tolist()}
    return dict(losses=losses, tensors=tensors, evaluated=F.cross_entropy(net(x), y).item(),
                of_five=F.cross_entropy(net(x[:5]), y[:5]).item())


def layers():
    """Layers and losses of odd shapes: tests/layers/test_goldens.cpp."""
    def ours(y):
        """[batch, channels, height, width] in our order: channels innermost."""
        return y.permute(0, 2, 3, 1).flatten().tolist()

    image = values('x', 2, 5, 7, 3).permute(0, 3, 1, 2)
    result = {}
    for name, size, o in (('transposed', 3, {}), ('transposed strided', 4, dict(stride=2, padding=1)),
                          ('transposed dilated', 3, dict(stride=3, padding=2, dilation=2, output_padding=1))):
        # Ours: out innermost, then in, x, y.
        w = values('w', size, size, 3, 5).permute(2, 3, 0, 1)
        result[name] = ours(F.conv_transpose2d(image, w, values('b', 5), **o))
    for name, size, o in (('convolution', 3, dict(padding=1)), ('convolution strided', 4, dict(stride=3, padding=2)),
                          ('convolution dilated', 3, dict(stride=2, padding=3, dilation=2))):
        w = values('w', size, size, 3, 5).permute(3, 2, 0, 1)
        result[name] = ours(F.conv2d(image, w, values('b', 5), **o))
    a, b = values('a', 2, 7, 5), values('x', 2, 7, 5)  # batch, place, channel
    h = [b[:, 0]]
    for t in range(1, 7):
        h.append(a[:, t] * h[-1] + b[:, t])
    result['recurrence'] = torch.stack(h, 1).flatten().tolist()
    for factor in (1, 2, 3):
        result[f'bilinear {factor}'] = ours(F.interpolate(image, scale_factor=factor, mode='bilinear',
                                                          align_corners=False))
    x, t = values('x', 7, 11), values('t', 7, 11)
    result['huber'] = [F.huber_loss(x, t, delta=0.4).item()]
    result['binary cross-entropy'] = [F.binary_cross_entropy_with_logits(x, (t + 1) / 2).item()]
    result['squared error'] = [F.mse_loss(x, t).item()]
    T = 2.5
    result['distillation'] = [T * T * F.kl_div(F.log_softmax(x / T, 1), F.softmax(t / T, 1),
                                               reduction='batchmean').item()]
    return result


def values(name, *shape):
    u = (bits(name, int(np.prod(shape))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return torch.from_numpy((2 * u - 1).reshape(shape))


def some(x):
    """About a hundred of its elements: every so-manyth."""
    x = x.flatten()
    return x[::max(1, len(x) // 97)].tolist()


def golden(y, *inputs):
    """Some of y, and of the gradients of what it is made of, where its adjoint is from the formula (1 for a loss)."""
    dy = values('dy', *y.shape) if y.dim() else torch.tensor(1.0)
    return dict(y=some(y.detach()), gradients=[some(g) for g in torch.autograd.grad(y, inputs, dy)])


def seen(o, context, documents, mask):
    """Which key (last) each query of each sequence sees."""
    i, j = torch.arange(context)[:, None], torch.arange(context)[None, :]
    sees = (j <= i) if o.get('causal', True) else torch.ones(context, context, dtype=bool)
    if o.get('window'):
        sees = sees & ((i - j).abs() < o['window'])
    sees = sees.expand(len(documents), context, context)
    if o.get('documents'):
        sees = sees & (documents[:, :, None] == documents[:, None, :])
    return sees & mask[:, None, :] if o.get('mask') else sees


def attention(o, context=37, batch=2, size=6):
    heads, kv = o['heads'], o.get('kv_heads', o['heads'])
    qkv = values('qkv', batch, context, (heads + 2 * kv) * size).requires_grad_()
    q, k, v = (t.reshape(batch, context, -1, size).transpose(1, 2)
               for t in qkv.split([heads * size, kv * size, kv * size], 2))
    if 'base' in o:
        angle = torch.arange(context)[:, None] * o['base'] ** (-2.0 * torch.arange(size // 2) / size)
        cos, sin = torch.cos(angle).repeat(1, 2), torch.sin(angle).repeat(1, 2)
        q, k = (t * cos + torch.cat([-t[..., size // 2:], t[..., :size // 2]], -1) * sin for t in (q, k))
    place = torch.arange(context).expand(batch, context)
    sees = seen(o, context, place // 9 % 3, place % 7 != 5)[:, None]
    y = F.scaled_dot_product_attention(q, k.repeat_interleave(heads // kv, 1), v.repeat_interleave(heads // kv, 1),
                                       attn_mask=sees)
    return golden(y.transpose(1, 2).reshape(batch, context, -1), qkv)


ATTENTION = {
    'causal': dict(heads=2),
    'bidirectional': dict(heads=2, causal=False),
    'window': dict(heads=2, window=5),
    'window to both sides': dict(heads=2, causal=False, window=5),
    'mask': dict(heads=2, causal=False, mask=True),
    'documents': dict(heads=2, documents=True),
    'grouped': dict(heads=6, kv_heads=2),
    'all': dict(heads=4, kv_heads=2, window=20, documents=True, mask=True, base=100.0),
}


def gradients():
    """Layers of odd shapes with the gradients of their inputs: tests/layers/test_golden_gradients.cpp."""
    raw = values('x', 2, 6, 8, 6).requires_grad_()  # batch, height, width, channels
    image = raw.permute(0, 3, 1, 2)

    def of_image(y):
        return golden(y.permute(0, 2, 3, 1), raw)

    result = {}
    for name, size, o in (('grouped', 3, dict(padding=1, groups=2)),
                          ('grouped strided', 4, dict(stride=3, padding=2, groups=3))):
        w = values('w', size, size, 6 // o['groups'], 12).permute(3, 2, 0, 1)
        result[f'convolution {name}'] = of_image(F.conv2d(image, w, values('b', 12), **o))
    gains = values('g', 6), values('b', 6)
    result['group norm'] = of_image(F.group_norm(image, 3, *gains))
    for size, stride, padding in ((2, 2, 0), (3, 2, 1), (3, 1, 0)):
        name = f'{size} {stride} {padding}'
        result[f'max pool {name}'] = of_image(F.max_pool2d(image, size, stride, padding))
        result[f'average pool {name}'] = of_image(F.avg_pool2d(image, size, stride, padding))
    result['global pool'] = golden(image.mean((2, 3)), raw)
    for factor in (2, 3):
        result[f'nearest {factor}'] = of_image(F.interpolate(image, scale_factor=factor, mode='nearest'))
    w = values('w', 2, 2, 6, 5).permute(3, 2, 0, 1)  # of a patch: channels innermost, then x, y
    result['patch embedding'] = of_image(F.conv2d(image, w, values('b', 5), stride=2))
    x = values('x', 7, 13).requires_grad_()
    for name, gain in (('', values('g', 13)), (' one plus', 1 + values('g', 13))):
        result['RMS norm' + name] = golden(F.rms_norm(x, (13,), gain, 1e-5), x)
    up = values('up', 7, 13).requires_grad_()
    result['SwiGLU'] = golden(F.silu(x) * up, x, up)
    result['GeGLU'] = golden(F.gelu(x, approximate='tanh') * up, x, up)
    result |= {'attention ' + name: attention(o) for name, o in ATTENTION.items()}
    targets, weights = torch.arange(7) * 5 % 13, 0.5 + 0.25 * (torch.arange(13) % 5)
    for name, o in (('', {}), (' ignored', dict(ignore_index=2)), (' smoothing', dict(label_smoothing=0.1)),
                    (' weights', dict(weight=weights.double())),
                    (' all', dict(ignore_index=2, label_smoothing=0.1, weight=weights.double()))):
        result['cross-entropy' + name] = golden(F.cross_entropy(x, targets, **o), x)
    return result


def head_norm(context=37, vocab=11, width=16, heads=2):
    """A step of SGD of tests/programs/packed.cpp with head norms: tests/parity/test_packed.cpp."""
    names = {'token.weight': (vocab, width), 'qkv.weight': (width, 3 * width), 'qkv.bias': (3 * width,),
             'attention.q_norm.weight': (width // heads,), 'attention.k_norm.weight': (width // heads,),
             'head.weight': (width, vocab), 'head.bias': (vocab,)}
    w = {name: (0.5 * values(name, *shape) + ('norm' in name)).requires_grad_() for name, shape in names.items()}
    tokens = torch.tensor([0 if t == 21 else 2 + t * t % (vocab - 2) for t in range(context)])
    targets = torch.tensor([2 + (t + 1) * (t + 1) % (vocab - 2) for t in range(context)])
    x = w['token.weight'][tokens]
    q, k, v = (t.reshape(context, heads, -1).transpose(0, 1)
               for t in (x @ w['qkv.weight'] + w['qkv.bias']).split(width, 1))
    q = F.rms_norm(q, q.shape[-1:], w['attention.q_norm.weight'], 1e-6)
    k = F.rms_norm(k, k.shape[-1:], w['attention.k_norm.weight'], 1e-6)
    sees = seen(dict(documents=True), context, (torch.cumsum(tokens == 0, 0))[None], None)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=sees)
    logits = (x + y.transpose(0, 1).reshape(context, width)) @ w['head.weight'] + w['head.bias']
    loss = F.cross_entropy(logits, targets)
    loss.backward()
    return dict(loss=loss.item(), gradients={name: p.grad.flatten().tolist() for name, p in w.items()})


def short(x):
    """Nine digits are more than float32 has."""
    if isinstance(x, float):
        return float(f'{x:.9g}')
    if isinstance(x, dict):
        return {k: short(v) for k, v in x.items()}
    return [short(v) for v in x] if isinstance(x, list) else x


if __name__ == '__main__':
    file = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), 'goldens.json')
    result = {name: short(run(case)) for name, case in CASES.items()}
    for name, r in result.items():
        norm = sum(t['gradient_norm']**2 for t in r['tensors'].values())**0.5
        print(f"{name}: loss {r['losses'][0]:.6f} ... {r['losses'][-1]:.6f}, gradient norm {norm:.4f}, "
              f"largest update {r['largest_update']:.3e}")
    result['batch norm'], result['layers'] = short(batch_norm()), short(layers())
    result['gradients'], result['head norm'] = short(gradients()), short(head_norm())
    with open(file, 'w') as f:
        json.dump(result, f, indent=None, separators=(',', ':'))
        f.write('\n')
