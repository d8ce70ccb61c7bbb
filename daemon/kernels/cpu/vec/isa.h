/* Names of what is compiled once for each instruction set.
 *
 * Files in vec/ are built several times with other flags; TD_ISA is base, v3 or v4 (x86-64 levels; elsewhere base
 * alone) and becomes the suffix of every symbol they export. cpu/isa.c gathers them in one table for each set. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_VEC_ISA_H
#define TENSORD_DAEMON_KERNELS_CPU_VEC_ISA_H

#ifndef TD_ISA
#define TD_ISA base
#define TD_ISA_LEVEL 0
#endif
#define TD_ISA_PASTE2(a, b) a##_##b
#define TD_ISA_PASTE(a, b) TD_ISA_PASTE2(a, b)
#define TD_ISA_NAME(name) TD_ISA_PASTE(name, TD_ISA)

#endif
