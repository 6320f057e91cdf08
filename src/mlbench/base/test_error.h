#pragma once

// For tests: the text of the error that the user would see.

#include <string>

#include "mlbench/base/errors.h"

namespace mlbench {

// What the UserError says that `action` throws; "no error" where it throws none.
template <typename Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace mlbench
