#pragma once

// The worker programs, one row each. A framework that cannot share a process with others has a program of its own,
// which an installation may lack. Every program has all back ends, optimizers and models; what a program has beside
// that, it says itself (`--catalog`). These tables say only what must be known without it.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace mlbench::catalog {

struct ProgramRow {
  std::string_view name;   // of the program's file, and of its package
  std::string_view build;  // the option of CMake with which it is built
  // The only framework of this program, and what lists say of it where the program is not there. "": the program has
  // the frameworks that share a process.
  std::string_view framework = {}, about = {};
  // The folder beside the program of libraries that it loads by itself; "": it loads none.
  std::string_view modules = {};
};

// The first row is mlbench-worker, without which nothing runs.
std::span<const ProgramRow> programs();

// The program whose ranks compute with `framework`: that of its own, else the first.
const ProgramRow& program_with(std::string_view framework);

// Where a program lies: beside the first, which is `worker`.
std::filesystem::path path_of(const ProgramRow& program, const std::filesystem::path& worker);

// What must be known of a communication back end without any program, as a run of a user's command has none.
struct BackendFacts {
  // Whether ranks find each other through Open MPI's launcher, so that mpirun, or an engine in its place, starts them.
  bool needs_mpirun = false;
};

// The facts about a back end; those of a default BackendFacts for one that is not listed, as a script's own is not.
BackendFacts backend_facts(std::string_view backend);

// What a user can do where the program is not there, or does not work.
std::string advice_for(const ProgramRow& program);

}  // namespace mlbench::catalog
