"""What PyTorch 2.13 does at the edges of its functions, as values that it gave: sizes of 0, zero vectors, NaNs, whole numbers, shapes that are wrong."""
import math

import pytest
import tensord as td
from tensord.nn import functional as F


def test_cosine_embedding_loss_of_zero_vectors_and_other_targets():
    x, y = td.tensor([[0.0, 0.0], [3.0, 4.0], [1.0, 2.0]], requires_grad=True), td.tensor([[3.0, 4.0], [1.0, 1.0], [2.0, 1.0]])
    F.cosine_embedding_loss(x, y, td.tensor([1, -1, 0]), reduction="sum").backward()
    td.testing.assert_close(x.grad[0], td.tensor([-6e5, -8e5]))  # the squared length is held above 0 by 1e-12
    td.testing.assert_close(x.grad[1:], td.tensor([[0.0226274, -0.0169706], [0.0, 0.0]]))
    assert F.cosine_embedding_loss(x.half(), y.half(), td.tensor([1, -1, 0])).dtype is td.float16


def test_variances_of_whole_rows():
    x, t = td.zeros(2, 2, requires_grad=True), td.ones(2, 2)
    for var in (td.tensor([1.0, 4.0]), td.tensor([[1.0], [4.0]])):  # one for each row
        td.testing.assert_close(F.gaussian_nll_loss(x, t, var, reduction="none"), td.tensor([[0.5, 0.5], [0.8181472, 0.8181472]]))
    with pytest.raises(td.ShapeError, match="var is of incorrect size"):
        F.gaussian_nll_loss(x, t, td.ones(3))
