"""AdamW for one model: PyTorch's own update, with its state as named tensors.

The class in torch.optim is not used, because its first use imports PyTorch's compiler, which takes longer than all
other imports together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

EPSILON = 1e-8
"""As in PyTorch."""


@dataclass(frozen=True)
class Group:
    """Parameters with the same weight decay."""

    parameters: Sequence[nn.Parameter]
    weight_decay: float


class AdamW:
    """Parameters are indexed over all groups; the state of a parameter starts with its first gradient."""

    def __init__(self, groups: Sequence[Group], betas: tuple[float, float]):
        self.groups, self.betas = groups, betas
        self.memory: dict[nn.Parameter, dict[str, Tensor]] = {}

    @property
    def parameters(self) -> list[nn.Parameter]:
        return [parameter for group in self.groups for parameter in group.parameters]

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Update every parameter that has a gradient."""
        for group in self.groups:
            moved = [parameter for parameter in group.parameters if parameter.grad is not None]
            memory = [self._memory_of(parameter) for parameter in moved]
            adamw(
                [*moved],
                [parameter.grad for parameter in moved if parameter.grad is not None],
                [one["exp_avg"] for one in memory],
                [one["exp_avg_sq"] for one in memory],
                [],
                [one["step"] for one in memory],
                fused=True,
                amsgrad=False,
                beta1=self.betas[0],
                beta2=self.betas[1],
                lr=rate,
                weight_decay=group.weight_decay,
                eps=EPSILON,
                maximize=False,
            )

    def _memory_of(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        if parameter not in self.memory:
            start = torch.zeros((), dtype=torch.float32, device=parameter.device)
            first, second = torch.zeros_like(parameter), torch.zeros_like(parameter)
            self.memory[parameter] = {"step": start, "exp_avg": first, "exp_avg_sq": second}
        return self.memory[parameter]

    def tensors(self) -> dict[str, Tensor]:
        """The state as named tensors: `3.exp_avg` belongs to the fourth parameter."""
        return {
            f"{index}.{name}": tensor.cpu().contiguous()
            for index, parameter in enumerate(self.parameters)
            for name, tensor in self.memory.get(parameter, {}).items()
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore the state of a checkpoint."""
        parameters, self.memory = self.parameters, {}
        for key, tensor in tensors.items():
            index, _, name = key.partition(".")
            parameter = parameters[int(index)]
            self.memory.setdefault(parameter, {})[name] = tensor.to(parameter.device, copy=True)
