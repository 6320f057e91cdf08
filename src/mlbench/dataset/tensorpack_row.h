#pragma once

// One row of data as tensorpack 0.9 stores it in a database: the list [features, label] in MessagePack
// (https://github.com/msgpack/msgpack/blob/master/spec.md). An array or scalar of NumPy is a map, as msgpack-numpy
// writes it:
//   nd     whether the value is an array       type   "<f8", "<f4", "<i8" or "<i4"
//   shape  of an array: a list of extents      data   the elements, row-major
//   kind   empty
// Keys are bytes or text. A label may also be a plain number. Internal to dataset/.

#include <span>
#include <string_view>

namespace mlbench::dataset {

// Writes the features, which must be finite, to `features`, rounded to float32, and returns the label. Throws UserError
// (what is wrong, without the row's place) where `row` is anything else: also for a pickle, which is never loaded.
double read_tensorpack_row(std::string_view row, std::span<float> features);

}  // namespace mlbench::dataset
