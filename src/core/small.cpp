// The small routes and loops over entries for one instruction set, apart from the other loops, which
// share nothing with them.
#include "few_columns.hpp"

namespace VARIANT {

extern const SmallKernels small;
const SmallKernels small = {small_route<float>, small_route<double>, few_columns<float>,
                            few_columns<double>, entry_loops};

}  // namespace VARIANT
