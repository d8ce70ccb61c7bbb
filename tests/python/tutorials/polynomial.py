"""A third-order polynomial fitted to a sine, by hand: p -= lr * p.grad under no_grad, then the same through p.data."""
import math

import torch

dtype = torch.float
device = torch.device("cpu")

x = torch.linspace(-math.pi, math.pi, 2000, device=device, dtype=dtype)
y = torch.sin(x)
a = torch.randn((), device=device, dtype=dtype, requires_grad=True)
b = torch.randn((), device=device, dtype=dtype, requires_grad=True)
c = torch.randn((), device=device, dtype=dtype, requires_grad=True)
d = torch.randn((), device=device, dtype=dtype, requires_grad=True)

learning_rate = 1e-6
losses = []
for t in range(40):
    y_pred = a + b * x + c * x**2 + d * x**3
    loss = (y_pred - y).pow(2).sum()
    if t % 10 == 9:
        print(t, loss.item())
    losses.append(loss.item())
    loss.backward()
    with torch.no_grad():
        a -= learning_rate * a.grad
        b -= learning_rate * b.grad
        c -= learning_rate * c.grad
        d -= learning_rate * d.grad
        a.grad = None
        b.grad = None
        c.grad = None
        d.grad = None

weights = [p.detach().clone().requires_grad_() for p in (a, b, c, d)]
for t in range(20):
    powers = torch.stack([torch.ones_like(x), x, x**2, x**3], dim=-1)
    loss = ((powers @ torch.stack(weights) - y) ** 2).sum()
    losses.append(float(loss))
    loss.backward()
    for p in weights:
        p.data -= learning_rate * p.grad
        p.grad.zero_()
print(f"Result: y = {a.item():.4f} + {b.item():.4f} x + {c.item():.4f} x^2 + {d.item():.4f} x^3")
