#pragma once

// Made data: one generator per kind of data.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "mlbench/dataset/description.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::dataset {

// Made data of the same shape, counts and value type, from the description's synthetic_seed alone: the same in every
// run (on all cores; their number does not matter), in the same cache form. Learnable: of uint8 images, sample i of
// either split has label i mod classes and is the prototype of its class plus noise; float32 rows of two classes are
// normally distributed, with labels drawn by a logistic model (below); text is text/synthetic_text.h's.
PreparedDataset make_synthetic(const DatasetDescription& description, const std::filesystem::path& cache_dir,
                               const Progress& progress = {});

// What it writes into a cache. Internal to dataset/.
struct Generation {
  const DatasetDescription& description;
  size_t split = 0;  // its number in the description
  unsigned threads = 1;
  const Progress& progress;  // called by the calling thread only; may be empty
};

// uint8 images: label i mod classes, the prototype of the class plus noise.
void make_images(const Generation& generation, const SplitBuffers& out);

// float32 rows of two classes. With g standard normal, component i (from 1) of a row is g_i / sqrt(i), a covariance of
// eigenvalues 1/i; the row is then scaled to length 1. Its label is 1 with probability sigmoid(6 <u, g>): a score of
// standard deviation 6. u is one standard normal vector of the seed, scaled to length 1, the same for all splits. The
// best classifier is linear, with weights u_i sqrt(i), and right in 91.1 % of the cases. Every row is a function of
// (seed, split, row) alone, so the number of threads does not matter.
void make_gaussian_rows(const Generation& generation, const SplitBuffers& out);
std::vector<double> gaussian_rows_direction(uint64_t seed, size_t dimension);  // u

}  // namespace mlbench::dataset
