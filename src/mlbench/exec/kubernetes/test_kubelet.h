#pragma once

// For tests: what the kubelet makes of a container's words and of the values of its variables.
// Source: Kubernetes, "Define a Command and Arguments for a Container".

#include <map>
#include <string>

namespace mlbench::exec::kubernetes {

// The text as the kubelet changes it: "$(NAME)" becomes the value of a variable in `known`, or stays as it is where
// there is none; "$$" becomes "$".
inline std::string by_kubelet(const std::string& text, const std::map<std::string, std::string>& known) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : 'x';
    const size_t end = text.find(')', i);
    if (text[i] == '$' && next == '$') {
      out += text[i++];
    } else if (text[i] == '$' && next == '(' && end != std::string::npos) {
      const auto value = known.find(text.substr(i + 2, end - i - 2));
      out += value == known.end() ? text.substr(i, end + 1 - i) : value->second;
      i = end;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace mlbench::exec::kubernetes
