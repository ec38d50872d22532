"""Host code in a kernel file: what nvcc compiles for the CPU is blanked out, so the kernels keep their line
numbers.

NVRTC accepts only device code. A file for nvcc also has a `main`, launches and containers; `without` blanks
what no device code names: functions, variables and types, includes of host libraries, and what `#ifndef
__CUDACC_RTC__` hides. A function that device code calls stays even if its `__device__` is missing: the
compiler's message about that is better.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.course import cuda_tree
from harness.errors import Diagnostic

if TYPE_CHECKING:
    from tree_sitter import Node

#: headers of host libraries, which are of no use to a kernel
HEADERS = frozenset(
    """
    iostream fstream sstream iomanip ostream istream iosfwd ios streambuf cwchar cctype ctype.h string string_view
    vector map unordered_map set unordered_set list forward_list deque queue stack memory memory_resource any variant
    chrono random thread mutex shared_mutex condition_variable future execution filesystem regex locale codecvt
    stdexcept exception system_error typeinfo typeindex iterator valarray csignal signal.h csetjmp setjmp.h cerrno
    errno.h ctime time.h unistd.h fcntl.h getopt.h pthread.h sched.h dirent.h sys/time.h sys/stat.h sys/mman.h
    sys/resource.h malloc.h windows.h omp.h mpi.h gtest/gtest.h benchmark/benchmark.h
    helper_cuda.h helper_functions.h helper_timer.h helper_string.h helper_image.h exception.h
    cuda_gl_interop.h cudaGL.h cuda_egl_interop.h cudaEGL.h cuda_vdpau_interop.h cudaVDPAU.h cuda_profiler_api.h cudaProfiler.h nvToolsExt.h nvtx3/nvToolsExt.h nvtx3/nvtx3.hpp nvml.h cupti.h nvrtc.h
    cublas.h cublas_v2.h cublasLt.h cublasXt.h cudnn.h cufft.h cufftXt.h cusparse.h cusparse_v2.h cusolverDn.h
    cusolverSp.h curand.h nccl.h npp.h nvjpeg.h
    """.split()
)
# all of Thrust's headers except those with something for kernels
_THRUST = re.compile(r"thrust/(?!(?:pair|tuple|complex|functional|swap|extrema|detail/.*)\.h)")
_PROGRAM = re.compile(r"<<<|\bmain\s*\(|\bcuda[A-Z]\w*\s*\(")
_SIGN = re.compile(
    rf"{_PROGRAM.pattern}|__CUDACC_RTC__|#\s*include\s*[<\"](?:thrust/|(?:"
    + "|".join(map(re.escape, sorted(HEADERS)))
    + r")[>\"])"
)
_RTC = re.compile(r"(?P<not>!?)(?:defined\(?)?__CUDACC_RTC__\)?")
_LEAD = re.compile(r"[\w \t]*\Z")  # a macro before a declaration
_INCLUDE = re.compile(r"[<\"]([^>\"]*)[>\"]")
_DEVICE = re.compile(r"\b(?:__global__|__device__|__constant__|__shared__|__managed__|__grid_constant__)\b")
_INSIDE = ("declaration_list", "preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "ERROR")
_HOST_NAMESPACES = (
    "std::chrono",
    "std::filesystem",
    "std::string_literals",
    "std::placeholders",
    "std::this_thread",
)
_VARIABLES = ("declaration", "field_declaration")
_PARAMETERS = """
    parameter_declaration optional_parameter_declaration type_parameter_declaration
    variadic_parameter_declaration
