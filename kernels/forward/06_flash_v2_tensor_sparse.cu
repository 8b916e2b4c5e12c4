// The instances of rung 06 for packed sequences and block masks: the same source, compiled beside it.
#define FLASHSCOPE_SPARSE_INSTANCES
#include "kernels/forward/06_flash_v2_tensor.cu"
