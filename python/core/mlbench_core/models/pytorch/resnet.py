"""ResNets of 6n + 2 layers for CIFAR-10 (He et al., Deep Residual Learning, 2015, section 4.2; Identity Mappings,
2016)."""

from torch import nn


class ResNetCIFAR(nn.Module):
    """Three stages of 16, 32 and 64 channels, each with n blocks. Version 1 normalises and activates behind the
    convolutions, version 2 before them. A stage that halves the image has a 1x1 convolution as its shortcut."""

    def __init__(self, resnet_size, bottleneck=False, num_classes=10, version=1):
        super().__init__()
        if resnet_size % 6 != 2 or bottleneck or version not in (1, 2):
            raise ValueError("expected resnet_size 6n + 2, bottleneck False and version 1 or 2")
        blocks = (resnet_size - 2) // 6
        block = _BlockV1 if version == 1 else _BlockV2
        layers = [_convolution(3, 16), nn.BatchNorm2d(16), nn.ReLU()]
        before = 16
        for channels in (16, 32, 64):
            layers.append(block(before, channels, stride=channels // before))
            layers += [block(channels, channels) for _ in range(blocks - 1)]
            before = channels
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Linear(64, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        return self.classifier(self.features(x))


def _convolution(before, after, stride=1):
    return nn.Conv2d(before, after, kernel_size=3, stride=stride, padding=1, bias=False)


def _shortcut(before, after, stride):
    if stride == 1:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(before, after, kernel_size=1, stride=stride, bias=False), nn.BatchNorm2d(after))


class _BlockV1(nn.Module):
    def __init__(self, before, after, stride=1):
        super().__init__()
        self.shortcut = _shortcut(before, after, stride)
        self.residual = nn.Sequential(
            _convolution(before, after, stride),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            _convolution(after, after),
            nn.BatchNorm2d(after),
        )

    def forward(self, x):
        return nn.functional.relu(self.residual(x) + self.shortcut(x))


class _BlockV2(nn.Module):
    def __init__(self, before, after, stride=1):
        super().__init__()
        self.shortcut = _shortcut(before, after, stride)
        self.residual = nn.Sequential(
            nn.BatchNorm2d(before),
            nn.ReLU(),
            _convolution(before, after, stride),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            _convolution(after, after),
        )

    def forward(self, x):
        return self.residual(x) + self.shortcut(x)
