// The small route and loops over entries for one instruction set, apart from the other loops, which
// share nothing with them.
#include "small.hpp"

namespace VARIANT {

extern const SmallKernels small;
const SmallKernels small = {small_route<float>, small_route<double>, entry_loops};

}  // namespace VARIANT
