/* Elements in memory and what they are worked out as: float for half types, int64 for whole numbers, uint64, double.
 *
 * Conversions are those of the CPU's loops (cpu/vec/cast.c), also where a float is beyond the range of a whole number: there processors of that kind say the
 * lowest one, and so is said here. */
#ifndef TENSORD_DAEMON_KERNELS_CUDA_DEVICE_ELEMENT_CUH
#define TENSORD_DAEMON_KERNELS_CUDA_DEVICE_ELEMENT_CUH

#include "daemon/kernels/cuda/args.h"
#include "daemon/kernels/cuda/device/target.h"

TD_FN uint32_t td_word_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
TD_FN float td_float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}
TD_FN float td_load_half(uint16_t h)
{
    uint32_t em = h & 0x7fffu;
    uint32_t bits = td_word_of(td_float_of(em << 13) * 0x1p112f);
    bits = em >= 0x7c00u ? 0x7f800000u | (em & 0x3ffu) << 13 : bits;
    return td_float_of(bits | (uint32_t)(h & 0x8000u) << 16);
}
TD_FN uint16_t td_store_half(float f)
{
    uint32_t x = td_word_of(f), a = x & 0x7fffffffu;
    uint32_t small = td_word_of(td_float_of(a) + 0.5f) - 0x3f000000u;
    uint32_t normal = (a + 0xfffu + (a >> 13 & 1u) - 0x38000000u) >> 13;
    uint32_t r = a < 0x38800000u ? small : normal;
    r = a >= 0x477ff000u ? 0x7c00u : r;
    r = a > 0x7f800000u ? 0x7e00u : r;
    return (uint16_t)(r | (x >> 16 & 0x8000u));
}
TD_FN float td_load_bfloat(uint16_t h)
{
    return td_float_of((uint32_t)h << 16);
}
TD_FN uint16_t td_store_bfloat(float f)
{
    uint32_t x = td_word_of(f);
    if ((x & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(x >> 16 | 0x40u);
    return (uint16_t)((x + 0x7fffu + (x >> 16 & 1u)) >> 16);
}

/* Whole numbers of floats, as the host's processor has them. */
TD_FN int32_t td_whole32(double v)
{
    return v > -2147483649.0 && v < 2147483648.0 ? (int32_t)v : INT32_MIN;
}
TD_FN int64_t td_whole64(double v)
{
    return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}
TD_FN uint64_t td_whole_bits(double v)
{
    return v >= 0x1p63 ? (v < 0x1p64 ? (uint64_t)v : 1ull << 63) : (uint64_t)td_whole64(v);
}

/* Whether T is a float. */
template <class T> struct td_is_float {
    enum { value = 0 };
};
template <> struct td_is_float<float> {
    enum { value = 1 };
};
template <> struct td_is_float<double> {
    enum { value = 1 };
};
template <class T, class V> TD_FN T td_of_float(V v)
{
    if (td_is_float<T>::value) return (T)v;
    return (T)-1 > (T)0 ? (T)td_whole_bits((double)v) : (T)td_whole64((double)v);
}

/* Element i of a dtype, as T. */
template <class T> TD_FN T td_load(const void *p, int64_t i, unsigned dtype)
{
    switch (dtype) {
    case TD_FLOAT32: return td_of_float<T>(((const float *)p)[i]);
    case TD_FLOAT64: return td_of_float<T>(((const double *)p)[i]);
    case TD_FLOAT16: return td_of_float<T>(td_load_half(((const uint16_t *)p)[i]));
    case TD_BFLOAT16: return td_of_float<T>(td_load_bfloat(((const uint16_t *)p)[i]));
    case TD_BOOL: return (T)(((const uint8_t *)p)[i] != 0);
    case TD_UINT8: return (T)((const uint8_t *)p)[i];
    case TD_INT8: return (T)((const int8_t *)p)[i];
    case TD_INT16: return (T)((const int16_t *)p)[i];
    case TD_INT32: return (T)((const int32_t *)p)[i];
    case TD_UINT16: return (T)((const uint16_t *)p)[i];
    case TD_UINT32: return (T)((const uint32_t *)p)[i];
    case TD_UINT64: return (T)((const uint64_t *)p)[i];
    default: return (T)((const int64_t *)p)[i];
    }
}
/* A truth value of any dtype. */
TD_FN int td_load_truth(const void *p, int64_t i, unsigned dtype)
{
    switch (dtype) {
    case TD_FLOAT32: return ((const float *)p)[i] != 0;
    case TD_FLOAT64: return ((const double *)p)[i] != 0;
    case TD_FLOAT16:
    case TD_BFLOAT16: return (((const uint16_t *)p)[i] & 0x7fff) != 0;
    case TD_BOOL:
    case TD_UINT8:
    case TD_INT8: return ((const uint8_t *)p)[i] != 0;
    case TD_INT16:
    case TD_UINT16: return ((const uint16_t *)p)[i] != 0;
    case TD_INT32:
    case TD_UINT32: return ((const uint32_t *)p)[i] != 0;
    default: return ((const uint64_t *)p)[i] != 0;
    }
}
template <class T> TD_FN int32_t td_to32(T v)
{
    return td_is_float<T>::value ? td_whole32((double)v) : (int32_t)v;
}
template <class T> TD_FN int64_t td_to64(T v)
{
    return td_is_float<T>::value ? td_whole64((double)v) : (int64_t)v;
}

template <class T> TD_FN void td_store(void *p, int64_t i, unsigned dtype, T v)
{
    switch (dtype) {
    case TD_FLOAT32: ((float *)p)[i] = (float)v; break;
    case TD_FLOAT64: ((double *)p)[i] = (double)v; break;
    case TD_FLOAT16: ((uint16_t *)p)[i] = td_store_half((float)v); break;
    case TD_BFLOAT16: ((uint16_t *)p)[i] = td_store_bfloat((float)v); break;
    case TD_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    case TD_UINT8: ((uint8_t *)p)[i] = (uint8_t)td_to32(v); break;
    case TD_INT8: ((int8_t *)p)[i] = (int8_t)td_to32(v); break;
    case TD_INT16: ((int16_t *)p)[i] = (int16_t)td_to32(v); break;
    case TD_UINT16: ((uint16_t *)p)[i] = (uint16_t)td_to32(v); break;
    case TD_INT32: ((int32_t *)p)[i] = td_to32(v); break;
    case TD_UINT32: ((uint32_t *)p)[i] = (uint32_t)td_to64(v); break;
    case TD_UINT64: ((uint64_t *)p)[i] = td_is_float<T>::value ? td_whole_bits((double)v) : (uint64_t)v; break;
    default: ((int64_t *)p)[i] = td_to64(v);
    }
}

/* What a dtype holds of a value. */
template <class T> TD_FN T td_round_to(T v, unsigned dtype)
{
    uint64_t room;
    if (dtype == TD_DTYPE_NONE) return v;
    td_store<T>(&room, 0, dtype, v);
    return td_load<T>(&room, 0, dtype);
}

#endif
