#define HALFEVEN_MAX_POOL max_pool_portable
#define HALFEVEN_POOL_SUMS pool_sums_portable
#include "cpu/pool/pool_loops.hpp"
