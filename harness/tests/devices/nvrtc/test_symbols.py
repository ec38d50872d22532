"""Names in PTX."""

import pytest

from backwarp.devices.nvrtc.symbols import (
    demangle,
    entries,
    of_any_compiler,
    symbol_names,
    template_arguments,
)


@pytest.mark.parametrize(
    "symbol, plain, qualified",
    [
        ("conv", "conv", "conv"),
        ("_Z4tilePfiPd", "tile", "tile"),
        ("_ZN1a1bEPf", "b", "a::b"),
        ("_Z4tileILi16EEvPf", "tile", "tile"),
        ("_ZN1q1r1tILi4EEEvPi", "t", "q::r::t"),
        ("_ZN12_GLOBAL__N_12anEPi", "an", "an"),
        ("_ZL1sPi", "s", "s"),
        ("_Zoops", "_Zoops", "_Zoops"),
    ],
)
def test_demangle(symbol, plain, qualified):
    assert demangle(symbol) == plain
    assert demangle(symbol, qualified=True) == qualified


def test_a_variable_of_a_function():
    assert symbol_names("_ZZ4tilePfiE1t") == ("tile", "t", "")
    assert symbol_names("_ZZ1fILi4EEvPfE1t") == ("f", "t", "Li4EEvPfE1t")
    assert symbol_names("pool") == ("", "", "")


def test_arguments_of_a_template():
    assert template_arguments("dLi20ELb1EEvPT_E1s") == ["double", "20", "1"]
    assert template_arguments("6__halfLin2EEvPT_E1s") == ["__half", "-2"]
    assert template_arguments("P3odd") == template_arguments("") == []


def test_a_kernel_in_a_comment_is_none():
    assert entries("/*\n.visible .entry f(\n*/\n.visible .entry g(\n)\n\t.entry h()") == ["g", "h"]


def test_namespaces_without_a_name_are_called_alike():
    ours = of_any_compiler("_ZN5outer41_GLOBAL__N__00000000_9_kernel_cu__Z3usePi1kEPNS_1SE")
    assert ours == of_any_compiler("_ZN5outer12_GLOBAL__N_11kEPNS_1SE") == "_ZN5outer12_GLOBAL__N_11kEPNS_1SE"
    assert of_any_compiler("_ZL3usePi") == of_any_compiler("_Z3usePi") == "_Z3usePi"
