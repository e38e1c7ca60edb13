"""Row p of the identity matrix: each position switches on one coordinate."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headway.model.encodings.base import Encoding, Positions


class OneHot(Encoding):
    """There are d_model different positions; all later ones equal the last."""

    def embed(self, positions: Positions) -> Float[Tensor, "#row position d_model"]:
        d_model = self.sizes.d_model
        return F.one_hot(positions.clamp(max=d_model - 1), d_model).float()
