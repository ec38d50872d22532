// CUDA's runtime in the process of a program. It knows nothing: each call is a message to the process that runs Backwarp, which
// knows all memory, streams and mistakes (programs/session.py). What is done here is what only this process can do: move bytes
// between its memory and the device's, protect what must not be touched now, and say where it is when it is stopped.
//
// The device's memory is a file that the device's process maps too. Here it is mapped twice: at `base`, for copies, and at the
// addresses that kernels use, where only managed and pinned memory can be read and written.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <set>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#include "verbs.h"  // made by programs/runtime.py: enum Verb, ERRORS[]
struct CUuuid_st { char bytes[16]; };
typedef CUuuid_st cudaUUID_t;
#include "device_properties.h"

typedef uint64_t u64;
struct Dim { unsigned x, y, z; };
enum { FRAMES = 12, WORDS = 10, ANSWERS = 5 };
struct Request { uint32_t verb, extra; u64 frames[FRAMES], words[WORDS]; };
struct Reply { int32_t code; uint32_t text, changes, pad; u64 words[ANSWERS]; };
struct Change { u64 start, nbytes, protection; };

extern "C" char __executable_start, etext;
static int wire = -1;
static char* base;
static u64 arena;
/// One request at a time. Never destroyed: the program asks until its very end.
static std::recursive_mutex& turn() { static auto* one = new std::recursive_mutex; return *one; }
static int last_error, unasked;
static u64 unasked_frames[FRAMES];
struct Known { std::string name; u64 nbytes; std::vector<uint16_t> parameters; bool is_variable; };
// made when first asked for: what registers itself here may do so before this file's own variables are made
static std::map<const void*, Known>& known() { static auto* all = new std::map<const void*, Known>; return *all; }
struct Pushed { Dim grid, block; size_t shared; void* stream; u64 frames[FRAMES]; };
static thread_local std::vector<Pushed>* pushed;

#define HERE (const u64*)__builtin_frame_address(0)
#define API extern "C" __attribute__((visibility("default"))) int

// ---- messages ------------------------------------------------------------------------------------------

static thread_local const u64* as_of;  // the frames of what is done later than it was asked for
static thread_local const u64* outer;  // where the program called what calls the runtime for it
static bool by_runtime;                // whether it has used the runtime itself
/// Addresses in the program, from the call outwards.
static void walk(const u64* frame, u64* into) {
    if (as_of) { memcpy(into, as_of, FRAMES * sizeof *into); return; }
    u64 first = (u64)&__executable_start, end = (u64)&etext;
    int n = 0;
    if (outer) frame = outer;
    for (int i = 0; i < 64 && n < FRAMES; i++) {
        u64 back = frame[1], next = frame[0];
        if (back >= first && back < end) into[n++] = back - first;
        if (next <= (u64)frame || next - (u64)frame > (8 << 20) || next & 7) break;
        frame = (const u64*)next;
    }
    while (n < FRAMES) into[n++] = 0;
}

static bool get(void* to, size_t n) {
    for (char* at = (char*)to; n;) {
        ssize_t got = recv(wire, at, n, 0);
        if (got <= 0) { if (got < 0 && errno == EINTR) continue; return false; }
        at += got; n -= got;
    }
    return true;
}

static bool put(const void* from, size_t n) {
    for (const char* at = (const char*)from; n;) {
        ssize_t sent = send(wire, at, n, MSG_NOSIGNAL);
        if (sent <= 0) { if (sent < 0 && errno == EINTR) continue; return false; }
        at += sent; n -= sent;
    }
    return true;
}

/// Sends a request and takes the answer. What comes with it has been printed by kernels, unless it is wanted. Without `prints`
/// and `wanted` it takes no memory: for signal handlers.
static Reply exchange(Request& request, const void* extra, std::string* wanted = 0, bool prints = true) {
    Reply reply{};
    if (wire < 0 || !put(&request, sizeof request) || request.extra && !put(extra, request.extra) || !get(&reply, sizeof reply)) {
        if (wire >= 0) _exit(125);  // whoever answers is gone
        reply.code = 100;
        return reply;
    }
    static char buffer[4096];
    for (uint32_t left = reply.text; left;) {
        uint32_t n = left < sizeof buffer ? left : sizeof buffer;
        if (!get(buffer, n)) _exit(125);
        if (wanted) wanted->append(buffer, n);
        else if (prints) fwrite(buffer, 1, n, stdout);
        else (void)!write(1, buffer, n);
        left -= n;
    }
    for (uint32_t i = 0; i < reply.changes; i++) {
        Change c;
        if (!get(&c, sizeof c)) _exit(125);
        mprotect((void*)c.start, (c.nbytes + 4095) & ~4095ull, (int)c.protection);
    }
    return reply;
}

static Reply ask_from(const u64* frames, int verb, std::initializer_list<u64> words, const void* extra = 0, size_t nbytes = 0, std::string* wanted = 0) {
    std::lock_guard<std::recursive_mutex> mine(turn());
    by_runtime |= !outer && verb != RTC && verb != REFUSED;
    Request request{};
    request.verb = verb; request.extra = nbytes;
    memcpy(request.frames, frames, sizeof request.frames);
    int i = 0;
    for (u64 word : words) request.words[i++] = word;
    return exchange(request, extra, wanted);
}

