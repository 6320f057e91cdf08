#pragma once

// Names that have changed. What was recorded under a former name is read as the present one; who asks for a former name
// is told the present one.

#include <string>
#include <string_view>

namespace mlbench::spec {

// The present name of a framework that a record, a run's spec.json or a checkpoint names.
std::string present_framework(std::string_view recorded);
// UserError, naming the present one, where `asked` is the former name of a framework.
void refuse_former_framework(std::string_view asked);

}  // namespace mlbench::spec
