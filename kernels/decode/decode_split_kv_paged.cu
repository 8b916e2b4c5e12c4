// The instances of split_kv for K and V in pages: the same source, compiled beside it.
#define FLASHSCOPE_PAGED_INSTANCES
#include "kernels/decode/decode_split_kv.cu"