static Reply ask(const u64* frame, int verb, std::initializer_list<u64> words = {}, const void* extra = 0, size_t nbytes = 0, std::string* wanted = 0) {
    u64 frames[FRAMES];
    walk(frame, frames);
    return ask_from(frames, verb, words, extra, nbytes, wanted);
}

static int failed(int code) { if (code) last_error = code; return code; }
static int refused(const u64* frame, const char* name) { ask(frame, REFUSED, {}, name, strlen(name)); return failed(801); }
static char* real(const void* p) { return (u64)p < arena ? base + (u64)p : (char*)p; }

// ---- the program's end ---------------------------------------------------------------------------------

static void bye() {
    if (wire < 0) return;
    fflush(stdout);
    ask_from(unasked_frames, BYE, {(u64)unasked});
}

static void stopped(int signal, siginfo_t* info, void* context) {
    int before = errno;
    ucontext_t* at = (ucontext_t*)context;
    Request request{};
#if defined(__x86_64__)
    u64 pc = at->uc_mcontext.gregs[REG_RIP], frame = at->uc_mcontext.gregs[REG_RBP], stack = at->uc_mcontext.gregs[REG_RSP];
    u64 writes = at->uc_mcontext.gregs[REG_ERR] >> 1 & 1;
#else
    u64 pc = at->uc_mcontext.pc, frame = at->uc_mcontext.regs[29], stack = at->uc_mcontext.sp, writes = 0;
#endif
    u64 first = (u64)&__executable_start, end = (u64)&etext, address = (u64)info->si_addr, trap = 0;
    u64 inside = pc >= first && pc < end;
    if (inside) request.frames[0] = pc - first + 1;
    if (frame > stack && frame - stack < (8 << 20) && !(frame & 7)) {
        u64 rest[FRAMES];
        walk((const u64*)frame, rest);
        memcpy(request.frames + inside, rest, sizeof rest - 8 * inside);
    } else if (!inside && signal == SIGSEGV && pc == address)
        request.frames[0] = 0;
#if defined(__x86_64__)
    if (signal == SIGILL && inside) {  // ud1 with the number of a check
        const unsigned char* code = (const unsigned char*)pc;
        if (code[0] == 0x67 && code[1] == 0x0f && code[2] == 0xb9) trap = 1 + code[4];
        else if (code[0] == 0x0f && code[1] == 0xb9) trap = 1 + code[3];
    }
#endif
    bool deep = signal == SIGSEGV && address + (64 << 10) > stack && address < stack + 4096;
    request.verb = STOPPED;
    u64 words[] = {(u64)signal, address, writes, trap, deep, (u64)info->si_code};
    memcpy(request.words, words, sizeof words);
    fflush_unlocked(stdout);
    if (exchange(request, 0, 0, false).code == 0) { errno = before; return; }
    struct sigaction plain{};
    plain.sa_handler = SIG_DFL;
    sigaction(signal, &plain, 0);
    if (signal == SIGABRT || info->si_code <= 0) _exit(128 + signal);  // else the instruction runs again
}

static void abort_said(const u64* frame, const char* text) {
    fflush(stdout);
    ask(frame, SAID, {}, text, strlen(text));
    signal(SIGABRT, SIG_DFL);
    _exit(134);
}

namespace std { inline namespace __1 {  // what libc++ calls for an index that is too large
[[noreturn]] void __libcpp_verbose_abort(const char* format, ...) noexcept {
    char text[600];
    va_list given;
    va_start(given, format);
    vsnprintf(text, sizeof text, format, given);
    abort_said(HERE, text);
    __builtin_unreachable();
}
} }
extern "C" [[noreturn]] void backwarp_glibcxx_assert_fail(const char* file, int line, const char*, const char* condition) noexcept {
    char text[600];
    snprintf(text, sizeof text, "%s:%d: assertion %s failed", file, line, condition);
    abort_said(HERE, text);
    __builtin_unreachable();
}
extern "C" [[noreturn]] void _ZSt21__glibcxx_assert_failPKciS0_S0_(const char*, int, const char*, const char*) noexcept __attribute__((alias("backwarp_glibcxx_assert_fail")));

extern "C" void backwarp_guard(int level);

// CUDA's for the host, which are in no C library
extern "C" __attribute__((visibility("default"))) float rsqrtf(float x) { return 1 / __builtin_sqrtf(x); }
extern "C" __attribute__((visibility("default"))) double rsqrt(double x) { return 1 / __builtin_sqrt(x); }
__attribute__((constructor(101))) static void begin() {
    const char* said = getenv("BACKWARP_HOST");
    int socket, memory, lines, guard;
    if (!said || sscanf(said, "%d,%d,%lu,%d,%d", &socket, &memory, &arena, &lines, &guard) != 5) return;
    unsetenv("BACKWARP_HOST");
    base = (char*)mmap(0, arena, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory, 0);
    u64 low = 1 << 20;
    void* twin = mmap((void*)low, arena - low, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, memory, low);
    close(memory);
    if (base == MAP_FAILED || twin != (void*)low) { fprintf(stderr, "backwarp: the system grants no addresses for the device's memory\n"); _exit(125); }
    wire = socket;
    if (lines) setvbuf(stdout, 0, _IOLBF, BUFSIZ);
    static char stack[64 << 10];
    stack_t other{};
    other.ss_sp = stack; other.ss_size = sizeof stack;
    sigaltstack(&other, 0);
    struct sigaction action{};
    action.sa_sigaction = stopped;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(signal, &action, 0);
    backwarp_guard(guard);
    atexit(bye);
}

