#pragma once

// Debian's libgloo-dev lacks this header, which its gloo/transport/tcp/pair.h includes. It declares here what that
// needs: a type with the size of a weak pointer that can be copied. Only the library itself looks into it.

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
