"""PNG files of 8 bits a channel, read and written by Python's own zlib: enough for pictures of an example.

A picture is (width, height, bytes of RGB, row by row).
"""
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # grey, RGB, grey and alpha, RGB and alpha: by PNG's colour type
MOST_PIXELS = 1 << 24


def read(data):
    """The picture in a PNG file's bytes. ValueError says what is not as it should be."""
    if data[:8] != SIGNATURE:
        raise ValueError("this is not a PNG file")
    header, packed, at = None, bytearray(), 8
    while at + 12 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        if size > len(data) - at - 12:
            raise ValueError("the PNG file is cut short")
        body = data[at + 8 : at + 8 + size]
        if kind == b"IHDR" and size == 13:
            header = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            packed += body
        elif kind == b"IEND":
            break
        at += size + 12
    if header is None:
        raise ValueError("the PNG file has no header")
    width, height, depth, colour, _, _, interlaced = header
    if depth != 8 or colour not in CHANNELS or interlaced:
        raise ValueError("only PNG files of 8 bits a channel, without a palette and not interlaced, are read here")
    if not 0 < width * height <= MOST_PIXELS:
        raise ValueError(f"a picture of {width} by {height} pixels is too large; {MOST_PIXELS} pixels are the most")
    channels = CHANNELS[colour]
    stride = width * channels
    try:
        rows = zlib.decompressobj().decompress(bytes(packed), height * (stride + 1))
    except zlib.error as e:
        raise ValueError(f"the pixels of the PNG file are damaged: {e}") from None
    if len(rows) != height * (stride + 1):
        raise ValueError("the PNG file is cut short")
    pixels, above = bytearray(), bytes(stride)
    for y in range(height):
        start = y * (stride + 1)
        above = _unfilter(rows[start], bytearray(rows[start + 1 : start + 1 + stride]), above, channels)
        pixels += above
    if colour in (0, 4):  # grey
        return width, height, bytes(v for p in pixels[::channels] for v in (p, p, p))
    if colour == 6:
        del pixels[3::4]
    return width, height, bytes(pixels)


def _unfilter(kind, row, above, step):
    """A row as it was before PNG's filter number `kind`; `step` is the bytes of a pixel."""
    for k in range(len(row)):
        left = row[k - step] if k >= step else 0
        if kind == 1:
            row[k] = (row[k] + left) & 255
        elif kind == 2:
            row[k] = (row[k] + above[k]) & 255
        elif kind == 3:
            row[k] = (row[k] + (left + above[k]) // 2) & 255
        elif kind == 4:
            corner = above[k - step] if k >= step else 0
            guess = left + above[k] - corner
            by_left, by_above, by_corner = abs(guess - left), abs(guess - above[k]), abs(guess - corner)
            nearest = left if by_left <= by_above and by_left <= by_corner else above[k] if by_above <= by_corner else corner
            row[k] = (row[k] + nearest) & 255
    return bytes(row)


def write(width, height, pixels):
    """The bytes of a PNG file."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = b"".join(b"\0" + pixels[y * width * 3 : (y + 1) * width * 3] for y in range(height))
    return SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b"")


def draw_box(width, height, pixels, box, colour=(0, 255, 64), thick=2):
    """A frame around (left, top, right, bottom), into a bytearray of pixels."""
    left, top, right, bottom = (round(v) for v in box)
    for y in range(max(top, 0), min(bottom + 1, height)):
        for x in range(max(left, 0), min(right + 1, width)):
            if min(x - left, right - x, y - top, bottom - y) < thick:
                pixels[3 * (y * width + x) : 3 * (y * width + x) + 3] = bytes(colour)
