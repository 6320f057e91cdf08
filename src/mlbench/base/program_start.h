#pragma once

// What a process has from its parent beside its arguments is put right once, before a program of ours does anything
// else: it behaves alike whether a terminal, cron, a daemon, a batch job or another launcher started it.
//
// - A closed standard descriptor becomes /dev/null, so that no file of ours gets its number: input is at its end,
//   standard error is lost, and standard output cannot be written, which whoever wants an answer hears. One that does
//   not block does.
// - Blocked signals are not, but for those that the program itself wants to wait (`held`).
// - Ignored signals have their default, but SIGHUP stays ignored (nohup), and SIGPIPE and SIGXFSZ are: what cannot be
//   written is an error, and no reason to die.
// - The umask is 077 for our files (keep_files_private); for children the parent's, less what it takes from the owner.
// - Low soft limits of open files, of the stack (of new threads, too), of file sizes, processor time, address space,
//   data and processes are raised to what our programs need; if the hard limit is below the least: UserError.
// - Variables by which another launcher tells a task its place (RANK, OMPI_*, PMI_*, SLURM_*, ...) are left out of what
//   children get (process.h); getenv() still finds them.
// - A working folder that was removed: working_folder_is_gone().

#include <signal.h>

#include <string_view>

namespace mlbench {

struct ProgramStart {
  sigset_t held;          // signals that stay blocked, in all threads; children do not inherit that (process.h)
  bool launched = false;  // what launchers say in variables is about this process: it is a rank, or a rank's parent
};

// First in main, before any thread. UserError where something cannot be put right.
void begin_program(const ProgramStart& start);

// Whether the variable is one of another launcher's, which this process keeps from its children.
bool is_kept_from_children(std::string_view variable);

// The working folder was removed: what is relative to it can be neither found nor made. Children start in / then.
bool working_folder_is_gone();

}  // namespace mlbench
