#pragma once

// For tests: the text of the error that a user would see.

#include <string>

#include "mlbench/base/errors.h"

namespace mlbench {

// The text of the UserError that `action` throws; "no error" where it throws none.
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
