// Checks whether a request can be run as asked.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/text.h"
#include "mlbench/exec/kubernetes/manifest.h"

namespace mlbench::exec::kubernetes {
namespace {

constexpr size_t kLongestSubdomain = 253;

bool is_lower_alnum(char c) { return is_alnum(c) && std::isupper(static_cast<unsigned char>(c)) == 0; }

bool is_subdomain(std::string_view text) {
  return text.size() <= kLongestSubdomain && std::ranges::all_of(split_at(text, '.'), is_label);
}

bool is_quantity(const std::string& text) {
  constexpr std::array<std::string_view, 13> kUnits = {"",   "k",  "M",  "G",  "T",  "P", "E",
                                                       "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string number = text.substr(0, digits);
  return !number.empty() && is_alnum(number.front()) && is_alnum(number.back()) &&
         std::ranges::count(number, '.') <= 1 && number.find_first_of("123456789") != std::string::npos &&
         std::ranges::find(kUnits, std::string_view(text).substr(digits)) != kUnits.end();
}

bool is_image(const std::string& text) {
  return !text.empty() && text.size() <= 1024 && is_alnum(text.front()) && std::ranges::all_of(text, [](char c) {
    return is_alnum(c) || std::string_view("._-/:@+").find(c) != std::string_view::npos;
  });
}

bool is_interface(std::string_view text) {
  const auto fits = [](char c) { return is_alnum(c) || std::string_view("._-:/,").find(c) != std::string_view::npos; };
  return std::ranges::all_of(text, fits);
}

void expect(bool right, const char* option, const std::string& given, const char* expected) {
  if (!right) throw UserError(fmt::format("{} '{}': expected {}", option, shortened(given), expected));
}

}  // namespace

bool is_alnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool is_label(std::string_view text) {
  return !text.empty() && text.size() <= kLongestLabel && is_lower_alnum(text.front()) && is_lower_alnum(text.back()) &&
         std::ranges::all_of(text, [](char c) { return is_lower_alnum(c) || c == '-'; });
}

std::string data_volume_of(const Options& engine, const Defaults& defaults) {
  return engine.data_volume.empty() ? defaults.data_volume : engine.data_volume;
}

void check(const LaunchRequest& request, const Options& engine, const Defaults& defaults) {
  const std::string image = image_of(engine, defaults);
  if (image.empty()) {
    throw UserError(
        fmt::format("executor kubernetes needs an image: give --image REF (deploy/docker/build.sh builds one with the "
                    "worker), or set {}, as the Helm chart does",
                    variables::kWorkerImage));
  }
  check_utf8(request, "Kubernetes");
  expect(is_image(image), "--image", image, "an image as in registry.example/mlbench-worker:1");
  // Open MPI's agent gives the interface to a shell of the pods.
  expect(!request.by_mpirun || is_interface(request.network_interface), "--interface", request.network_interface,
         "a name (eth0), an address or a network (10.244.0.0/16)");
  if (!engine.name_space.empty()) {
    expect(is_label(engine.name_space), "--namespace", engine.name_space, "small letters, digits and '-'");
  }
  if (!engine.memory.empty())
    expect(is_quantity(engine.memory), "--memory", engine.memory, "a quantity as in 512Mi, 4Gi");
  if (!engine.queue.empty()) {
    expect(is_subdomain(engine.queue) && engine.queue.size() <= kLongestLabel, "--queue", engine.queue,
           "the name of a LocalQueue of Kueue");
  }
  const std::string data = data_volume_of(engine, defaults);
  const char* source = engine.data_volume.empty() ? variables::kDataVolume : "--data-volume";
  if (!data.empty() && !data.starts_with('/')) {
    expect(is_subdomain(data), source, data, "the name of a claim, or an absolute path of the nodes");
  } else if (!data.empty()) {
    expect(data.find("..") == std::string::npos && data.find(':') == std::string::npos, source, data,
           "a path without '..' and ':'");
  }
}

}  // namespace mlbench::exec::kubernetes
