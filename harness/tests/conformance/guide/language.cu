#include <initializer_list>
#include <new>

//# C++ language support

//: a template with a constant = 4 * t
template <int N> __device__ int times(int x) { return N * x; }
TEST(int, constant_template) { out[t] = times<4>(t); }

//: a template with a type and a specialisation = t + 100
template <class T> __device__ int kind(T) { return 0; }
template <> __device__ int kind(float) { return 100; }
TEST(int, specialised_template) { out[t] = kind(1.0f) + kind(1) + t; }

//: a variadic template and a fold = t + 6
template <class... Ts> __device__ int sum(Ts... xs) { return (xs + ... + 0); }
TEST(int, variadic_template) { out[t] = sum(t, 1, 2, 3); }

//: a lambda with captures = t * 3 + 1
TEST(int, lambda) { int k = 3; auto f = [=](int x) { return k * x + 1; }; out[t] = f(t); }

//: a lambda that captures by reference = t * (t + 1) // 2
TEST(int, lambda_reference) { int sum = 0; auto add = [&](int x) { sum += x; }; for (int i = 0; i <= t; i++) add(i); out[t] = sum; }

//: a generic lambda handed on = 2 * t + 1
template <class F> __device__ auto apply(F f, int x) { return f(x); }
TEST(int, generic_lambda) { out[t] = apply([](auto x) { return x + x + 1; }, t); }

//: *this captured by value = t + 5
struct Shift { int by; __device__ auto make() { return [*this](int x) { return x + by; }; } };
TEST(int, captured_this) { Shift s{5}; out[t] = s.make()(t); }

//: virtual functions = np.where(t % 2, t * t, 2 * t)
struct Shape { __device__ virtual int area() const = 0; __device__ virtual ~Shape() {} };
struct Square : Shape { int s; __device__ Square(int s) : s(s) {} __device__ int area() const override { return s * s; } };
struct Double : Shape { int s; __device__ Double(int s) : s(s) {} __device__ int area() const override { return 2 * s; } };
TEST(int, virtual_functions) {
    Square a(t); Double b(t);
    const Shape* chosen = t % 2 ? (const Shape*)&a : &b;
    out[t] = chosen->area();
}

//: a virtual destructor that is run = t + 1
struct Counted { int* n; __device__ Counted(int* n) : n(n) {} __device__ virtual ~Counted() { *n += 1; } };
TEST(int, virtual_destructor) { int n = t; { Counted c(&n); } out[t] = n; }

//: constructors and destructors in order = 12 + 0 * t
struct Mark { int& log; int n; __device__ Mark(int& log, int n) : log(log), n(n) {} __device__ ~Mark() { log = 10 * log + n; } };
TEST(int, destructors) { int log = 0; { Mark a(log, 2); Mark b(log, 1); } out[t] = log; }

//: constexpr functions and if constexpr = t + 55
constexpr int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
TEST(int, constexpr_function) { if constexpr (sizeof(int) == 4) out[t] = t + fibonacci(10); else out[t] = 0; }

//: constexpr variables and arrays = np.array([1, 4, 9])[t % 3]
constexpr int squares[] = {1, 4, 9};
TEST(int, constexpr_array) { constexpr int local[] = {squares[0], squares[1], squares[2]}; out[t] = local[t % 3]; }

//: inline variables = t + 8
inline __device__ int eight = 8;
TEST(int, inline_variable) { out[t] = eight + t; }

//: structured bindings = 3 * t
struct Pair { int first, second; };
TEST(int, structured_binding) { auto [a, b] = Pair{t, 2 * t}; out[t] = a + b; }

//: operator overloading = 5 * t
struct Number { int n; __device__ Number operator+(Number o) const { return {n + o.n}; } __device__ Number& operator*=(int k) { n *= k; return *this; } };
TEST(int, operators) { Number a{t}; a *= 4; out[t] = (a + Number{t}).n; }

//: inheritance and a base's method = t + 11
struct Base { int x = 10; __device__ int get() const { return x; } };
struct Derived : Base { int y = 1; };
TEST(int, inheritance) { Derived d; out[t] = d.get() + d.y + t; }

//: multiple and virtual inheritance = t + 3
struct A { int a = 1; };
struct B { int b = 2; };
struct C : A, B {};
TEST(int, multiple_inheritance) { C c; out[t] = c.a + c.b + t; }

//: default and named arguments of templates = t + 9
template <int A = 4, int B = A + 1> __device__ int defaults(int x = 0) { return x + A + B; }
TEST(int, default_arguments) { out[t] = defaults<>(t); }

//: initialiser lists = t + 6
struct Total { int n = 0; __device__ Total(std::initializer_list<int> xs) { for (int x : xs) n += x; } };
TEST(int, initialiser_list) { Total total{1, 2, 3}; out[t] = total.n + t; }

//: a range-based loop = t + 10
TEST(int, range_loop) { int xs[] = {1, 2, 3, 4}, sum = t; for (int x : xs) sum += x; out[t] = sum; }