// ---- what the compiler's code registers ----------------------------------------------------------------

struct Wrapper { int magic, version; const char* data; void* unused; };
extern "C" void** __cudaRegisterFatBinary(void* wrapper) { return (void**)((Wrapper*)wrapper)->data; }
extern "C" void __cudaUnregisterFatBinary(void**) {}
API __cudaRegisterFunction(void**, const void* host, char*, const char* name, int, void*, void*, void*, void*, int*) { known()[host] = {name, 0, {}, false}; return 0; }
extern "C" void __cudaRegisterVar(void**, char* host, char*, const char* name, int, size_t nbytes, int, int) { known()[host] = {name, nbytes, {}, true}; }
extern "C" void __cudaRegisterManagedVar(void**, void** host, char*, const char* name, int, size_t nbytes, int, int) { known()[host] = {name, nbytes, {}, true}; }
extern "C" void __cudaRegisterTexture(...) {}
extern "C" void __cudaRegisterSurface(...) {}
API __cudaInitModule(void**) { return 0; }

/// Says what has registered itself, and learns the sizes of kernels' parameters. The program begins when kernels are compiled.
extern "C" void __cudaRegisterFatBinaryEnd(void**) {
    if (wire < 0) return;
    std::string names, answer;
    for (auto& [host, one] : known()) {
        if (one.is_variable) continue;
        int status;
        char* readable = abi::__cxa_demangle(one.name.c_str(), 0, 0, &status);
        names += "k" + one.name + ' ' + (readable ? readable : one.name.c_str()) + '\n';
        free(readable);
    }
    Request request{};
    request.verb = HELLO; request.extra = names.size();
    if (exchange(request, names.data(), &answer).code) _exit(126);
    std::map<std::string, std::vector<uint16_t>> sizes;
    for (char* line = strtok(answer.data(), "\n"); line; line = strtok(0, "\n")) {
        char* at = strchr(line, ' ');
        auto& of = sizes[std::string(line, at ? at - line : strlen(line))];
        while (at && *at == ' ') of.push_back((uint16_t)strtol(at + 1, &at, 10));
    }
    for (auto& [host, one] : known()) one.parameters = sizes[one.name];
}

// ---- launches ------------------------------------------------------------------------------------------

extern "C" unsigned __cudaPushCallConfiguration(Dim grid, Dim block, size_t shared, void* stream) {
    if (!pushed) pushed = new std::vector<Pushed>;
    Pushed now{grid, block, shared, stream, {}};
    walk(HERE, now.frames);
    pushed->push_back(now);
    return 0;
}

API __cudaPopCallConfiguration(Dim* grid, Dim* block, size_t* shared, void** stream) {
    const Pushed& now = pushed->back();
    *grid = now.grid; *block = now.block; *shared = now.shared; *stream = now.stream;
    return 0;
}

static bool recorded(const u64* frame, void* stream, int type, std::function<int(void*)> run);
static int not_while_recording(const u64* frame, const char* name, void* stream = 0);

static std::string launch_data(const Known& kernel, void** arguments) {
    std::string data = kernel.name + '\0';
    int i = 0;
    for (uint16_t nbytes : kernel.parameters) data.append((char*)arguments[i++], nbytes);
    return data;
}
static int send_launch(const u64* frame, Dim g, Dim b, const std::string& data, size_t shared, void* stream, int together) {
    u64 frames[FRAMES];
    walk(frame, frames);
    auto two = [](unsigned low, unsigned high) { return low | (u64)high << 32; };
    Reply reply = ask_from(frames, LAUNCH, {two(g.x, g.y), two(g.z, b.x), two(b.y, b.z), shared, (u64)stream, (u64)together}, data.data(), data.size());
    if (reply.code) { unasked = reply.code; memcpy(unasked_frames, frames, sizeof frames); }
    return failed(reply.code);
}
static int launch(const void* function, Dim g, Dim b, void** arguments, size_t shared, void* stream, int together, const u64* frame) {
    u64 frames[FRAMES];
    if (pushed && !pushed->empty()) { memcpy(frames, pushed->back().frames, sizeof frames); pushed->pop_back(); }
    else walk(frame, frames);
    auto found = known().find(function);
    if (found == known().end()) { ask_from(frames, REFUSED, {}, "a launch of what is no kernel", 29); return failed(98); }
    std::string data = launch_data(found->second, arguments);
    const u64* before = as_of;
    as_of = frames;
    int code = recorded(frame, stream, 0, [=](void* s) { return send_launch(0, g, b, data, shared, s, together); }) ? 0 : send_launch(0, g, b, data, shared, stream, together);
    as_of = before;
    return code;
}

API cudaLaunchKernel(const void* f, Dim g, Dim b, void** a, size_t s, void* stream) { return launch(f, g, b, a, s, stream, 0, HERE); }
API cudaLaunchKernel_ptsz(const void* f, Dim g, Dim b, void** a, size_t s, void* stream) { return launch(f, g, b, a, s, stream, 0, HERE); }
API cudaLaunchCooperativeKernel(const void* f, Dim g, Dim b, void** a, size_t s, void* stream) { return launch(f, g, b, a, s, stream, 1, HERE); }

