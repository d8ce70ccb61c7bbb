/* The probe's kernels. Those of tensord's own functions are made of the CPU's source, so that their bits can be compared. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#define unused unused)) __host__ __device__ __attribute__((unused /* the functions of these files are for both */
#include "daemon/kernels/cpu/vec/math_f32.h"
#undef TD_FN
#define TD_FN static inline __host__ __device__
#undef unused
#include "tests/cuda/probe/turn.h"
#include "tests/cuda/probe/kernels.h"

#define INDEX ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x)
#define COUNT ((uint64_t)gridDim.x * blockDim.x)

__device__ static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9E3779B97F4A7C15ull;
    return x ^ x >> 29;
}

extern "C" __global__ void fill(fill_args a)
{
    for (uint64_t i = INDEX; i < a.n; i += COUNT) ((uint64_t *)a.p)[i] = mix(a.seed + i);
}

extern "C" __global__ void check(check_args a)
{
    uint64_t wrong = 0;
    for (uint64_t i = INDEX; i < a.n; i += COUNT) wrong += ((uint64_t *)a.p)[i] != mix(a.seed + i);
    if (wrong) atomicAdd((unsigned long long *)a.wrong, (unsigned long long)wrong);
}

__device__ static uint64_t now()
{
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

extern "C" __global__ void spin(spin_args a)
{
    uint64_t from = now();
    while (now() - from < a.ns) __nanosleep(100);
}

extern "C" __global__ void busy(spin_args a) /* spin(), and never sleeps */
{
    uint64_t from = now();
    while (now() - from < a.ns) { }
}

extern "C" __global__ void fault(fault_args a)
{
    __shared__ volatile int few[32];
    switch (a.kind) {
    case FAULT_ADDRESS: *(volatile int *)a.address = 1; break;
    case FAULT_ALIGN: *(volatile int *)(a.address + 1) = 1; break;
    case FAULT_TRAP: asm volatile("trap;"); break;
    case FAULT_SHARED: few[a.address] = few[0] + 1; break;
    }
}

extern "C" __global__ void nothing(wide_args a)
{
    if (a.word[0] == 1) *(volatile int *)a.word[1] = 1;
}

template <class T> __device__ static T exact(int op, T a, T b, T c)
{
    switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return a / b;
    case 4: return sqrt(a);
    case 5: return fma(a, b, c);
    case 6: return fmin(a, b);
    case 7: return floor(a);
    case 8: return rint(a);
    case 9: return fmod(a, b);
    case 10: return exp(a);
    case 11: return log(a);
    case 12: return sin(a);
    case 13: return cos(a);
    case 14: return tanh(a);
    case 15: return pow(a, b);
    case 16: return erf(a);
    case 17: return log1p(a);
    case 18: return expm1(a);
    case 19: return atan2(a, b);
    case 20: return tgamma(a);
    case 21: return lgamma(a);
    case 22: return cbrt(a);
    case 23: return (T)(float)a;
    }
    return 0;
}

__device__ static float own(int op, float a) /* tensord's */
{
    switch (op) {
    case 0: return td_exp_f32(a);
    case 1: return td_log_f32(a);
    case 2: return td_tanh_f32(a);
    case 3: return td_sigmoid_f32(a);
    case 4: return td_erf_f32(a);
    case 5: return td_gelu_f32(a);
    case 6: return td_log1p_f32(a);
    case 7: return td_expm1_f32(a);
    }
    return 0;
}

extern "C" __global__ void op(op_args a)
{
    for (uint64_t i = INDEX; i < a.n; i += COUNT)
        if (a.type == TYPE_F32 && a.op >= 100)
            ((float *)a.out)[i] = own(a.op - 100, ((float *)a.a)[i]);
        else if (a.type == TYPE_F32)
            ((float *)a.out)[i] = exact(a.op, ((float *)a.a)[i], ((float *)a.b)[i], ((float *)a.c)[i]);
        else if (a.type == TYPE_F64)
            ((double *)a.out)[i] = exact(a.op, ((double *)a.a)[i], ((double *)a.b)[i], ((double *)a.c)[i]);
        else
            probe_normal((uint32_t *)a.a + 2 * i, (float *)a.out + 2 * i);
}

/* Registers lie in shared memory, a column a thread: 4 elements a thread and step of the grid. */
extern "C" __global__ void code(code_args a)
{
    __shared__ float4 reg[4][256];
    float4 *r0 = &reg[0][threadIdx.x];
    for (uint64_t i = INDEX; i < a.n / 4; i += COUNT) {
        float4 acc = ((float4 *)a.a)[i];
        r0[0] = acc, r0[256] = ((float4 *)a.b)[i], r0[512] = acc, r0[768] = acc;
        for (int k = 0; k < a.steps; k++) {
            int step = a.code[k];
            float4 o = r0[256 * (step >> 4 & 3)];
            switch (step & 15) {
            case 0: acc.x += o.x, acc.y += o.y, acc.z += o.z, acc.w += o.w; break;
            case 1: acc.x *= o.x, acc.y *= o.y, acc.z *= o.z, acc.w *= o.w; break;
            case 2: acc.x -= o.x, acc.y -= o.y, acc.z -= o.z, acc.w -= o.w; break;
            case 3: acc.x = fmaxf(acc.x, o.x), acc.y = fmaxf(acc.y, o.y), acc.z = fmaxf(acc.z, o.z), acc.w = fmaxf(acc.w, o.w); break;
            case 4: acc.x = 1 / acc.x, acc.y = 1 / acc.y, acc.z = 1 / acc.z, acc.w = 1 / acc.w; break;
            case 5: r0[256 * (step >> 4 & 3)] = acc; break;
            case 6: acc.x = td_exp_f32(acc.x), acc.y = td_exp_f32(acc.y), acc.z = td_exp_f32(acc.z), acc.w = td_exp_f32(acc.w); break;
            case 7: acc = o; break;
            }
        }
        ((float4 *)a.out)[i] = acc;
    }
}

/* A hundred more, so that loading has something to do. */
#define FEW(k) extern "C" __global__ void few##k(op_args a) { for (uint64_t i = INDEX; i < a.n; i += COUNT) ((float *)a.out)[i] = powf(((float *)a.a)[i], k + 0.5f); }
#define TEN(k) FEW(k##0) FEW(k##1) FEW(k##2) FEW(k##3) FEW(k##4) FEW(k##5) FEW(k##6) FEW(k##7) FEW(k##8) FEW(k##9)
TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10)
