#!/usr/bin/env python3
"""Find the faces in a picture by the detector YuNet, and draw a box around each.

    client/examples/serve/faces.py face_detection_yunet.onnx                      # the picture that comes along
    client/examples/serve/faces.py face_detection_yunet.onnx group.png -o out.png

The model is OpenCV's (github.com/opencv/opencv_zoo, models/face_detection_yunet) or that of libfacedetection.train. Its file is read once and becomes
a model that all processes of the host may call: web_workers.py beside this calls it from four.
"""
import argparse
import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import _png
from _common import Failed, td

PICTURE = os.path.join(HERE, "../data/eileen_collins.png")
STRIDES = (8, 16, 32)  # pixels between the places where YuNet looks for small, middle and large faces
LEAST, OVERLAP = 0.6, 0.3  # score from which on a find is a face; part that two boxes may share


def as_input(width, height, pixels):
    """float32[1, 3, H, W] as YuNet wants it: blue, green, red from 0 to 255, sizes that are multiples of 32."""
    picture = td.tensor(memoryview(pixels)).reshape(height, width, 3).permute(2, 0, 1).flip(0).float()
    return td.nn.functional.pad(picture, (0, -width % 32, 0, -height % 32)).unsqueeze(0)


def boxes(outputs, width):
    """[(score, (left, top, right, bottom))] of a call's twelve outputs, best first; `width` is the input's."""
    found = []
    for k, stride in enumerate(STRIDES):
        scores, objects, places = (outputs[k + 3 * part][0].tolist() for part in range(3))
        columns = width // stride
        for n, ((score,), (whole,), (dx, dy, w, h)) in enumerate(zip(scores, objects, places, strict=True)):
            score = math.sqrt(min(max(score, 0), 1) * min(max(whole, 0), 1))
            if score >= LEAST:
                x, y, w, h = (n % columns + dx) * stride, (n // columns + dy) * stride, math.exp(w) * stride, math.exp(h) * stride
                found.append((score, (x - w / 2, y - h / 2, x + w / 2, y + h / 2)))
    kept = []
    for score, box in sorted(found, reverse=True):
        if all(shared(box, other) <= OVERLAP for _, other in kept):
            kept.append((score, box))
    return kept


def shared(a, b):
    """The part of two boxes' common area that both cover (intersection over union)."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0
    both = width * height
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def find(model, picture):
    """The faces of a picture (width, height, pixels)."""
    x = as_input(*picture)
    return boxes(model(x), x.shape[3])


def main():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("model", help="YuNet as an ONNX file")
    p.add_argument("picture", nargs="?", default=PICTURE, help="a PNG file (default: a portrait that comes along)")
    p.add_argument("-o", "--output", metavar="FILE", default="faces.png", help="where the picture with boxes goes (default faces.png)")
    arguments = p.parse_args()
    model = td.load_model(arguments.model)
    with open(arguments.picture, "rb") as f:
        try:
            width, height, pixels = _png.read(f.read())
        except ValueError as e:
            raise Failed(f"{arguments.picture}: {e}") from None
    drawn = bytearray(pixels)
    faces = find(model, (width, height, pixels))
    for score, box in faces:
        left, top, right, bottom = (round(v) for v in box)
        print(f"a face from ({left}, {top}) to ({right}, {bottom}), score {score:.2f}")
        _png.draw_box(width, height, drawn, box)
    with open(arguments.output, "wb") as f:
        f.write(_png.write(width, height, bytes(drawn)))
    print(f"{len(faces)} {'face' if len(faces) == 1 else 'faces'}; {arguments.output} shows {'it' if len(faces) == 1 else 'them'}")


if __name__ == "__main__":
    try:
        main()
    except (Failed, OSError, td.Error) as e:
        sys.exit(f"faces.py: {str(e).splitlines()[0]}")
