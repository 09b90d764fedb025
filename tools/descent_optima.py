#!/usr/bin/env python3
"""The least losses of linear transformers on whitened data, exactly: the targets of `iclab reproduce precondition-*`.

With x, w ~ N(0, I_d), no noise, and W = X^T X over n pairs, layers of the sparse forms of arXiv 2306.00297 with A = -a
I, B = b I act on every eigenvalue s of W / n alone: the prediction errs by a factor r(s), a polynomial, so the loss is
E tr r(W / n)^2, a combination of the moments E tr W^k. These follow from each other by integration by parts over the
normal entries of X (Stein's identity):

    E tr W^(k+1) prod_i tr W^(m_i) = (n + k) E tr W^k prod_i tr W^(m_i)
                                     + sum_(j=1..k) E tr W^j tr W^(k-j) prod_i tr W^(m_i)
                                     + sum_i 2 m_i E tr W^(k+m_i) prod_(h != i) tr W^(m_h)

Whole numbers throughout; Newton's method in 60 digits finds the nearest minimum, or saddle point, such as two equal
steps: of several starts, more and less spread out, the least counts. Arguments: n, then d (20 and 5 if left out).
"""

import sys
from decimal import Decimal, getcontext
from math import prod

getcontext().prec = 60
STEP = Decimal("1e-15")


def moments(n, d, most):
    """E tr W^k for k = 0 .. most."""
    known = {(): 1}

    def expect(powers):
        zeros = powers.count(0)
        return d**zeros * of_partition(tuple(sorted((p for p in powers if p), reverse=True)))

    def of_partition(powers):
        if powers not in known:
            k, rest = powers[0] - 1, powers[1:]
            total = (n + k) * expect((k,) + rest)
            for j in range(1, k + 1):
                total += expect((j, k - j) + rest)
            for i, m in enumerate(rest):
                total += 2 * m * expect((k + m,) + rest[:i] + rest[i + 1 :])
            known[powers] = total
        return known[powers]

    return [expect((k,)) for k in range(most + 1)]


def multiply(p, q):
    product = [Decimal(0)] * (len(p) + len(q) - 1)
    for i, x in enumerate(p):
        for j, y in enumerate(q):
            product[i + j] += x * y
    while len(product) > 1 and product[-1] == 0:
        product.pop()
    return product


def residual(steps, scales):
    """r(s) after layers y <- y (1 - a s m^2), m <- m (1 - a b s m^2): m scales inputs, and the last b has no effect."""
    left, m = [Decimal(1)], [Decimal(1)]
    for layer, a in enumerate(steps):
        b = scales[layer] if layer < len(scales) else Decimal(0)
        square = multiply(m, m)
        left = multiply(left, [Decimal(1)] + [-a * x for x in square])
        m = multiply(m, [Decimal(1)] + [-a * b * x for x in square])
    return left


def loss(values, layers, moment, n):
    r = residual(values[:layers], values[layers:])
    return sum(c * moment[k] / Decimal(n) ** k for k, c in enumerate(multiply(r, r)))


def derivatives(f, at, value):
    size = len(at)

    def moved(*moves):
        point = list(at)
        for i, sign in moves:
            point[i] += sign * STEP
        return f(point)

    up = [moved((i, 1)) for i in range(size)]
    down = [moved((i, -1)) for i in range(size)]
    gradient = [(up[i] - down[i]) / (2 * STEP) for i in range(size)]
    hessian = [[None] * size for _ in range(size)]
    for i in range(size):
        hessian[i][i] = (up[i] - 2 * value + down[i]) / STEP**2
        for j in range(i):
            both = moved((i, 1), (j, 1))
            hessian[i][j] = hessian[j][i] = (both - up[i] - up[j] + value) / STEP**2
    return gradient, hessian


def solve(matrix, right):
    size = len(right)
    rows = [list(row) + [x] for row, x in zip(matrix, right)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda row: abs(rows[row][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for other in range(size):
            if other != i:
                factor = rows[other][i] / rows[i][i]
                rows[other] = [x - factor * y for x, y in zip(rows[other], rows[i])]
    return [rows[i][size] / rows[i][i] for i in range(size)]


def minimise(start, layers, n, d):
    """The nearest minimum by damped Newton steps: (loss, values)."""
    at = [Decimal(str(x)) for x in start]
    degree = len(residual(at[:layers], at[layers:])) - 1
    moment = moments(n, d, 2 * degree)
    value, damping = loss(at, layers, moment, n), Decimal("1e-3")
    while damping < 1000:
        gradient, hessian = derivatives(lambda p: loss(p, layers, moment, n), at, value)
        for i in range(len(at)):
            hessian[i][i] += damping * abs(hessian[i][i])
        trial = [x - s for x, s in zip(at, solve(hessian, gradient))]
        tried = loss(trial, layers, moment, n)
        if tried < value:
            done = value - tried < value * Decimal("1e-14")
            at, value, damping = trial, tried, damping / 10
            if done:
                break
        else:
            damping *= 10
    return value, at


SPREADS = [1, 1.5, 0.6, 2]


def spread(start, power):
    """The start with the ratios of its steps to their geometric mean raised to a power."""
    mean = prod(start) ** (1 / len(start))
    return [mean * (x / mean) ** power for x in start]


STARTS = [
    (1, [0.8]),
    (2, [0.5, 1.2]),
    (3, [0.4, 0.7, 1.7]),
    (4, [0.4, 0.5, 0.9, 2.1]),
    (2, [0.5, 3.5, 0.9]),
    (3, [0.35, 2.4, 8.0, 0.9, 0.5]),
]


def main():
    n, d = (int(x) for x in (sys.argv[1:3] + ["20", "5"][len(sys.argv) - 1 :]))
    for layers, start in STARTS:
        starts = [spread(start[:layers], power) + start[layers:] for power in SPREADS]
        least, values = min(minimise(one, layers, n, d) for one in starts)
        a = ", ".join(f"{x:.5f}" for x in values[:layers])
        b = ", ".join(f"{x:.5f}" for x in values[layers:])
        print(f"{layers} layers, {'B free' if b else 'B = 0'}: loss {least:.8f}, a {a}" + (f", b {b}" if b else ""))


if __name__ == "__main__":
    main()
