#pragma once

// Debian's libgloo-dev leaves out this header, which its gloo/transport/tcp/pair.h includes: here is what that needs,
// the size of a weak pointer, and to copy one. Only the library itself ever looks into it.

#include <memory>

namespace gloo {

template <typename T>
class NonOwningPtr;

template <typename T>
class WeakNonOwningPtr {
 private:
  std::weak_ptr<T> pointer_;
};

}  // namespace gloo