// ---- memory --------------------------------------------------------------------------------------------

/// stream: of an allocation in the order of a stream. While that is recorded, the memory is there at once, and belongs to the graph.
static int allocate(const u64* frame, void** p, size_t n, int kind, unsigned item, unsigned flags, void* stream = 0, int later = 0) {
    bool belongs = stream && recorded(frame, stream, 10, {});  // to a graph
    if (int code = belongs ? 0 : not_while_recording(frame, "an allocation", stream)) return code;
    Reply reply = ask(frame, MALLOC, {n, (u64)kind, item, flags, (u64)stream, (u64)(later && !belongs)});
    *p = (void*)reply.words[0];
    return failed(reply.code);
}
API backwarp_malloc(void** p, size_t n, int kind, unsigned item, unsigned flags) { return allocate(HERE, p, n, kind, item, flags); }
API cudaMalloc(void** p, size_t n) { return allocate(HERE, p, n, 0, 0, 0); }
API cudaMallocAsync(void** p, size_t n, void* stream) { return allocate(HERE, p, n, 0, 0, 0, stream, 1); }
API backwarp_malloc_in(void** p, size_t n, unsigned item, void* stream) { return allocate(HERE, p, n, 0, item, 0, stream, 1); }
API cudaDeviceGetDefaultMemPool(void** pool, int) { *pool = (void*)1; return 0; }  // there is one pool
API cudaDeviceGetMemPool(void** pool, int) { *pool = (void*)1; return 0; }
API cudaDeviceSetMemPool(int, void*) { return 0; }
API cudaMemPoolCreate(void** pool, const void*) { *pool = (void*)1; return 0; }
API cudaMemPoolDestroy(void*) { return 0; }
API cudaMemPoolSetAttribute(void*, int, void*) { return 0; }
API cudaMemPoolSetAccess(void*, const void*, size_t) { return 0; }
API cudaMemPoolTrimTo(void*, size_t) { return 0; }
API cudaMallocManaged(void** p, size_t n, unsigned flags) { return allocate(HERE, p, n, 1, 0, flags); }
API cudaMallocHost(void** p, size_t n) { return allocate(HERE, p, n, 2, 0, 0); }
API cudaHostAlloc(void** p, size_t n, unsigned flags) { return allocate(HERE, p, n, 2, 0, flags); }
API backwarp_malloc_pitch(void** p, size_t* pitch, size_t w, size_t h, unsigned item) { *pitch = (w + 511) / 512 * 512; return allocate(HERE, p, *pitch * h, 0, item, 0); }
API cudaMallocPitch(void** p, size_t* pitch, size_t w, size_t h) { *pitch = (w + 511) / 512 * 512; return allocate(HERE, p, *pitch * h, 0, 0, 0); }
struct Pitched { void* at; size_t pitch, width, height; };
struct Extent { size_t width, height, depth; };
API cudaMalloc3D(Pitched* p, Extent e) { size_t pitch = (e.width + 511) / 512 * 512; *p = {0, pitch, e.width, e.height}; return allocate(HERE, &p->at, pitch * e.height * e.depth, 0, 0, 0); }

static int release(const u64* frame, void* p, int kind, void* stream = 0, int later = 0) { return p ? failed(ask(frame, FREE, {(u64)p, (u64)kind, (u64)stream, (u64)later}).code) : 0; }
API cudaFree(void* p) { return release(HERE, p, 0); }
static bool kept_by_graph(const u64* frame, void* p, void* stream);
API cudaFreeAsync(void* p, void* stream) { return kept_by_graph(HERE, p, stream) ? 0 : release(HERE, p, 0, stream, 1); }
API cudaFreeHost(void* p) { return release(HERE, p, 2); }
API cudaHostGetDevicePointer(void** d, void* h, unsigned) { *d = h; return (u64)h < arena ? 0 : failed(1); }
API cudaHostRegister(void*, size_t, unsigned) { return 0; }
API cudaHostUnregister(void*) { return 0; }
API cudaHostGetFlags(unsigned* flags, void*) { *flags = 0; return 0; }

/// arrays: whether the destination is part of a CUDA array (1), and the source (2).
static int copy(const u64* frame, void* d, size_t dpitch, const void* from, size_t spitch, size_t width, size_t height, int kind, void* stream, int later, int arrays = 0) {
    if (!width || !height) return 0;
    if (later && recorded(frame, stream, 1, [=](void* s) { return copy(0, d, dpitch, from, spitch, width, height, kind, s, 1, arrays); })) return 0;
    if (int code = later ? 0 : not_while_recording(frame, "a copy that waits")) return code;
    Reply reply = ask(frame, COPY, {(u64)d, dpitch, (u64)from, spitch, width, height, (u64)kind, (u64)stream, (u64)(later | arrays << 1)});
    if (reply.code) return failed(reply.code);
    for (size_t y = 0; y < height; y++) memmove(real((char*)d + y * dpitch), real((const char*)from + y * spitch), width);
    return later ? 0 : failed(ask(frame, COPIED).code);
}
API cudaMemcpy(void* d, const void* s, size_t n, int k) { return copy(HERE, d, n, s, n, n, 1, k, 0, 0); }
API cudaMemcpyAsync(void* d, const void* s, size_t n, int k, void* stream) { return copy(HERE, d, n, s, n, n, 1, k, stream, 1); }
API cudaMemcpy2D(void* d, size_t dp, const void* s, size_t sp, size_t w, size_t h, int k) { return copy(HERE, d, dp, s, sp, w, h, k, 0, 0); }
API cudaMemcpy2DAsync(void* d, size_t dp, const void* s, size_t sp, size_t w, size_t h, int k, void* stream) { return copy(HERE, d, dp, s, sp, w, h, k, stream, 1); }
API cudaMemcpyPeer(void* d, int, const void* s, int, size_t n) { return copy(HERE, d, n, s, n, n, 1, 3, 0, 0); }
API cudaMemcpyPeerAsync(void* d, int, const void* s, int, size_t n, void* stream) { return copy(HERE, d, n, s, n, n, 1, 3, stream, 1); }
struct Place { size_t x, y, z; };
#include "arrays.inc"

