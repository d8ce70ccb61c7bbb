"""Models: ONNX files as programs under names, asked by any process. What there is stands in tensord itself: load_model(), model(), InferenceSession."""
