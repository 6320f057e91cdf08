#pragma once

// File formats that data sets come in: one row per format, in format.cpp. Internal to dataset/.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/base/sha256.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/dataset/text/text_format.h"

namespace mlbench::dataset {

// Where a reader puts one split: exactly samples * volume elements and samples labels.
struct SplitBuffers {
  std::span<std::byte> features;
  std::span<int64_t> labels;
};

struct Format {
  std::string name;
  DType dtype;             // of the decoded features
  size_t files_per_split;  // 0: any number
  // Fills `out` from the files of one split. UserError when they are not what the description says.
  void (*read)(const DatasetDescription& description, const SplitSpec& split,
               const std::vector<std::filesystem::path>& files, const SplitBuffers& out);
  // The inverse: the bytes of file `file` of `files` into a hash. Null where records do not determine the file.
  void (*hash_file)(const CachedSplit& split, size_t file, size_t files, Sha256& hash) = nullptr;
  // Of text, in the place of `read`: token files and a vocabulary (text/text_format.h).
  text::MakeTokens make_tokens = nullptr;
  bool pairs = false;  // of source and target
};

const Format* find_format(const std::string& name);  // nullptr if there is none
std::vector<std::string> format_names();

// idx.cpp: images and labels as unsigned bytes, the format of MNIST (http://yann.lecun.com/exdb/mnist/): big-endian
// magic 0x00000800 + number of dimensions, their extents (samples first), the bytes. Files: images, labels.
void read_idx(const DatasetDescription& description, const SplitSpec& split,
              const std::vector<std::filesystem::path>& files, const SplitBuffers& out);

// cifar.cpp: the binary layout of CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html): records of one label byte and
// the image's bytes, plane by plane; the records of a split are spread evenly over its files.
void read_cifar(const DatasetDescription& description, const SplitSpec& split,
                const std::vector<std::filesystem::path>& files, const SplitBuffers& out);
void hash_cifar_file(const CachedSplit& split, size_t file, size_t files, Sha256& hash);
// libsvm.cpp: one sample a line, `label index:value index:value ...`, indices from 1 and rising, what is not written is
// zero (https://www.csie.ntu.edu.tw/~cjlin/libsvm/). Samples become dense float32 rows. Labels are whole numbers; with
// two classes -1 means 0. Files: the samples.
void read_libsvm(const DatasetDescription& description, const SplitSpec& split,
                 const std::vector<std::filesystem::path>& files, const SplitBuffers& out);

}  // namespace mlbench::dataset
