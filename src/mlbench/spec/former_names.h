#pragma once

// Names that have changed. Files with a former name are read as if they had the present one. A user who asks for a
// former name is told the present one.

#include <string>
#include <string_view>

namespace mlbench::spec {

// The present name of the framework that a record, a run's spec.json or a checkpoint calls `recorded`.
std::string present_framework(std::string_view recorded);
// Throws UserError with the present name where `asked` is the former name of a framework.
void refuse_former_framework(std::string_view asked);

}  // namespace mlbench::spec
