// The instances of rung 05 for packed sequences and block masks: the same source, compiled beside it.
#define FLASHSCOPE_SPARSE_INSTANCES
#include "kernels/forward/05_flash_v2.cu"
