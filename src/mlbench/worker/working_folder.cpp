// Leaves a working folder that was removed (base/program_start.h). Constructors in libraries of LibTorch would end the
// process for it, with another message, so this runs before them. Paths relative to that folder cannot be found anyway.

#include <unistd.h>

#include <cerrno>

namespace {

void leave_a_folder_that_is_gone() {
  char path[1];
  if (getcwd(path, sizeof path) != nullptr || errno != ENOENT) return;  // ERANGE: the folder exists
  if (chdir("/") != 0) _exit(2);
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)() = leave_a_folder_that_is_gone;

}  // namespace
