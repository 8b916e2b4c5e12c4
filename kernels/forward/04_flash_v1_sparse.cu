// The instances of rung 04 for packed sequences and block masks: the same source, compiled beside it.
#define FLASHSCOPE_SPARSE_INSTANCES
#include "kernels/forward/04_flash_v1.cu"
