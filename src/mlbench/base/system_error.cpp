#include "mlbench/base/system_error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <system_error>

namespace mlbench {

void throw_system_error(const std::string& what, int error_number) {
  if (error_number == ENOSPC || error_number == EDQUOT) throw DiskFull(what, error_number);
  throw SystemError(what, error_number);
}

bool is_transient(int error_number) {
  constexpr std::array kPassing = {EMFILE, ENFILE, ENOMEM, ENOBUFS, EAGAIN, EINTR,  EBUSY,  ENOSPC,
                                   EDQUOT, EIO,    EACCES, EPERM,   EROFS,  ENOLCK, ESTALE, ETIMEDOUT};
  return std::find(kPassing.begin(), kPassing.end(), error_number) != kPassing.end();
}

bool is_transient(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const SystemError*>(&error)) return is_transient(ours->error_number());
  if (const auto* theirs = dynamic_cast<const std::system_error*>(&error)) {
    return theirs->code().default_error_condition().category() == std::generic_category() &&
           is_transient(theirs->code().value());
  }
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
}

}  // namespace mlbench
