#pragma once

// A team of OpenMP threads, which computes a pass and meets between its parts.

#include <functional>

namespace mlbench::framework::native_framework {

// While an object of this class lives, OpenMP regions that name no number of threads, such as oneDNN's, take one
// thread. Each thread of a team calls oneDNN for itself.
class SingleThreaded {
 public:
  SingleThreaded();
  ~SingleThreaded();
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int before_;
};

// Keeps the first exception of a team, as none may leave an OpenMP region.
class FirstError;

class TeamMember {
 public:
  TeamMember(int thread, FirstError& error) : thread_(thread), error_(error) {}
  int thread() const { return thread_; }
  // Calls `work`, unless a member has failed. An exception of `work` is kept for run_team().
  void guard(const std::function<void()>& work);
  void meet();  // waits for all members

 private:
  int thread_;
  FirstError& error_;
};

// Calls `body` on each of `threads` threads, the first of which is the caller, and then throws the first exception that
// a guard kept. Throws UserError where OpenMP gives fewer threads; then `body` is not called.
void run_team(int threads, const std::function<void(TeamMember& member)>& body);

}  // namespace mlbench::framework::native_framework