/// value: of `item` bytes, 1, 2 or 4; pitch and width: bytes.
static int fill(const u64* frame, void* d, size_t pitch, int value, size_t width, size_t height, void* stream, int later, size_t item = 1) {
    if (!width || !height) return 0;
    if (later && recorded(frame, stream, 2, [=](void* s) { return fill(0, d, pitch, value, width, height, s, 1, item); })) return 0;
    Reply reply = ask(frame, FILL, {(u64)d, pitch, width, height, (u64)value, (u64)stream, (u64)later});
    if (reply.code) return failed(reply.code);
    for (size_t y = 0; y < height; y++)
        if (item == 1) memset(real((char*)d + y * pitch), value, width);
        else for (size_t x = 0; x + item <= width; x += item) memcpy(real((char*)d + y * pitch) + x, &value, item);
    return 0;
}
API cudaMemset(void* d, int v, size_t n) { return fill(HERE, d, n, v, n, 1, 0, 0); }
API cudaMemsetAsync(void* d, int v, size_t n, void* stream) { return fill(HERE, d, n, v, n, 1, stream, 1); }
API cudaMemset2D(void* d, size_t p, int v, size_t w, size_t h) { return fill(HERE, d, p, v, w, h, 0, 0); }
API cudaMemset2DAsync(void* d, size_t p, int v, size_t w, size_t h, void* stream) { return fill(HERE, d, p, v, w, h, stream, 1); }
API cudaMemset3D(Pitched p, int v, Extent e) { return fill(HERE, p.at, p.pitch, v, e.width, e.height * e.depth, 0, 0); }

/// The address of a variable on the device; a code of CUDA's if it has none.
static int variable(const u64* frame, const void* symbol, char*& at, size_t& nbytes) {
    auto found = known().find(symbol);
    if (found == known().end() || !found->second.is_variable) { ask(frame, NO_SYMBOL, {(u64)symbol}); return failed(13); }
    Reply reply = ask(frame, SYMBOL, {}, found->second.name.data(), found->second.name.size());
    at = (char*)reply.words[0]; nbytes = found->second.nbytes;
    return failed(reply.code);
}
static int copy_symbol(const u64* frame, void* to, const void* from, const void* symbol, bool stores, size_t n, size_t offset, int kind, void* stream, int later) {
    char* at; size_t nbytes;
    if (int code = variable(frame, symbol, at, nbytes)) return code;
    return stores ? copy(frame, at + offset, n, from, n, n, 1, kind, stream, later) : copy(frame, to, n, at + offset, n, n, 1, kind, stream, later);
}
API cudaMemcpyToSymbol(const void* s, const void* from, size_t n, size_t o, int k) { return copy_symbol(HERE, 0, from, s, true, n, o, k, 0, 0); }
API cudaMemcpyToSymbolAsync(const void* s, const void* from, size_t n, size_t o, int k, void* stream) { return copy_symbol(HERE, 0, from, s, true, n, o, k, stream, 1); }
API cudaMemcpyFromSymbol(void* to, const void* s, size_t n, size_t o, int k) { return copy_symbol(HERE, to, 0, s, false, n, o, k, 0, 0); }
API cudaMemcpyFromSymbolAsync(void* to, const void* s, size_t n, size_t o, int k, void* stream) { return copy_symbol(HERE, to, 0, s, false, n, o, k, stream, 1); }
API cudaGetSymbolAddress(void** p, const void* s) { char* at = 0; size_t n; int code = variable(HERE, s, at, n); *p = at; return code; }
API cudaGetSymbolSize(size_t* n, const void* s) { char* at; return variable(HERE, s, at, *n); }

struct PointerAttributes { int type, device; void *device_pointer, *host_pointer; };
API cudaPointerGetAttributes(PointerAttributes* a, const void* p) {
    Reply reply = ask(HERE, POINTER, {(u64)p});
    int kind = (int)reply.words[0];  // -1, or as in `allocate`
    *a = {kind == 0 ? 2 : kind == 1 ? 3 : kind == 2 ? 1 : 0, 0, kind < 0 ? 0 : (void*)p, kind == 0 ? 0 : (void*)p};
    return 0;
}
API cudaMemGetInfo(size_t* free, size_t* total) { Reply reply = ask(HERE, MEMORY); *free = reply.words[0]; *total = reply.words[1]; return 0; }

// ---- streams and events --------------------------------------------------------------------------------

