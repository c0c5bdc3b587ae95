"""Llama's training step in PyTorch: torch_peer.py says how it runs."""
import torch_peer

A = torch_peer.arguments(layers=30, heads=9, kv_heads=3, width=576, hidden=1536, context=256, vocab=49152,
                         qkv_bias=False, tied=True, norm_eps=1e-5, rope_base=1e4, rope_factor=1.0, rope_low=1.0,
                         rope_high=4.0, rope_original=8192)

import math

import torch
from torch import nn
from torch.nn import functional as F


def rotations(a):
    """Cosines and sines of the positions' angles, [context, width of a head]; Llama 3 stretches long wavelengths."""
    size = a.width // a.heads
    frequency = a.rope_base ** (-torch.arange(0, size, 2) / size)
    turns = a.rope_original * frequency / (2 * math.pi)
    kept = ((turns - a.rope_low) / (a.rope_high - a.rope_low)).clamp(0, 1)
    frequency = frequency * (kept + (1 - kept) / a.rope_factor)
    angle = torch.outer(torch.arange(a.context).float(), frequency).repeat(1, 2)
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads, self.kv_heads, self.size = a.heads, a.kv_heads, a.width // a.heads
        self.norm1, self.norm2 = (nn.RMSNorm(a.width, eps=a.norm_eps) for _ in range(2))
        self.qkv = nn.Linear(a.width, self.size * (a.heads + 2 * a.kv_heads), bias=a.qkv_bias == "true")
        self.project = nn.Linear(a.width, a.width, bias=False)
        self.gate, self.up = (nn.Linear(a.width, a.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(a.hidden, a.width, bias=False)

    def forward(self, x, cos, sin):
        batch, context, width = x.shape
        parts = [self.heads, self.kv_heads, self.kv_heads]
        q, k, v = (t.transpose(1, 2) for t in
                   self.qkv(self.norm1(x)).view(batch, context, -1, self.size).split(parts, dim=2))
        cos, sin = cos.to(q.dtype), sin.to(q.dtype)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.project(y.transpose(1, 2).reshape(batch, context, width))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.token = nn.Embedding(a.vocab, a.width)
        self.blocks = nn.ModuleList(Block(a) for _ in range(a.layers))
        self.norm = nn.RMSNorm(a.width, eps=a.norm_eps)
        self.head = nn.Linear(a.width, a.vocab, bias=False)
        if a.tied == "true":
            self.head.weight = self.token.weight
        for name, table in zip(("cos", "sin"), rotations(a)):
            self.register_buffer(name, table)

    def forward(self, tokens, targets):
        x = self.token(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


torch_peer.run(A, Llama)
