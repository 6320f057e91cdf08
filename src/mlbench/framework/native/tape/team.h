#pragma once

// A pass is computed by a team of OpenMP threads that meet between its parts.

#include <functional>

namespace mlbench::framework::native_framework {

// oneDNN and OpenMP regions inside it take one thread while this lives; each of ours calls oneDNN for itself.
class SingleThreaded {
 public:
  SingleThreaded();
  ~SingleThreaded();
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int before_;
};

// The first exception of a team, which may not leave an OpenMP region.
class FirstError;

class TeamMember {
 public:
  TeamMember(int thread, FirstError& error) : thread_(thread), error_(error) {}
  int thread() const { return thread_; }
  // Does the work, unless a member has failed.
  void guard(const std::function<void()>& work);
  void meet();

 private:
  int thread_;
  FirstError& error_;
};

// Calls `body` on each of `threads` threads, the caller being the first, and throws the first exception of a guard.
// UserError where OpenMP gives fewer threads; then nothing is called.
void run_team(int threads, const std::function<void(TeamMember& member)>& body);

}  // namespace mlbench::framework::native_framework
