// Operators and small functions on CUDA's vector types, by the names that CUDA's samples use for them.
#pragma once

#define BW_FUNCTION inline __host__ __device__
#define BW_2(each, with) each(x, with), each(y, with)
#define BW_3(each, with) BW_2(each, with), each(z, with)
#define BW_4(each, with) BW_3(each, with), each(w, with)
#define BW_VECTORS(field, op) a.field op b.field
#define BW_VECTOR_NUMBER(field, op) a.field op b
#define BW_NUMBER_VECTOR(field, op) a op b.field
#define BW_PREFIX(field, op) op a.field
#define BW_CALL(field, name) name(a.field)
#define BW_CALL2(field, name) name(a.field, b.field)
#define BW_CAST(field, number) (number)a.field
#define BW_SAME(field, number) a
#define BW_CLAMP(field, _) clamp(v.field, a.field, b.field)
#define BW_CLAMP_NUMBERS(field, _) clamp(v.field, a, b)

BW_FUNCTION float clamp(float v, float a, float b) { return fmaxf(a, fminf(v, b)); }
BW_FUNCTION int clamp(int v, int a, int b) { return max(a, min(v, b)); }
BW_FUNCTION unsigned clamp(unsigned v, unsigned a, unsigned b) { return max(a, min(v, b)); }
BW_FUNCTION float lerp(float a, float b, float t) { return a + t * (b - a); }
BW_FUNCTION float fracf(float v) { return v - floorf(v); }
BW_FUNCTION float smoothstep(float a, float b, float x) {
    float y = clamp((x - a) / (b - a), 0.0f, 1.0f);
    return y * y * (3.0f - 2.0f * y);
}

#define BW_OPERATOR(type, number, fields, op)                                             \
    BW_FUNCTION type operator op(type a, type b) { return make_##type(fields(BW_VECTORS, op)); }          \
    BW_FUNCTION type operator op(type a, number b) { return make_##type(fields(BW_VECTOR_NUMBER, op)); }  \
    BW_FUNCTION type operator op(number a, type b) { return make_##type(fields(BW_NUMBER_VECTOR, op)); }  \
    BW_FUNCTION void operator op##=(type& a, type b) { a = a op b; }                      \
    BW_FUNCTION void operator op##=(type& a, number b) { a = a op b; }
#define BW_TYPE(type, number, fields)                                                     \
    BW_OPERATOR(type, number, fields, +)                                                  \
    BW_OPERATOR(type, number, fields, -)                                                  \
    BW_OPERATOR(type, number, fields, *)                                                  \
    BW_OPERATOR(type, number, fields, /)                                                  \
    BW_FUNCTION type make_##type(number a) { return make_##type(fields(BW_SAME, )); }     \
    BW_FUNCTION type clamp(type v, type a, type b) { return make_##type(fields(BW_CLAMP, )); }            \
    BW_FUNCTION type clamp(type v, number a, number b) { return make_##type(fields(BW_CLAMP_NUMBERS, )); }
#define BW_SIGNED(type, fields) \
    BW_FUNCTION type operator-(type a) { return make_##type(fields(BW_PREFIX, -)); }
#define BW_ONE_CALL(type, fields, name) \
    BW_FUNCTION type name(type a) { return make_##type(fields(BW_CALL, name)); }
#define BW_TWO_CALL(type, fields, name) \
    BW_FUNCTION type name(type a, type b) { return make_##type(fields(BW_CALL2, name)); }
#define BW_FROM(type, number, other, fields) \
    BW_FUNCTION type make_##type(other a) { return make_##type(fields(BW_CAST, number)); }

#define BW_SIZE(n, fields)                                                                \
    BW_TYPE(float##n, float, fields)                                                      \
    BW_TYPE(int##n, int, fields)                                                          \
    BW_TYPE(uint##n, unsigned, fields)                                                    \
    BW_SIGNED(float##n, fields)                                                           \
    BW_SIGNED(int##n, fields)                                                             \
    BW_ONE_CALL(float##n, fields, floorf)                                                 \
    BW_ONE_CALL(float##n, fields, fracf)                                                  \
    BW_ONE_CALL(float##n, fields, fabs)                                                   \
    BW_ONE_CALL(int##n, fields, abs)                                                      \
    BW_TWO_CALL(float##n, fields, fminf)                                                  \
    BW_TWO_CALL(float##n, fields, fmaxf)                                                  \
    BW_TWO_CALL(float##n, fields, fmodf)                                                  \
    BW_TWO_CALL(int##n, fields, min)                                                      \
    BW_TWO_CALL(int##n, fields, max)                                                      \
    BW_TWO_CALL(uint##n, fields, min)                                                     \
    BW_TWO_CALL(uint##n, fields, max)                                                     \
    BW_FROM(float##n, float, int##n, fields)                                              \
    BW_FROM(float##n, float, uint##n, fields)                                             \
    BW_FROM(int##n, int, float##n, fields)                                                \
    BW_FROM(int##n, int, uint##n, fields)                                                 \
    BW_FROM(uint##n, unsigned, int##n, fields)                                            \
    BW_FUNCTION float##n lerp(float##n a, float##n b, float t) { return a + t * (b - a); }
BW_SIZE(2, BW_2)
BW_SIZE(3, BW_3)
BW_SIZE(4, BW_4)

#define BW_WIDTHS(kind, number)                                                           \
    BW_FUNCTION kind##2 make_##kind##2(kind##3 a) { return make_##kind##2(a.x, a.y); }    \
    BW_FUNCTION kind##3 make_##kind##3(kind##2 a) { return make_##kind##3(a.x, a.y, 0); } \
    BW_FUNCTION kind##3 make_##kind##3(kind##2 a, number s) { return make_##kind##3(a.x, a.y, s); }       \
    BW_FUNCTION kind##3 make_##kind##3(kind##4 a) { return make_##kind##3(a.x, a.y, a.z); }               \
    BW_FUNCTION kind##4 make_##kind##4(kind##3 a) { return make_##kind##4(a.x, a.y, a.z, 0); }            \
    BW_FUNCTION kind##4 make_##kind##4(kind##3 a, number s) { return make_##kind##4(a.x, a.y, a.z, s); }  \
    BW_FUNCTION number dot(kind##2 a, kind##2 b) { return a.x * b.x + a.y * b.y; }        \
    BW_FUNCTION number dot(kind##3 a, kind##3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }            \
    BW_FUNCTION number dot(kind##4 a, kind##4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
BW_WIDTHS(float, float)
BW_WIDTHS(int, int)
BW_WIDTHS(uint, unsigned)

#define BW_LENGTH(type)                                                                   \
    BW_FUNCTION float length(type v) { return sqrtf(dot(v, v)); }                         \
    BW_FUNCTION type normalize(type v) { return v * rsqrtf(dot(v, v)); }
BW_LENGTH(float2)
BW_LENGTH(float3)
BW_LENGTH(float4)
BW_FUNCTION float3 cross(float3 a, float3 b) {
    return make_float3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
BW_FUNCTION float3 reflect(float3 v, float3 normal) { return v - 2.0f * dot(normal, v) * normal; }

#undef BW_FUNCTION
#undef BW_2
#undef BW_3
#undef BW_4
