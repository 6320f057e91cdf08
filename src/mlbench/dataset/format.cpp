#include "mlbench/dataset/format.h"

#include <array>

#include "mlbench/base/choices.h"

namespace mlbench::dataset {

namespace {
const std::array kFormats = {
    Format{"idx", DType::kUInt8, 2, read_idx},
    Format{"cifar", DType::kUInt8, 0, read_cifar, hash_cifar_file},
    Format{"cifar-100", DType::kUInt8, 0, read_cifar100, hash_cifar100_file},
    Format{"libsvm", DType::kFloat32, 1, read_libsvm},
    Format{.name = "libsvm-sparse",
           .dtype = DType::kFloat32,
           .files_per_split = 1,
           .read = nullptr,
           .read_sparse = read_libsvm_sparse},
    Format{"lmdb", DType::kFloat32, 1, read_lmdb},
    Format{"images", DType::kUInt8, 0, nullptr, nullptr, nullptr, false, true},
    Format{"words", DType::kInt32, 0, nullptr, nullptr, text::make_words},
    Format{"pairs", DType::kInt32, 0, nullptr, nullptr, text::make_pairs, true},
    Format{"marked-pairs", DType::kInt32, 0, nullptr, nullptr, text::make_marked_pairs, true},
    Format{"indexed-pairs", DType::kInt32, 0, nullptr, nullptr, text::make_indexed_pairs, true},
};
}  // namespace

const Format* find_format(const std::string& name) {
  for (const Format& format : kFormats) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

std::vector<std::string> format_names() { return names_of(kFormats); }

}  // namespace mlbench::dataset
