// A working folder that was removed (base/program_start.h): libraries of LibTorch end the process for it, with other
// words, in their constructors. So it is left before these run. What is given relative to it cannot be found anyway.

#include <unistd.h>

#include <cerrno>

namespace {

void leave_a_folder_that_is_gone() {
  char path[1];
  if (getcwd(path, sizeof path) != nullptr || errno != ENOENT) return;  // too little room for one that is there
  if (chdir("/") != 0) _exit(2);
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)() = leave_a_folder_that_is_gone;

}  // namespace
