// The instances of rung 05's backward pass for packed sequences and block masks: the same source, compiled beside it.
#define FLASHSCOPE_SPARSE_INSTANCES
#include "kernels/backward/05_flash_v2_backward.cu"
