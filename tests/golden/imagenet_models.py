"""ResNet-50, and VGG-16 without batch norm, as torchvision defines them, written out: what the golden test compares the
neutral descriptions with. Where `smooth`, softplus stands for ReLU and means stand for the maxima of pools.
"""
import torch.nn as nn
import torch.nn.functional as F


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs, width, stride, v1, act):
        super().__init__()
        outputs = width * self.expansion
        first, second = (stride, 1) if v1 else (1, stride)
        self.conv1 = nn.Conv2d(inputs, width, 1, first, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, second, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.act = act

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        y = self.act(self.bn1(self.conv1(x)))
        y = self.act(self.bn2(self.conv2(y)))
        return self.act(self.bn3(self.conv3(y)) + identity)


class ResNet50(nn.Module):
    def __init__(self, classes, act, pool, masks, version="v1.5"):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        blocks, inputs = [], 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                blocks.append(Bottleneck(inputs, width, stride if i == 0 else 1, version == "v1", act))
                inputs = width * Bottleneck.expansion
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(inputs, classes)
        self.act, self.pool = act, pool

    def forward(self, x):
        x = self.pool(self.act(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(F.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1))


class Vgg16(nn.Module):
    columns = (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M")

    def __init__(self, classes, act, pool, masks, hidden=4096):
        super().__init__()
        self.convs, inputs = nn.ModuleList(), 3
        for column in self.columns:
            if column != "M":
                self.convs.append(nn.Conv2d(inputs, column, 3, padding=1))
                inputs = column
        self.classifier = nn.ModuleList([nn.Linear(inputs * 7 * 7, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, classes)])
        self.act, self.pool, self.masks = act, pool, masks

    def forward(self, x):
        convs = iter(self.convs)
        for column in self.columns:
            x = self.pool(x, 2) if column == "M" else self.act(next(convs)(x))
        x = F.adaptive_avg_pool2d(x, 7).flatten(1)
        for dense in self.classifier[:2]:
            x = self.masks(self.act(dense(x)))
        return self.classifier[2](x)


def make(definition, classes, masks):
    """`masks`: what stands for dropout."""
    smooth = definition["smooth"]
    act, pool = (F.softplus, F.avg_pool2d) if smooth else (F.relu, F.max_pool2d)
    model = {"resnet50": ResNet50, "vgg16": Vgg16}[definition["model"]]
    return model(classes, act, pool, masks, **definition["options"])
