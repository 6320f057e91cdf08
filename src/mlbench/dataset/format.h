#pragma once

// The file formats of data sets: one row per format, in format.cpp. Internal to dataset/.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/buffer.h"
#include "mlbench/base/sha256.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/dataset/text/text_format.h"

namespace mlbench::dataset {

// Where a reader writes one split: space for exactly samples * volume elements and `samples` labels.
struct SplitBuffers {
  std::span<std::byte> features;
  std::span<int64_t> labels;
};

class SplitWriter;  // cache.h

struct Format {
  std::string name;
  DType dtype;             // type of the decoded features
  size_t files_per_split;  // 0: any number
  // Fills `out` from the files of one split. Throws UserError where they are not what the description says. Null for
  // text, for encoded images and for sparse rows.
  void (*read)(const DatasetDescription& description, const SplitSpec& split,
               const std::vector<std::filesystem::path>& files, const SplitBuffers& out);
  // The inverse of `read`: adds the bytes of the unpacked file number `file` (of `files`) to `hash`. Null where the
  // records do not determine the file.
  void (*hash_file)(const CachedSplit& split, size_t file, size_t files, Sha256& hash) = nullptr;
  // Makes token files and a vocabulary (text/text_format.h): what formats of text have in place of `read`.
  text::MakeTokens make_tokens = nullptr;
  bool pairs = false;    // for text: whether records are pairs of source and target
  bool encoded = false;  // encoded images, which stay where they are (images.h)
  // What formats of sparse rows have in place of `read`: the same, and nothing is kept of more than one row at a time.
  void (*read_sparse)(const DatasetDescription& description, const SplitSpec& split,
                      const std::vector<std::filesystem::path>& files, SplitWriter& out) = nullptr;
};

const Format* find_format(const std::string& name);  // nullptr if there is no such format
std::vector<std::string> format_names();

// Reads the format of MNIST (http://yann.lecun.com/exdb/mnist/; idx.cpp): images and labels as unsigned bytes. Each
// file holds a big-endian magic number (0x00000800 + number of dimensions), the extents (samples first), and the bytes.
// `files` are the images and the labels.
void read_idx(const DatasetDescription& description, const SplitSpec& split,
              const std::vector<std::filesystem::path>& files, const SplitBuffers& out);

// Reads the binary layout of CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html; cifar.cpp): each record is one
// label byte and the image's bytes, plane by plane. Precondition: the records of a split are spread evenly over
// `files`.
void read_cifar(const DatasetDescription& description, const SplitSpec& split,
                const std::vector<std::filesystem::path>& files, const SplitBuffers& out);
void hash_cifar_file(const CachedSplit& split, size_t file, size_t files, Sha256& hash);
// Reads the binary layout of CIFAR-100 (same page; cifar.cpp): a record begins with two label bytes, the coarse label
// (0 to 19) and the fine one (0 to 99). The fine label is the sample's, and must lie in the group that the coarse label
// says.
void read_cifar100(const DatasetDescription& description, const SplitSpec& split,
                   const std::vector<std::filesystem::path>& files, const SplitBuffers& out);
void hash_cifar100_file(const CachedSplit& split, size_t file, size_t files, Sha256& hash);
// Reads the format of LIBSVM (https://www.csie.ntu.edu.tw/~cjlin/libsvm/; libsvm.cpp): one sample per line, `label
// index:value index:value ...`, with rising indices from 1; what is not written is zero. Samples become dense float32
// rows. Labels are whole numbers; with two classes, -1 means 0. `files` is one file of samples.
void read_libsvm(const DatasetDescription& description, const SplitSpec& split,
                 const std::vector<std::filesystem::path>& files, const SplitBuffers& out);
// Reads the same files as sparse rows: a value that is written as 0 is left out, too.
void read_libsvm_sparse(const DatasetDescription& description, const SplitSpec& split,
                        const std::vector<std::filesystem::path>& files, SplitWriter& out);
// Reads rows that MLBench took from LIBSVM's text into a database of LMDB, by tensorpack (lmdb.cpp): the keys are
// "00000000", "00000001" and so on, the values rows as in tensorpack_row.h. Rows and labels become those of
// read_libsvm(). `files` is one database.
void read_lmdb(const DatasetDescription& description, const SplitSpec& split,
               const std::vector<std::filesystem::path>& files, const SplitBuffers& out);

// The class that the label of such a row means. Empty where the label means none.
std::optional<int64_t> class_of_label(double label, int64_t classes);
std::string label_choices(int64_t classes);  // the labels that mean one, for messages

}  // namespace mlbench::dataset
