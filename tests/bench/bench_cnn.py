#!/usr/bin/env python3
"""Small convolutional networks as frozen programs, against onnxruntime with all threads in the same process and in turns.

prog.cnn.NAME.N   a batch of N of: mnist (mnist_8's layers), face (ultraface's backbone, 3x240x320), text (ppocr_cls's kind: MobileNetV3 with
hard swish and gates, 3x48x192), mobile (MobileNetV2, 3x224x224), residual (ResNet-18, 3x224x224)

All sides begin with the same numbers and must agree; each value is the median round. With --all, torch frozen and optimized for inference, and
onnxruntime with one thread, are printed, too."""
import io
import os
import sys
import time

from bench_python import beside_torch, in_turns, ours, reference, skip

ROUNDS, SECONDS = 9, 0.2
GOALS = {f"{name}.{n}": 1.0 for name, n in (("mnist", 1), ("face", 1), ("text", 1), ("mobile", 1), ("mobile", 8), ("residual", 1))}
SHAPES = {"mnist": (1, 28, 28), "face": (3, 240, 320), "text": (3, 48, 192), "mobile": (3, 224, 224), "residual": (3, 224, 224)}

torch, td = beside_torch([f"prog.cnn.{name}" for name in GOALS])


def networks(t):
    nn = t.nn

    def conv(a, b, k, stride=1, groups=1, act=nn.ReLU):
        layers = [nn.Conv2d(a, b, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(b)]
        return nn.Sequential(*layers, act()) if act else nn.Sequential(*layers)

    def mnist():
        return nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Conv2d(8, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 3),
                             nn.Flatten(), nn.Linear(256, 10))

    def face():
        plan = [(16, 32, 1), (32, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1)]
        layers = [conv(3, 16, 3, 2)]
        for a, b, stride in plan:
            layers += [conv(a, a, 3, stride, a), conv(a, b, 1)]
        return nn.Sequential(*layers, nn.Conv2d(256, 24, 3, padding=1))

    class Gate(nn.Module):
        def __init__(self, a):
            super().__init__()
            self.mean, self.less, self.relu = nn.AdaptiveAvgPool2d(1), nn.Conv2d(a, a // 4, 1), nn.ReLU()
            self.more, self.gate = nn.Conv2d(a // 4, a, 1), nn.Hardsigmoid()

        def forward(self, x):
            return x * self.gate(self.more(self.relu(self.less(self.mean(x)))))

    class Turned(nn.Module):
        def __init__(self, a, wide, b, k, stride, act, gate=False):
            super().__init__()
            self.adds = stride == 1 and a == b
            layers = [conv(a, wide, 1, act=act)] if wide != a else []
            layers += [conv(wide, wide, k, stride, wide, act)] + ([Gate(wide)] if gate else [])
            self.layers = nn.Sequential(*layers, conv(wide, b, 1, act=None))

        def forward(self, x):
            return x + self.layers(x) if self.adds else self.layers(x)

    def text():
        h, r = nn.Hardswish, nn.ReLU
        plan = [(8, 8, 8, 3, 1, r, 1), (8, 24, 8, 3, 2, r, 0), (8, 32, 8, 3, 1, r, 0), (8, 32, 16, 5, 2, h, 1), (16, 88, 16, 5, 1, h, 1), (16, 88, 16, 5, 1, h, 1),
                (16, 40, 16, 5, 1, h, 1), (16, 48, 16, 5, 1, h, 1), (16, 104, 32, 5, 2, h, 1), (32, 200, 32, 5, 1, h, 1), (32, 200, 32, 5, 1, h, 1)]
        return nn.Sequential(conv(3, 8, 3, 2, act=h), *[Turned(*p) for p in plan], conv(32, 200, 1, act=h), nn.MaxPool2d(2, 2), nn.AdaptiveAvgPool2d(1),
                             nn.Flatten(), nn.Linear(200, 2))

    def mobile():
        layers, a = [conv(3, 32, 3, 2, act=nn.ReLU6)], 32
        for wide, b, n, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
            for k in range(n):
                layers.append(Turned(a, a * wide, b, 3, 1 if k else stride, nn.ReLU6))
                a = b
        return nn.Sequential(*layers, conv(320, 1280, 1, act=nn.ReLU6), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))

    class Block(nn.Module):
        def __init__(self, a, b, stride):
            super().__init__()
            self.layers = nn.Sequential(conv(a, b, 3, stride), conv(b, b, 3, act=None))
            self.relu, self.other = nn.ReLU(), conv(a, b, 1, stride, act=None) if stride > 1 else nn.Sequential()

        def forward(self, x):
            return self.relu(self.layers(x) + self.other(x))

    def residual():
        widths = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
        blocks = [block for a, b, stride in widths for block in (Block(a, b, stride), Block(b, b, 1))]
        return nn.Sequential(conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))

    return {f.__name__: f for f in (mnist, face, text, mobile, residual)}


def session(ort, net, given, threads):
    import warnings
    bytes_of = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (given,), bytes_of, dynamo=False, input_names=["x"], opset_version=17)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    s = ort.InferenceSession(bytes_of.getvalue(), options, providers=["CPUExecutionProvider"])
    return lambda: s.run(None, {"x": given.numpy()})[0]


def measure(name, ort, everything):
    which, n = name.split(".")
    torch.manual_seed(0)
    theirs, mine = networks(torch)[which]().eval(), networks(td)[which]().eval()
    for m in theirs.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.1), m.running_var.uniform_(0.5, 1.5)
    mine.load_state_dict({k: td.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    given = torch.randn(int(n), *SHAPES[which])
    x, frozen = td.from_numpy(given.numpy()), td.jit.freeze(td.jit.script(mine))
    sides = {"ours": lambda: frozen(x).numpy(), "onnxruntime": session(ort, theirs, given, os.cpu_count())}
    if everything:
        sides["onnxruntime 1 thread"] = session(ort, theirs, given, 1)
        t = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.script(theirs)))
        sides["torch"] = lambda: t(given).numpy()
    for _ in range(4):
        results = {side: f() for side, f in sides.items()}
    for side, y in results.items():
        if abs(results["ours"] - y).max() > 1e-3 * abs(y).max():
            raise SystemExit(f"prog.cnn.{name}: the results differ from those of {side}")
    began = time.perf_counter()
    sides["onnxruntime"]()
    rounds = max(3, int(SECONDS / (time.perf_counter() - began)))
    took = in_turns(*[lambda f=f: [f() for _ in range(rounds)] for f in sides.values()], rounds=ROUNDS)
    for side, t in zip(sides, took):
        if side == "ours":
            ours(f"prog.cnn.{name}", t / rounds * 1e3, "ms", GOALS[name])
        else:
            reference(f"prog.cnn.{name}", t / rounds * 1e3, side)


def main():
    wanted = [a for a in sys.argv[1:] if a != "--all"] or list(GOALS)
    try:
        import onnx  # noqa: F401
        import onnxruntime as ort
    except ImportError:
        for name in wanted:
            skip(f"prog.cnn.{name}", "onnxruntime is not importable")
        return
    td.set_grad_enabled(False)
    with torch.no_grad():
        for name in wanted:
            measure(name, ort, "--all" in sys.argv)


if __name__ == "__main__":
    main()
