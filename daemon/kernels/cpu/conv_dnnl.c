#include "daemon/kernels/cpu/conv.h"
bool td_conv_plan_dnnl(td_kcall *k, const td_conv *c){(void)k;(void)c;return false;}
bool td_conv_plan_dnnl_backward(td_kcall *k, const td_conv *c){(void)k;(void)c;return false;}
