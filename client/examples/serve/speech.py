#!/usr/bin/env python3
"""Where is somebody speaking? Silero's voice detector over a minute of sound, with its state from call to call.

    client/examples/serve/speech.py silero_vad.onnx                  # a minute that it makes: five voices, silence between them
    client/examples/serve/speech.py silero_vad.onnx talk.wav         # 16 bits, one channel, 16,000 samples a second

The model (github.com/snakers4/silero-vad) hears 32 ms at a time. Its third of a megabyte of weights is in memory once, whoever calls it; what it
remembers of the sound so far is a tensor that goes in with a call and comes out of it, so a stream belongs to its caller and needs no place in a server.
"""
import argparse
import math
import os
import random
import sys
import wave

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from _common import Failed, td

RATE, CHUNK, CONTEXT = 16000, 512, 64  # samples a second, in a call, and of the call before
LEAST, GAP = 0.5, 0.3  # probability of speech; seconds of silence that do not end it


def made_minute(seed=1):
    """60 s of samples: 6 s of hiss, then 6 s of a made voice, in turns. A voice is pulses of the throat through three resonances of the mouth."""
    dice = random.Random(seed)
    vowels = [(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410)]
    samples = []
    for _ in range(5):
        samples += [dice.gauss(0, 0.003) for _ in range(6 * RATE)]
        phase, voice = 0.0, []
        for _ in range(6 * 5):  # five syllables a second
            memories = [[0.0, 0.0] for _ in range(3)]
            resonances = [(2 * math.exp(-math.pi * b / RATE) * math.cos(2 * math.pi * f / RATE), -math.exp(-2 * math.pi * b / RATE))
                          for f, b in zip(dice.choice(vowels), (80, 100, 120), strict=True)]
            for k in range(RATE // 5):
                phase += 120 * (1 + 0.08 * math.sin(2 * math.pi * 0.7 * len(voice) / RATE)) / RATE
                y, phase = (1.0, phase - 1) if phase >= 1 else (0.0, phase)
                for (near, far), memory in zip(resonances, memories, strict=True):
                    y += near * memory[0] + far * memory[1]
                    memory[1], memory[0] = memory[0], y
                voice.append(y * math.sin(math.pi * k / (RATE // 5)))
        loudest = max(map(abs, voice))
        samples += [0.3 * v / loudest + dice.gauss(0, 0.003) for v in voice]
    return samples


def read_wav(path):
    with wave.open(path) as f:
        if (f.getnchannels(), f.getsampwidth(), f.getframerate()) != (1, 2, RATE):
            raise Failed(f"{path}: {f.getnchannels()} channels of {8 * f.getsampwidth()} bits, {f.getframerate()} samples a second; wanted are one "
                         f"of 16 bits with {RATE} (sox {path} -c 1 -b 16 -r {RATE} out.wav)")
        return td.frombuffer(bytearray(f.readframes(f.getnframes())), dtype=td.int16).float() / 32768


def probabilities(model, sound):
    """That somebody speaks, for each 32 ms of `sound` (float32[samples])."""
    state, rate, said = td.zeros(2, 1, 128), td.tensor(RATE), []
    sound = td.cat([td.zeros(CONTEXT), sound])
    for at in range(0, len(sound) - CONTEXT - CHUNK + 1, CHUNK):
        probability, state = model(sound[at : at + CONTEXT + CHUNK].unsqueeze(0), state, rate)
        said.append(probability)
    return td.cat(said).flatten().tolist()


def spoken(said):
    """[(from, to)] in seconds."""
    parts, step = [], CHUNK / RATE
    for k, p in enumerate(said):
        if p >= LEAST:
            if parts and k * step - parts[-1][1] <= GAP:
                parts[-1][1] = (k + 1) * step
            else:
                parts.append([k * step, (k + 1) * step])
    return parts


def main():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("model", help="silero_vad.onnx, or its version for 16 kHz")
    p.add_argument("sound", nargs="?", help="a WAV file (default: a minute that is made here)")
    arguments = p.parse_args()
    model = td.load_model(arguments.model)
    sound = read_wav(arguments.sound) if arguments.sound else td.tensor(made_minute())
    said = probabilities(model, sound)
    for begin, end in spoken(said):
        print(f"speech from {begin:5.1f} s to {end:5.1f} s")
    print(f"{len(said)} calls over {len(sound) / RATE:.0f} s of sound; somebody speaks in {sum(q >= LEAST for q in said) / max(len(said), 1):.0%} of it")


if __name__ == "__main__":
    try:
        main()
    except (Failed, OSError, EOFError, wave.Error, td.Error) as e:
        sys.exit(f"speech.py: {str(e).splitlines()[0]}")
