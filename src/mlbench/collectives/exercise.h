#pragma once

// One operation on the buffers of one rank, with data whose result is known.

#include <cstdint>
#include <memory>

#include "mlbench/collectives/buffer_with_margins.h"
#include "mlbench/collectives/memory.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/spec/collectives.h"

namespace mlbench::collectives {

// What the operations of a rank share. The buffers have room for the largest operation.
struct Workplace {
  comm::Communicator& comm;
  Memory& memory;
  BufferWithMargins& send;
  BufferWithMargins& receive;
};

enum class Form : uint8_t { kOutOfPlace, kInPlace };

// Every rank of the group makes the same exercises and calls the same functions.
class Exercise {
 public:
  virtual ~Exercise() = default;
  // Fills the input and clears the output. `seed` must be the same on all ranks; another seed gives other data.
  virtual void prepare(uint64_t seed) = 0;
  // Performs the operation, which is what is timed. run() may be repeated without preparing again.
  virtual void run() = 0;
  // Called after prepare() and one run(). Counts elements of this rank's output that are wrong, elements of its input
  // that were changed though they must not be, and bytes written beside the buffers.
  virtual int64_t wrong() = 0;
};

// The operation of a row in one form. `count` is the number of elements before they are cut into slices.
//
// The interface has most operations in one form only, the one that training needs: all_reduce, reduce and broadcast in
// place, the others out of place. The other form is made with a copy, whose time counts: a caller would have to make
// it, too.
std::unique_ptr<Exercise> make_exercise(const Workplace& workplace, const spec::CollectiveCase& one, int64_t count,
                                        Form form);
// Whether that form is made with a copy.
bool makes_copies(spec::Collective operation, Form form);
// Whether the operation has that form: barrier and point-to-point operations have no in-place form.
bool has_form(spec::Collective operation, Form form);

// A point-to-point operation between two ranks; on other ranks it does nothing. `first` is the sender of kBandwidth,
// and the rank whose time counts. `window` messages are under way at once.
std::unique_ptr<Exercise> make_point_to_point(const Workplace& workplace, spec::Collective operation, DType dtype,
                                              int64_t count, int64_t window, int first, int second);

}  // namespace mlbench::collectives
