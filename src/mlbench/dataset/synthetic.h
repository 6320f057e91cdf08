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
// either split has label i mod classes and is the prototype of its class plus noise; float32 rows of two classes lie on
// the unit sphere with labels drawn by a logistic model (below).
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

// float32 rows of two classes: uniform on the unit sphere of dimension d; label 1 with probability
// sigmoid(5.6 * sqrt(d) * <u, x>) for one unit vector u of the seed, the same for all splits. No classifier is right
// more often than in 90.5 % of the cases (for large d). Every row is a function of (seed, split, row) alone, so the
// number of threads does not matter.
void make_unit_sphere(const Generation& generation, const SplitBuffers& out);
std::vector<double> unit_sphere_direction(uint64_t seed, size_t dimension);  // u

}  // namespace mlbench::dataset
