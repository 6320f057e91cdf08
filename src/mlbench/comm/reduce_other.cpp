#include "mlbench/comm/reduce_element.h"

namespace mlbench::comm {

AccumulateFunction cpu_accumulate_function(DType, ReduceOp) { return nullptr; }
DivideFunction cpu_divide_function(DType) { return nullptr; }
NarrowFunction cpu_narrow_function(DType) { return nullptr; }
WidenFunction cpu_widen_function(DType) { return nullptr; }

}  // namespace mlbench::comm
