#!/usr/bin/env python3
"""onnxruntime beside tensord, on models as people have them: models.py PROGRAM FOLDER STORED compares all numbers (skipped
where onnxruntime cannot be imported); models.py --store FOLDER STORED writes STORED anew, what onnxruntime gives."""
import math
import os
import subprocess
import sys
import tempfile

CASES = {  # inputs of each set: dtype, how many whole numbers there are (0: any in [0, 1); below 0: always that one), sizes
    "mnist_8": [[("float32", 0, (1, 1, 28, 28))], [("float32", 2, (1, 1, 28, 28))]],
    "super_resolution_10": [[("float32", 0, (1, 1, 224, 224))], [("float32", 0, (2, 1, 224, 224))]],
    "ultraface_RFB_320": [[("float32", 0, (1, 3, 240, 320))], [("float32", 2, (1, 3, 240, 320))]],
    "yunet_n_dynamic": [[("float32", 0, (1, 3, 160, 160))], [("float32", 0, (2, 3, 96, 224))]],
    "ch_ppocr_mobile_v2.0_cls_infer": [[("float32", 0, (1, 3, 48, 192))], [("float32", 0, (3, 3, 48, 100))]],
    "tract_byte_sb_bidi_lstm": [[("uint8", 256, (1, 40))], [("uint8", 256, (3, 17))]],
    "silero_vad_16k_op15": [[("float32", 0, (1, 576)), ("float32", 0, (2, 1, 128)), ("int64", -16000, ())], [("float32", 0, (2, 576)), ("float32", 0, (2, 2, 128)), ("int64", -16000, ())]],
}
SHOWN = 96  # numbers of an output that are stored


def drawn(dtype, most, shape, seed):
    import numpy as np
    k = np.arange(math.prod(shape), dtype=np.uint32)
    x = ((k * np.uint32(2654435761) + np.uint32(seed * 40503)) >> np.uint32(8)).astype(np.float64) / 16777216.0
    x = np.full_like(x, -most) if most < 0 else np.floor(x * most) if most > 0 else x
    return x.astype(dtype).reshape(shape)


def run(folder, model, inputs, at):
    import onnxruntime
    session = onnxruntime.InferenceSession(os.path.join(folder, model + ".onnx"), providers=["CPUExecutionProvider"])
    feeds = {i.name: drawn(*spec, at * 8 + k) for k, (i, spec) in enumerate(zip(session.get_inputs(), inputs))}
    return session.run(None, feeds)


def sizes(shape):
    return ",".join(map(str, shape)) or "-"


def store(folder, path):
    with open(path, "w") as f:
        f.write("# What onnxruntime gives for inputs that are drawn: made by models.py --store.\n")
        for model, sets in CASES.items():
            f.write(f"model {model}\n")
            for at, inputs in enumerate(sets):
                f.write("set\n")
                for dtype, most, shape in inputs:
                    f.write(f"in {dtype} {most} {sizes(shape)}\n")
                for y in run(folder, model, inputs, at):
                    flat, n = y.reshape(-1), min(y.size, SHOWN)
                    f.write(f"out {sizes(y.shape)} " + " ".join(f"{float(flat[i * y.size // n]):.9g}" for i in range(n)) + "\n")


def compare(program, folder, stored):
    import numpy as np
    bad = count = outputs = 0
    with tempfile.TemporaryDirectory() as out:
        rc = subprocess.run([program, folder, stored, out], stdout=subprocess.DEVNULL).returncode
        for model, sets in CASES.items():
            for at, inputs in enumerate(sets):
                for k, want in enumerate(run(folder, model, inputs, at)):
                    got = np.fromfile(os.path.join(out, f"{model}_{at}_out_{k}"), np.float32).reshape(want.shape)
                    off = np.abs(got - want) - 1e-5 * np.abs(want)
                    count += want.size
                    outputs += 1
                    if off.max() > 1e-6:
                        bad += 1
                        print(f"{model} {at}: output {k} is {np.abs(got - want).max():.3g} off, of at most {np.abs(want).max():.3g}")
    print(f"suite onnx_models_live: {outputs - bad} passed, {bad} failed, 0 skipped")
    print(f"{count} numbers beside onnxruntime's, {bad} outputs differ")
    return rc or bad != 0


def main():
    if sys.argv[1] == "--store":
        return store(*sys.argv[2:])
    try:
        import numpy, onnxruntime  # noqa: E401, F401
    except ImportError:
        print("SKIP onnx_models_live: there is no onnxruntime for this Python")
        return 77
    return compare(*sys.argv[1:])


sys.exit(main())
