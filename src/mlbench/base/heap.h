#pragma once

// What the C library's allocator does with memory that is freed.

namespace mlbench {

// From now on, freed memory stays with the process, to be taken again. A training step frees what the next step takes.
// By default the allocator gives large parts of that back to the system in between (how large depends on where in the
// heap they happen to lie), and every page of them is faulted in again. Precondition: no thread has been started. Other
// allocators (a sanitizer's) are not affected.
void keep_freed_memory();

}  // namespace mlbench
