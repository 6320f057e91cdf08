#include "mlbench/dataset/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>

#include "mlbench/base/blocks.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/base/shape.h"
#include "mlbench/base/sparse_rows.h"
#include "mlbench/dataset/cache.h"
#include "mlbench/dataset/text/synthetic_text.h"

namespace mlbench::dataset {

namespace {

constexpr double kScoreDeviation = 6;

enum SyntheticStream : uint64_t { kPrototypes = 1, kNoise = 2, kDirection = 3, kRows = 4, kLabels = 5, kColumns = 6 };

// A prototype has values in [64, 192), equal over cells of 4 x 4 pixels, so that convolution and pooling find the
// pattern.
std::vector<uint8_t> make_prototype(const std::vector<int64_t>& shape, uint64_t key, int64_t label) {
  const bool image = shape.size() >= 2;
  const int64_t width = shape.back();
  const int64_t height = image ? shape[shape.size() - 2] : 1;
  const int64_t planes = image ? volume_of(std::span(shape).first(shape.size() - 2)) : 1;
  const int64_t cell = image ? 4 : 1;

  std::vector<uint8_t> prototype;
  for (int64_t plane = 0; plane < planes; ++plane) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        const auto position = static_cast<uint64_t>((plane * height + y / cell) * width + x / cell);
        const auto block = philox(key, position, static_cast<uint64_t>(label));
        prototype.push_back(static_cast<uint8_t>(64 + block[0] % 128));
      }
    }
  }
  return prototype;
}

// out = prototype + noise, the noise uniform in [-64, 64): sums stay within a byte.
void add_noise(const std::vector<uint8_t>& prototype, uint64_t key, uint64_t sample, std::span<std::byte> out) {
  for (size_t first = 0; first < out.size(); first += 16) {
    const auto block = philox(key, first / 16, sample);
    for (size_t i = 0; i < std::min<size_t>(16, out.size() - first); ++i) {
      const uint32_t noise = block[i / 4] >> (8 * (i % 4)) & 127;
      out[first + i] = static_cast<std::byte>(prototype[first + i] - 64 + noise);
    }
  }
}

// The normally distributed numbers 4 * i to 4 * i + 3 of a row (Box and Muller).
std::array<double, 4> normals(uint64_t key, uint64_t i, uint64_t row) {
  const auto words = philox(key, i, row);
  const auto uniform = [](uint32_t word) { return (word + 0.5) * 0x1p-32; };
  std::array<double, 4> values;
  for (size_t pair = 0; pair < 4; pair += 2) {
    const double radius = std::sqrt(-2.0 * std::log(uniform(words[pair])));
    const double angle = 2.0 * std::numbers::pi * uniform(words[pair + 1]);
    values[pair] = radius * std::cos(angle);
    values[pair + 1] = radius * std::sin(angle);
  }
  return values;
}

void draw_normals(uint64_t key, uint64_t row, std::span<double> out) {
  for (size_t first = 0; first < out.size(); first += 4) {
    const auto values = normals(key, first / 4, row);
    std::copy_n(values.begin(), std::min<size_t>(4, out.size() - first), out.begin() + static_cast<ptrdiff_t>(first));
  }
}

double uniform_of(uint64_t key, uint64_t row) {
  const auto words = philox(key, row, 0);
  return static_cast<double>((uint64_t{words[0]} << 32 | words[1]) >> 11) * 0x1p-53;
}

// Calls `work(begin, end)` for blocks of rows on the threads of `generation`.
template <typename Work>
void for_rows(size_t rows, const Generation& generation, const Work& work) {
  constexpr size_t kBlock = 500;
  constexpr size_t kReports = 10;
  const auto report = [&](size_t made) {
    if (!generation.progress) return;
    generation.progress(fmt::format("made {} of {} rows of {} {}", made, rows, generation.description.name,
                                    generation.description.splits[generation.split].name));
  };
  size_t reported = 0;
  for_blocks(rows, kBlock, static_cast<int>(generation.threads), [&](int thread, size_t begin, size_t end) {
    if (thread == 0) {
      if (const size_t part = begin * kReports / rows; part > reported) {
        reported = part;
        report(begin);
      }
    }
    work(begin, end);
  });
  report(rows);
}

}  // namespace

