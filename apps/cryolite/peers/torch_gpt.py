"""GPT-2's training step in PyTorch: torch_peer.py says how it runs."""
import torch_peer

A = torch_peer.arguments(layers=12, heads=12, width=768, context=64, positions=1024, vocab=50257, dropout=0.0)

from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads, width = a.heads, a.width
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop1, self.drop2 = nn.Dropout(a.dropout), nn.Dropout(a.dropout)

    def forward(self, x):
        batch, context, width = x.shape
        q, k, v = (t.view(batch, context, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop1(self.project(y.transpose(1, 2).reshape(batch, context, width)))
        return x + self.drop2(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))


class Gpt(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.token, self.position = nn.Embedding(a.vocab, a.width), nn.Embedding(a.positions, a.width)
        self.drop = nn.Dropout(a.dropout)
        self.blocks = nn.ModuleList(Block(a) for _ in range(a.layers))
        self.norm = nn.LayerNorm(a.width)

    def forward(self, tokens, targets):
        x = self.drop(self.token(tokens) + self.position.weight[: tokens.shape[1]])
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.token.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


torch_peer.run(A, Gpt)