""".split()
_RECORDS = ("struct_specifier", "class_specifier", "union_specifier")


@dataclass(eq=False)
class Item:
    """A declaration outside functions: the names it declares, and the names it uses or calls."""

    node: Node
    names: set[str]
    words: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)
    device: bool = False
    function: bool = False
    host: bool = False  # certainly: it is main, launches kernels or calls CUDA's runtime


def without(source: str, name: str, has: Callable[[str], bool]) -> tuple[str, tuple[Diagnostic, ...]]:
    """The source with its host code blanked, so that lines and columns stay the same; a note that says where
    it was.

    has: whether a header of some name exists. In a file with host code, any other <header> counts as host
    code.
    """
    if not _SIGN.search(source):
        return source, ()
    program = bool(_PROGRAM.search(source))
    root = cuda_tree.parse(source)
    dead = list(_hidden(root))
    dead += [
        n
        for n in cuda_tree.walk(root)
        if n.type == "preproc_include"
        and (is_host(h := _header(n)) or program and b"<" in n.text and not has(h))
    ]
    skipped = {n.id for n in dead}
    dead += _unneeded(_items(root, source, skipped))
    if not dead:
        return source, ()
    text = source
    for n in dead:
        end = n.end_byte
        if n.type in (*_RECORDS, "enum_specifier") and n.next_sibling and n.next_sibling.type == ";":
            end = n.next_sibling.end_byte
        line = text.rfind("\n", 0, n.start_byte) + 1
        start = _LEAD.search(text, line, n.start_byte).start()
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    lines = sorted({k for n in dead for k in range(n.start_point[0] + 1, _last_line(n) + 1)})
    said = f"Host code in {_ranges(lines)} is left out: only kernels and what they call run here."
    return text, (Diagnostic("note", said, name, lines[0], 0, source.split("\n")[lines[0] - 1]),)


def _last_line(n: Node) -> int:
    return n.end_point[0] + (n.end_point[1] > 0)


def _ranges(lines: list[int]) -> str:
    """`line 3`, `lines 1-4 and 9`."""
    pairs: list[list[int]] = []
    for line in lines:
        if pairs and line == pairs[-1][1] + 1:
            pairs[-1][1] = line
        else:
            pairs.append([line, line])
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in pairs]
    if len(texts) > 4:
        return f"{len(lines)} lines"
    listed = texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
    return f"line {listed}" if lines[0] == lines[-1] else f"lines {listed}"


def is_host(header: str) -> bool:
    """Whether a header belongs to a host library."""
    return header in HEADERS or bool(_THRUST.match(header))


# ---- what is not needed ----------------------------------------------------------------------------------


def _header(include: Node) -> str:
    found = _INCLUDE.search(include.text.decode())
    return found[1] if found else ""


def _hidden(root: Node) -> Iterator[Node]:
    """What `#ifndef __CUDACC_RTC__` and the like exclude, since it is defined here."""
    for n in _all(root, "preproc_ifdef", "preproc_if"):
        asked = n.child_by_field_name("name") or n.child_by_field_name("condition")
        match = _RTC.fullmatch(re.sub(r"\s", "", asked.text.decode())) if asked else None
        if not match:
            continue
        other = n.child_by_field_name("alternative")
        if bool(match["not"]) != (n.children[0].type == "#ifndef"):
            yield from (c for c in n.named_children if c not in (asked, other))
        elif other and other.type == "preproc_else":
            yield from other.children[1:]


def _items(root: Node, source: str, skipped: set[int]) -> list[Item]:
    """All declarations outside functions, also in namespaces, `extern "C"` and conditionals; methods are
    separate items, unless they are annotated or special."""
    # macros that stand for `__device__` and the like
    device = {name for name, value, _ in cuda_tree.macros(root, source) if _DEVICE.search(value)}
    found, stack = [], [root]
    while stack:
        outer, last = stack.pop(), 0
        for n in outer.children:
            body = n.child_by_field_name("body")
            if n.id in skipped:
                pass
            elif n.type in _INSIDE:
                stack.append(n)
            elif body and body.type == "declaration_list":
                stack.append(body)
            elif n.is_named and n.type != "comment":
                methods = [_item(m, source, m.start_byte, device) for m in _methods(n)]
                methods = [m for m in methods if not m.device]
                found += [_item(n, source, last or outer.start_byte, device, methods), *methods]
            last = n.end_byte
    return found


def _item(n: Node, source: str, start: int, device: set[str], methods: Iterable[Item] = ()) -> Item:
    """start: where macros before the declaration, invisible to the parser, may begin."""
    inner = n
    while inner.type in ("template_declaration", "linkage_specification") and inner.named_children:
        inner = inner.named_children[-1]
    item = Item(n, set(_declared(inner)), function=inner.type == "function_definition")
    own, last = [m.node for m in methods], ""
    for token in cuda_tree.tokens(n):
        if any(m.start_byte <= token.start_byte < m.end_byte for m in own):
            continue
        text = token.text.decode()
        if last and text in ("(", "<", "<<<"):
            item.called.add(last)
        last = text if re.fullmatch(r"[A-Za-z_]\w*", text) else ""
        if last:
            item.words.add(text)
    body = inner.child_by_field_name("body") if item.function else None
    head = source[start : body.start_byte if body else n.end_byte]
    words = set(re.findall(r"\w+", head))
    variables = {v for d in _all(n, *_VARIABLES) for v in _declared(d)} | {
        _declarator_name(p) for p in _all(n, *_PARAMETERS)
    }
    item.words -= variables - item.names
    item.device = bool(_DEVICE.search(head) or words & device or "constexpr" in words)
    item.host = not item.device and (
        "main" in item.names or item.function and bool(_PROGRAM.search(n.text.decode()))
    )
    if inner.type.startswith("preproc_") and (value := inner.child_by_field_name("value")):
        item.words |= (named := set(re.findall(r"[A-Za-z_]\w*", value.text.decode())))
        item.called |= named
    return item


def _methods(record: Node) -> Iterator[Node]:
    """Member functions, except constructors, destructors and operators."""
    own = {
        _last_word(name)
        for kind in _RECORDS
        for n in _all(record, kind)
        if (name := n.child_by_field_name("name"))
    }
    for n in _all(record, "function_definition"):
        if n.parent.type == "field_declaration_list" and (declarator := n.child_by_field_name("declarator")):
            head = n.text.decode().split("{")[0]
            if not ("operator" in head or "~" in head or _declarator_name(declarator) in own):
                yield n


def _declared(n: Node) -> Iterator[str]:
    """The names that a declaration introduces; none if it is not recognised as a declaration."""
    if n.type in (*_RECORDS, "enum_specifier") or n.type in (
        "alias_declaration",
        "namespace_alias_definition",
    ):
        if name := n.child_by_field_name("name"):
            yield _last_word(name)
        yield from (_last_word(c) for c in _all(n, "enumerator"))
    elif n.type in ("function_definition", "type_definition", "template_instantiation", *_VARIABLES):
        for declarator in n.children_by_field_name("declarator"):
            yield _declarator_name(declarator)
        kind = n.child_by_field_name("type")
        if kind and kind.child_by_field_name("body"):
            yield from _declared(kind)
    elif n.type == "using_declaration":
        used = n.named_children[-1].text.decode()
        if used in _HOST_NAMESPACES or not any(c.type == "namespace" for c in n.children):
            yield _last_word(n.named_children[-1])
    elif n.type in ("preproc_def", "preproc_function_def"):
        yield n.child_by_field_name("name").text.decode()


def _declarator_name(n: Node) -> str:
    while inner := n.child_by_field_name("declarator") or next(
        (c for c in n.named_children if c.type.endswith("declarator")), None
    ):
        n = inner
    return _last_word(n)


def _last_word(n: Node) -> str:
    words = re.findall(r"[A-Za-z_]\w*", re.sub(r"<.*>", "", n.text.decode().split("=")[0]))
    return words[-1] if words else ""


def _all(n: Node, *kinds: str) -> Iterator[Node]:
    return (c for c in cuda_tree.walk(n) if c.type in kinds)


def _unneeded(items: list[Item]) -> Iterator[Node]:
    """The declarations that device code does not use, even indirectly."""
    needed = [i for i in items if i.device or not i.names]  # grows
    host = {name for i in items if i.host for name in i.names}
    for item in items:  # `template void run<int>(int*);` goes with its template
        item.host |= item.node.type == "template_instantiation" and not item.device and item.names <= host
    waiting = dict.fromkeys(i for i in items if i.names and not i.device and not i.host)
    by_name: dict[tuple[bool, str], list[Item]] = {}
    for item in waiting:
        for name in item.names:
            by_name.setdefault((item.function, name), []).append(item)
    for item in needed:
        for key in (*((False, word) for word in item.words), *((True, name) for name in item.called)):
            found = [other for other in by_name.pop(key, ()) if other in waiting]
            needed += found
            for other in found:
                del waiting[other]
    yield from (
        i.node for i in (*waiting, *(i for i in items if i.host)) if not i.node.type.startswith("preproc_")
    )
