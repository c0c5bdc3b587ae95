"""Writes tests/parity/fp16_goldens.json: which steps PyTorch's GradScaler skips, in fp16 by autocast.

usage: make_fp16_goldens.py [FILE]     (needs torch and numpy; the tests need neither)

The model is that of tests/programs/scaled.cpp, its weights and data are those of tests/parity/scaled_case.h. The first
target of each step is a spike, large beside the others, so that its adjoint overflows at some scales. PyTorch rounds
gradients of weights to fp16, too, where Cryolite sums in fp32: features are small, so that adjoints are the first to
overflow. A spike whose adjoint would come near to the largest fp16 is doubled.
"""
import json
import math
import os
import sys

import numpy as np
import torch

from make_goldens import bits, weight

torch.set_default_dtype(torch.float32)
COLUMNS, WIDTH, ROWS = 8, 32, 8
LARGEST, NEAR = 65504, (0.7, 1.3)
CASE = dict(steps=300, scale=65536.0, growth=2.0, backoff=0.5, interval=8, lr=1e-6)


def unit(name, count):
    return (bits(name, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def parameter(name, *shape):
    return weight(name, shape).to(torch.float32)


def main(path):
    a = dict(CASE)
    drawn = unit('spikes', a['steps'])
    a['spikes'] = [64.0 * 2.0 ** max(0, round(24 * (u - 0.8))) for u in drawn]
    first, last = torch.nn.Linear(COLUMNS, WIDTH), torch.nn.Linear(WIDTH, 1)
    with torch.no_grad():
        for layer, name in ((first, 'first'), (last, 'last')):
            n, m = layer.in_features, layer.out_features
            layer.weight.copy_(parameter(name + '.weight', n, m).T)
            layer.bias.copy_(parameter(name + '.bias', m))
    net = torch.nn.Sequential(first, torch.nn.ReLU(), last)
    rule = torch.optim.SGD(net.parameters(), lr=a['lr'])
    scaler = torch.amp.GradScaler('cpu', init_scale=a['scale'], growth_factor=a['growth'],
                                  backoff_factor=a['backoff'], growth_interval=a['interval'])
    features = 0.125 * (unit('features', a['steps'] * ROWS * COLUMNS) - 0.5)
    targets = 0.25 + 0.25 * unit('targets', a['steps'] * ROWS)
    skipped, exponents = [], []
    for k in range(a['steps']):
        x = torch.from_numpy(features[k * ROWS * COLUMNS:][:ROWS * COLUMNS].astype(np.float32).reshape(ROWS, COLUMNS))
        t = targets[k * ROWS:][:ROWS].copy()
        t[1:] /= 16
        with torch.autocast('cpu', dtype=torch.float16):
            y = net(x)
        assert y.dtype == torch.float16
        while NEAR[0] < abs(y[0].item() - t[0] * a['spikes'][k]) * 2 / ROWS * scaler.get_scale() / LARGEST < NEAR[1]:
            a['spikes'][k] *= 2
        t[0] *= a['spikes'][k]
        wide = y.float()
        wide.retain_grad()
        loss = torch.nn.functional.mse_loss(wide, torch.from_numpy(t.astype(np.float32)).reshape(ROWS, 1))
        rule.zero_grad()
        scaler.scale(loss).backward()
        assert not NEAR[0] < wide.grad.abs().max().item() / LARGEST < NEAR[1]
        before = scaler.get_scale()
        scaler.step(rule)
        scaler.update()
        if scaler.get_scale() < before:
            skipped.append(k)
        exponents.append(math.log2(scaler.get_scale()))
    a |= {'skipped': skipped, 'exponents': exponents, 'made_by': 'PyTorch ' + torch.__version__}
    with open(path, 'w') as f:
        json.dump(a, f)
        f.write('\n')


here = os.path.dirname(os.path.abspath(__file__))
if __name__ == '__main__':
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, 'fp16_goldens.json'))
