"""The training step of tests/programs/recurrent.cpp in PyTorch: torch_peer.py says how it runs.

h(t) = a(t) h(t - 1) + b(t) is a scan. PyTorch has none with a gradient, so both usual forms are timed, forward and backward, and
the faster one is taken: a loop over the positions, and the parallel prefix by doubling.
"""
import time

import torch_peer

A = torch_peer.arguments(layers=4, width=128, context=64, vocab=65)

import torch
from torch import nn
from torch.nn import functional as F


def loop(a, b):
    h, places = torch.zeros_like(b[:, 0]), []
    for a_t, b_t in zip(a.unbind(1), b.unbind(1)):
        h = torch.addcmul(b_t, a_t, h)
        places.append(h)
    return torch.stack(places, dim=1)


def doubling(a, b):
    """After step k each position has the result of the scan over its last 2^k positions."""
    far = 1
    while far < a.shape[1]:
        b = b + a * F.pad(b, (0, 0, far, 0))[:, : b.shape[1]]
        a = a * F.pad(a, (0, 0, far, 0))[:, : a.shape[1]]
        far *= 2
    return b


def seconds(form):
    """Seconds of the fastest of some runs, forward and backward; compiled if the step is."""
    run = torch.compile(form) if A.mode == "compile" else form
    a, b = (torch.rand(A.batch, A.context, A.width, requires_grad=True) for _ in range(2))
    times = []
    for _ in range(20):
        start = time.perf_counter()
        run(a, b).sum().backward()
        times.append(time.perf_counter() - start)
    return min(times)


torch.set_num_threads(A.threads)
scan = min((loop, doubling), key=seconds)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = (nn.RMSNorm(width, eps=1e-5) for _ in range(2))
        self.keep, self.come, self.open, self.project = (nn.Linear(width, width) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, 2 * width) for _ in range(2))
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        n = self.norm1(x)
        a = torch.sigmoid(self.keep(n))
        x = x + self.project(scan(a, (1 - a) * self.come(n)) * F.silu(self.open(n)))
        n = self.norm2(x)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


class Recurrent(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.token = nn.Embedding(a.vocab, a.width)
        self.blocks = nn.ModuleList(Block(a.width) for _ in range(a.layers))
        self.norm = nn.RMSNorm(a.width, eps=1e-5)
        self.head = nn.Linear(a.width, a.vocab, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens, targets):
        x = self.token(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


torch_peer.run(A, Recurrent)
