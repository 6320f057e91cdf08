#pragma once

// Reports what strangers did at a port, in a few lines of log whatever they do.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace mlbench::net {

// The first refusals get a line each. Later ones are counted, and a line says how many they were: every few seconds
// while they come, and at the end. One thread at a time may use it.
class Refusals {
 public:
  explicit Refusals(std::string port_of) : port_of_(std::move(port_of)) {}  // "rendezvous"
  ~Refusals() { summarise(); }
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  // `reason` may contain what the stranger sent.
  void note(const std::string& peer, std::string_view reason);
  int64_t count() const { return count_; }

 private:
  void summarise();

  std::string port_of_;
  int64_t count_ = 0;
  int64_t untold_ = 0;
  std::string last_;  // of the refusals that no line has told yet
  std::chrono::steady_clock::time_point told_{};
};

}  // namespace mlbench::net
