    .section .rodata
    .balign 64
    .globl probe_kernels, probe_kernels_end
probe_kernels:
    .incbin PROBE_KERNELS
probe_kernels_end:
    .byte 0
    .section .note.GNU-stack, "", @progbits
