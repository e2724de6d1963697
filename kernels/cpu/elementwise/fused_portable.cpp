#define HALFEVEN_FUSED fused_portable
#include "cpu/elementwise/fused_loops.hpp"
