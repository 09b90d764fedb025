#!/usr/bin/env python3
"""Writes cl/random/normal_table.h: the inverse normal CDF as one polynomial per octave of the tail probability.

Not run by the build; run it by hand to change the table:  tools/normal_table.py > cl/random/normal_table.h

A 31-bit magnitude m stands for the tail probability p = (m + 1/2) / 2^32 = s / 2^33 with s = 2 m + 1. The octave is the
number of leading zeros of s, so p lies in 2^-(octave + 2) * [1, 2). Shifting s left by the octave gives n in [2^31,
2^32). The polynomial's variable is the distance from the octave's upper end, cut to 24 bits so that a float holds it
exactly:
    r = (2^24 - (bits 30..7 of n)) * 2^-24, in (0, 1],     p = 2^-(octave + 2) * (2 - r + delta).
delta is half a step of r, 2^-25, where the cut drops bits (octaves 0 to 6: the dropped bits are centred on half a
step), and 0 where it drops none. In this variable the Taylor coefficients have one sign and shrink like 2^-k, so that a
float Horner sum hardly cancels, and the middle of the distribution (octave 0, r -> 0) is accurate relative to x itself.

Each polynomial interpolates at the extrema of a Chebyshev polynomial, ends included so that neighbouring octaves meet,
in rational arithmetic from double values; the coefficients are then rounded to float.
"""

import math
import struct
from fractions import Fraction
from statistics import NormalDist

TERMS = 9
OCTAVES = 32


def inverse_normal(p):
    """Phi^-1(p) for p <= 1/2, polished by one Newton step on Phi(x) = erfc(-x / sqrt 2) / 2."""
    x = NormalDist().inv_cdf(p)
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return x - (math.erfc(-x / math.sqrt(2)) / 2 - p) / density


def octave_value(octave, r):
    delta = 2.0**-25 if octave <= 6 else 0.0
    p = (2 - (r - delta)) * 2.0 ** -(octave + 2)
    return inverse_normal(p) if p <= 0.5 else -inverse_normal(1 - p)


def interpolate(points, values):
    """Monomial coefficients of the polynomial through the points, by Newton's divided differences, exactly."""
    x = [Fraction(point) for point in points]
    difference = [Fraction(value) for value in values]
    for level in range(1, len(x)):
        for i in range(len(x) - 1, level - 1, -1):
            difference[i] = (difference[i] - difference[i - 1]) / (x[i] - x[i - level])
    coefficients = [Fraction(0)] * len(x)
    for i in range(len(x) - 1, -1, -1):
        shifted = [Fraction(0)] + coefficients[:-1]
        coefficients = [a - x[i] * b for a, b in zip(shifted, coefficients)]
        coefficients[0] += difference[i]
    return coefficients


def round_to_float(value):
    return struct.unpack("f", struct.pack("f", float(value)))[0]


def hexadecimal(value):
    mantissa, exponent = value.hex().split("p")
    return mantissa.rstrip("0").rstrip(".") + "p" + exponent + "f"


def main():
    points = [(1 - math.cos(math.pi * k / (TERMS - 1))) / 2 for k in range(TERMS)]
    columns = []
    for octave in range(OCTAVES):
        values = [octave_value(octave, r) for r in points]
        columns.append([round_to_float(c) for c in interpolate(points, values)])

    print("/*")
    print(
        " * The inverse normal CDF in 32 polynomials; written by tools/normal_table.py, which explains it. Do not edit."
    )
    print(" *")
    print(" * Row k holds the coefficients of r^k, one for each octave. Included by C and by OpenCL C:")
    print(" *     static const float table[ICL_NORMAL_TERMS][ICL_NORMAL_OCTAVES] = {ICL_NORMAL_TABLE};")
    print(" */")
    print("#ifndef ICL_NORMAL_TABLE")
    print(f"#define ICL_NORMAL_TERMS   {TERMS}")
    print(f"#define ICL_NORMAL_OCTAVES {OCTAVES}")
    print("/* clang-format off */")
    print("#define ICL_NORMAL_TABLE \\")
    for k in range(TERMS):
        for first in range(0, OCTAVES, 4):
            cells = ", ".join(hexadecimal(columns[octave][k]) for octave in range(first, first + 4))
            opening = "{" if first == 0 else " "
            closing = "" if first + 4 < OCTAVES else "}"
            comma = "," if first + 4 < OCTAVES or k + 1 < TERMS else ""
            last = k + 1 == TERMS and first + 4 == OCTAVES
            print(f"    {opening}{cells}{closing}{comma}{'' if last else ' ' + chr(92)}")
    print("/* clang-format on */")
    print("#endif")


if __name__ == "__main__":
    main()
