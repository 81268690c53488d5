// The small route for one instruction set, apart from the loops, which share nothing with it.
#include "small.hpp"

namespace VARIANT {

extern const SmallKernels small;
const SmallKernels small = {small_route<float>, small_route<double>};

}  // namespace VARIANT
