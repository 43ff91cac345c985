"""Hash the text of a category as CatBoost does: the lower half of CityHash64, version 1.0.

Arithmetic is modulo 2^64; words are read in little-endian order. A text is hashed by one of four
procedures, depending on the length: up to 16, 32 or 64 bytes, or more.
"""

from __future__ import annotations

__all__ = ["category_hash"]

_WORD = (1 << 64) - 1
_K0, _K1 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273
_K2, _K3 = 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_MIX = 0x9DDFEA08EB382D69


def category_hash(text: str) -> int:
    """Return the hash of a category's text, from 0 to 2^32 - 1."""
    return _city_hash(text.encode("utf-8")) & 0xFFFFFFFF


def _city_hash(s: bytes) -> int:
    n = len(s)
    if n <= 16:
        return _up_to_16(s, n)
    if n <= 32:
        a, b = _at(s, 0) * _K1, _at(s, 8)
        c, d = _at(s, n - 8) * _K2, _at(s, n - 16) * _K0
        low = _rotated(a - b, 43) + _rotated(c, 30) + d
        return _pair(low & _WORD, a + _rotated(b ^ _K3, 20) - c + n & _WORD)
    if n <= 64:
        return _up_to_64(s, n)
    return _longer(s, n)


def _up_to_16(s: bytes, n: int) -> int:
    if n > 8:
        a, b = _at(s, 0), _at(s, n - 8)
        return _pair(a, _rotated(b + n, n)) ^ b
    if n >= 4:
        first, last = (int.from_bytes(s[i : i + 4], "little") for i in (0, n - 4))
        return _pair(n + (first << 3), last)
    if n > 0:
        y, z = s[0] + (s[n >> 1] << 8), n + (s[-1] << 2)
        return _shifted(y * _K2 ^ z * _K3) * _K2 & _WORD
    return _K2


def _up_to_64(s: bytes, n: int) -> int:
    z, a = _at(s, 24), _at(s, 0) + (n + _at(s, n - 16)) * _K0
    v = _half(a, z, _at(s, 8), _at(s, 16))
    w = _half(_at(s, 16) + _at(s, n - 32), _at(s, n - 8), _at(s, n - 24), _at(s, n - 16))
    r = _shifted((v[0] + w[1]) * _K2 + (w[0] + v[1]) * _K0)
    return _shifted(r * _K0 + v[1]) * _K2 & _WORD


def _half(a: int, z: int, second: int, third: int) -> tuple[int, int]:
    b = _rotated(a + z, 52) + _rotated(a, 37) + _rotated(a + second, 7)
    a += second + third
    return a + z, b + _rotated(a, 31)


def _longer(s: bytes, n: int) -> int:
    x, y, z = _at(s, 0), _at(s, n - 16) ^ _K1, _at(s, n - 56) ^ _K0
    v, w = _weak(s, n - 64, n, y), _weak(s, n - 32, n * _K1, _K0)
    z += _shifted(v[1]) * _K1
    x, y = _rotated(z + x, 39) * _K1, _rotated(y, 33) * _K1
    for at in range(0, (n - 1) // 64 * 64, 64):
        x = _rotated(x + y + v[0] + _at(s, at + 16), 37) * _K1 ^ w[1]
        y = _rotated(y + v[1] + _at(s, at + 48), 42) * _K1 ^ v[0]
        z = _rotated(z ^ w[0], 33)
        v, w = _weak(s, at, v[1] * _K1, x + w[0]), _weak(s, at + 32, z + w[1], y)
        x, z = z, x
    low = _pair(v[0], w[0]) + _shifted(y) * _K1 + z
    return _pair(low & _WORD, _pair(v[1], w[1]) + x & _WORD)


def _weak(s: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """Hash 32 bytes and two seeds."""
    first, second, third, fourth = (_at(s, at + i) for i in (0, 8, 16, 24))
    a += first
    b = _rotated(b + a + fourth, 21)
    total = a + second + third
    return total + fourth & _WORD, b + _rotated(total, 44) + a & _WORD


def _at(s: bytes, i: int) -> int:
    return int.from_bytes(s[i : i + 8], "little")


def _rotated(x: int, by: int) -> int:
    x &= _WORD
    return (x >> by | x << (64 - by)) & _WORD


def _shifted(x: int) -> int:
    x &= _WORD
    return x ^ x >> 47


def _pair(low: int, high: int) -> int:
    a = _shifted((low ^ high) * _MIX)
    return _shifted((high ^ a) * _MIX) * _MIX & _WORD
