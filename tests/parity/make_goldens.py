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
    def values(name, *shape):
        u = (bits(name, int(np.prod(shape))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return torch.from_numpy((2 * u - 1).reshape(shape))

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
    with open(file, 'w') as f:
        json.dump(result, f, indent=None, separators=(',', ':'))
        f.write('\n')
