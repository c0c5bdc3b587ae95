"""Vision's training steps in PyTorch, of the residual network and of the transformer: torch_peer.py says how they run."""
import torch_peer

A = torch_peer.arguments(size=28, transformer=False, width=16, layers=2, heads=4, patch=4, classes=10, batch=64)

import torch
from torch import nn
from torch.nn import functional as F


class ResidualBlock(nn.Module):
    def __init__(self, inside, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, out, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.downsample = nn.Identity() if inside == out and stride == 1 else nn.Sequential(
            nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


class ResidualNetwork(nn.Module):
    """Three stages, each of half the extents and twice the channels of the one before."""

    def __init__(self, a):
        super().__init__()
        self.conv1 = nn.Conv2d(1, a.width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(a.width)
        inside, stages = a.width, []
        for stage in range(3):
            blocks = []
            for _ in range(a.layers):
                out = a.width << stage
                blocks.append(ResidualBlock(inside, out, 1 if inside == out else 2))
                inside = out
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3 = stages
        self.fc = nn.Linear(inside, a.classes)

    def forward(self, images):
        x = F.relu(self.bn1(self.conv1(images)))
        return self.fc(self.layer3(self.layer2(self.layer1(x))).mean(dim=(2, 3)))


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads = a.heads
        self.norm1, self.norm2 = nn.LayerNorm(a.width), nn.LayerNorm(a.width)
        self.qkv, self.proj = nn.Linear(a.width, 3 * a.width), nn.Linear(a.width, a.width)
        self.fc1, self.fc2 = nn.Linear(a.width, 4 * a.width), nn.Linear(4 * a.width, a.width)

    def forward(self, x):
        batch, patches, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, patches, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, patches, width))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate="tanh"))


class VisionTransformer(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.embed = nn.Conv2d(1, a.width, a.patch, stride=a.patch)
        self.position = nn.Parameter(torch.zeros((a.size // a.patch) ** 2, a.width))
        self.blocks = nn.ModuleList(Block(a) for _ in range(a.layers))
        self.norm, self.head = nn.LayerNorm(a.width), nn.Linear(a.width, a.classes)

    def forward(self, images):
        x = self.embed(images).flatten(2).transpose(1, 2) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(dim=1))


class Vision(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.model = VisionTransformer(a) if a.transformer == "true" else ResidualNetwork(a)
        if a.transformer == "false":
            self.to(memory_format=torch.channels_last)

    def forward(self, images, targets):
        return F.cross_entropy(self.model(images), targets)


def images(a):
    """(images, targets): [batch, 1, size, size], [batch]."""
    x = torch.rand(a.batch, 1, a.size, a.size, device=a.device)
    return x.to(memory_format=torch.channels_last), torch.randint(a.classes, (a.batch,), device=a.device)


if __name__ == "__main__":
    torch_peer.run(A, Vision, images)