//: enum class and switch = np.array([7, 8, 9])[t % 3]
enum class Colour : unsigned char { red, green, blue };
TEST(int, enumeration) { switch (Colour(t % 3)) { case Colour::red: out[t] = 7; break; case Colour::green: out[t] = 8; break; case Colour::blue: out[t] = 9; } }

//: unions and bit fields = t & 15
union Word { unsigned all; struct { unsigned low : 4, rest : 28; } parts; };
TEST(unsigned, bit_fields) { Word w; w.all = t; out[t] = w.parts.low; }

//: references to arrays and their length = t + 5
template <int N> __device__ int length(int (&)[N]) { return N; }
TEST(int, array_reference) { int xs[5]; out[t] = length(xs) + t; }

//: a pointer to a member = t + 2
TEST(int, member_pointer) { Pair p{t, 2}; int Pair::* m = &Pair::second; out[t] = p.*m + t; }

//: move constructors and rvalue references = t
struct Owner { int v; __device__ Owner(int v) : v(v) {} __device__ Owner(Owner&& o) : v(o.v) { o.v = -1; } };
TEST(int, moved) { Owner a(t); Owner b(static_cast<Owner&&>(a)); out[t] = a.v == -1 ? b.v : -1; }

//: a functor template = t + 1
struct Plus { int k; template <class T> __device__ T operator()(T x) const { return x + k; } };
TEST(int, functor) { out[t] = apply(Plus{1}, t); }

//: alias templates and using = t * 2.0
template <class T> using Twice = T;
TEST(double, alias) { Twice<double> x = t; out[t] = 2 * x; }

//: namespaces, anonymous and nested = t + 30
namespace a::b { __device__ int ten() { return 10; } }
namespace { __device__ int twenty() { return 20; } }
TEST(int, namespaces) { out[t] = a::b::ten() + twenty() + t; }

//: decltype, auto and trailing return types = t + 0.5
template <class T, class U> __device__ auto add(T a, U b) -> decltype(a + b) { return a + b; }
TEST(float, deduced) { decltype(add(1, 1.0f)) x = add(t, 0.5f); out[t] = x; }

//: static_assert and sizeof... = t + 3
template <class... Ts> __device__ int count() { return sizeof...(Ts); }
TEST(int, static_assertion) { static_assert(sizeof(long long) == 8, "64 bits"); out[t] = count<int, float, char>() + t; }

//: placement new = t + 4
TEST(int, placement_new) { alignas(Pair) unsigned char room[sizeof(Pair)]; Pair* p = new (room) Pair{t, 4}; out[t] = p->first + p->second; }

//: goto and labelled loops = np.where(t > 5, 5, t)
TEST(int, jump) { int i = 0; again: if (i < t && i < 5) { i++; goto again; } out[t] = i; }

//: volatile = t
TEST(int, volatile_access) { volatile int x = t; x = x; out[t] = x; }

//: type punning by memcpy and __builtin_bit_cast = t
TEST(int, punned) { float f = t; int i; memcpy(&i, &f, 4); out[t] = int(__builtin_bit_cast(float, i)); }

//: memset and struct assignment = t + 0
struct Many { int xs[6]; };
TEST(int, memory_set) { Many m, n; memset(&m, 0, sizeof m); n = m; n.xs[3] += t; out[t] = n.xs[3]; }

//: deduction guides and class templates = t + 2.5
template <class T> struct Box { T value; __device__ Box(T v) : value(v) {} };
TEST(float, deduced_class) { Box b(2.5f); out[t] = b.value + t; }

//: a member template and a static member = t + 12
struct Holder { static constexpr int twelve = 12; template <class T> __device__ static T keep(T x) { return x; } };
TEST(int, member_template) { out[t] = Holder::keep(t) + Holder::twelve; }

//: the comma, ternary and bitwise operators = np.where(t & 1, ~t, t << 2)
TEST(int, operators_of_c) { int x = (0, t); out[t] = x & 1 ? ~x : x << 2; }

//: long arithmetic, shifts and division = (t * 10**12) // 7
TEST(long long, long_arithmetic) { out[t] = t * 1000000000000LL / 7; }

//# Dynamic global memory allocation

//: malloc and free = t
TEST(int, allocation) { int* p = (int*)malloc(sizeof(int)); *p = t; out[t] = *p; free(p); }

//: new and delete, of one and of many = t + 3
TEST(int, allocation_new) {
    int* a = new int(t); int* many = new int[4]; many[3] = 3;
    out[t] = *a + many[3];
    delete a; delete[] many;
}

//: a virtual destructor through delete = t + 1
TEST(int, allocation_virtual) { int n = t; Counted* c = new Counted(&n); delete c; out[t] = n; }

//: one allocation for a block = 31 - t
TEST(int, allocation_block) {
    __shared__ int* room;
    if (t == 0) room = (int*)malloc(128);
    __syncthreads();
    room[t] = t;
    __syncthreads();
    out[t] = room[31 - t];
    __syncthreads();
    if (t == 0) free(room);
}

//: malloc of more than the heap has returns null = 1 + 0 * t
TEST(int, allocation_fails) { out[t] = malloc(1ull << 40) == nullptr; }
