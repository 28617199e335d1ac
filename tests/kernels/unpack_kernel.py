#!/usr/bin/env python3
"""unpack_kernel: writes the ELF that an x86 kernel image holds compressed.

	usage: unpack_kernel.py IMAGE FILE

An emulated processor takes longer to unpack it than to start it. Exit 1: this image holds none that is
unpacked here.
"""
import lzma
import struct
import subprocess
import sys

# Documentation/arch/x86/boot.rst: where the setup's header has what.
SETUP_SECTORS, MAGIC, PAYLOAD = 0x1F1, 0x202, 0x248
ELF = b"\x7fELF"


def payload(image):
    if image[MAGIC:MAGIC + 4] != b"HdrS":
        return b""
    offset, length = struct.unpack_from("<II", image, PAYLOAD)
    begin = (image[SETUP_SECTORS] + 1) * 512 + offset
    return image[begin:begin + length]


def unpacked(packed):
    """After the compressed stream there is its length: no decoder may take that for an error."""
    if packed.startswith(b"\xfd7zXZ"):
        return lzma.LZMADecompressor().decompress(packed)
    if packed.startswith(b"\x28\xb5\x2f\xfd"):
        return subprocess.run(["zstd", "-dcq"], input=packed[:-4], stdout=subprocess.PIPE).stdout
    return b""


def main(image, file):
    with open(image, "rb") as opened:
        kernel = unpacked(payload(opened.read()))
    if not kernel.startswith(ELF):
        sys.exit(1)
    with open(file, "wb") as opened:
        opened.write(kernel)


main(*sys.argv[1:])