static int make(const u64* frame, int verb, void** into, unsigned flags) { Reply reply = ask(frame, verb, {flags}); *into = (void*)reply.words[0]; return failed(reply.code); }
API cudaStreamCreate(void** s) { return make(HERE, STREAM, s, 0); }
API cudaStreamCreateWithFlags(void** s, unsigned flags) { return make(HERE, STREAM, s, flags); }
API cudaStreamCreateWithPriority(void** s, unsigned flags, int) { return make(HERE, STREAM, s, flags); }
API cudaStreamDestroy(void* s) { return failed(ask(HERE, STREAM_END, {(u64)s}).code); }
static int event_recorded(void* event, void* stream), event_waited_for(void* stream, void* event);
static bool in_capture(void* event);
/// It is called at once, with what it touches told apart from what the host does: see programs/streams.py.
static int call_on_host(const u64* frame, void* s, std::function<void()> f) {
    if (recorded(frame, s, 3, [=](void* s) { return call_on_host(0, s, f); })) return 0;
    if (int code = ask(frame, CALL, {(u64)s}).code) return failed(code);
    const u64 *before = as_of, *caller = outer;
    as_of = outer = 0;
    f();
    as_of = before; outer = caller;
    ask(frame, CALLED);
    return 0;
}
API cudaStreamSynchronize(void* s) { int code = not_while_recording(HERE, "cudaStreamSynchronize", s); return code ? code : failed(ask(HERE, WAIT_STREAM, {(u64)s}).code); }
static int ready(int code) { return code == 600 ? code : failed(code); }  // cudaErrorNotReady is no error
API cudaStreamQuery(void* s) { return ready(ask(HERE, QUERY_STREAM, {(u64)s}).code); }
API cudaStreamWaitEvent(void* s, void* e, unsigned) { int code = event_waited_for(s, e); return code ? failed(code < 0 ? 0 : code) : failed(ask(HERE, STREAM_WAITS, {(u64)s, (u64)e}).code); }
API cudaStreamGetFlags(void*, unsigned* flags) { *flags = 0; return 0; }
API cudaStreamGetPriority(void*, int* priority) { *priority = 0; return 0; }
API cudaDeviceGetStreamPriorityRange(int* least, int* greatest) { *least = 0; *greatest = -5; return 0; }
API cudaStreamAddCallback(void* s, void (*f)(void*, int, void*), void* user, unsigned) { return call_on_host(HERE, s, [=] { f(s, 0, user); }); }
API cudaLaunchHostFunc(void* s, void (*f)(void*), void* user) { return call_on_host(HERE, s, [=] { f(user); }); }
API cudaEventCreate(void** e) { return make(HERE, EVENT, e, 0); }
API cudaEventCreateWithFlags(void** e, unsigned flags) { return make(HERE, EVENT, e, flags); }
API cudaEventDestroy(void* e) { return failed(ask(HERE, EVENT_END, {(u64)e}).code); }
API cudaEventRecord(void* e, void* s) { return event_recorded(e, s) ? 0 : failed(ask(HERE, RECORD, {(u64)e, (u64)s}).code); }
API cudaEventRecordWithFlags(void* e, void* s, unsigned) { return event_recorded(e, s) ? 0 : failed(ask(HERE, RECORD, {(u64)e, (u64)s}).code); }
API cudaEventSynchronize(void* e) { return in_capture(e) ? failed(907) : failed(ask(HERE, WAIT_EVENT, {(u64)e}).code); }
API cudaEventQuery(void* e) { return ready(ask(HERE, QUERY_EVENT, {(u64)e}).code); }
static int elapsed(const u64* frame, float* ms, void* a, void* b) { Reply reply = ask(frame, ELAPSED, {(u64)a, (u64)b}); *ms = reply.words[0] * 1e-6f; return failed(reply.code); }
API cudaEventElapsedTime(float* ms, void* a, void* b) { return elapsed(HERE, ms, a, b); }
API cudaEventElapsedTime_v2(float* ms, void* a, void* b) { return elapsed(HERE, ms, a, b); }
static int wait_all(const u64* frame) { return failed(ask(frame, WAIT_ALL).code); }
API cudaDeviceSynchronize() { int code = not_while_recording(HERE, "cudaDeviceSynchronize"); return code ? code : wait_all(HERE); }
API cudaThreadSynchronize() { return wait_all(HERE); }
API cudaThreadExit() { return 0; }
API cudaDeviceReset() { int code = failed(ask(HERE, RESET).code); last_error = 0; return code; }

// ---- errors --------------------------------------------------------------------------------------------

API cudaGetLastError() { int code = last_error; unasked = 0; last_error = 0; return code; }
API cudaPeekAtLastError() { unasked = 0; return last_error; }
static const Error& error_of(int code) { for (const Error& e : ERRORS) if (e.code == code) return e; static const Error none{-1, "unrecognized error code", "unrecognized error code"}; return none; }
extern "C" const char* cudaGetErrorString(int code) { return error_of(code).text; }
extern "C" const char* cudaGetErrorName(int code) { return error_of(code).name; }

// ---- the device ----------------------------------------------------------------------------------------

