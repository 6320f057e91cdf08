#pragma once

// Before a program of ours does anything else, it puts right, once, what it has from its parent beside its arguments.
// The program then behaves alike whether a terminal, cron, a daemon, a batch job or another launcher started it.
// The helpers mlbench-pieces and mlbench-lmdb link no library of ours: they have the state that their parent put right.
//
// - A closed standard descriptor becomes /dev/null, so that no file of ours gets its number. Input is then at its end,
//   standard error is lost, and writing to standard output fails, which the program reports. A standard descriptor that
//   does not block becomes one that blocks.
// - Blocked signals are unblocked, except those that the program itself wants to wait (`held`).
// - Ignored signals get their default, except that SIGHUP stays ignored (nohup). SIGPIPE and SIGXFSZ are ignored: a
//   failed write is an error, and no reason to die.
// - The umask is 077 for our files (keep_files_private()). Children get the parent's, less the bits that would shut out
//   the owner.
// - Low soft limits of open files, of the stack (also of new threads), of file sizes, processor time, address space,
//   data and processes are raised to what our programs need. A hard limit below the least of that is a UserError.
// - Variables by which another launcher tells a task its place (RANK, OMPI_*, PMI_*, SLURM_*, ...) are left out of the
//   environment of children (process.h); getenv() still finds them.
// - A working folder that was removed is noted: working_folder_is_gone().

#include <signal.h>

#include <string_view>

namespace mlbench {

struct ProgramStart {
  sigset_t held;          // signals that stay blocked in all threads; children do not inherit that (process.h)
  bool launched = false;  // launchers' variables are about this process: it is a rank, or a rank's parent
};

// Does all of the above. Precondition: this is the first call in main, before any thread. Throws UserError where
// something cannot be put right.
void begin_program(const ProgramStart& start);

// Whether the variable belongs to another launcher and this process keeps it from its children.
bool is_kept_from_children(std::string_view variable);

// Whether the working folder was removed. Then relative paths can be neither found nor made, and children start in /.
bool working_folder_is_gone();

}  // namespace mlbench
