"""What every closed form takes and gives."""

from collections.abc import Iterator

import torch

# The layer's buffers as they were in the forward pass.
Buffers = dict[str, torch.Tensor]
# The parameter's own name, squared norms [batch], the sum of gradients over the batch.
Parts = Iterator[tuple[str, torch.Tensor, torch.Tensor]]