void make_images(const Generation& generation, const SplitBuffers& out) {
  const DatasetDescription& description = generation.description;
  std::vector<std::vector<uint8_t>> prototypes;
  const uint64_t prototype_key = derive_key(description.synthetic_seed, {kSyntheticStream, kPrototypes});
  for (int64_t label = 0; label < description.classes; ++label) {
    prototypes.push_back(make_prototype(description.sample_shape, prototype_key, label));
  }
  const uint64_t noise_key = derive_key(description.synthetic_seed, {kSyntheticStream, kNoise, generation.split});
  const auto record = static_cast<size_t>(description.sample_volume());
  for (size_t i = 0; i < out.labels.size(); ++i) {
    const size_t label = i % prototypes.size();
    out.labels[i] = static_cast<int64_t>(label);
    add_noise(prototypes[label], noise_key, i, out.features.subspan(i * record, record));
  }
}

std::vector<double> gaussian_rows_direction(uint64_t seed, size_t dimension) {
  std::vector<double> direction(dimension);
  draw_normals(derive_key(seed, {kSyntheticStream, kDirection}), 0, direction);
  const double length = std::sqrt(std::inner_product(direction.begin(), direction.end(), direction.begin(), 0.0));
  for (double& value : direction) value /= length;
  return direction;
}

void make_gaussian_rows(const Generation& generation, const SplitBuffers& out) {
  const auto dimension = static_cast<size_t>(generation.description.sample_volume());
  const uint64_t seed = generation.description.synthetic_seed;
  const std::vector<double> direction = gaussian_rows_direction(seed, dimension);
  std::vector<double> deviations(dimension);
  for (size_t i = 0; i < dimension; ++i) deviations[i] = 1.0 / std::sqrt(static_cast<double>(i + 1));
  const uint64_t row_key = derive_key(seed, {kSyntheticStream, kRows, generation.split});
  const uint64_t label_key = derive_key(seed, {kSyntheticStream, kLabels, generation.split});
  auto* features = reinterpret_cast<float*>(out.features.data());
  for_rows(out.labels.size(), generation, [&](size_t begin, size_t end) {
    std::vector<double> values(dimension);
    for (size_t row = begin; row < end; ++row) {
      draw_normals(row_key, row, values);
      double score = 0;
      double squares = 0;
      for (size_t i = 0; i < dimension; ++i) {
        score += kScoreDeviation * direction[i] * values[i];
        values[i] *= deviations[i];
        squares += values[i] * values[i];
      }
      const double scale = 1.0 / std::sqrt(squares);
      for (size_t i = 0; i < dimension; ++i) features[row * dimension + i] = static_cast<float>(scale * values[i]);
      const double probability = 1.0 / (1.0 + std::exp(-score));
      out.labels[row] = uniform_of(label_key, row) < probability ? 1 : 0;
    }
  });
}

namespace {

// The columns of a sparse row, rising: `draws` of them, of which column c (from 1) is drawn with a probability of
// log(1 + 1/c) / log(dimension + 1), as words of a text are. What is drawn twice is there once.
std::vector<int32_t> draw_columns(uint64_t key, uint64_t row, size_t draws, size_t dimension) {
  std::vector<int32_t> columns(draws);
  for (size_t i = 0; i < draws; ++i) {
    const double uniform = philox(key, i / 4, row)[i % 4] * 0x1p-32;
    const auto column = static_cast<size_t>(std::pow(static_cast<double>(dimension + 1), uniform)) - 1;
    columns[i] = static_cast<int32_t>(std::min(column, dimension - 1));
  }
  std::ranges::sort(columns);
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  return columns;
}

}  // namespace