API cudaGetDevice(int* d) { *d = 0; return 0; }
API cudaSetDevice(int d) { return d ? failed(ask(HERE, NO_DEVICE, {(u64)d}).code) : 0; }
API cudaGetDeviceCount(int* n) { *n = 1; return 0; }
API cudaSetDeviceFlags(unsigned) { return 0; }
API cudaGetDeviceFlags(unsigned* f) { *f = 0; return 0; }
API cudaDeviceCanAccessPeer(int* can, int, int) { *can = 0; return 0; }
API cudaDeviceEnablePeerAccess(int, unsigned) { return failed(217); }
API cudaDeviceDisablePeerAccess(int) { return failed(705); }
API cudaDriverGetVersion(int* v) { *v = 12080; return 0; }
API cudaRuntimeGetVersion(int* v) { *v = 12080; return 0; }
API cudaDeviceSetLimit(int, size_t) { return 0; }
API cudaDeviceGetLimit(size_t* v, int) { *v = 8 << 20; return 0; }
API cudaDeviceSetCacheConfig(int) { return 0; }
API cudaDeviceGetCacheConfig(int* c) { *c = 0; return 0; }
API cudaDeviceSetSharedMemConfig(int) { return 0; }
API cudaDeviceGetSharedMemConfig(int* c) { *c = 1; return 0; }
API cudaDeviceGetPCIBusId(char* s, int n, int) { snprintf(s, n, "0000:00:00.0"); return 0; }
API cudaProfilerStart() { return 0; }
API cudaProfilerStop() { return 0; }
API cudaMemPrefetchAsync(...) { return 0; }
API cudaMemAdvise(...) { return 0; }
API cudaStreamAttachMemAsync(...) { return 0; }

static cudaDeviceProp described() {
    cudaDeviceProp p{};
    Reply reply = ask(HERE, MEMORY);
    strcpy(p.name, "Backwarp virtual GPU");
    p.totalGlobalMem = reply.words[1]; p.sharedMemPerBlock = 48 << 10; p.regsPerBlock = 65536; p.warpSize = 32;
    p.memPitch = 0x7fffffff; p.maxThreadsPerBlock = 1024;
    p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024; p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = 0x7fffffff; p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.clockRate = 1410000; p.totalConstMem = 64 << 10; p.major = 8; p.minor = 0; p.textureAlignment = 512; p.texturePitchAlignment = 32;
    p.deviceOverlap = 1; p.multiProcessorCount = 108; p.canMapHostMemory = 1; p.maxTexture1D = 131072;
    p.maxTexture2D[0] = 131072; p.maxTexture2D[1] = 65536; p.surfaceAlignment = 512; p.concurrentKernels = 1; p.asyncEngineCount = 3;
    p.unifiedAddressing = 1; p.memoryClockRate = 1215000; p.memoryBusWidth = 5120; p.l2CacheSize = 4 << 20;
    p.maxThreadsPerMultiProcessor = 2048; p.streamPrioritiesSupported = p.globalL1CacheSupported = p.localL1CacheSupported = 1;
    p.sharedMemPerMultiprocessor = 164 << 10; p.regsPerMultiprocessor = 65536; p.managedMemory = 1;
    p.singleToDoublePrecisionPerfRatio = 2; p.concurrentManagedAccess = p.computePreemptionSupported = 1; p.cooperativeLaunch = 1;
    p.sharedMemPerBlockOptin = 163 << 10; p.maxBlocksPerMultiProcessor = 32; p.reservedSharedMemPerBlock = 1024; p.memoryPoolsSupported = 1;
    return p;
}
API backwarp_properties(cudaDeviceProp* p, int device) { if (device) return failed(101); *p = described(); return 0; }
API cudaDeviceGetAttribute(int* v, int attribute, int device) {
    if (device) return failed(101);
    cudaDeviceProp p = described();
    const std::pair<int, int> known[] = {
        {1, p.maxThreadsPerBlock}, {2, 1024}, {3, 1024}, {4, 64}, {5, 0x7fffffff}, {6, 65535}, {7, 65535}, {8, 48 << 10}, {9, 64 << 10}, {10, 32}, {11, 0x7fffffff},
        {12, p.regsPerBlock}, {13, p.clockRate}, {14, 512}, {15, 1}, {16, p.multiProcessorCount}, {17, 0}, {18, 0}, {19, 1}, {20, 0}, {31, 1}, {32, 0}, {33, 0}, {34, 0},
        {36, p.memoryClockRate}, {37, p.memoryBusWidth}, {38, p.l2CacheSize}, {39, 2048}, {40, 3}, {41, 1}, {75, 8}, {76, 0}, {78, 1}, {79, 1}, {80, 1}, {81, 164 << 10},
        {82, 65536}, {83, 1}, {84, 0}, {87, 2}, {88, 0}, {89, 1}, {90, 1}, {95, 1}, {97, 163 << 10}, {106, 32}, {111, 1024}, {115, 1}};
    *v = 0;
    for (auto [number, value] : known) if (number == attribute) *v = value;
    return 0;
}

