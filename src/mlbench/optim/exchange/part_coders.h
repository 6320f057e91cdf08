#pragma once

// Coders for parts of the flat gradient, for the patterns that codes_parts() names.

#include <memory>
#include <string>

#include "mlbench/optim/exchange/exchange.h"

namespace mlbench::optim {

// The layout of a part of the parameters by itself, from 0. A tensor that the part cuts becomes up to three: the end of
// a row, whole rows, and the beginning of a row. A row is what a tensor has for one index of its first dimension.
FlatLayout layout_of_part(const FlatLayout& layout, const FlatPart& part);

// The coder's state, under keys that begin with `key`.
void export_coder(const std::string& key, const compress::GradientCoder& coder, NamedState& state);
void import_coder(const std::string& key, const NamedState& state, compress::GradientCoder& coder);

}  // namespace mlbench::optim
