"""Sums that are computed side by side: PTX in."""

from __future__ import annotations

from backwarp.devices.virtual.analyse.packs import SIZE, Product, packs
from tests.devices.virtual.ptx_text import module

KERNEL = ".visible .entry k(.param .u64 x) { .reg .f32 %f<99>; .reg .pred %p<3>; BODY ret; }"


def products(body: str) -> list[Product]:
    return [p for p in packs(module(KERNEL.replace("BODY", body)).functions["k"]).values() if p]


def sums(first: int, factor: int, step: int = 1) -> str:
    given = range(SIZE)
    return " ".join(
        f"fma.rn.f32 %f{first + step * n}, %f{factor}, %f{80 + n}, %f{first + step * n};" for n in given
    )


def names(first: int, step: int = 1) -> tuple[str, ...]:
    return tuple(f"%f{first + step * n}" for n in range(SIZE))


def test_sums_with_one_factor_are_a_pack():
    others = names(80)
    assert products(sums(20, 1) + sums(40, 2)) == [
        Product(names(20), "%f1", others),
        Product(names(40), "%f2", others),
    ]
    assert [p.sums for p in products(sums(20, 1) + "$more:" + sums(20, 2))] == [names(20)] * 2
    assert [p.sums for p in products(sums(27, 1, -1))] == [names(27, -1)]


def test_what_is_no_pack():
    assert not products(sums(20, 1).rpartition("fma")[0])  # too few
    assert not products(sums(20, 83))  # the factor is one of the others: only in part
    assert not products(sums(20, 1).replace("%f81", "%f23"))  # another of the sums
    assert not products(sums(20, 1).replace("%f27,", "%f26,"))  # one twice
    assert not products(sums(20, 1).replace("fma.rn.f32 %f22", "add.f32 %f50, %f22, %f22; fma.rn.f32 %f22"))
    assert not products(sums(20, 1).replace("fma.rn.f32 %f22", "@%p1 fma.rn.f32 %f22"))


def test_a_sum_has_one_place_only():
    assert not products(sums(20, 1) + "$more:" + sums(27, 2, -1))
    assert [p.sums for p in products(sums(20, 1) + sums(24, 2) + sums(50, 3))] == [names(50)]
