#pragma once

// Work on many numbers, shared by threads that live as long as the call.

#include <cstddef>
#include <functional>

namespace mlbench {

// Calls work(thread, begin, end) for blocks of at most `block` numbers that together are [0, count), on `threads`
// threads of which the caller is number 0. Blocks begin in their order. Where a call throws, no further block begins;
// when all calls have ended, the exception that came first is thrown. Precondition: `block` and `threads` are positive.
void for_blocks(size_t count, size_t block, int threads,
                const std::function<void(int thread, size_t begin, size_t end)>& work);

}  // namespace mlbench
