/* Polynomials of so many coefficients, by Horner's rule. They are macros, since a loop over a table of coefficients
 * inside of a loop over elements keeps that one from becoming vectors. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_POLYNOMIAL_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_POLYNOMIAL_H

/* TD_Pn(t, c0, c1, ...): the polynomial in t of n coefficients, the lowest first. */
#define TD_P1(t, a) (a)
#define TD_P2(t, a, ...) ((a) + (t)*TD_P1(t, __VA_ARGS__))
#define TD_P3(t, a, ...) ((a) + (t)*TD_P2(t, __VA_ARGS__))
#define TD_P4(t, a, ...) ((a) + (t)*TD_P3(t, __VA_ARGS__))
#define TD_P5(t, a, ...) ((a) + (t)*TD_P4(t, __VA_ARGS__))
#define TD_P6(t, a, ...) ((a) + (t)*TD_P5(t, __VA_ARGS__))
#define TD_P7(t, a, ...) ((a) + (t)*TD_P6(t, __VA_ARGS__))
#define TD_P8(t, a, ...) ((a) + (t)*TD_P7(t, __VA_ARGS__))
#define TD_P9(t, a, ...) ((a) + (t)*TD_P8(t, __VA_ARGS__))
#define TD_P10(t, a, ...) ((a) + (t)*TD_P9(t, __VA_ARGS__))
#define TD_P11(t, a, ...) ((a) + (t)*TD_P10(t, __VA_ARGS__))
#define TD_P12(t, a, ...) ((a) + (t)*TD_P11(t, __VA_ARGS__))
#define TD_P13(t, a, ...) ((a) + (t)*TD_P12(t, __VA_ARGS__))
#define TD_P14(t, a, ...) ((a) + (t)*TD_P13(t, __VA_ARGS__))
#define TD_P15(t, a, ...) ((a) + (t)*TD_P14(t, __VA_ARGS__))
#define TD_P16(t, a, ...) ((a) + (t)*TD_P15(t, __VA_ARGS__))
#define TD_P17(t, a, ...) ((a) + (t)*TD_P16(t, __VA_ARGS__))
#define TD_P18(t, a, ...) ((a) + (t)*TD_P17(t, __VA_ARGS__))
#define TD_P19(t, a, ...) ((a) + (t)*TD_P18(t, __VA_ARGS__))
#define TD_P20(t, a, ...) ((a) + (t)*TD_P19(t, __VA_ARGS__))
#define TD_P21(t, a, ...) ((a) + (t)*TD_P20(t, __VA_ARGS__))
#define TD_P22(t, a, ...) ((a) + (t)*TD_P21(t, __VA_ARGS__))
#define TD_P23(t, a, ...) ((a) + (t)*TD_P22(t, __VA_ARGS__))
#define TD_P24(t, a, ...) ((a) + (t)*TD_P23(t, __VA_ARGS__))
#define TD_P25(t, a, ...) ((a) + (t)*TD_P24(t, __VA_ARGS__))
#define TD_P26(t, a, ...) ((a) + (t)*TD_P25(t, __VA_ARGS__))
#define TD_P27(t, a, ...) ((a) + (t)*TD_P26(t, __VA_ARGS__))
#define TD_P28(t, a, ...) ((a) + (t)*TD_P27(t, __VA_ARGS__))
#define TD_P29(t, a, ...) ((a) + (t)*TD_P28(t, __VA_ARGS__))
#define TD_P30(t, a, ...) ((a) + (t)*TD_P29(t, __VA_ARGS__))
#define TD_P31(t, a, ...) ((a) + (t)*TD_P30(t, __VA_ARGS__))

#endif
