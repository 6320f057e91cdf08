"""Optimizers of one rank alone: sparsified with memory, and by signs."""

import torch

__all__ = ["SignSGD", "SparsifiedSGD"]


class SparsifiedSGD(torch.optim.Optimizer):
    """A step changes `sparse_grad_size` coordinates of each tensor: random ones, or one random block of neighbours.
    What the others would have changed is kept and added to the next steps. Random choices are those of
    torch.manual_seed."""

    def __init__(self, params=None, lr=None, weight_decay=0, sparse_grad_size=10, random_sparse=False):
        if params is None or lr is None:
            raise ValueError("%s wants params and lr" % type(self).__name__)
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})
        self.num_coordinates, self.random_sparse = sparse_grad_size, random_sparse
        for parameter in self._all():
            self.state[parameter]["memory"] = torch.zeros_like(parameter.data)
            self.state[parameter]["estimated_w"] = parameter.data.clone()

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if group["weight_decay"] != 0:
                    parameter.grad.add_(parameter, alpha=group["weight_decay"])
                indices, values = self.sparsify_gradients(parameter, group["lr"])
                update = self._together(parameter.numel(), indices, values)
                parameter.sub_(update.to(parameter.device).view_as(parameter))
        return loss

    def sparsify_gradients(self, param, lr):
        """Adds lr * gradient to the memory, and takes some of it out: (indices, values)."""
        memory = self.state[param]["memory"].view(-1)
        memory.add_(param.grad.reshape(-1), alpha=lr)
        count = min(self.num_coordinates, memory.numel())
        if self.random_sparse:
            indices = torch.randperm(memory.numel())[:count]
        else:
            blocks = memory.numel() // count
            indices = torch.arange(count) + int(torch.randint(blocks, ())) * count
        indices = indices.to(memory.device)
        values = memory[indices]
        memory[indices] = 0
        return indices, values

    def _together(self, size, indices, values):
        return torch.zeros(size, dtype=values.dtype, device=values.device).index_add_(0, indices, values)

    def update_estimated_weights(self, iteration, sparse_vector_size):
        """Moves the weighted running mean of the weights on by one iteration, t from 0."""
        t = iteration
        for parameter in self._all():
            tau = parameter.numel() / sparse_vector_size
            share = 6 * (t + tau) ** 2 / ((1 + t) * (6 * tau**2 + t + 6 * tau * t + 2 * t**2))
            self.state[parameter]["estimated_w"].lerp_(parameter.data, share)

    def get_estimated_weights(self):
        return [self.state[parameter]["estimated_w"] for parameter in self._all()]

    def _all(self):
        return [parameter for group in self.param_groups for parameter in group["params"]]


class SignSGD(torch.optim.SGD):
    """Steps by lr times the sign of what torch.optim.SGD would subtract. Ranks exchange nothing."""

    @torch.no_grad()
    def step(self, closure=None):
        parameters = [one for group in self.param_groups for one in group["params"] if one.grad is not None]
        before = [parameter.clone() for parameter in parameters]
        loss = super().step(closure)
        rates = {id(one): group["lr"] for group in self.param_groups for one in group["params"]}
        for parameter, old in zip(parameters, before):
            parameter.copy_(old + rates[id(parameter)] * torch.sign(parameter - old))
        return loss
