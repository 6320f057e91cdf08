#pragma once

// Made data, with one generator per kind of data.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "mlbench/dataset/description.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::dataset {

// Makes data with the shape, counts and value type of `description`, from its synthetic_seed alone, and maps them as
// prepare() does. The data are the same in every run, on any number of cores (all are used). They can be learned: see
// make_images(), make_gaussian_rows(), make_sparse_rows() and, for text, text/synthetic_text.h. Throws UserError where
// no generator exists for the kind of data.
PreparedDataset make_synthetic(const DatasetDescription& description, const std::filesystem::path& cache_dir,
                               const Progress& progress = {});

// What a generator is given to fill one split of a cache. Internal to dataset/.
struct Generation {
  const DatasetDescription& description;
  size_t split = 0;  // the split's index in the description
  unsigned threads = 1;
  const Progress& progress;  // called on the calling thread only; may be empty
};

// Makes uint8 images: image i of a split has label i mod classes, and is the prototype of its class plus noise.
void make_images(const Generation& generation, const SplitBuffers& out);

// Makes float32 rows of two classes. With g standard normal, component i (from 1) of a row is g_i / sqrt(i), which has
// a covariance of eigenvalues 1/i; the row is then scaled to length 1. Its label is 1 with probability sigmoid(6 <u,
// g>): the score has a standard deviation of 6. u is one standard normal vector from the seed, scaled to length 1, the
// same for all splits. The best classifier is linear, with weights u_i sqrt(i), and right in 91.1 % of the cases. Every
// row is a function of (seed, split, row) alone, so the number of threads does not matter.
void make_gaussian_rows(const Generation& generation, const SplitBuffers& out);
std::vector<double> gaussian_rows_direction(uint64_t seed, size_t dimension);  // the vector u

// Makes sparse float32 rows of two classes. A row has the columns of synthetic_length draws: column c (from 1) is drawn
// with a probability of log(1 + 1/c) / log(dimension + 1), as words of a text are. Its values are standard normal, then
// scaled to length 1. Its label is 1 with probability sigmoid(6 <w, row>), where w is standard normal, the same for all
// splits. Every row is a function of (seed, split, row) alone, and of no more than one row is anything kept.
void make_sparse_rows(const Generation& generation, SplitWriter& out);

}  // namespace mlbench::dataset
