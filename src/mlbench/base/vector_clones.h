#pragma once

// One function compiled for several widths of vectors.

// Stands before a function: GCC compiles the function for AVX-512, for AVX2 and for any x86-64, and the loader takes
// the widest that the processor has. The loader does so before a thread sanitizer has started: a file with such a
// function is compiled without one (image/CMakeLists.txt).
#define MLBENCH_VECTOR_CLONES [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
