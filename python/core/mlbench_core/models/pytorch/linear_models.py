"""Linear models without a bias."""

import torch


class LinearRegression(torch.nn.Module):
    def __init__(self, n_features):
        super().__init__()
        self.linear = torch.nn.Linear(n_features, 1, bias=False)

    def forward(self, x):
        return self.linear(x)


class LogisticRegression(LinearRegression):
    """The probability of class 1."""

    def forward(self, x):
        return torch.sigmoid(super().forward(x))
