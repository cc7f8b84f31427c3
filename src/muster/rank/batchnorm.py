"""Batch norm whose statistics span a group of ranks, on GPUs (torch's own) and on CPUs (which torch's refuses)."""

from functools import lru_cache
from typing import Any


def synchronised(model: Any, group: Any, device: Any) -> Any:
    """Return the model with every batch norm taking its statistics over the ranks of `group`."""
    from torch.nn import SyncBatchNorm

    model = SyncBatchNorm.convert_sync_batchnorm(model, group)
    if device.type == "cpu":
        for module in model.modules():
            if type(module) is SyncBatchNorm:
                module.__class__ = _on_cpus()
    return model


@lru_cache(maxsize=None)
def _on_cpus() -> Any:
    """Return the same layer with a forward that CPUs can do. It is made here: this module is read without torch."""
    import torch
    from torch.distributed import all_reduce
    from torch.nn.functional import batch_norm
    from torch.nn.modules.batchnorm import _BatchNorm

    class SumOverRanks(torch.autograd.Function):  # type: ignore[misc]
        """The sum over the group; its gradient is the sum of the gradients, since every rank has used the sum."""

        @staticmethod
        def forward(context: Any, own_sums: Any, group: Any) -> Any:
            context.group = group
            total = own_sums.clone()
            all_reduce(total, group=group)
            return total

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            total = gradient.clone()
            all_reduce(total, group=context.group)
            return total, None

    class BatchNormOverRanks(_BatchNorm):  # type: ignore[misc]  # DistributedDataParallel refuses SyncBatchNorm on CPUs
        """Mean and variance by two differentiable sums over the group, then the formula of batch norm."""

        def forward(self, batch: Any) -> Any:
            if not self.training and self.track_running_stats:
                return batch_norm(
                    batch, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
                )
            other_dimensions = [dimension for dimension in range(batch.dim()) if dimension != 1]
            shape = [1 if dimension in other_dimensions else -1 for dimension in range(batch.dim())]
            count = torch.full((1,), batch.numel() / batch.shape[1], dtype=batch.dtype)
            totals = SumOverRanks.apply(torch.cat([batch.sum(other_dimensions), count]), self.process_group)
            mean = totals[:-1] / totals[-1]
            centred = batch - mean.view(shape)
            squares = SumOverRanks.apply((centred * centred).sum(other_dimensions), self.process_group)
            variance = squares / totals[-1]
            self._remember(mean.detach(), variance.detach(), float(totals[-1].detach()))
            normal = centred / torch.sqrt(variance.view(shape) + self.eps)
            if self.weight is None:
                return normal
            return normal * self.weight.view(shape) + self.bias.view(shape)

        def _remember(self, mean: Any, variance: Any, count: float) -> None:
            if self.running_mean is None:
                return
            self.num_batches_tracked += 1
            share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
            self.running_mean.lerp_(mean, share)
            self.running_var.lerp_(variance * count / max(count - 1, 1), share)

    return BatchNormOverRanks
