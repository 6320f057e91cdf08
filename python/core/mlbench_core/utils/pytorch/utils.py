"""Many tensors as one vector, and back."""

import torch


def pack_tensors(tensors, use_cuda=False):
    """Returns the vector, the index at which each tensor begins (and the end), and the sizes. Without `use_cuda` the
    vector lies in host memory."""
    sizes = [tensor.size() for tensor in tensors]
    indices = [0]
    for tensor in tensors:
        indices.append(indices[-1] + tensor.numel())
    packed = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
    return packed if use_cuda else packed.cpu(), indices, sizes


def unpack_tensors(aggregated, indices, sizes):
    """Views of the vector, of these sizes."""
    return [aggregated[begin:end].view(size) for begin, end, size in zip(indices, indices[1:], sizes)]


def orthogonalize(matrix):
    """Replaces the columns by orthonormal ones of the same span."""
    matrix.copy_(torch.linalg.qr(matrix)[0])