void make_sparse_rows(const Generation& generation, SplitWriter& out) {
  const DatasetDescription& description = generation.description;
  const auto dimension = static_cast<size_t>(description.sample_volume());
  const auto draws = static_cast<size_t>(description.synthetic_length);
  const uint64_t seed = description.synthetic_seed;
  std::vector<double> weights(dimension);
  draw_normals(derive_key(seed, {kSyntheticStream, kDirection}), 0, weights);
  const uint64_t column_key = derive_key(seed, {kSyntheticStream, kColumns, generation.split});
  const uint64_t row_key = derive_key(seed, {kSyntheticStream, kRows, generation.split});
  const uint64_t label_key = derive_key(seed, {kSyntheticStream, kLabels, generation.split});
  const std::span<std::byte> bytes = out.values("labels");
  const std::span labels(reinterpret_cast<int64_t*>(bytes.data()), bytes.size() / sizeof(int64_t));
  std::vector<SparseEntry> entries;
  for (size_t row = 0; row < labels.size(); ++row) {
    const std::vector<int32_t> columns = draw_columns(column_key, row, draws, dimension);
    std::vector<double> values(columns.size());
    draw_normals(row_key, row, values);
    const double scale = 1 / std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
    double score = 0;
    entries.clear();
    for (size_t i = 0; i < columns.size(); ++i) {
      score += kScoreDeviation * weights[static_cast<size_t>(columns[i])] * scale * values[i];
      entries.push_back({columns[i], static_cast<float>(scale * values[i])});
    }
    out.append("features", std::as_bytes(std::span(entries)));
    labels[row] = uniform_of(label_key, row) < 1 / (1 + std::exp(-score)) ? 1 : 0;
  }
}

namespace {

struct Generator {
  const char* name;  // includes a version, which goes up when the data change
  void (*make)(const Generation& generation, SplitWriter& out);
};
constexpr Generator kImages{"images 1",
                            [](const Generation& from, SplitWriter& out) { make_images(from, sample_buffers(out)); }};
constexpr Generator kGaussianRows{
    "gaussian rows 1", [](const Generation& from, SplitWriter& out) { make_gaussian_rows(from, sample_buffers(out)); }};
constexpr Generator kSparseRows{"sparse rows 1", make_sparse_rows};

const Generator& generator_of(const Format& format) {
  if (format.read_sparse != nullptr) return kSparseRows;
  return format.dtype == DType::kUInt8 ? kImages : kGaussianRows;
}

}  // namespace

PreparedDataset make_synthetic(const DatasetDescription& published, const std::filesystem::path& cache_dir,
                               const Progress& progress) {
  DatasetDescription description = published;
  for (SplitSpec& split : description.splits) {
    if (split.synthetic_samples > 0) split.samples = split.synthetic_samples;
  }
  const Format* format = find_format(description.format);
  MLBENCH_CHECK(format != nullptr, "parse_description() checks the format");
  if (format->make_tokens != nullptr) return text::make_synthetic_text(description, cache_dir, progress);
  const Generator& generator = generator_of(*format);
  if (&generator != &kImages && (format->dtype != DType::kFloat32 || description.classes != 2)) {
    throw UserError(
        fmt::format("no synthetic data for {}: made data are uint8 images, or float32 rows of 2 classes; these are {} "
                    "of {} classes",
                    description.name, name_of(format->dtype), description.classes));
  }
  const auto fill = [&](size_t split, SplitWriter& out) {
    generator.make({description, split, static_cast<unsigned>(available_cores()), progress}, out);
  };
  const std::string made_by = fmt::format("{}, seed {}", generator.name, description.synthetic_seed);
  return open_or_make_cache(
      {description, sample_columns(description), made_by, cache_key(description, {{"generator", made_by}})}, cache_dir,
      fill, fmt::format("making synthetic {}: {}", description.name, made_by), progress);
}

}  // namespace mlbench::dataset
