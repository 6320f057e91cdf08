#include "mlbench/framework/tensorflow/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/paths.h"

namespace mlbench::framework::tensorflow_framework {

namespace {

Library load() {
  // RTLD_LOCAL hides its symbols from libraries that are loaded later. RTLD_DEEPBIND makes it use its own protobuf and
  // zlib rather than those that the program has loaded. The library stays loaded: its threads never end.
  void* const handle = dlopen(library_file().c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (handle == nullptr) {
    throw UserError(fmt::format("framework 'tensorflow': TensorFlow cannot be loaded: {}", dlerror()));
  }
  Library library;
#define TENSORFLOW_LOOK_UP(name)                                                                                    \
  library.name = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name));                                         \
  if (library.name == nullptr) {                                                                                    \
    throw UserError(fmt::format("framework 'tensorflow': {} has no function {}; expected TensorFlow 2.21 or later", \
                                library_file().string(), #name));                                                   \
  }
  TENSORFLOW_FUNCTIONS(TENSORFLOW_LOOK_UP)
#undef TENSORFLOW_LOOK_UP
  return library;
}

}  // namespace

std::filesystem::path library_file() {
  const std::filesystem::path built_with = TENSORFLOW_LIBRARY_FILE;
  const std::filesystem::path installed = program_path().parent_path() / "libtensorflow" / built_with.filename();
  return std::filesystem::exists(installed) ? installed : built_with;
}

const Library& library() {
  static const Library kLibrary = load();
  return kLibrary;
}

}  // namespace mlbench::framework::tensorflow_framework