static int attribute(const u64* frame, const void* f, int what, int value) {
    auto found = known().find(f);
    if (found == known().end()) return failed(98);
    return failed(ask(frame, ATTRIBUTE, {(u64)what, (u64)value}, found->second.name.data(), found->second.name.size()).code);
}
API cudaFuncSetAttribute(const void* f, int what, int value) { return attribute(HERE, f, what, value); }
API cudaFuncSetCacheConfig(const void*, int) { return 0; }
API cudaFuncSetSharedMemConfig(const void*, int) { return 0; }
struct FunctionAttributes { size_t shared, constant, local; int threads, registers, ptx, binary, ca, dynamic, carveout, rest[24]; };
static Reply function(const u64* frame, const void* f) {
    auto found = known().find(f);
    if (found == known().end()) { Reply none{}; none.code = 98; return none; }
    return ask(frame, FUNCTION, {}, found->second.name.data(), found->second.name.size());
}
API cudaFuncGetAttributes(FunctionAttributes* a, const void* f) {
    Reply reply = function(HERE, f);
    memset(a, 0, offsetof(FunctionAttributes, rest));
    a->shared = reply.words[0]; a->threads = (int)reply.words[1]; a->registers = 32; a->ptx = a->binary = 80; a->dynamic = (int)reply.words[2];
    return failed(reply.code);
}
/// Blocks that an A100's multiprocessor holds, as far as threads and shared memory decide.
static int resident(const Reply& about, int block, size_t dynamic) {
    size_t shared = about.words[0] + dynamic + 1024;
    int by_threads = block > 0 && block <= 1024 ? 2048 / ((block + 31) / 32 * 32) : 0, by_shared = (int)((164 << 10) / shared);
    return std::min({by_threads, by_shared, 32});
}
API cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* n, const void* f, int block, size_t dynamic) { Reply reply = function(HERE, f); *n = resident(reply, block, dynamic); return failed(reply.code); }
API cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, const void* f, int block, size_t dynamic, unsigned) { Reply reply = function(HERE, f); *n = resident(reply, block, dynamic); return failed(reply.code); }
API backwarp_occupancy(int* grid, int* block, const void* f, size_t dynamic, int most) {
    Reply reply = function(HERE, f);
    int best = 32, limit = std::min<int>(most ? most : 1024, reply.words[1] ? (int)reply.words[1] : 1024);
    for (int n = 32; n <= limit; n += 32) if (n * resident(reply, n, dynamic) >= best * resident(reply, best, dynamic)) best = n;
    *block = best; *grid = 108 * resident(reply, best, dynamic);
    return failed(reply.code);
}

/// A function of cuBLAS or cuRAND. A result for the host comes with the answer.
API backwarp_library(const char* name, const u64* words, int n, const void*, void* stream) {
    std::string data = name + std::string(1, '\0');
    data.append((const char*)words, n * 8);
    Reply reply = ask(HERE, LIBRARY, {(u64)stream}, data.data(), data.size());
    if (reply.words[0]) memcpy(real((void*)reply.words[1]), &reply.words[2], reply.words[0]);
    return reply.code;
}

#include "graphs.inc"
#include "driver.inc"

#define NOT_HERE(name) API name(...) { return refused(HERE, #name); }
ALL_REFUSED

// ---- memory of the host with guard pages (--host-memory) ------------------------------------------------

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}
static bool guarded;
enum : u64 { MARK = 0x6261636b77617270, PAGE = 4096, FILLED = 0xa5 };
/// At the beginning of an allocation's own page; the allocation ends where a page begins that nobody may touch.
struct Guarded { u64 mark, size, pages, freed, frames[FRAMES]; };

static Guarded* guard_of(void* p) {
    Guarded* g = (Guarded*)(((u64)p & ~(PAGE - 1)) - PAGE);
    return g->mark == MARK ? g : 0;
}
static void* guarded_malloc(size_t n, const u64* frame) {
    u64 room = (n + 15) / 16 * 16, pages = (room + PAGE - 1) / PAGE + (room == 0);
    char* at = (char*)mmap(0, (pages + 2) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) { errno = ENOMEM; return 0; }
    mprotect(at + (pages + 1) * PAGE, PAGE, PROT_NONE);
    char* p = at + (pages + 1) * PAGE - room;
    Guarded* g = (Guarded*)(((u64)p & ~(PAGE - 1)) - PAGE);  // the page before that of its first byte
    g->mark = MARK; g->size = n; g->pages = pages; g->freed = 0;
    walk(frame, g->frames);
    memset(p + n, FILLED, room - n);
    return p;
}
static void guarded_free(void* p, const u64* frame) {
    Guarded* g = guard_of(p);
    if (!g) return __libc_free(p);
    for (u64 i = g->size; i < (g->size + 15) / 16 * 16; i++)
        if (((unsigned char*)p)[i] != FILLED) { ask(frame, OVERRUN, {g->size, i - g->size, g->frames[0], g->frames[1], g->frames[2], g->frames[3]}); break; }
    munmap(g, (g->pages + 2) * PAGE);
}
extern "C" {
void* malloc(size_t n) { return guarded ? guarded_malloc(n, HERE) : __libc_malloc(n); }
void free(void* p) { if (!p) return; if (guarded) guarded_free(p, HERE); else __libc_free(p); }
void* calloc(size_t n, size_t m) { return guarded ? (m && n > ~0ull / m ? 0 : guarded_malloc(n * m, HERE)) : __libc_calloc(n, m); }
void* realloc(void* p, size_t n) {
    Guarded* g = guarded && p ? guard_of(p) : 0;
    if (!guarded || p && !g) return __libc_realloc(p, n);
    void* made = guarded_malloc(n, HERE);
    if (g && made) { memcpy(made, p, g->size < n ? g->size : n); guarded_free(p, HERE); }
    return made;
}
}
extern "C" void backwarp_guard(int level) { guarded = level; }
